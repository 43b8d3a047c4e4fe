//! Rule 63: kernels of two streams may run at the same time, and a kernel may wait for what another
//! one or the host writes.

#![allow(unsafe_code, reason = "knows the signatures of its kernels")]

use std::ffi::c_void;

use millstream_sim::{Report, ReportKind};

use crate::conformance::prelude::*;

/// `wait` polls a flag, and stores the word behind it plus one; `set` stores 41 there, and then
/// sets the flag.
const POLLING: &str = include_str!("../rules/polling.ptx");

pub(crate) fn r63(dev: &DeviceHarness) -> Observation {
    let module = dev.module_load(POLLING.as_bytes())?;
    let (wait, set) = (
        dev.module_function(module, "wait")?,
        dev.module_function(module, "set")?,
    );
    dev.function_load(wait)?;
    dev.function_load(set)?;
    let (waiting, other) = (dev.stream()?, dev.stream()?);
    let (flag, result) = (dev.memory(8)?, dev.memory(8)?);
    let (host_flag, host_result) = (dev.pinned(8, 0)?, result.offset(4));
    let launch = |function, stream, flag: DevicePtr, result: DevicePtr| {
        let params: [*const c_void; 2] = [(&raw const flag).cast(), (&raw const result).cast()];
        // SAFETY: both kernels have two pointers as their arguments.
        unsafe { dev.launch(function, stream, &params) }
    };
    launch(wait, waiting, flag, result)?;
    launch(set, other, flag, result)?;
    check(
        dev.read(result, 4, waiting)? == [42, 0, 0, 0],
        "a kernel sees what another one writes",
    )?;
    launch(wait, waiting, host_flag.address(), host_result)?;
    check(dev.stays_pending(waiting)?, "a kernel waits for the host")?;
    // The datum first: the kernel reads it when it sees the flag.
    host_flag.write_byte(4, 6);
    host_flag.write_byte(0, 1);
    check(
        dev.read(host_result, 4, waiting)? == [7, 0, 0, 0],
        "a kernel sees what the host writes without a call",
    )?;
    let reports = dev.simulated().map_or(Vec::new(), |gpu| gpu.reports());
    let expected = |report: &Report| report.kind == ReportKind::ReliesOnConcurrency;
    if !reports.is_empty() && reports.iter().all(expected) {
        dev.does_wrong();
    }
    Ok("one that waits for another and one that waits for the host end".into())
}
