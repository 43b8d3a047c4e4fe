//! Sample traces for tests.

use std::{collections::BTreeMap, ops::Range};

use super::{TimedOperation, Trace, engine::Engine};
use crate::OperationKind;

/// Creates an operation without bytes and waits.
#[track_caller]
pub(super) fn operation(kind: OperationKind, stream: u64, time_ns: Range<u64>) -> TimedOperation {
    TimedOperation::new("work", kind, stream, time_ns)
}

pub(super) fn trace(operations: Vec<TimedOperation>) -> Trace {
    Trace {
        device: "A device".into(),
        operations,
    }
}

/// A fake device with two copy engines, which lists the submitted operations.
#[derive(Default)]
struct FakeDevice {
    operations: Vec<TimedOperation>,
    sequences: BTreeMap<u64, u64>,
    stream_free_ns: BTreeMap<u64, u64>,
    engine_free_ns: [u64; 3],
}

impl FakeDevice {
    /// Submits an operation of so many MiB. Returns its stream and sequence number.
    #[track_caller]
    fn submit(
        &mut self,
        label: &'static str,
        kind: OperationKind,
        stream: u64,
        mib: u64,
        duration_ns: u64,
        waits: &[(u64, u64)],
    ) -> (u64, u64) {
        let ends = self
            .operations
            .iter()
            .filter(|other| waits.contains(&(other.stream, other.sequence)));
        let ready_ns = ends.map(|other| other.time_ns.end).max().unwrap_or(0);
        let free_ns = self.stream_free_ns.entry(stream).or_insert(2_000);
        let start_ns = ready_ns.max(*free_ns);
        let mut end_ns = start_ns + duration_ns;
        if let Some(engine @ (Engine::HostToDevice | Engine::DeviceToHost)) = Engine::of(kind) {
            let engine_free_ns = &mut self.engine_free_ns[engine as usize];
            end_ns = start_ns.max(*engine_free_ns) + duration_ns;
            *engine_free_ns = end_ns;
        }
        *free_ns = end_ns;
        let sequence = self.sequences.entry(stream).or_insert(0);
        *sequence += 1;
        let ticket = (stream, *sequence);
        self.operations.push(TimedOperation {
            sequence: ticket.1,
            bytes: mib << 20,
            waits: waits.to_vec(),
            ..TimedOperation::new(label, kind, stream, start_ns..end_ns)
        });
        ticket
    }
}

/// Creates a trace of an image pipeline on four streams: one for uploads, two that alternate
/// for kernels, one for downloads. A small copy of each image is downloaded on the kernels' stream,
/// where it competes with the other downloads for their engine.
pub(super) fn pictures(count: u64) -> Trace {
    use OperationKind::{Allocation, DeviceToDevice, DeviceToHost, Fill, HostToDevice, Kernel};
    let mut device = FakeDevice::default();
    let (uploads, kernels, downloads) = (2, [1, 4], 3);
    let table = device.submit("make_table", Fill, 1, 1, 31_000, &[]);
    for picture in 0..count {
        let stream = kernels[picture as usize % 2];
        device.submit("allocate", Allocation, uploads, 24, 0, &[]);
        let upload_ns = 454_000 + 9_000 * (picture % 5);
        let uploaded = device.submit("upload", HostToDevice, uploads, 24, upload_ns, &[]);
        let ready = [uploaded, table];
        let needed = if picture == 1 { &ready } else { &ready[..1] };
        device.submit("to_linear", Kernel, stream, 48, 71_000, needed);
        device.submit("blur_rows", Kernel, stream, 48, 188_000, &[]);
        let blurred = device.submit("blur_columns", Kernel, stream, 48, 240_000, &[]);
        let sharpened = device.submit("sharpen<3>", Kernel, stream, 48, 127_000, &[]);
        let last = if picture % 2 == 0 { sharpened } else { blurred };
        device.submit("download", DeviceToHost, downloads, 24, 405_000, &[last]);
        device.submit("download", DeviceToHost, stream, 3, 58_000, &[]);
    }
    device.submit("copy", DeviceToDevice, 1, 24, 133_000, &[]);
    Trace {
        device: "NVIDIA H200 (by hand)".into(),
        operations: device.operations,
    }
}
