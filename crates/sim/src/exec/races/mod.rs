//! The check for races within a launch: two threads use the same byte of shared or global memory,
//! one of them writes, and nothing orders the two.
//!
//! What is ordered by what, and what is not seen, is in [`crate::race`], where users look for it.
//!
//! # How
//!
//! As FastTrack does it: a thread has a vector clock (`thread_clock`), a word of memory has the
//! accesses that a later one could race with (`shadow`). A warp has one epoch for what all its
//! lanes do, which rises whenever one of them tells others what it knows, so that an access of many
//! lanes is one record. Clocks of threads that have met are one and the same allocation.

mod barrier_clocks;
mod block_threads;
mod collector;
mod race_class;
mod shadow;
mod thread_clock;

use std::{collections::BTreeMap, mem};

use super::launch::{GlobalMemory, Launch};
use super::memory::in_window;
use super::observer::{AtomicOperands, BarrierArrivalEvent, IssuePoint, Observer};
use super::registers::{LANES, Words, lanes};
use super::staging::{LANE_BYTES_MAX, Stage, scatter, staged};
use super::warp::{Warp, add_converged};
use super::warp_access::WarpAccess;
use super::{barrier::Barriers, registers::Registers};
use crate::ptx::Kernel;
use crate::ptx::ir::{
    Access, AccessSpace, Atomic, AtomicOp, Code, Exchange, Mbarrier, MbarrierOp, Op, Window,
};

pub use collector::{KernelAccess, KernelRace, MissingOrder, RacedMemory};
pub use race_class::RaceClass;

use block_threads::{BlockThreads, ReleaseClocks, StrongWrite};
use collector::RaceCollector;
use shadow::{AccessKind, AccessRecord, ShadowMemory, Sharing};

/// The check of one launch.
pub(super) struct RaceDetector<'a> {
    collector: RaceCollector<'a>,
    threads_per_block: u32,
    /// Whether anything in the kernel can order a block behind another.
    ordered_blocks: bool,
    /// Whether anything in the kernel is for a block only.
    scoped: bool,
    /// The block that runs.
    block: BlockThreads,
    /// The others that have started and not ended.
    waiting: BTreeMap<u64, BlockThreads>,
    global: ShadowMemory,
    /// What was released in global memory, by address.
    released: BTreeMap<u64, ReleaseClocks>,
}

