//! Argument types of NCCL's functions.

use std::fmt;

use millstream_driver::DevicePtr;

use super::NcclCode;
use crate::{Reduce, element::DataType};

/// The identifier of a communicator, which all its ranks share (`ncclUniqueId`).
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct UniqueId([u8; Self::BYTES]);

impl UniqueId {
    /// The size of an identifier in bytes.
    pub const BYTES: usize = 128;

    /// Wraps the bytes of an identifier that another rank created.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes to send to the other ranks.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UniqueId(")?;
        for byte in &self.0[..16] {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("…)")
    }
}

/// A communicator: one rank's end of the connections to all ranks (`ncclComm_t`).
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommHandle(usize);

impl CommHandle {
    /// Wraps NCCL's number. The handle is valid only with the [`Nccl`](super::Nccl) that issued it.
    #[must_use]
    pub const fn from_raw(raw: usize) -> Self {
        Self(raw)
    }

    /// Returns NCCL's number, for calls to other libraries.
    #[must_use]
    pub const fn as_raw(self) -> usize {
        self.0
    }
}

impl fmt::Debug for CommHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommHandle({:#x})", self.0)
    }
}

/// The state of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommState {
    /// Ready for the next call.
    Success,
    /// A call is not complete yet.
    InProgress,
    /// The communicator is unusable and must be aborted.
    Failed(NcclCode),
}

/// The progress that a call had made when it returned.
#[must_use = "work in progress is not on its stream yet"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The call is complete: operations are on their streams (`ncclSuccess`).
    Done,
    /// The call continues in the background (`ncclInProgress`): the state of its communicators is
    /// [`CommState::InProgress`] until it is complete.
    InProgress,
}

/// An operation of one rank.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The type.
    pub kind: OperationType,
    /// The array that is read. Unused if the rank has none.
    pub send: DevicePtr,
    /// The array that is written. Unused if the rank has none.
    pub recv: DevicePtr,
    /// The number of elements that the type names.
    pub count: usize,
    /// The type of the elements.
    pub data_type: DataType,
}

/// The type of an operation, with the rank that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationType {
    /// Combines `count` elements of all ranks and gives every rank the result.
    AllReduce(Reduce),
    /// Combines the elements of all ranks, `count` for each rank, and gives each rank its part.
    ReduceScatter(Reduce),
    /// Gives every rank the `count` elements of each rank, in the order of the ranks.
    AllGather,
    /// Gives every rank the `count` elements of the root, the only rank that reads.
    Broadcast {
        /// The rank that has the elements.
        root: usize,
    },
    /// Combines `count` elements of all ranks and gives the root the result.
    Reduce {
        /// The function that combines them.
        op: Reduce,
        /// The only rank that writes.
        root: usize,
    },
    /// Sends `count` elements to a rank, which receives as many.
    Send {
        /// The rank that receives.
        peer: usize,
    },
    /// Receives `count` elements of a rank, which sends as many.
    Recv {
        /// The rank that sends.
        peer: usize,
    },
}

impl OperationType {
    /// Returns the name of NCCL's function.
    #[must_use]
    pub const fn function(self) -> &'static str {
        match self {
            Self::AllReduce(_) => "ncclAllReduce",
            Self::ReduceScatter(_) => "ncclReduceScatter",
            Self::AllGather => "ncclAllGather",
            Self::Broadcast { .. } => "ncclBroadcast",
            Self::Reduce { .. } => "ncclReduce",
            Self::Send { .. } => "ncclSend",
            Self::Recv { .. } => "ncclRecv",
        }
    }
}
