//! What most tests of NCCL use.

pub(super) use std::{sync::Arc, thread, time::Duration};

pub(super) use millstream_collective::nccl::{
    CommState, DataType, Loopback, Nccl, NcclCode, OperationType, UniqueId,
};
pub(super) use millstream_sim::Schedule;

pub(super) use super::rank::Rank;
