//! What most tests of the rules use.

pub(crate) use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

pub(crate) use millstream_driver::{
    Copy2d, DeviceAttribute, DeviceOrdinal, DevicePtr, Driver, EventHandle, FillPattern,
    FunctionHandle, ResultCode, Side2d, StreamHandle,
};
pub(crate) use millstream_sim::{
    Fault, Gpu, Link, Links, LiveKind, Reading, ReportKind, Rules, Schedule, SimConfig,
};

pub(crate) use crate::rules::{
    graph_harness::{Kernels, destroy, kernel, word, words},
    harness::graphs::fill,
    kernels::SET,
    sim_harness::{
        Arg, DEVICE, Fails, Host, SimHarness, assert_contains, by_default, each_schedule,
        each_schedule_and_reading, each_schedule_and_stream, each_schedule_with, with_stream,
    },
};
