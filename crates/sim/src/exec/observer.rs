//! Who looks on while the warps of a launch run: nobody, or the check for races within the launch.
//!
//! The interpreter's loop is built once for each: where nobody looks on, nothing is left of it.

use super::barrier::Barriers;
use super::registers::{Doubles, Words};
use super::warp::Warp;
use super::warp_access::WarpAccess;
use crate::ptx::ir::{Access, Atomic, Exchange, Mbarrier};

/// Where a warp is, and which of its lanes do what stands there.
#[derive(Clone, Copy, Debug)]
pub(super) struct IssuePoint {
    pub(super) pc: u32,
    pub(super) mask: u32,
}

/// What an atomic is given: its result may take the place of that.
pub(super) struct AtomicOperands {
    pub(super) warp_access: WarpAccess,
    /// What a compare-and-swap compares with.
    pub(super) compared: Doubles,
    /// The upper half of that, where it has 128 bits.
    pub(super) compared_high: Doubles,
}

/// Lanes that arrive at a barrier of the block.
pub(super) struct BarrierArrivalEvent {
    pub(super) mask: u32,
    pub(super) id: u32,
    /// Which completion of the barrier they arrive for.
    pub(super) generation: u64,
    /// Whether they wait there.
    pub(super) waits: bool,
    /// Whether the barrier is for a number of threads, and not for all that live.
    pub(super) counted: bool,
}

/// Is told what the warps do, in the order in which it is done.
pub(super) trait Observer {
    /// Whether anything is made of it.
    const ON: bool;

    /// A block is about to run, for the first time or on.
    fn enter(&mut self, _block: u64) {}

    /// All threads of the block have exited.
    fn leave(&mut self, _block: u64) {}

    /// A load, before it is made.
    fn load(&mut self, _warp: &Warp, _at: IssuePoint, _access: &Access) {}

    /// A store, before it is made.
    fn store(&mut self, _warp: &Warp, _at: IssuePoint, _access: &Access) {}

    /// An atomic, after it was made.
    fn atomic(
        &mut self,
        _warp: &Warp,
        _at: IssuePoint,
        _atomic: &Atomic,
        _operands: &AtomicOperands,
    ) {
    }

    /// An operation on barrier objects at offsets in shared memory, before it is made.
    fn mbarrier(
        &mut self,
        _warp: &Warp,
        _at: IssuePoint,
        _place: &WarpAccess,
        _operation: &Mbarrier,
    ) {
    }

    /// A thread, by its warp and lane, has changed an object, and released by that what it did, if
    /// it `releases`; the object's phase may have completed by it.
    fn mbarrier_arrived(
        &mut self,
        _thread: (u32, usize),
        _at: u64,
        _releases: bool,
        _completes: bool,
    ) {
    }

    /// A thread was told that a phase of an object has completed, and acquires by that.
    fn mbarrier_waited(&mut self, _warp: u32, _lane: usize, _at: u64) {}

    /// A fence, for the block or for all.
    fn fence(&mut self, _warp: &Warp, _mask: u32, _block_only: bool) {}

    /// Lanes of a warp met at an operation between lanes, each with those of its members.
    fn exchanged(&mut self, _warp: &Warp, _exchange: &Exchange, _members: &Words, _done: u32) {}

    /// Lanes met at `bar.warp.sync` from different places.
    fn converged(&mut self, _warp: &Warp, _lanes: u32) {}

    /// Threads arrived at a barrier of the block.
    fn arrived(&mut self, _warp: &Warp, _arrived: &BarrierArrivalEvent, _barriers: &Barriers) {}

    /// Threads exited.
    fn exited(&mut self, _warp: &Warp, _mask: u32, _barriers: &Barriers) {}
}

/// Nobody looks on.
pub(super) struct NoObserver;

impl Observer for NoObserver {
    const ON: bool = false;
}
