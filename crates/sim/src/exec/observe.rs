//! Who looks on while the warps of a launch run: nobody, or the check for races within the launch.
//!
//! The interpreter's loop is built once for each: where nobody looks on, nothing is left of it.

use super::barrier::Barriers;
use super::place::Place;
use super::registers::{Doubles, Words};
use super::warp::Warp;
use crate::ptx::code::{Access, Atomic, Exchange};

/// Where a warp is, and which of its lanes do what stands there.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) pc: u32,
    pub(super) mask: u32,
}

/// What an atomic is given: its result may take the place of that.
pub(super) struct AtomicOperands {
    pub(super) place: Place,
    /// What a compare-and-swap compares with.
    pub(super) compared: Doubles,
}

/// Lanes that arrive at a barrier of the block.
pub(super) struct Arrived {
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
    fn load(&mut self, _warp: &Warp, _at: At, _access: &Access) {}

    /// A store, before it is made.
    fn store(&mut self, _warp: &Warp, _at: At, _access: &Access) {}

    /// An atomic, after it was made.
    fn atomic(&mut self, _warp: &Warp, _at: At, _atomic: &Atomic, _operands: &AtomicOperands) {}

    /// A fence, for the block or for all.
    fn fence(&mut self, _warp: &Warp, _mask: u32, _block_only: bool) {}

    /// Lanes of a warp met at an operation between lanes, each with those of its members.
    fn exchanged(&mut self, _warp: &Warp, _exchange: &Exchange, _members: &Words, _done: u32) {}

    /// Lanes met at `bar.warp.sync` from different places.
    fn met(&mut self, _warp: &Warp, _lanes: u32) {}

    /// Threads arrived at a barrier of the block.
    fn arrived(&mut self, _warp: &Warp, _arrived: &Arrived, _barriers: &Barriers) {}

    /// Threads exited.
    fn exited(&mut self, _warp: &Warp, _mask: u32, _barriers: &Barriers) {}
}

/// Nobody looks on.
pub(super) struct Nobody;

impl Observer for Nobody {
    const ON: bool = false;
}
