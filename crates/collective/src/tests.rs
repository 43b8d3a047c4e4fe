//! Tests of the checks that need ranks in other processes, with a backend that records operations.

use std::sync::Arc;

use millstream_sim::{Gpu, SimConfig};
use parking_lot::Mutex;

use super::*;
use millstream::{Buffer, Error, Stream};

/// A backend that enqueues nothing.
#[derive(Debug, Default)]
struct Recording(Mutex<Vec<String>>);

impl Backend for Recording {
    fn name(&self) -> &'static str {
        "recording"
    }

    fn submit(&self, group: &[CollectiveOp<'_>]) -> Result<()> {
        let operations = group.iter().map(|operation| {
            let part = |part: &Part<'_>| {
                let bytes = |span: &millstream::DeviceOperand<'_>| span.bytes();
                let (source, target) = (part.source.as_ref(), part.target.as_ref());
                (part.local, source.map(bytes), target.map(bytes))
            };
            let parts: Vec<_> = operation.parts.iter().map(part).collect();
            format!("{:?} {} {parts:?}", operation.kind, operation.element)
        });
        self.0.lock().extend(operations);
        Ok(())
    }
}

/// Ranks 1 and 3 of four, on a device each.
struct Half {
    recording: Arc<Recording>,
    collectives: Collectives,
    streams: [Stream; 2],
}

impl Half {
    fn new() -> Self {
        let gpu = Gpu::new(SimConfig::new().devices(2));
        let devices = [0, 1].map(|ordinal| Device::open_simulated(&gpu, ordinal).unwrap());
        let locals = [1, 3]
            .into_iter()
            .zip(&devices)
            .map(|(rank, device)| LocalRank::new(rank, device, Location::caller()).unwrap());
        let recording = Arc::new(Recording::default());
        let backend = Arc::clone(&recording) as Arc<dyn Backend>;
        Self {
            recording,
            collectives: Collectives::with_backend(backend, locals.collect(), 4),
            streams: devices.map(|device| device.stream().unwrap()),
        }
    }

    fn arrays(&self, len: usize) -> [Buffer<f64>; 2] {
        self.streams
            .each_ref()
            .map(|stream| stream.zeros(len).unwrap())
    }

    fn recorded(&self) -> Vec<String> {
        std::mem::take(&mut *self.recording.0.lock())
    }
}

fn problem(result: Result<()>) -> UsageErrorKind {
    match result {
        Err(Error::Usage(error)) => error.problem().clone(),
        other => panic!("expected a usage error, found {other:?}"),
    }
}

#[test]
fn lengths_follow_from_the_ranks_of_all_processes() {
    let half = Half::new();
    let all = &half.collectives;
    assert_eq!((all.ranks(), all.local_ranks()), (4, vec![1, 3]));
    let (sources, mut targets) = (half.arrays(2), half.arrays(8));
    let [x, y] = &mut targets;
    all.all_gather(&sources, &mut [&mut *x, &mut *y]).unwrap();
    assert_eq!(
        half.recorded(),
        ["AllGather f64 [(0, Some(16), Some(64)), (1, Some(16), Some(64))]"]
    );
    all.broadcast(2, &mut [&mut *x, &mut *y]).unwrap();
    all.reduce(3, &mut [&mut *x, &mut *y], Reduce::Avg).unwrap();
    assert_eq!(
        half.recorded(),
        [
            "Broadcast { root: 2 } f64 [(0, None, Some(64)), (1, None, Some(64))]",
            "Reduce { root: 3 } f64 [(0, Some(64), None), (1, Some(64), Some(64))]",
        ]
    );
    let short = problem(all.all_gather(&sources, &mut [x.slice_mut(..), y.slice_mut(..4)]));
    let expected = UsageErrorKind::TargetLength {
        rank: 3,
        source_len: 2,
        target_len: 4,
        needed_len: 8,
    };
    assert_eq!(short, expected);
    assert_eq!(half.recorded(), [""; 0]);
}

#[test]
fn uneven_lengths_include_those_of_other_processes() {
    let half = Half::new();
    let (sources, mut targets) = (half.arrays(3), half.arrays(9));
    let [x, y] = &mut targets;
    let mut gather = |lengths: &[usize]| {
        let sources = [sources[0].slice(..1), sources[1].slice(..)];
        half.collectives
            .all_gather_uneven(lengths, &sources, &mut [&mut *x, &mut *y])
    };
    gather(&[5, 1, 0, 3]).unwrap();
    assert_eq!(
        half.recorded(),
        ["AllGatherUneven f64 [(0, Some(8), Some(72)), (1, Some(24), Some(72))]"]
    );
    let other = UsageErrorKind::PassedLength {
        rank: 3,
        len: 3,
        passed_len: 5,
    };
    assert_eq!(problem(gather(&[3, 1, 0, 5])), other);
    let needed_len = usize::MAX / 8;
    let huge = UsageErrorKind::TargetLength {
        rank: 1,
        source_len: 1,
        target_len: 9,
        needed_len,
    };
    assert_eq!(problem(gather(&[usize::MAX, 1, 0, 3])), huge);
    assert_eq!(half.recorded(), [""; 0]);
}

#[test]
fn messages_to_other_processes_need_no_match_and_those_of_others_are_refused() {
    let half = Half::new();
    let all = &half.collectives;
    let ([a, b], [mut x, mut y]) = (half.arrays(3), half.arrays(3));
    all.group(|group| {
        group.send(1, 0, &a)?;
        group.recv(3, 2, &mut y)?;
        group.recv(1, 3, &mut x)?;
        group.send(3, 1, &b)
    })
    .unwrap();
    assert_eq!(
        half.recorded(),
        [
            "Send { to: 0 } f64 [(0, Some(24), None)]",
            "Recv { from: 2 } f64 [(1, None, Some(24))]",
            "Recv { from: 3 } f64 [(0, None, Some(24))]",
            "Send { to: 1 } f64 [(1, Some(24), None)]",
        ]
    );
    let remote = problem(all.group(|group| group.send(0, 1, &a)));
    let local_ranks = vec![1, 3];
    let expected = UsageErrorKind::RemoteRank {
        rank: 0,
        local_ranks,
    };
    assert_eq!(remote, expected);
    assert_eq!(half.recorded(), [""; 0]);
}

#[test]
fn operations_without_elements_reach_no_backend() {
    let half = Half::new();
    let (sources, mut targets) = (half.arrays(0), half.arrays(0));
    let [x, y] = &mut targets;
    half.collectives
        .all_to_all(&sources, &mut [&mut *x, &mut *y])
        .unwrap();
    let full = half.arrays(1);
    half.collectives
        .group(|group| {
            group.send(1, 0, &sources[0])?;
            group.send(1, 2, &full[0])
        })
        .unwrap();
    assert_eq!(half.recorded(), ["Send { to: 2 } f64 [(0, Some(8), None)]"]);
}
