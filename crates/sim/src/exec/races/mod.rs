//! The check for data races within a launch: two threads access the same byte of shared or global
//! memory, at least one of them writes, and neither access happens before the other.
//!
//! [`crate::race`] documents for users which synchronisation orders accesses, and which races the
//! check misses.
//!
//! # Algorithm
//!
//! The check follows FastTrack: each thread has a vector clock (`thread_clock`), and each word of
//! memory has a record of the accesses that a later one could race with (`shadow`). All lanes of a
//! warp share one epoch, which increases whenever one of them releases its clock, so that an access
//! of many lanes is one record. Threads that have synchronised share one allocation for their
//! clocks. A barrier for all threads of a block begins a phase, in which the records of shared
//! memory from before it are dropped, and reads of a word that no record writes are not compared
//! with each other.

mod access_record;
mod barrier_clocks;
mod before_all;
mod block_state;
mod block_threads;
mod by_address;
mod code_summary;
mod collector;
mod copies_in_flight;
mod fence_order;
mod fence_sync;
mod instruction_access;
mod lane_groups;
mod lane_order;
mod observation;
mod race_class;
mod race_model;
mod release;
mod release_chain;
mod shadow;
mod shadow_pages;
mod thread_clock;
mod union;
mod word_recorder;

use std::{collections::BTreeMap, mem, ops::Range};

use super::barrier::Barriers;
use super::indices::Indices;
use super::launch::{Alias, GlobalMemory, Launch};
use super::observer::{AsyncCopy, AtomicOperands, BarrierArrivalEvent, IssuePoint, Observer};
use super::registers::{LANES, Words, lanes};
use super::staging::{LANE_BYTES_MAX, Stage, scatter};
use super::warp::{Warp, add_converged};
use super::warp_access::WarpAccess;
use crate::ptx::Kernel;
use crate::ptx::ir::{
    Access, AccessSpace, Atomic, Exchange, ExchangeOp, Mbarrier, MbarrierOp, MemoryOrder, Window,
};

pub(crate) use code_summary::releases;
pub use collector::{KernelRace, MissingOrder, RacedMemory};
pub use race_class::RaceClass;
pub use race_model::RaceModel;
pub use union::RaceOrders;

pub(super) use union::RaceUnion;

use access_record::{AccessKind, AccessRecord, Sharing};
use block_state::BlockState;
use code_summary::CodeSummary;
use collector::RaceCollector;
use instruction_access::{each_window, kind, lowest, strong_access, wrote};
use lane_groups::LaneGroups;
use release::{ReleasedMemory, StrongAccess};
use shadow_pages::ShadowMemory;
use word_recorder::WordRecorder;

pub(super) struct RaceDetector<'a> {
    collector: RaceCollector<'a>,
    threads_per_block: u32,
    summary: CodeSummary,
    model: RaceModel,
    aliases: Vec<Alias>,
    /// The running block.
    block: BlockState,
    /// The other blocks that have started and not ended.
    waiting: BTreeMap<u64, BlockState>,
    global: ShadowMemory,
    /// The clocks released in global memory.
    released: ReleasedMemory,
}

