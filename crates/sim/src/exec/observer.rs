//! Observers of a launch: notified of memory accesses and synchronisation while its warps run.
//!
//! The interpreter loop is generic over the observer. It is compiled once with [`NoObserver`],
//! where the notifications vanish, and once with the checks of a launch.

use std::ops::Range;

use smallvec::SmallVec;

use super::barrier::Barriers;
use super::registers::{Doubles, Words};
use super::warp::Warp;
use super::warp_access::WarpAccess;
use crate::ptx::ir::{Access, Atomic, Exchange, Mbarrier, MemoryOrder};

/// The instruction that a warp issues: its program counter and its active lanes.
#[derive(Clone, Copy, Debug)]
pub(super) struct IssuePoint {
    pub(super) pc: u32,
    pub(super) mask: u32,
}

/// The operands of an atomic, copied before it executes because its result may overwrite their
/// registers.
pub(super) struct AtomicOperands {
    pub(super) warp_access: WarpAccess,
    /// The expected value of a compare-and-swap.
    pub(super) compared: Doubles,
    /// The upper half of the expected value of a 128-bit compare-and-swap.
    pub(super) compared_high: Doubles,
}

/// An asynchronous copy of a lane to shared memory.
#[derive(Clone, Debug)]
pub(super) struct AsyncCopy {
    pub(super) lane: usize,
    /// The index of the copy among the copies of the warp.
    pub(super) number: u64,
    /// The program counter of the copy.
    pub(super) pc: u32,
    /// The addresses that it reads.
    pub(super) source: Range<u64>,
    /// The offsets in shared memory that it writes, and the bytes.
    pub(super) target: Range<u64>,
    pub(super) value: SmallVec<[u8; 16]>,
}

/// The arrival of a warp's lanes at a barrier of the block.
pub(super) struct BarrierArrivalEvent {
    pub(super) mask: u32,
    pub(super) id: u32,
    /// The generation of the barrier whose completion the lanes arrive for.
    pub(super) generation: u64,
    /// True if the lanes wait for the completion.
    pub(super) waits: bool,
    /// True if the barrier has a thread count; false if it is for all live threads.
    pub(super) counted: bool,
    /// The program counter of the barrier.
    pub(super) pc: u32,
}

/// Receives the accesses and synchronisation of a launch's warps, in the order of their execution.
pub(super) trait Observer {
    /// True if the observer uses the notifications.
    const ON: bool;

    /// Returns whether [`step`](Self::step) does anything.
    fn steps(&self) -> bool {
        false
    }

    /// Called before each instruction, with the lanes that have reached it. Those of `at`, if any,
    /// execute it.
    fn step(&mut self, _warp: &mut Warp, _at: IssuePoint, _reached: u32) {}

    /// Called before a block starts or resumes.
    fn enter(&mut self, _block: u64) {}

    /// Called after all threads of the block have exited.
    fn leave(&mut self, _block: u64) {}

    /// Called before a load.
    fn load(&mut self, _warp: &Warp, _at: IssuePoint, _access: &Access) {}

    /// Called before a store.
    fn store(&mut self, _warp: &Warp, _at: IssuePoint, _access: &Access) {}

    /// Called after an atomic.
    fn atomic(
        &mut self,
        _warp: &Warp,
        _at: IssuePoint,
        _atomic: &Atomic,
        _operands: &AtomicOperands,
    ) {
    }

    /// Returns whether to preempt the warp behind the atomic that was just executed.
    fn preempts(&mut self) -> bool {
        false
    }

    /// Called when a lane has read a texel, with its address and number of bytes.
    fn image_read(&mut self, _warp: &Warp, _pc: u32, _lane: usize, _texel: (u64, u64)) {}

    /// Called when a lane has started an asynchronous copy, and when it has waited for it.
    fn copied(&mut self, _warp: &Warp, _copy: &AsyncCopy, _waited: bool) {}

    /// Called when a lane has told an mbarrier object to track its asynchronous copies so far.
    fn copies_tracked(&mut self, _warp: u32, _lane: usize, _at: u64) {}

    /// Called when such copies of a thread, given by its warp and lane, have arrived at the
    /// object, with their numbers. The arrival may complete the object's phase.
    fn copies_arrived(
        &mut self,
        _thread: (u32, usize),
        _at: u64,
        _copies: &[u64],
        _completes: bool,
    ) {
    }

    /// Called before an operation on mbarrier objects, with their offsets in shared memory.
    fn mbarrier(
        &mut self,
        _warp: &Warp,
        _at: IssuePoint,
        _place: &WarpAccess,
        _operation: &Mbarrier,
    ) {
    }

    /// Called after a thread, given by its warp and lane, has changed the mbarrier object at an
    /// offset.
    ///
    /// `releases` says that the change releases the thread's earlier accesses, `completes` that it
    /// completed the object's phase.
    fn mbarrier_arrived(
        &mut self,
        _thread: (u32, usize),
        _at: u64,
        _releases: bool,
        _completes: bool,
    ) {
    }

    /// Called after a thread has observed the completion of an object's phase, which is an acquire.
    fn mbarrier_waited(&mut self, _warp: u32, _lane: usize, _at: u64) {}

    /// Called at a fence.
    fn fence(&mut self, _warp: &Warp, _mask: u32, _order: MemoryOrder) {}

    /// Called after lanes of a warp have executed a warp-wide operation, each with the lanes of its
    /// member mask.
    fn exchanged(&mut self, _warp: &Warp, _exchange: &Exchange, _members: &Words, _done: u32) {}

    /// Called after lanes have converged at `bar.warp.sync` from different program counters.
    fn converged(&mut self, _warp: &Warp, _lanes: u32) {}

    /// Called after lanes have arrived at a barrier of the block.
    fn arrived(&mut self, _warp: &Warp, _arrived: &BarrierArrivalEvent, _barriers: &Barriers) {}

    /// Called when lanes of a warp have reached the end of a barrier.
    fn reached(&mut self, _warp: &Warp, _pc: u32, _lanes: u32) {}

    /// Called before threads exit.
    fn exiting(&mut self, _warp: &Warp, _at: IssuePoint, _barriers: &Barriers) {}

    /// Called after threads have exited.
    fn exited(&mut self, _warp: &Warp, _mask: u32, _barriers: &Barriers) {}
}

/// The observer of a launch without checks.
pub(super) struct NoObserver;

impl Observer for NoObserver {
    const ON: bool = false;
}
