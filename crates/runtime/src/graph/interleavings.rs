//! Models of graphs: recordings, replays and drops by several threads, and a loop that has ended at
//! its limit (`cargo xtask shuttle`).

use std::sync::Arc;

use parking_lot::Mutex;
use shuttle::thread;

use super::Graph;
use crate::{
    Device, Error, Stream,
    context::{
        LocalReactor,
        interleavings::{Arrays, Injected, TestDevice, explore},
    },
};

/// Records a graph that writes a value to both arrays.
fn writes(device: &Device, arrays: &mut Arrays, value: u32) -> Graph {
    let graph = device.record("writes", |r| {
        let stream = r.stream()?;
        let mut arrays = arrays.0.iter_mut();
        arrays.try_for_each(|array| stream.fill(array, value))
    });
    graph.expect("a graph")
}

/// Records a graph that copies both arrays to others.
fn copies(device: &Device, from: &Arrays, to: &mut Arrays) -> Graph {
    let graph = device.record("copies", |r| {
        let stream = r.stream()?;
        let mut pairs = from.0.iter().zip(&mut to.0);
        pairs.try_for_each(|(from, to)| stream.copy(from, to))
    });
    graph.expect("a graph")
}

#[test]
fn threads_record_replay_and_drop_graphs_of_the_same_arrays() {
    explore(|| {
        let test_device = TestDevice::new();
        let device = &test_device.device;
        let streams: [Stream; 3] = std::array::from_fn(|_| test_device.stream());
        let mut first = test_device.arrays(&streams[0]);
        let mut second = test_device.arrays(&streams[1]);
        let ones = writes(device, &mut first, 1);
        let there = copies(device, &first, &mut second);
        let back = copies(device, &second, &mut first);
        thread::scope(|scope| {
            let (streams, first, second) = (&streams, &first, &mut second);
            scope.spawn(move || {
                ones.replay(&streams[0]).expect("it is enqueued");
                there.replay(&streams[1]).expect("it is enqueued");
            });
            scope.spawn(move || {
                back.replay(&streams[1]).expect("it is enqueued");
                drop(back);
                assert!(first.write(&streams[2], 3, Injected::Runs));
            });
            scope.spawn(move || {
                let twos = writes(device, second, 2);
                twos.replay(&streams[2]).expect("it is enqueued");
            });
        });
        assert!(first.value(&streams[1]) <= 3);
        assert!(second.value(&streams[0]) <= 3);
        drop((first, second));
        let calls = Arc::clone(&test_device.calls);
        test_device.end(streams);
        for (make, unmake) in [
            ("graph_create", "graph_destroy"),
            ("graph_instantiate", "graph_exec_destroy"),
        ] {
            assert_eq!(calls.count(make), calls.count(unmake), "{make}, {unmake}");
        }
    });
}

#[test]
fn a_host_read_reports_a_loop_whose_end_another_thread_is_noting() {
    explore(|| {
        // Notes the ends of loops, because a thread of its own would have no schedule.
        let reactor = Mutex::new(LocalReactor::new());
        let test_device = TestDevice::new();
        let streams: [Stream; 2] = std::array::from_fn(|_| test_device.stream());
        let mut flag = streams[0].upload(&[1_u32]).expect("an array");
        let endless = test_device.device.record("endless", |r| {
            r.while_loop(&mut flag, 2, |body, flag| body.stream()?.fill(flag, 1))
        });
        let endless = endless.expect("a graph");
        endless.replay(&streams[0]).expect("it is enqueued");
        streams[0].synchronize().expect("the device is alive");
        thread::scope(|scope| {
            scope.spawn(|| reactor.lock().finish());
            scope.spawn(|| {
                let read = streams[1]
                    .download(&flag)
                    .and_then(|pending| pending.wait());
                assert!(matches!(read, Err(Error::LoopLimit { .. })), "{read:?}");
            });
        });
        reactor.lock().finish();
        drop((endless, flag));
        test_device.end(streams);
        drop(reactor);
    });
}
