//! The interface of policies: when they are asked, and what they see.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

use millstream_driver::StreamHandle;

use super::choice_log::{ChoiceLog, ReplayStatus};
use crate::{
    CostModel,
    core::{
        objects::{device::Device, stream::Stream},
        op::StreamOp,
    },
    ids::OpId,
};

/// The number of consecutive idle queries after which one operation runs, so that a polling host
/// makes progress.
const IDLE_QUERIES_MAX: u32 = 3;

/// A point at which the host lets operations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedulePoint {
    /// At the end of a call.
    AfterCall,
    /// A query of a wait set.
    Query,
    /// A pause of the host.
    Pause,
    /// A wait for a wait set; an operation that the wait needs must run if one is eligible.
    Wait,
}

pub(crate) trait Policy: Debug + Send {
    /// Begins a schedule point. `awaited` holds the unfinished operations that the host queries or
    /// waits for.
    fn begin(&mut self, _point: SchedulePoint, _awaited: &[OpId], _view: &View<'_>) {}

    /// Picks the next operation. At least one is eligible. `None` lets the host go on.
    fn pick(&mut self, point: SchedulePoint, awaited: &[OpId], view: &View<'_>) -> Option<OpId>;

    /// Returns the waiting kernels, one bit each, that a replay lets see a write of the host now.
    /// `None` lets all of them.
    fn host_writes(&mut self) -> Option<u32> {
        None
    }

    /// Returns whether an operation is complete only once the virtual clock has passed its finish.
    fn goes_by_clock(&self) -> bool {
        false
    }

    /// Returns the state of a replay, given the choices so far.
    fn replay_status(&self, _choice_log: &ChoiceLog) -> ReplayStatus {
        ReplayStatus::NotAsked
    }
}

/// The part of the simulator state that policies decide by.
pub(crate) struct View<'a> {
    /// The name of the driver function in progress.
    pub(crate) call: &'static str,
    pub(crate) now_ns: u64,
    pub(crate) eligible: &'a BTreeSet<OpId>,
    /// Whether kernels wait for a write by an operation that nothing names.
    pub(crate) some_wait: bool,
    pub(crate) ops: &'a BTreeMap<OpId, StreamOp>,
    pub(crate) streams: &'a BTreeMap<StreamHandle, Stream>,
    pub(crate) devices: &'a [Device],
    pub(crate) cost: &'a CostModel,
    pub(crate) choice_log: &'a ChoiceLog,
}

/// The count of consecutive queries without progress, for policies that run operations late.
#[derive(Debug, Default)]
pub(super) struct IdleQueries(u32);

impl IdleQueries {
    /// Returns whether an operation must run at `point` for the host to make progress: at a pause
    /// and a wait, and at a query of `awaited` after [`IDLE_QUERIES_MAX`] idle ones.
    pub(super) fn force_progress(&mut self, point: SchedulePoint, awaited: &[OpId]) -> bool {
        match point {
            SchedulePoint::AfterCall => false,
            SchedulePoint::Pause | SchedulePoint::Wait => true,
            SchedulePoint::Query => {
                let idle = if awaited.is_empty() { 0 } else { self.0 + 1 };
                let forced = idle > IDLE_QUERIES_MAX;
                self.0 = if forced { 0 } else { idle };
                forced
            }
        }
    }
}
