//! Errors within a kernel, after which it goes on: uses of barriers and warp-wide operations that
//! PTX leaves undefined, and of memory that was never written.
//!
//! They are found where threads execute the instruction, and given to the launch's
//! [`GlobalMemory`](super::GlobalMemory). What a thread cannot do is a
//! [fault](super::KernelFault) instead.

use super::kernel_access::KernelAccess;

/// An error within a launch, which goes on, at one or two places.
///
/// ```
/// use std::sync::Mutex;
/// use millstream_sim::exec::{self, GlobalMemory, Launch, Region, KernelError, KernelErrorKind};
/// #[derive(Default)]
/// struct Errors(Mutex<Vec<KernelError>>);
/// impl GlobalMemory for Errors {
///     fn region(&self, _: u64) -> Option<Region<'_>> {
///         None
///     }
///     fn kernel_error(&self, error: KernelError) {
///         self.0.lock().unwrap().push(error);
///     }
/// }
/// let module = millstream_sim::ptx::parse(
///     ".version 8.0
///      .target sm_75
///      .address_size 64
///      .visible .entry k() { bar.warp.sync 0xffff; ret; }",
/// )
/// .unwrap();
/// let errors = Errors::default();
/// let launch = Launch::new([1; 3], [32, 1, 1]);
/// exec::run(module.kernel("k").unwrap(), &launch, &errors).unwrap();
/// let found = &errors.0.lock().unwrap()[0];
/// assert!(matches!(found.kind, KernelErrorKind::NotInMask { mask: 0xffff, .. }));
/// assert_eq!(found.later.thread, [16, 0, 0]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelError {
    /// The kind of the error.
    pub kind: KernelErrorKind,
    /// The thread at whose instruction the error was found.
    pub later: KernelAccess,
    /// The other thread, if there are two.
    pub earlier: Option<KernelAccess>,
}

/// The kind of a [`KernelError`], with the rule of the PTX ISA that it breaks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum KernelErrorKind {
    /// Threads wait for each other at two barrier instructions: `__syncthreads()` in a branch that
    /// some take. Warps may arrive at barriers with a number other than 0, with a count, or with
    /// `barrier.sync` wherever they are; the lanes of one warp must execute the same instruction,
    /// except for `barrier.sync`.
    ///
    /// [`TwoBarriers`](Self::TwoBarriers) if all threads of either warp are at its instruction.
    DivergentBarrier {
        /// The barrier's number.
        barrier: u32,
        /// True if the two threads belong to one warp.
        in_warp: bool,
    },
    /// Two warps, all threads of each, wait for each other at two `__syncthreads()`. CUDA's
    /// programming guide demands that all threads of a block reach the same one; by the PTX ISA
    /// (`bar`) the threads of a warp must, and a barrier counts the arrivals at its number.
    /// Therefore this is a [warning](crate::Severity::Warning).
    TwoBarriers,
    /// A thread went around a barrier of the whole block at which others wait, in a branch or by
    /// leaving a loop, and ended. A thread that returns before the barrier has not skipped it;
    /// it has if it executes something first that the others reach only behind the barrier.
    ///
    /// Needs [`SimConfig::kernel_race_check`](crate::SimConfig::kernel_race_check). Barriers in
    /// functions that are not inlined are not checked.
    SkippedBarrier,
    /// Two threads name different numbers of threads for one completion of a barrier.
    ThreadCounts {
        /// The barrier's number.
        barrier: u32,
        /// The thread counts of the later and the earlier thread; `None` for the whole block.
        counts: [Option<u32>; 2],
    },
    /// `barrier.red` takes part in the same completion of a barrier as another operation.
    MixedOperations {
        /// The barrier's number.
        barrier: u32,
        /// The operations of the later and the earlier thread.
        operations: [&'static str; 2],
    },
    /// A thread arrives at a barrier again that has not completed since.
    ArrivedTwice {
        /// The barrier's number.
        barrier: u32,
    },
    /// A value that was loaded from shared or local memory without having been written decides a
    /// branch or an address, takes part in an operation with other threads, or reaches global
    /// memory. The earlier thread is the one that loaded it.
    ///
    /// Needs [`SimConfig::kernel_init_check`](crate::SimConfig::kernel_init_check).
    UninitialisedUse {
        /// The use, the bytes and their variable.
        text: String,
    },
    /// An access by an address in one variable of shared memory that reaches other bytes.
    ///
    /// Needs [`SimConfig::kernel_init_check`](crate::SimConfig::kernel_init_check).
    VariableOverrun {
        /// The two variables and the bytes.
        text: String,
    },
    /// A thread executes a warp-wide operation without a bit in its own member mask.
    NotInMask {
        /// The operation, such as `shfl.sync`.
        operation: &'static str,
        /// The member mask.
        mask: u32,
    },
    /// A warp executes an instruction that all its 32 threads must execute together, but some have
    /// ended, or the block has fewer.
    IncompleteWarp {
        /// The instruction, such as `mma.sync`.
        operation: &'static str,
        /// The lanes that take part.
        mask: u32,
    },
}

impl KernelErrorKind {
    /// Returns the number of the kind. Errors of one kind at the same lines are reported once.
    pub(super) fn number(&self) -> u8 {
        match self {
            Self::DivergentBarrier { .. } => 0,
            Self::SkippedBarrier => 1,
            Self::ThreadCounts { .. } => 2,
            Self::MixedOperations { .. } => 3,
            Self::ArrivedTwice { .. } => 4,
            Self::NotInMask { .. } => 5,
            Self::UninitialisedUse { .. } => 6,
            Self::VariableOverrun { .. } => 7,
            Self::IncompleteWarp { .. } => 8,
            Self::TwoBarriers => 9,
        }
    }
}
