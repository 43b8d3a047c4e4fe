//! `cp.async`: asynchronous copies to shared memory, visible only after a wait.
//!
//! A copy reads its source when it is issued and writes its target when it is waited for. A kernel
//! that reads the target too early therefore finds the old bytes on every run. An arrival on an
//! mbarrier object that follows copies takes place, together with the copies, when a thread tests
//! the object.

use smallvec::SmallVec;

use super::fault::KernelFaultKind;
use super::mbarrier;
use super::memory::WarpMemory;
use super::observer::{self, IssuePoint, Observer};
use super::registers::lanes;
use super::warp::Warp;
use super::warp_access::in_window;
use super::warp_access::{LaneFault, WarpAccess};
use super::warp_context::WarpContext;
use crate::ptx::ir::{AccessSpace, AsyncCopy, Window};

/// An issued copy of one thread whose source has been read.
#[derive(Clone, Copy, Debug, Hash)]
struct PendingCopy {
    lane: u32,
    /// The copy's group: the number of groups that the thread had committed before.
    group: u32,
    /// The index of the copy among the copies of the warp.
    number: u64,
    /// The target's offset in shared memory.
    offset: usize,
    bytes: usize,
    value: [u8; 16],
    /// The address of the source, and the number of bytes that are read.
    source: (u64, u64),
    /// The program counter of the instruction.
    pc: u32,
}

impl PendingCopy {
    fn observed(&self) -> observer::AsyncCopy {
        let (source, offset) = (self.source, self.offset as u64);
        observer::AsyncCopy {
            lane: self.lane as usize,
            number: self.number,
            pc: self.pc,
            source: source.0..source.0 + source.1,
            target: offset..offset + self.bytes as u64,
            value: SmallVec::from_slice(&self.value[..self.bytes]),
        }
    }

    fn write(&self, memory: &mut [u8]) {
        memory[self.offset..][..self.bytes].copy_from_slice(&self.value[..self.bytes]);
    }
}

/// An arrival on an mbarrier object that takes place after copies.
#[derive(Clone, Copy, Debug, Hash)]
struct MbarrierArrival {
    /// The offset of the object in shared memory.
    object: u64,
    warp: u32,
    lane: u32,
    /// The index of the first copy of the warp that the arrival does not wait for.
    end: u64,
}

/// An arrival whose copies are complete.
pub(super) struct CompletedCopies {
    /// The warp and the lane.
    pub(super) thread: (u32, usize),
    /// The numbers of the copies.
    pub(super) copies: SmallVec<[u64; 4]>,
}

/// The pending copies of a warp's threads.
#[derive(Debug, Default, Hash)]
struct WarpCopies {
    pending: Vec<PendingCopy>,
    /// The number of groups that each thread has committed.
    committed: [u32; 32],
    /// The number of copies that the warp has issued.
    started: u64,
}

/// The pending copies of a block's threads, and the arrivals that follow them.
#[derive(Debug, Default, Hash)]
pub(super) struct BlockCopies {
    warps: Vec<WarpCopies>,
    arrivals: Vec<MbarrierArrival>,
}

impl BlockCopies {
    pub(super) fn start(&mut self, warps: usize) {
        self.warps.resize_with(warps, WarpCopies::default);
        for warp in &mut self.warps {
            warp.pending.clear();
            warp.committed = [0; 32];
            warp.started = 0;
        }
        self.arrivals.clear();
    }

    /// Completes the copies that the next arrival on `object` waits for.
    ///
    /// Returns the arrival, which the caller must perform, or `None` if none is pending.
    pub(super) fn arrive(&mut self, object: u64, memory: &mut [u8]) -> Option<CompletedCopies> {
        let at = self
            .arrivals
            .iter()
            .position(|arrival| arrival.object == object)?;
        let MbarrierArrival {
            warp, lane, end, ..
        } = self.arrivals.remove(at);
        let mut completed = SmallVec::new();
        self.warps[warp as usize].pending.retain(|copy| {
            let waits = copy.lane == lane && copy.number < end;
            if waits {
                copy.write(memory);
                completed.push(copy.number);
            }
            !waits
        });
        Some(CompletedCopies {
            thread: (warp, lane as usize),
            copies: completed,
        })
    }

    /// Drops the pending arrivals on an object, but keeps the copies before them.
    pub(super) fn forget_arrivals(&mut self, object: u64) {
        self.arrivals.retain(|arrival| arrival.object != object);
    }
}