impl<'a> RaceDetector<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        launch: &'a Launch<'a>,
        memory: &'a dyn GlobalMemory,
    ) -> Self {
        let scoped = is_scoped(&kernel.code);
        let threads_per_block = launch.block.iter().product();
        Self {
            collector: RaceCollector::new(kernel, launch, memory),
            threads_per_block,
            ordered_blocks: can_release(&kernel.code),
            scoped,
            block: BlockThreads::new(0, threads_per_block, scoped),
            waiting: BTreeMap::new(),
            global: ShadowMemory::default(),
            released: BTreeMap::new(),
        }
    }

    /// What was found.
    pub(super) fn into_races(self) -> Vec<KernelRace> {
        self.collector.all()
    }

    /// Enters an access of the lanes of `warp_access`, in each window that it reaches. `stored`
    /// holds the bytes that a store writes, lane after lane.
    fn flags(
        &mut self,
        warp: &Warp,
        at: IssuePoint,
        (space, warp_access): (AccessSpace, &WarpAccess),
        kind: AccessKind,
        stored: Option<&Stage>,
    ) {
        each_window(space, warp_access, |window, warp_access| {
            self.record_in(window, warp, at, warp_access, kind, stored);
        });
    }

    fn record_in(
        &mut self,
        window: Window,
        warp: &Warp,
        at: IssuePoint,
        warp_access: &WarpAccess,
        kind: AccessKind,
        stored: Option<&Stage>,
    ) {
        let of_lane = |lane: usize| {
            let stored = stored.and_then(|stored| {
                stored
                    .get(lane * warp_access.bytes..)?
                    .get(..warp_access.bytes)
            });
            stored.unwrap_or_default()
        };
        let mut rest = warp_access.mask;
        while rest != 0 {
            let first = rest.trailing_zeros() as usize;
            let address = warp_access.addresses[first];
            // Adjacent lanes that do the same to the same bytes are entered together, unless they
            // race with each other.
            let alone = kind.write && !kind.strong;
            let mut mask = 1 << first;
            let mut next = first + 1;
            while !alone
                && rest >> (next & 31) & 1 == 1
                && next < 32
                && warp_access.addresses[next] == address
                && of_lane(next) == of_lane(first)
            {
                mask |= 1 << next;
                next += 1;
            }
            rest &= !mask;
            let by = AccessRecord {
                block: self.block.block,
                warp: warp.index,
                lanes: mask,
                epoch: self.block.epoch(warp.index),
                pc: at.pc,
                kind,
                bytes: 0,
                value: [0; 4],
                strict: [0; 4],
                strict_for_others: 0,
            };
            self.record_bytes(
                window,
                by,
                (address, warp_access.bytes as u64),
                of_lane(first),
            );
        }
    }

    fn record_bytes(
        &mut self,
        window: Window,
        mut by: AccessRecord,
        (address, bytes): (u64, u64),
        stored: &[u8],
    ) {
        let Self {
            collector,
            ordered_blocks,
            block,
            global,
            ..
        } = self;
        let mut shared = mem::take(&mut block.shared);
        let end = address.saturating_add(bytes);
        let mut from = address;
        while from < end {
            let word = from / 4;
            let to = end.min(word * 4 + 4);
            by.bytes = ((1u8 << (to - word * 4)) - 1) & !((1u8 << (from - word * 4)) - 1);
            by.value = [0; 4];
            if let Some(stored) = stored.get((from - address) as usize..(to - address) as usize) {
                by.value[(from - word * 4) as usize..][..stored.len()].copy_from_slice(stored);
            }
            let is_global = window == Window::Global;
            let (shadow, sharing) = match (is_global, *ordered_blocks) {
                (true, true) => (&mut *global, Sharing::Ordered),
                (true, false) => (&mut *global, Sharing::Unordered),
                (false, _) => (&mut shared, Sharing::Block),
            };
            shadow
                .word(word)
                .record_access(&by, block, sharing, |pair| {
                    collector.add(is_global, word * 4, &by, pair);
                });
            from = to;
        }
        block.shared = shared;
    }

    /// A strong access of a thread: it may take what was released, and it may release.
    fn synchronise(&mut self, window: Window, (thread, address): (usize, u64), how: StrongAccess) {
        let StrongAccess {
            read,
            write,
            block_only,
        } = how;
        let global = window == Window::Global;
        let mut released = mem::take(if global {
            &mut self.released
        } else {
            &mut self.block.released
        });
        // What it releases itself may be taken with the rest: the thread knows that anyway.
        if let Some(how) = write {
            self.block.release(thread, &mut released, address, how);
        }
        if let Some(released) = released.get(&address).filter(|_| read) {
            self.block.acquire(thread, released, block_only);
        }
        *(if global {
            &mut self.released
        } else {
            &mut self.block.released
        }) = released;
    }
}

/// What a strong access does.
#[derive(Clone, Copy)]
struct StrongAccess {
    read: bool,
    write: Option<StrongWrite>,
    block_only: bool,
}

/// The parts of an access that lie in memory which threads share.
fn each_window(
    space: AccessSpace,
    warp_access: &WarpAccess,
    mut part: impl FnMut(Window, &WarpAccess),
) {
    match space {
        AccessSpace::Is(window @ (Window::Global | Window::Shared)) => part(window, warp_access),
        AccessSpace::Is(_) => {}
        AccessSpace::Generic => {
            for window in [Window::Global, Window::Shared] {
                if let Some(warp_access) = in_window(warp_access, window) {
                    part(window, &warp_access);
                }
            }
        }
    }
}

