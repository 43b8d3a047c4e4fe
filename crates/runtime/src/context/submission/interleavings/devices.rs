//! A model of operations on several devices, of which one closes.

#![allow(unsafe_code, reason = "submits crossings between arrays that it owns")]

use millstream_driver::PeerCopy;

use super::*;
use crate::{context::LocalReactor, multi_device::Crossing};

impl Arrays {
    /// Submits a copy of both arrays to those of another device, on a stream of either.
    fn cross_to(&self, others: &Self, stream: &Stream) {
        let [a, b] = [0, 1].map(|at| self.0[at].view().span);
        let [c, d] = [0, 1].map(|at| others.0[at].view().span);
        let copy = |source: &Span<'_>, target: &Span<'_>| {
            CopyPeer(PeerCopy {
                target: target.pointer(),
                target_context: target.allocation.device.context,
                source: source.pointer(),
                source_context: source.allocation.device.context,
                bytes: source.bytes.len(),
            })
        };
        let command = Both(copy(&a, &c), copy(&b, &d), Injected::Runs);
        let uses = [
            (&d, AccessKind::Write),
            (&a, AccessKind::Read),
            (&c, AccessKind::Write),
            (&b, AccessKind::Read),
        ];
        let (device, state) = (stream.device_state(), stream.state());
        let (kind, location) = (OperationKind::DeviceToDevice, Location::caller());
        let operation = Operation::new(kind, "crossing", location);
        let mut crossing = Crossing::new(device, operation);
        for (span, kind) in uses {
            crossing.push(span.access(kind), &span.allocation.device);
        }
        // SAFETY: the arrays live until all work is complete, and the accesses name them. Copies
        // between devices need no peer access.
        let submitted = unsafe { crossing.submit(state, command) };
        submitted.expect("the crossing is enqueued");
    }
}

/// Completes all work of a device with its frees, so that closing it needs no thread.
fn complete(gpu: &Gpu, device: &DeviceState) {
    device.run_deferred();
    // SAFETY: the device keeps its context alive.
    unsafe { gpu.driver().context_synchronize(device.context) }.expect("the device is alive");
}

/// Threads on two devices copy between the same arrays in both directions, while a third device,
/// which has copied to one of them, is closed.
#[test]
fn devices_write_and_read_the_same_arrays_while_one_closes() {
    explore(|| {
        let (gpu, calls) = machine(3);
        // Polls on behalf of the crossings, because a thread of its own would have no schedule.
        let reactor = Mutex::new(LocalReactor::new());
        let [first, second, third] = [0, 1, 2].map(|ordinal| open(&calls, ordinal));
        let streams = [&first, &second].map(|device| device.stream().expect("a stream"));
        let (here, there) = (Arrays::on(&streams[0]), Arrays::on(&streams[1]));
        let closing = third.stream().expect("a stream");
        let sevens = Arrays::on(&closing);
        let closing_state = Arc::clone(third.state());
        drop(third);
        thread::scope(|scope| {
            let (streams, here, there) = (&streams, &here, &there);
            let (gpu, reactor) = (&gpu, &reactor);
            scope.spawn(move || {
                assert!(here.write(&streams[0], 1, Injected::Runs));
                here.cross_to(there, &streams[0]);
            });
            scope.spawn(move || {
                assert!(there.write(&streams[1], 2, Injected::Runs));
                there.cross_to(here, &streams[1]);
            });
            scope.spawn(move || {
                assert!(sevens.write(&closing, 7, Injected::Runs));
                sevens.cross_to(there, &closing);
                // The crossing alone keeps the device open, until it is seen complete.
                drop((sevens, closing));
                complete(gpu, &closing_state);
                drop(closing_state);
                reactor.lock().finish();
            });
        });
        assert!([1, 2, 7].contains(&here.value(&streams[0])));
        assert!([1, 2, 7].contains(&there.value(&streams[1])));
        reactor.lock().finish();
        drop((here, there));
        for stream in streams {
            stream.synchronize().expect("the device is alive");
        }
        for device in [&first, &second] {
            complete(&gpu, device.state());
        }
        drop((first, second));
        drop(reactor);
        assert_nothing_left(&gpu, &calls);
    });
}