impl<'a> RaceDetector<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        launch: &'a Launch<'a>,
        memory: &'a dyn GlobalMemory,
        model: RaceModel,
    ) -> Self {
        let summary = CodeSummary::new(&kernel.code);
        let threads_per_block = launch.block.iter().product();
        Self {
            collector: RaceCollector::new(kernel, launch, memory),
            threads_per_block,
            summary,
            model,
            aliases: memory.aliases(),
            block: BlockState::new(0, threads_per_block, summary, model),
            waiting: BTreeMap::new(),
            global: ShadowMemory::default(),
            released: ReleasedMemory::default(),
        }
    }

    fn block_state(&self, block: u64, threads: u32) -> BlockState {
        BlockState::new(block, threads, self.summary, self.model)
    }

    pub(super) fn into_races(self) -> Vec<KernelRace> {
        self.collector.all()
    }

    /// Records an access of the lanes of `warp_access` in each memory window that it touches.
    ///
    /// `stored` holds the bytes that a store writes, lane after lane.
    fn record(
        &mut self,
        warp: &Warp,
        at: IssuePoint,
        (space, warp_access): (AccessSpace, &WarpAccess),
        kind: AccessKind,
        stored: Option<&Stage>,
    ) {
        let aliases = mem::take(&mut self.aliases);
        each_window(&aliases, space, warp_access, |window, warp_access| {
            self.record_in(window, warp, at, warp_access, kind, stored);
        });
        self.aliases = aliases;
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
        let bytes = warp_access.bytes;
        let of_lane = |lane: usize| {
            let own = stored.and_then(|stored| stored.get(lane * bytes..)?.get(..bytes));
            own.unwrap_or_default()
        };
        let mut by = AccessRecord::new(&self.block.threads, warp.index, 0, at.pc, kind);
        if !self.block.copies.is_empty() {
            for lane in lanes(warp_access.mask) {
                by.lanes = 1 << lane;
                let start = warp_access.addresses[lane];
                let range = start..start.saturating_add(warp_access.bytes as u64);
                self.check_copies((window, range), by, of_lane(lane));
            }
        }
        let mut recorder = self.recorder(window);
        let warp_access = &recorder.record_rows(&mut by, warp_access, stored.map(|all| &all[..]));
        if warp_access.mask == 0 {
            return;
        }
        // Lanes with equal accesses to the same bytes share a record, unless they race with each
        // other.
        let alone = kind.write && (!kind.strong || kind.volatile);
        let groups = if alone {
            LaneGroups::single(warp_access)
        } else {
            LaneGroups::by_address(warp_access, |one, other| of_lane(one) == of_lane(other))
        };
        for (first, group) in groups.iter() {
            by.lanes = group;
            let range = (warp_access.addresses[first], warp_access.bytes as u64);
            recorder.record(&mut by, range, of_lane(first));
        }
    }

    /// Records a load, or a store of `stored`, and applies its acquire and release effects.
    fn load_or_store(
        &mut self,
        warp: &Warp,
        at: IssuePoint,
        access: &Access,
        stored: Option<&Stage>,
    ) {
        let (mask, write) = (at.mask, stored.is_some());
        let (r, bytes) = (&warp.registers, access.bytes());
        let warp_access = &WarpAccess::new(r, access.address, mask, bytes, write);
        let lanes_at = (access.space, warp_access);
        self.record(warp, at, lanes_at, kind(access, write, self.model), stored);
        if access.synchronises {
            let how = StrongAccess {
                read: !write,
                write,
                ..strong_access(access.width.into(), access.order)
            };
            let written = if write { mask } else { 0 };
            self.synchronise(warp, lanes_at, access.count.into(), written, how);
        } else if write && self.summary.releases {
            each_window(&self.aliases, access.space, warp_access, |window, part| {
                let released = match window {
                    Window::Global => &mut self.released,
                    _ => &mut self.block.released,
                };
                for lane in lanes(part.mask) {
                    released.overwrite(part.addresses[lane], bytes as u64);
                }
            });
        }
    }

    fn recorder(&mut self, window: Window) -> WordRecorder<'_, 'a> {
        let is_global = window == Window::Global;
        WordRecorder {
            is_global,
            sharing: match (is_global, self.summary.releases) {
                (true, true) => Sharing::Ordered,
                (true, false) => Sharing::Unordered,
                (false, _) => Sharing::Block,
            },
            shadow: if is_global {
                &mut self.global
            } else {
                &mut self.block.shared
            },
            block: &self.block.threads,
            collector: &mut self.collector,
        }
    }

    /// Records a plain access of one lane, unless its address lies in another window.
    fn record_plain(
        &mut self,
        (warp, pc, lane): (&Warp, u32, usize),
        (window, range): (Window, &Range<u64>),
        stored: Option<&[u8]>,
        checks_copies: bool,
    ) {
        if window == Window::Global && Window::of(range.start) != window {
            return;
        }
        let (kind, stored) = (
            AccessKind::plain(stored.is_some()),
            stored.unwrap_or_default(),
        );
        let mut by = AccessRecord::new(&self.block.threads, warp.index, 1 << lane, pc, kind);
        if checks_copies && !self.block.copies.is_empty() {
            self.check_copies((window, range.clone()), by, stored);
        }
        let range = (lowest(&self.aliases, range.start), range.end - range.start);
        self.recorder(window).record(&mut by, range, stored);
    }

    fn check_copies(&mut self, place: (Window, Range<u64>), by: AccessRecord, stored: &[u8]) {
        let (block, collector) = (&self.block, &mut self.collector);
        block
            .copies
            .check(place, by, stored, &block.threads, collector);
    }

    /// Applies the acquire and release effects of the strong accesses of a warp's lanes; those in
    /// `written` write.
    fn synchronise(
        &mut self,
        warp: &Warp,
        (space, warp_access): (AccessSpace, &WarpAccess),
        count: u64,
        written: u32,
        how: StrongAccess,
    ) {
        let domains = self.block.threads.domains(how.block_only);
        each_window(&self.aliases, space, warp_access, |window, warp_access| {
            let global = window == Window::Global;
            let released = if global {
                &mut self.released
            } else {
                &mut self.block.released
            };
            for lane in lanes(warp_access.mask) {
                let thread = warp.index as usize * 32 + lane;
                let write = how.write && written >> lane & 1 == 1;
                // A vector is an access to each of its elements.
                for element in 0..count {
                    let address = warp_access.addresses[lane] + element * how.bytes;
                    let how = StrongAccess { write, ..how };
                    let threads = &mut self.block.threads;
                    threads.synchronise(thread, released, (global, address), (how, &domains));
                }
            }
            if how.release && written & warp_access.mask != 0 {
                self.block.threads.begin_epoch(warp.index);
            }
        });
    }
}