/// Whether a kernel can release anything: else nothing orders its blocks.
fn can_release(code: &Code) -> bool {
    let fence = |op: &Op| matches!(op, Op::Fence { .. });
    code.instrs.iter().any(|instr| fence(&instr.op))
        || code.stores.iter().any(|store| store.order.release)
        || code.atomics.iter().any(|atomic| atomic.order.release)
}

/// Whether a kernel has fences or strong accesses that are for a block only.
fn is_scoped(code: &Code) -> bool {
    let fence = |op: &Op| matches!(op, Op::Fence { block_only: true });
    let accesses = || code.loads.iter().chain(&code.stores);
    code.instrs.iter().any(|instr| fence(&instr.op))
        || accesses().any(|access| access.order.block_only)
        || code.atomics.iter().any(|atomic| atomic.order.block_only)
}

fn kind(access: &Access, write: bool) -> AccessKind {
    AccessKind {
        write,
        read: !write,
        strong: access.synchronises,
        block_only: access.order.block_only,
    }
}

/// The lanes whose atomic has written: all, but those of a compare-and-swap that found something
/// else.
fn wrote(registers: &Registers, atomic: &Atomic, operands: &AtomicOperands) -> u32 {
    let mask = operands.warp_access.mask;
    let Some(result) = atomic.result.filter(|_| atomic.f == AtomicOp::CompareSwap) else {
        return mask;
    };
    let same = lanes(mask).filter(|lane| {
        let collector = if operands.warp_access.bytes >= 8 {
            registers.double(result)[*lane]
        } else {
            u64::from(registers.word(result)[*lane])
        };
        let high = atomic.high.and_then(|high| high.result);
        let found_high = high.map_or(0, |slot| registers.double(slot)[*lane]);
        (collector, found_high) == (operands.compared[*lane], operands.compared_high[*lane])
    });
    same.fold(0, |mask, lane| mask | 1 << lane)
}

