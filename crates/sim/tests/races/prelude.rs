//! What most tests of races use.

pub(crate) use std::collections::BTreeSet;

pub(crate) use millstream_driver::{DevicePtr, Driver, StreamHandle};
pub(crate) use millstream_sim::{ReportKind, Schedule, Severity, SimConfig, race::Label};

pub(crate) use crate::races::{
    expect::{clean, clean_with, expect, expect_with},
    kernels::{BYTES, launch, zeros},
    sim_harness::{Arg, Host, SimHarness},
};
