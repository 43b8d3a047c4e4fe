//! Tests of the devices of one process, with the stand-in for NCCL.
//!
//! The devices have one driver, so the stand-in exchanges the data within the call that ends a
//! group: a collective that hangs keeps its caller there.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::nccl::{Loopback, loopback::Fault};
use millstream_sim::{Gpu, SimConfig};

use millstream::{Device, Error, Stream};

use crate::{Collectives, Reduce, local_ranks};

/// Two devices, connected by the stand-in with this fault in the first operation of each.
struct Pair {
    collectives: Collectives,
    streams: [Stream; 2],
}

impl Pair {
    fn new(fault: Option<Fault>) -> Self {
        let gpu = Gpu::new(SimConfig::new().devices(2));
        let devices = [0, 1].map(|ordinal| Device::open_simulated(&gpu, ordinal).unwrap());
        let location = std::panic::Location::caller();
        let locals = local_ranks(&devices, location).unwrap();
        let mut library = Loopback::new(gpu.driver());
        if let Some(fault) = fault {
            library = library.fault(1, fault);
        }
        let library = Arc::new(library);
        let group = super::in_process(library, Arc::clone(&locals), false, location).unwrap();
        let backend = super::NcclBackend::new(group).unwrap();
        Self {
            collectives: Collectives::with_backend(Arc::new(backend), locals, 2),
            streams: devices.map(|device| device.stream().unwrap()),
        }
    }

    /// Adds a number to the other device's, and returns the sum that each device has.
    fn sum(&self, number: u64) -> millstream::Result<[u64; 2]> {
        let [first, second] = &self.streams;
        let (mut a, mut b) = (first.upload(&[number])?, second.upload(&[number + 1])?);
        self.collectives
            .all_reduce(&mut [&mut a, &mut b], Reduce::Sum)?;
        let sums = [first.download(&a)?, second.download(&b)?];
        let [first, second] = sums.map(|sum| sum.wait().map(|sum| sum[0]));
        Ok([first?, second?])
    }
}

#[test]
fn threads_use_one_group_concurrently() {
    let pair = Pair::new(None);
    thread::scope(|scope| {
        for number in 0..4 {
            let pair = &pair;
            scope.spawn(move || {
                for round in 0..10 {
                    let number = 100 * number + round;
                    assert_eq!(pair.sum(number).unwrap(), [2 * number + 1; 2]);
                }
            });
        }
    });
    pair.collectives.close().unwrap();
}

#[test]
fn a_refused_call_loses_the_group() {
    let pair = Pair::new(Some(Fault::Refuse));
    let error = pair.sum(1).unwrap_err();
    assert!(matches!(error, Error::CollectiveLost { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("injected failure of operation 1"), "{text}");
    assert_eq!(pair.sum(1).unwrap_err().to_string(), text);
    assert_eq!(pair.collectives.close().unwrap_err().to_string(), text);
}

#[test]
fn a_deadline_ends_a_call_that_hangs() {
    let pair = Pair::new(Some(Fault::Hang));
    let deadline = Duration::from_millis(100);
    pair.collectives.set_deadline(Some(deadline));
    let began = Instant::now();
    let error = pair.sum(1).unwrap_err();
    assert!(began.elapsed() < deadline + Duration::from_secs(5));
    let text = error.to_string();
    assert!(text.contains("it was not complete within 100ms"), "{text}");
    let stream = &pair.streams[0];
    let own = stream.upload(&[7_u8]).unwrap();
    assert_eq!(stream.download(&own).unwrap().wait().unwrap(), [7]);
}

#[test]
fn a_communicator_that_fails_ends_a_call_without_a_deadline() {
    let pair = Pair::new(Some(Fault::Fail));
    let text = pair.sum(1).unwrap_err().to_string();
    assert!(text.contains("injected failure of ncclAllReduce"), "{text}");
}