impl Observer for RaceDetector<'_> {
    const ON: bool = true;

    fn enter(&mut self, block: u64) {
        if self.block.block == block {
            return;
        }
        let block_threads = self.waiting.remove(&block);
        let block_threads = block_threads
            .unwrap_or_else(|| BlockThreads::new(block, self.threads_per_block, self.scoped));
        let before = mem::replace(&mut self.block, block_threads);
        if before.block != u64::MAX {
            self.waiting.insert(before.block, before);
        }
    }

    fn leave(&mut self, _block: u64) {
        // What the block knew goes with it, so that what it shared with others is theirs alone.
        self.block = BlockThreads::new(u64::MAX, 0, false);
    }

    fn load(&mut self, warp: &Warp, at: IssuePoint, access: &Access) {
        let warp_access = WarpAccess::new(
            &warp.registers,
            access.address,
            at.mask,
            access.bytes(),
            false,
        );
        self.flags(
            warp,
            at,
            (access.space, &warp_access),
            kind(access, false),
            None,
        );
        if access.synchronises {
            let how = StrongAccess {
                read: true,
                write: None,
                block_only: access.order.block_only,
            };
            each_window(access.space, &warp_access, |window, warp_access| {
                for lane in lanes(warp_access.mask) {
                    let thread = warp.index as usize * 32 + lane;
                    self.synchronise(window, (thread, warp_access.addresses[lane]), how);
                }
            });
        }
    }

    fn store(&mut self, warp: &Warp, at: IssuePoint, access: &Access) {
        let warp_access = WarpAccess::new(
            &warp.registers,
            access.address,
            at.mask,
            access.bytes(),
            true,
        );
        let mut stored: Stage = [0; LANES * LANE_BYTES_MAX];
        let indices = staged(access, warp_access.bytes);
        scatter(&warp.registers, access, &mut stored, &indices, at.mask);
        self.flags(
            warp,
            at,
            (access.space, &warp_access),
            kind(access, true),
            Some(&stored),
        );
        if access.synchronises {
            let block_only = access.order.block_only;
            let how = StrongAccess {
                read: false,
                write: Some(StrongWrite {
                    replaces: true,
                    release: access.order.release,
                    block_only,
                }),
                block_only,
            };
            each_window(access.space, &warp_access, |window, warp_access| {
                for lane in lanes(warp_access.mask) {
                    let thread = warp.index as usize * 32 + lane;
                    self.synchronise(window, (thread, warp_access.addresses[lane]), how);
                }
            });
        }
    }

    fn atomic(&mut self, warp: &Warp, at: IssuePoint, atomic: &Atomic, operands: &AtomicOperands) {
        let written = wrote(&warp.registers, atomic, operands);
        let order = atomic.order;
        for (mask, write) in [(written, true), (at.mask & !written, false)] {
            let warp_access = WarpAccess {
                mask,
                ..operands.warp_access
            };
            let kind = AccessKind {
                write,
                read: true,
                strong: true,
                block_only: order.block_only,
            };
            self.flags(warp, at, (atomic.space, &warp_access), kind, None);
        }
        let write = StrongWrite {
            replaces: false,
            release: order.release,
            block_only: order.block_only,
        };
        each_window(
            atomic.space,
            &operands.warp_access,
            |window, warp_access| {
                for lane in lanes(warp_access.mask) {
                    let thread = warp.index as usize * 32 + lane;
                    let how = StrongAccess {
                        read: true,
                        write: Some(write).filter(|_| written >> lane & 1 == 1),
                        block_only: order.block_only,
                    };
                    self.synchronise(window, (thread, warp_access.addresses[lane]), how);
                }
            },
        );
    }

    fn mbarrier(
        &mut self,
        warp: &Warp,
        at: IssuePoint,
        warp_access: &WarpAccess,
        operation: &Mbarrier,
    ) {
        if operation.f == MbarrierOp::Init {
            for lane in lanes(warp_access.mask) {
                self.block
                    .barrier_clocks
                    .forget(warp_access.addresses[lane]);
            }
        }
        // To make one and to give one up are plain writes, all else is atomic. The bytes of an
        // object are not the program's: a race is an error whatever they are, as if they were read.
        let kind = AccessKind {
            write: warp_access.write,
            read: true,
            strong: !matches!(operation.f, MbarrierOp::Init | MbarrierOp::Invalidate),
            block_only: true,
        };
        self.record_in(Window::Shared, warp, at, warp_access, kind, None);
    }

    fn mbarrier_arrived(
        &mut self,
        (warp, lane): (u32, usize),
        at: u64,
        releases: bool,
        completes: bool,
    ) {
        let thread = warp as usize * 32 + lane;
        self.block
            .arrive_at_mbarrier(thread, at, releases, completes);
    }

    fn mbarrier_waited(&mut self, warp: u32, lane: usize, at: u64) {
        self.block.wait_for_mbarrier(warp as usize * 32 + lane, at);
    }

    fn fence(&mut self, warp: &Warp, mask: u32, block_only: bool) {
        self.block.fence(warp.index, mask, block_only);
    }

    fn exchanged(&mut self, warp: &Warp, _exchange: &Exchange, members: &Words, done: u32) {
        let mut converged = Default::default();
        add_converged(&mut converged, members, done);
        for (_, lanes) in converged {
            self.block.synchronise_lanes(warp.index, lanes);
        }
    }

    fn converged(&mut self, warp: &Warp, lanes: u32) {
        self.block.synchronise_lanes(warp.index, lanes);
    }

    fn arrived(&mut self, warp: &Warp, arrived: &BarrierArrivalEvent, barriers: &Barriers) {
        self.block.arrive(warp.index, arrived, barriers);
    }

    fn exited(&mut self, warp: &Warp, mask: u32, barriers: &Barriers) {
        self.block.exit(warp.index, mask, barriers);
    }
}
