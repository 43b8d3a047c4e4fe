//! Argument types of NCCL's functions.

use std::fmt;

use super::NcclCode;

/// The identifier of a communicator, which all its ranks share (`ncclUniqueId`).
///
/// ```
/// use millstream_collective::nccl::UniqueId;
/// let id = UniqueId::from_bytes([7; UniqueId::BYTES]);
/// assert_eq!(id.as_bytes()[0], 7);
/// ```
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
///
/// ```
/// assert_eq!(millstream_collective::nccl::CommHandle::from_raw(7).as_raw(), 7);
/// ```
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
///
/// ```
/// use millstream_collective::nccl::{CommState, NcclCode};
/// assert_ne!(CommState::Success, CommState::Failed(NcclCode::REMOTE_ERROR));
/// ```
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
///
/// ```
/// use millstream_collective::nccl::Progress;
/// assert_ne!(Progress::Done, Progress::InProgress);
/// ```
#[must_use = "work in progress is not on its stream yet"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The call is complete: operations are on their streams (`ncclSuccess`).
    Done,
    /// The call continues in the background (`ncclInProgress`): the state of its communicators is
    /// [`CommState::InProgress`] until it is complete.
    InProgress,
}

/// The type of the elements of an operation (`ncclDataType_t`).
///
/// ```
/// assert_eq!(millstream_collective::nccl::DataType::Bf16.size(), 2);
/// ```
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DataType {
    /// 8-bit signed integers.
    I8 = 0,
    /// 8-bit unsigned integers.
    U8 = 1,
    /// 32-bit signed integers.
    I32 = 2,
    /// 32-bit unsigned integers.
    U32 = 3,
    /// 64-bit signed integers.
    I64 = 4,
    /// 64-bit unsigned integers.
    U64 = 5,
    /// 16-bit floating-point numbers of IEEE 754.
    F16 = 6,
    /// Single precision.
    F32 = 7,
    /// Double precision.
    F64 = 8,
    /// The upper halves of single-precision numbers.
    Bf16 = 9,
}

impl DataType {
    /// Returns the size of an element in bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// The function that combines the elements of all ranks (`ncclRedOp_t`).
///
/// ```
/// assert_eq!(millstream_collective::nccl::ReduceOp::Sum as i32, 0);
/// ```
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReduceOp {
    /// The sum; of integers modulo their range.
    Sum = 0,
    /// The product; of integers modulo their range.
    Prod = 1,
    /// The maximum.
    Max = 2,
    /// The minimum.
    Min = 3,
    /// The sum divided by the number of ranks; of integers rounded towards zero.
    Avg = 4,
}