impl Observer for RaceDetector<'_> {
    const ON: bool = true;

    fn enter(&mut self, block: u64) {
        if self.block.threads.block == block {
            return;
        }
        let state = self.waiting.remove(&block);
        let state = state.unwrap_or_else(|| self.block_state(block, self.threads_per_block));
        let before = mem::replace(&mut self.block, state);
        if before.threads.block != u64::MAX {
            self.waiting.insert(before.threads.block, before);
        }
    }

    fn leave(&mut self, _block: u64) {
        // Dropping the block's clocks leaves the clocks that it shared with other blocks to them
        // alone.
        self.block = self.block_state(u64::MAX, 0);
    }

    fn load(&mut self, warp: &Warp, at: IssuePoint, access: &Access) {
        self.load_or_store(warp, at, access, None);
    }

    fn store(&mut self, warp: &Warp, at: IssuePoint, access: &Access) {
        let mut stored: Stage = [0; LANES * LANE_BYTES_MAX];
        let indices = Indices::staged(access, access.bytes());
        scatter(&warp.registers, access, &mut stored, &indices, at.mask);
        self.load_or_store(warp, at, access, Some(&stored));
    }

    fn atomic(&mut self, warp: &Warp, at: IssuePoint, atomic: &Atomic, operands: &AtomicOperands) {
        let written = wrote(&warp.registers, atomic, operands);
        let order = atomic.order;
        // The lanes execute in their order, also those whose compare-and-swap fails.
        let mut rest = at.mask;
        while rest != 0 {
            let write = written & rest & rest.wrapping_neg() != 0;
            let others = rest & if write { !written } else { written };
            let mask = rest & (others & others.wrapping_neg()).wrapping_sub(1);
            rest &= !mask;
            let warp_access = WarpAccess {
                mask,
                ..operands.warp_access
            };
            let kind = AccessKind {
                write,
                read: true,
                strong: true,
                volatile: false,
                block_only: order.block_only,
            };
            self.record(warp, at, (atomic.space, &warp_access), kind, None);
        }
        let how = StrongAccess {
            read: true,
            write: true,
            ..strong_access(operands.warp_access.bytes as u64, order)
        };
        let lanes = (atomic.space, &operands.warp_access);
        self.synchronise(warp, lanes, 1, written, how);
    }

    fn image_read(&mut self, warp: &Warp, pc: u32, lane: usize, (address, bytes): (u64, u64)) {
        let texel = (Window::Global, &(address..address + bytes));
        self.record_plain((warp, pc, lane), texel, None, false);
    }

    fn copied(&mut self, warp: &Warp, copy: &AsyncCopy, waited: bool) {
        if waited {
            self.block.copies.complete(warp.index, copy.number);
        }
        let lane = (warp, copy.pc, copy.lane);
        self.record_plain(lane, (Window::Global, &copy.source), None, !waited);
        let stored = Some(&*copy.value);
        self.record_plain(lane, (Window::Shared, &copy.target), stored, !waited);
        if !waited {
            self.block.copies.start(warp.index, copy);
        }
    }

    fn copies_tracked(&mut self, warp: u32, lane: usize, at: u64) {
        let threads = &mut self.block.threads;
        threads.track_copies(warp as usize * 32 + lane, at);
    }

    fn copies_arrived(
        &mut self,
        (warp, lane): (u32, usize),
        at: u64,
        copies: &[u64],
        completes: bool,
    ) {
        for number in copies {
            self.block.copies.complete(warp, *number);
        }
        let thread = warp as usize * 32 + lane;
        self.block.threads.arrive_by_copies(thread, at, completes);
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
                let clocks = &mut self.block.threads.barrier_clocks;
                clocks.forget(warp_access.addresses[lane]);
            }
        }
        // `mbarrier.init` and `mbarrier.inval` are plain writes, the other operations are atomic.
        // The program must not depend on the bytes of an object, so each race is an error whatever
        // their values, as if the object was also read.
        let kind = AccessKind {
            write: warp_access.write,
            read: true,
            strong: !matches!(operation.f, MbarrierOp::Init | MbarrierOp::Invalidate),
            volatile: false,
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
        let threads = &mut self.block.threads;
        threads.arrive_at_mbarrier(thread, at, releases, completes);
    }

    fn mbarrier_waited(&mut self, warp: u32, lane: usize, at: u64) {
        let threads = &mut self.block.threads;
        threads.wait_for_mbarrier(warp as usize * 32 + lane, at);
    }

    fn fence(&mut self, warp: &Warp, mask: u32, order: MemoryOrder) {
        self.block.threads.fence_lanes(warp.index, mask, order);
    }

    fn exchanged(&mut self, warp: &Warp, exchange: &Exchange, members: &Words, done: u32) {
        // Instructions on matrices order no accesses.
        if let ExchangeOp::Together(_) = exchange.f {
            return;
        }
        let mut converged = Default::default();
        add_converged(&mut converged, members, done);
        for (_, lanes) in converged {
            self.block.threads.synchronise_lanes(warp.index, lanes);
        }
    }

    fn converged(&mut self, warp: &Warp, lanes: u32) {
        self.block.threads.synchronise_lanes(warp.index, lanes);
    }

    fn arrived(&mut self, warp: &Warp, arrived: &BarrierArrivalEvent, barriers: &Barriers) {
        self.block.threads.arrive(warp.index, arrived, barriers);
    }

    fn exited(&mut self, warp: &Warp, mask: u32, barriers: &Barriers) {
        self.block.threads.exit(warp.index, mask, barriers);
    }
}
