//! The assignment of operations to engines of the device, with the times of their work.

use std::ops::Range;

use super::TimedOperation;
use crate::OperationKind;

/// An engine: a part of a device that works concurrently with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// The copy engine for copies to the device.
    HostToDevice,
    /// The compute engine for kernels, fills and copies within the device.
    Compute,
    /// The copy engine for copies to the host.
    DeviceToHost,
}

impl Engine {
    pub(super) const ALL: [Self; 3] = [Self::HostToDevice, Self::Compute, Self::DeviceToHost];

    /// Returns the engine that executes operations of this kind, if they need one.
    pub(super) fn of(kind: OperationKind) -> Option<Self> {
        match kind {
            OperationKind::HostToDevice => Some(Self::HostToDevice),
            OperationKind::Kernel
            | OperationKind::Fill
            | OperationKind::DeviceToDevice
            | OperationKind::Collective
            | OperationKind::Graph => Some(Self::Compute),
            OperationKind::DeviceToHost => Some(Self::DeviceToHost),
            OperationKind::Allocation => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Work {
    pub(super) engine: Engine,
    /// The time of the engine's work, which is part of the operation's time at the head of its
    /// stream.
    pub(super) time_ns: Range<u64>,
    /// The lane within the engine. Work in one lane never overlaps; copy engines have a single
    /// lane.
    pub(super) lane: usize,
}

impl Work {
    pub(super) fn duration_ns(&self) -> u64 {
        self.time_ns.end.saturating_sub(self.time_ns.start)
    }
}

/// Computes the engines' work for each operation; `None` if it needs no engine.
pub(super) fn work(operations: &[TimedOperation]) -> Vec<Option<Work>> {
    let mut work = vec![None; operations.len()];
    for engine in Engine::ALL {
        let members = (0..operations.len())
            .filter(|&i| Engine::of(operations[i].kind) == Some(engine))
            .collect();
        let assign_lanes = if engine == Engine::Compute {
            stack
        } else {
            queue
        };
        for (operation, time_ns, lane) in assign_lanes(operations, members) {
            work[operation] = Some(Work {
                engine,
                time_ns,
                lane,
            });
        }
    }
    work
}

/// The index of an operation, with its time and its lane.
type LaneInterval = (usize, Range<u64>, usize);

/// Places copies one after the other: a copy engine finishes one before it begins the next. A copy
/// that ended later therefore began later, whenever it reached the head of its stream.
fn queue(operations: &[TimedOperation], mut members: Vec<usize>) -> Vec<LaneInterval> {
    members.sort_by_key(|&i| (operations[i].time_ns.end, operations[i].time_ns.start, i));
    let mut free_ns = 0;
    let mut placed = Vec::with_capacity(members.len());
    for i in members {
        let Range { start, end } = operations[i].time_ns;
        placed.push((i, start.max(free_ns).min(end)..end, 0));
        free_ns = end;
    }
    placed
}

/// Places concurrent operations side by side: each in the first lane that is free when it starts.
fn stack(operations: &[TimedOperation], mut members: Vec<usize>) -> Vec<LaneInterval> {
    members.sort_by_key(|&i| (operations[i].time_ns.start, operations[i].time_ns.end, i));
    let mut free_ns: Vec<u64> = Vec::new();
    let mut placed = Vec::with_capacity(members.len());
    for i in members {
        let time_ns = operations[i].time_ns.clone();
        let lane = free_ns
            .iter()
            .position(|&free| free <= time_ns.start)
            .unwrap_or_else(|| {
                free_ns.push(0);
                free_ns.len() - 1
            });
        free_ns[lane] = time_ns.end;
        placed.push((i, time_ns, lane));
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::{super::samples::operation, *};

    fn placed(operations: &[TimedOperation]) -> Vec<(Range<u64>, usize)> {
        work(operations)
            .into_iter()
            .flatten()
            .map(|work| (work.time_ns, work.lane))
            .collect()
    }

    #[test]
    fn a_copy_that_waits_for_its_engine_starts_when_the_previous_copy_ends() {
        let copies = [
            operation(OperationKind::HostToDevice, 1, 0..10),
            operation(OperationKind::HostToDevice, 2, 1..30),
            operation(OperationKind::HostToDevice, 3, 2..20),
            operation(OperationKind::HostToDevice, 1, 35..40),
        ];
        assert_eq!(
            placed(&copies),
            [(0..10, 0), (20..30, 0), (10..20, 0), (35..40, 0)]
        );
    }

    #[test]
    fn the_copy_engines_do_not_wait_for_each_other() {
        let copies = [
            operation(OperationKind::HostToDevice, 1, 0..10),
            operation(OperationKind::DeviceToHost, 2, 5..15),
        ];
        assert_eq!(placed(&copies), [(0..10, 0), (5..15, 0)]);
    }

    #[test]
    fn concurrent_kernels_get_separate_lanes() {
        let kernels = [
            operation(OperationKind::Kernel, 1, 0..10),
            operation(OperationKind::Fill, 2, 2..12),
            operation(OperationKind::DeviceToDevice, 3, 4..6),
            operation(OperationKind::Kernel, 3, 6..8),
            operation(OperationKind::Kernel, 1, 10..20),
        ];
        assert_eq!(
            placed(&kernels),
            [(0..10, 0), (2..12, 1), (4..6, 2), (6..8, 2), (10..20, 0)]
        );
    }

    #[test]
    fn allocations_need_no_engine() {
        assert_eq!(
            work(&[operation(OperationKind::Allocation, 1, 3..5)]),
            [None]
        );
    }
}
