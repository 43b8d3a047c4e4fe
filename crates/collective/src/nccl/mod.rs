//! NCCL, NVIDIA's library of collective operations, as a table of functions.
//!
//! [`Nccl`] has one method per function of NCCL that collective operations need, as [`Driver`] has
//! one per function of libcuda. [`load`] finds NVIDIA's library at run time; [`Loopback`] is a
//! stand-in for tests that exchanges the data over TCP on one machine and works with every
//! [`Driver`], the simulated device included.
//!
//! # States of a communicator
//!
//! A call of a non-blocking communicator may return before its work has been enqueued. It then
//! returns [`Progress::InProgress`], and [`Nccl::async_error`] reports [`CommState::InProgress`]
//! until the work is enqueued. Until that ends, the communicator accepts no other call, and an
//! event recorded on the stream does not capture the operation. A call of a blocking communicator
//! returns when its work is enqueued, which costs a quarter of the host's time, because NCCL starts
//! no thread for it; but no other thread may abort the communicator meanwhile.
//!
//! | state | entered by | left by |
//! |---|---|---|
//! | in progress | [`comm_init_rank`](Nccl::comm_init_rank), an operation, [`finalize`](Nccl::finalize) | itself |
//! | success | the end of the call in progress | the next call |
//! | failed | a rank that went away, an error of NCCL | [`abort`](Nccl::abort) only |
//!
//! The operations of a failed communicator that are on a stream never complete, until the
//! communicator is aborted.
//!
//! # Order
//!
//! All ranks make the same collective calls in the same order. NCCL detects neither a different
//! operation nor a different count: such ranks wait for each other until they are aborted.

#![allow(unsafe_code, reason = "declares unsafe methods; has no unsafe block")]

mod error;
mod library;
#[cfg(feature = "sim")]
pub mod loopback;
mod types;

use std::fmt;

pub use crate::element::{DataType, Reduce};
pub use error::{NcclCode, NcclError, NcclLoadError};
pub use library::{OLDEST_NCCL_VERSION, load};
#[cfg(feature = "sim")]
pub use loopback::Loopback;
pub use types::{CommHandle, CommState, Operation, OperationType, Progress, UniqueId};

#[cfg(doc)]
use millstream_driver::Driver;
use millstream_driver::{ContextHandle, StreamHandle};

type Result<T = Progress> = std::result::Result<T, NcclError>;

/// The functions of NCCL: NVIDIA's library or a stand-in.
///
/// Every method corresponds to the `nccl*` function that its documentation names. Methods may be
/// called from any thread, but a communicator is used by one thread at a time;
/// [`async_error`](Self::async_error) and [`abort`](Self::abort) may be called while another thread
/// waits in a call.
///
/// # Errors
///
/// Every fallible method returns an [`NcclError`] that names the call, with NCCL's text.
/// `ncclInProgress` is not an error but [`Progress::InProgress`].
///
/// ```
/// use millstream_collective::nccl::{self, Nccl};
///
/// match nccl::load() {
///     Ok(nccl) => println!("NCCL {}", nccl.version()),
///     Err(error) => println!("{error}"),
/// }
/// ```
pub trait Nccl: Send + Sync + fmt::Debug {
    /// Returns the library's version, 10000 × major + 100 × minor + patch (`ncclGetVersion`).
    fn version(&self) -> i32;

    /// Creates the identifier of a new communicator (`ncclGetUniqueId`). One rank calls this and
    /// sends the identifier to all others. The process that calls it serves the ranks while they
    /// connect, so it must live until all communicators are initialised.
    fn unique_id(&self) -> Result<UniqueId>;

    /// Begins to create the communicator of rank `rank` among `world_size` ranks
    /// (`ncclCommInitRankConfig`). It can be used when [`async_error`](Self::async_error) reports
    /// [`CommState::Success`], which needs all ranks: a non-blocking communicator's handle is
    /// returned at once, and one that `blocks`, if it is created within a group, is connected when
    /// [`group_end`](Self::group_end) returns. The communicator belongs to the device of `context`.
    ///
    /// # Safety
    ///
    /// `context` is alive until the communicator is destroyed or aborted, and is current on the
    /// calling thread if it is libcuda's.
    unsafe fn comm_init_rank(
        &self,
        context: ContextHandle,
        world_size: usize,
        id: &UniqueId,
        rank: usize,
        blocks: bool,
    ) -> Result<CommHandle>;

    /// Returns the state of the communicator (`ncclCommGetAsyncError`). Never blocks.
    ///
    /// # Safety
    ///
    /// `comm` is alive.
    unsafe fn async_error(&self, comm: CommHandle) -> Result<CommState>;

    /// Begins to end the use of a communicator (`ncclCommFinalize`). Its state becomes
    /// [`CommState::Success`] when the operations of all ranks are complete.
    ///
    /// # Safety
    ///
    /// `comm` is alive, and no operation is issued on it from now on.
    unsafe fn finalize(&self, comm: CommHandle) -> Result;

    /// Frees a communicator (`ncclCommDestroy`). Finalises it first if that has not been done, and
    /// may block until that is complete on all ranks.
    ///
    /// # Safety
    ///
    /// `comm` is alive and is not used again.
    unsafe fn destroy(&self, comm: CommHandle) -> Result<()>;

    /// Ends the operations of a communicator wherever they are, and frees it (`ncclCommAbort`).
    /// The contents of the arrays that these operations write are undefined. May block while the
    /// device leaves the operations.
    ///
    /// # Safety
    ///
    /// `comm` is alive, and is not used again when this returns. Another thread may still be in a
    /// call with it when this begins, unless the communicator blocks.
    unsafe fn abort(&self, comm: CommHandle) -> Result<()>;

    /// Returns NCCL's description of the last error of this thread or of the communicator
    /// (`ncclGetLastError`); empty if there was none.
    ///
    /// # Safety
    ///
    /// `comm` is alive.
    unsafe fn last_error(&self, comm: CommHandle) -> String;

    /// Begins a group on the calling thread (`ncclGroupStart`). The operations of a group are
    /// issued together by [`group_end`](Self::group_end). A thread that drives several ranks must
    /// issue each of their operations in one group, and so must one whose sends and receives depend
    /// on each other. Groups nest.
    fn group_start(&self) -> Result<()>;

    /// Ends the calling thread's innermost group, and issues the operations if it is the outermost
    /// (`ncclGroupEnd`).
    ///
    /// # Errors
    ///
    /// The failure of any operation of the group.
    ///
    /// # Safety
    ///
    /// The operands and streams of the group's operations still fulfil the contracts of the
    /// methods.
    unsafe fn group_end(&self) -> Result;

    /// Enqueues an operation on a stream, or adds it to the thread's group, by the function that
    /// its [type](OperationType) names.
    ///
    /// # Safety
    ///
    /// The arrays are in memory of the communicator's device: `send` is readable and `recv`
    /// writable as far as the operation's type says. The two are equal or do not overlap; in
    /// [`OperationType::ReduceScatter`] and [`OperationType::AllGather`] one may also be the rank's
    /// own part of the other. Work that accesses them is ordered with the operation on `stream`,
    /// which is alive and belongs to the communicator's context. `comm` is alive.
    unsafe fn enqueue(
        &self,
        operation: &Operation,
        comm: CommHandle,
        stream: StreamHandle,
    ) -> Result;
}
