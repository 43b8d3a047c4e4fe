//! What most tests of conformance use.

pub(crate) use std::{
    sync::{atomic::Ordering::SeqCst, mpsc},
    thread,
    time::Duration,
};

pub(crate) use libtest_mimic::Failed;
pub(crate) use millstream_driver::{
    DeviceAttribute, DevicePtr, DriverError, FillPattern, FunctionHandle, ResultCode, StreamHandle,
};

pub(crate) use crate::conformance::{
    device_harness::{DeviceHarness, Observation, check},
    gate::CallOutcome,
    harness::Host,
};
