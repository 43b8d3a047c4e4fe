//! PCT: probabilistic concurrency testing. Streams and the host have random priorities. The
//! runnable one with the highest priority runs; at each of `depth - 1` random steps, the highest
//! drops below all others.
//!
//! A run finds a bug that needs `depth` ordering constraints with a probability that falls with the
//! number of steps to the power of `depth - 1`, not exponentially as with independent random
//! choices (Burckhardt et al., ASPLOS 2010). The number of steps is unknown in advance, so change
//! points are drawn with equal probability for each power of two: one of the steps 16 to 31 is as
//! likely as one of 512 to 1023.

use std::collections::BTreeMap;

use millstream_driver::StreamHandle;
use rand_core::RngCore;
use rand_pcg::Mcg128Xsl64;

use super::{
    policy::{IdleQueries, Policy, SchedulePoint, View},
    simple::{draw, generator},
};
use crate::ids::OpId;

/// The base-2 logarithm of the exclusive upper bound of change points.
const STEPS_LOG2: u64 = 12;
/// The maximum depth; a larger one is clamped.
const DEPTH_MAX: u32 = 64;
/// The boundary of ranks: initial ranks lie above, ranks after a change point below.
const FALLEN: u64 = 1 << 63;

#[derive(Debug)]
pub(super) struct Pct {
    generator: Mcg128Xsl64,
    host: u64,
    /// The ranks of the streams, drawn at first use.
    streams: BTreeMap<StreamHandle, u64>,
    /// The remaining change points, as step numbers.
    changes: Vec<u64>,
    /// The number of steps so far.
    steps: u64,
    /// The rank for the next change point, below all others.
    below_all: u64,
    idle_queries: IdleQueries,
    /// Set if one operation must run before the host goes on.
    must_run: bool,
}

impl Pct {
    pub(super) fn new(seed: u64, depth: u32) -> Self {
        let mut generator = generator(seed);
        let changes = (1..depth.min(DEPTH_MAX)).map(|_| {
            let first = 1 << draw(&mut generator, STEPS_LOG2);
            first + draw(&mut generator, first)
        });
        Self {
            changes: changes.collect(),
            host: generator.next_u64() | FALLEN,
            generator,
            streams: BTreeMap::new(),
            steps: 0,
            below_all: FALLEN - 1,
            idle_queries: IdleQueries::default(),
            must_run: false,
        }
    }

    /// Returns the rank of a stream; draws it at the first use.
    fn rank(&mut self, stream: StreamHandle) -> u64 {
        let generator = &mut self.generator;
        *self
            .streams
            .entry(stream)
            .or_insert_with(|| generator.next_u64() | FALLEN)
    }

    /// Returns the eligible operation of the stream with the highest rank, if that exceeds the
    /// host's. A blocked host does not compete.
    fn highest(&mut self, view: &View<'_>, host_blocked: bool) -> Option<(OpId, StreamHandle)> {
        let mut highest = (if host_blocked { 0 } else { self.host }, None);
        for id in view.eligible {
            if let Some(op) = view.ops.get(id) {
                let rank = self.rank(op.stream);
                if rank > highest.0 {
                    highest = (rank, Some((*id, op.stream)));
                }
            }
        }
        highest.1
    }
}

impl Policy for Pct {
    fn begin(&mut self, point: SchedulePoint, awaited: &[OpId], _: &View<'_>) {
        self.must_run = self.idle_queries.force_progress(point, awaited);
    }

    fn pick(&mut self, _: SchedulePoint, _: &[OpId], view: &View<'_>) -> Option<OpId> {
        let host_blocked = std::mem::take(&mut self.must_run);
        self.steps += 1;
        let step = self.steps;
        let changes = self.changes.len();
        self.changes.retain(|change| *change != step);
        for _ in self.changes.len()..changes {
            let fallen = self.below_all;
            self.below_all -= 1;
            match self.highest(view, host_blocked) {
                Some((_, stream)) => self.streams.insert(stream, fallen),
                None => Some(std::mem::replace(&mut self.host, fallen)),
            };
        }
        self.highest(view, host_blocked).map(|(id, _)| id)
    }
}
