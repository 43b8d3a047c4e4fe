//! What most scenarios use.

pub(crate) use std::{
    future::Future,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

pub(crate) use millstream::{
    Buffer, Device, Error, Graph, GraphRecorder, LaunchConfig, PeerStatus, Pending, Pinned, Ptx,
    ReadOperand, Rejected, Release, Result, Select, Stream, UsageErrorKind,
    driver::{Driver, DriverError, FillPattern, ResultCode},
    interop::{After, ForeignCall, write},
    sim::{Gpu, Link, Links, Schedule, SimConfig},
};
pub(crate) use millstream_testkit::{
    calls::Calls,
    configurations::{Sizes, on_gpu, schedules},
    harness::{
        CLOSED_WITHIN, Gate, Harness, Watch, assert_nothing_left, everywhere, everywhere_counted,
        everywhere_simulated, gate_kernel, once,
    },
    instrumented::open,
    outsiders::{BYTES, Drops, Outsider, adopted},
};

pub(crate) use crate::scenarios::{arrays::sums, child::in_process, shapes::problem};

/// Asserts that a value matches a pattern, and a condition of what the pattern binds.
macro_rules! assert_is {
    ($value:expr, $pattern:pat $(if $condition:expr)? $(,)?) => {
        match &$value {
            $pattern $(if $condition)? => {}
            other => panic!("not {}: {other:?}", stringify!($pattern $(if $condition)?)),
        }
    };
}
pub(crate) use assert_is;

/// Asserts that a call failed because its device is lost.
#[track_caller]
pub(crate) fn assert_lost<T: std::fmt::Debug>(result: Result<T>) {
    assert_is!(result, Err(Error::DeviceLost { .. }));
}

/// Runs a fallible scenario in every configuration.
pub(crate) fn scenario(run: impl Fn(&Harness) -> Result<()>) {
    everywhere(|harness| run(harness).unwrap());
}

/// As [`scenario`], with every driver call recorded.
pub(crate) fn counted_scenario(run: impl Fn(&Harness, &Calls) -> Result<()>) {
    everywhere_counted(|harness, calls| run(harness, calls).unwrap());
}

/// Returns an outsider, a stream adopted from it, and streams of ours.
pub(crate) fn with_outsider<const N: usize>(
    harness: &Harness,
) -> (Arc<Outsider>, Stream, [Stream; N]) {
    let outsider = Outsider::new(harness.if_simulated(), 0);
    let theirs = outsider.adopt(&harness.device);
    (outsider, theirs, harness.streams())
}

/// Reads arrays and waits for their values.
pub(crate) trait Values {
    fn values<T: bytemuck::Pod>(&self, source: impl ReadOperand<T>) -> Result<Vec<T>>;
}

impl Values for Stream {
    #[track_caller]
    fn values<T: bytemuck::Pod>(&self, source: impl ReadOperand<T>) -> Result<Vec<T>> {
        self.download(source)?.wait()
    }
}