/// Executes a `cp.async` instruction: a start, commit, wait or mbarrier arrival.
#[cold]
pub(super) fn run<O: Observer>(
    copy: &AsyncCopy,
    warp: &mut Warp,
    shared: &mut WarpContext<'_, '_>,
    observer: &mut O,
    at: IssuePoint,
) -> Result<(), LaneFault> {
    let mask = at.mask;
    let copies = &mut shared.copies.warps[warp.index as usize];
    match *copy {
        AsyncCopy::Commit => {
            for lane in lanes(mask) {
                copies.committed[lane] += 1;
            }
            Ok(())
        }
        AsyncCopy::Wait { but } => {
            let committed = copies.committed;
            let target = &mut *shared.memory;
            copies.pending.retain(|copy| {
                let lane = copy.lane as usize;
                // `wait_all` waits for uncommitted copies, too.
                let behind = committed[lane].saturating_sub(copy.group);
                let waits = mask >> lane & 1 == 1 && but.is_none_or(|but| behind > but);
                if waits {
                    copy.write(target);
                    if O::ON {
                        observer.copied(warp, &copy.observed(), true);
                    }
                }
                !waits
            });
            Ok(())
        }
        AsyncCopy::Start { .. } => start(copy, warp, shared, observer, at),
        AsyncCopy::Arrive {
            object,
            space,
            increments,
        } => {
            let warp_access = WarpAccess::new(&warp.registers, object, mask, 8, true);
            let warp_access = match space {
                AccessSpace::Generic => {
                    in_window(&warp_access, Window::Shared).unwrap_or(warp_access)
                }
                AccessSpace::Is(_) => warp_access,
            };
            warp_access.check_alignment()?;
            for lane in lanes(mask) {
                mbarrier::arrive_behind_copies(shared, &warp_access, lane, increments)?;
                let end = shared.copies.warps[warp.index as usize].started;
                shared.copies.arrivals.push(MbarrierArrival {
                    object: warp_access.addresses[lane],
                    warp: warp.index,
                    lane: lane as u32,
                    end,
                });
                observer.copies_tracked(warp.index, lane, warp_access.addresses[lane]);
            }
            Ok(())
        }
    }
}

fn start<O: Observer>(
    copy: &AsyncCopy,
    warp: &mut Warp,
    shared: &mut WarpContext<'_, '_>,
    observer: &mut O,
    IssuePoint { pc, mask }: IssuePoint,
) -> Result<(), LaneFault> {
    let AsyncCopy::Start {
        target,
        source,
        source_space,
        bytes,
        source_bytes,
        ignore,
    } = *copy
    else {
        return Ok(());
    };
    let targets = WarpAccess::new(&warp.registers, target, mask, bytes, true);
    let sources = WarpAccess::new(&warp.registers, source, mask, bytes, false);
    targets.check_alignment()?;
    sources.check_alignment()?;
    let ignored = ignore.map_or(0, |slot| warp.registers.predicate(slot));
    let counters = source_bytes.map(|slot| *warp.registers.word(slot));
    let memory = shared.all(&mut warp.local);
    let mut started: SmallVec<[PendingCopy; 32]> = SmallVec::new();
    for lane in lanes(mask) {
        let count = counters.map_or(bytes, |counters| (counters[lane] as usize).min(bytes));
        let count = if ignored >> lane & 1 == 1 { 0 } else { count };
        let offset = target_offset(&memory, &targets, lane)?;
        let mut value = [0; 16];
        let found = match source_space {
            AccessSpace::Is(Window::Global) | AccessSpace::Generic => {
                memory.read_generic(lane, sources.addresses[lane], &mut value[..count])
            }
            AccessSpace::Is(_) => None,
        };
        if count > 0 && found.is_none() {
            return Err(sources.out_of_bounds(lane));
        }
        memory.traffic.read_bytes += count as u64;
        started.push(PendingCopy {
            lane: lane as u32,
            group: 0,
            number: 0,
            offset,
            bytes,
            value,
            source: (sources.addresses[lane], count as u64),
            pc,
        });
    }
    let copies = &mut shared.copies.warps[warp.index as usize];
    for mut copy in started {
        copy.group = copies.committed[copy.lane as usize];
        copy.number = copies.started;
        copies.started += 1;
        if O::ON {
            observer.copied(warp, &copy.observed(), false);
        }
        copies.pending.push(copy);
    }
    Ok(())
}

/// Returns the offset in shared memory of a lane's copy target, or an out-of-bounds fault.
fn target_offset(
    memory: &WarpMemory<'_, '_>,
    targets: &WarpAccess,
    lane: usize,
) -> Result<usize, LaneFault> {
    let offset = usize::try_from(targets.addresses[lane]).unwrap_or(usize::MAX);
    let end = offset.checked_add(targets.bytes);
    if end.is_some_and(|end| end <= memory.shared.len()) {
        Ok(offset)
    } else {
        let kind: KernelFaultKind = memory.outside(Window::Shared, targets, lane);
        Err((lane, kind))
    }
}
