//! The arrival of a warp's lanes at a barrier of the block, and the rules of the PTX ISA for it.

use super::barrier::{Arrival, BARRIERS, BarrierArrival};
use super::fault::KernelFaultKind;
use super::kernel_error::KernelErrorKind;
use super::observer::{BarrierArrivalEvent, IssuePoint, Observer};
use super::step::WarpFault;
use super::warp::{WaitReason, Warp, WarpSplit};
use super::warp_context::WarpContext;
use crate::ptx::ir::{Barrier, BarrierOp, Op};

/// Records the arrival of the lanes at a barrier of the block, and pushes them onto the list of
/// splits.
pub(super) fn arrive<O: Observer>(
    warp: &mut Warp,
    shared: &mut WarpContext<'_, '_>,
    observer: &mut O,
    index: u32,
    IssuePoint { pc, mask }: IssuePoint,
) -> Result<(), WarpFault> {
    let barrier = &shared.code.barriers[index as usize];
    let lane = mask.trailing_zeros() as usize & 31;
    let id = warp.registers.word(barrier.id)[lane];
    let threads = barrier.threads.map(|slot| warp.registers.word(slot)[lane]);
    if id as usize >= BARRIERS || threads.is_some_and(|threads| threads == 0 || threads % 32 != 0) {
        return Err(WarpFault::new(
            lane,
            pc,
            KernelFaultKind::InvalidBarrier { id, threads },
        ));
    }
    let arrival = Arrival {
        warp: warp.index,
        mask,
        pc,
    };
    let pending = shared.barriers.state(id);
    let is_like = |first: &Arrival| first.pc == pc && pending.threads == threads;
    let fits = !pending.has(warp.index) && pending.arrivals.first().is_none_or(is_like);
    if !(fits && warp.splits.is_empty())
        && let Some((kind, earlier)) = error(warp, shared, barrier, id, threads, &arrival)
    {
        shared.report(kind, arrival.place(), Some(earlier));
    }
    let generation = shared.barriers.arrive(&BarrierArrival {
        id,
        threads,
        arrival,
        live: warp.live,
        count_true: (warp.registers.predicate(barrier.predicate) & mask).count_ones(),
    });
    let arrived = BarrierArrivalEvent {
        mask,
        id,
        generation,
        waits: barrier.f != BarrierOp::Arrive,
        counted: threads.is_some(),
        pc,
    };
    observer.arrived(warp, &arrived, shared.barriers);
    let wait = match barrier.f {
        BarrierOp::Arrive => WaitReason::Nothing,
        _ => WaitReason::Barrier { id, generation },
    };
    warp.push_split(WarpSplit {
        pc: pc + 1,
        mask,
        wait,
    });
    Ok(())
}

/// Returns the rule that an arrival breaks together with an earlier one, which is given by its
/// thread and program counter.
#[cold]
fn error(
    warp: &Warp,
    shared: &WarpContext<'_, '_>,
    barrier: &Barrier,
    id: u32,
    threads: Option<u32>,
    by: &Arrival,
) -> Option<(KernelErrorKind, (u32, u32))> {
    let pending = shared.barriers.state(id);
    let own = pending.arrivals.iter().filter(|of| of.warp == warp.index);
    if let Some(twice) = own.clone().find(|of| of.mask & by.mask != 0) {
        let again = Arrival {
            mask: twice.mask & by.mask,
            ..*twice
        };
        return Some((KernelErrorKind::ArrivedTwice { barrier: id }, again.place()));
    }
    if barrier.aligned {
        let waits = |split: &&WarpSplit| matches!(split.wait, WaitReason::Barrier { .. });
        let waiting = warp.splits.iter().filter(waits).map(|split| Arrival {
            warp: warp.index,
            mask: split.mask,
            pc: split.waiting_pc(),
        });
        let mut others = own.copied().chain(waiting);
        if let Some(other) = others.find(|of| of.pc != by.pc) {
            let kind = KernelErrorKind::DivergentBarrier {
                barrier: id,
                in_warp: true,
            };
            return Some((kind, other.place()));
        }
    }
    let first = pending.arrivals.first()?;
    if first.pc == by.pc && pending.threads == threads {
        return None;
    }
    let [count, pending_count] =
        [threads, pending.threads].map(|threads| shared.barriers.count(threads));
    let Op::Barrier(index) = shared.code.instrs[first.pc as usize].op else {
        return None;
    };
    let operation = &shared.code.barriers[index as usize];
    let kind = if count != pending_count {
        KernelErrorKind::ThreadCounts {
            barrier: id,
            counts: [threads, pending.threads],
        }
    } else if !barrier.f.joins(operation.f) {
        KernelErrorKind::MixedOperations {
            barrier: id,
            operations: [barrier.name(), operation.name()],
        }
    } else if barrier.aligned && id == 0 && threads.is_none() && barrier.f != BarrierOp::Arrive {
        let all: u32 = shared.launch.block.iter().product();
        let is_whole = |of: &Arrival| of.mask.count_ones() == 32.min(all - of.warp * 32);
        match is_whole(by) && is_whole(first) {
            true => KernelErrorKind::TwoBarriers,
            false => KernelErrorKind::DivergentBarrier {
                barrier: id,
                in_warp: false,
            },
        }
    } else {
        return None;
    };
    Some((kind, first.place()))
}

impl BarrierOp {
    /// Returns whether one completion of a barrier may serve both operations.
    fn joins(self, other: Self) -> bool {
        let reduction = |op| match op {
            Self::Sync | Self::Arrive => 0,
            Self::CountTrue(_) => 1,
            Self::All(_) => 2,
            Self::Any(_) => 3,
        };
        reduction(self) == reduction(other)
    }
}
