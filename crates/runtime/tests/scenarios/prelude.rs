//! Imports, assertions and runners that most scenarios share.

#![allow(unsafe_code, reason = "launches a kernel that faults")]

pub(crate) use std::{
    future::Future,
    mem,
    ops::Range,
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
    ReadOperand, Rejected, Release, Result, Select, Stream, UsageError, UsageErrorKind,
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
    outsiders::{Drops, Outsider, adopted},
};

pub(crate) use crate::scenarios::{
    arrays::sums,
    child::{in_process, run_alone},
};

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

/// The length of most arrays: enough for several thread blocks and pages.
pub(crate) const N: usize = 1500;

#[track_caller]
pub(crate) fn usage_error<T>(result: Result<T>) -> UsageError {
    match result {
        Err(Error::Usage(usage_error)) => usage_error,
        Err(other) => panic!("not a usage error: {other}"),
        Ok(_) => panic!("the call succeeded, although a usage error was expected"),
    }
}

#[track_caller]
pub(crate) fn problem<T>(result: Result<T>) -> UsageErrorKind {
    usage_error(result).problem().clone()
}

/// Returns the error of a call, and the source that it gives back.
#[track_caller]
pub(crate) fn rejected<T, S>(result: Result<T, Rejected<S>>) -> (Error, S) {
    match result {
        Err(Rejected { error, source, .. }) => (error, source),
        Ok(_) => panic!("the call succeeded, although it was to fail"),
    }
}

/// The usage error of a range beyond the end of an array.
pub(crate) fn out_of_range(range: Range<usize>, len: usize) -> UsageErrorKind {
    UsageErrorKind::Range { range, len }
}

/// The usage error of operands of different lengths.
pub(crate) fn unequal(source_len: usize, target_len: usize) -> UsageErrorKind {
    UsageErrorKind::Length {
        source_len,
        target_len,
    }
}

/// Runs two functions at once, in two threads.
pub(crate) fn both(
    first: impl FnOnce() -> Result<()> + Send,
    second: impl FnOnce() -> Result<()> + Send,
) -> Result<()> {
    thread::scope(|scope| {
        let (first, second) = (scope.spawn(first), scope.spawn(second));
        first.join().unwrap().and(second.join().unwrap())
    })
}

#[track_caller]
pub(crate) fn assert_says(message: &impl ToString, part: &str) {
    let message = message.to_string();
    assert!(message.contains(part), "`{part}` is not in: {message}");
}

/// Runs a fallible scenario in every configuration.
pub(crate) fn scenario(run: impl Fn(&Harness) -> Result<()>) {
    everywhere(|harness| run(harness).unwrap());
}

/// As [`scenario`], with every driver call recorded.
pub(crate) fn counted_scenario(run: impl Fn(&Harness, &Calls) -> Result<()>) {
    everywhere_counted(|harness, calls| run(harness, calls).unwrap());
}

/// Runs a fallible scenario in every configuration, on streams of its device.
pub(crate) fn scenario_on<const N: usize>(run: impl Fn(&Harness, [Stream; N]) -> Result<()>) {
    scenario(|harness| run(harness, harness.streams()));
}

/// As [`scenario_on`], with every driver call recorded.
pub(crate) fn counted_on<const N: usize>(
    run: impl Fn(&Harness, &Calls, [Stream; N]) -> Result<()>,
) {
    counted_scenario(|harness, calls| run(harness, calls, harness.streams()));
}

/// Returns an outsider, a stream adopted from it, and streams of ours.
pub(crate) fn with_outsider<const N: usize>(
    harness: &Harness,
) -> (Arc<Outsider>, Stream, [Stream; N]) {
    let outsider = Outsider::new(harness.if_simulated(), 0);
    let theirs = outsider.adopt(&harness.device);
    (outsider, theirs, harness.streams())
}

pub(crate) fn fill_lent(owner: &Outsider, theirs: &Stream, array: &mut Buffer<u8>, value: u8) {
    let lease = array.lend_mut(theirs).unwrap();
    owner.fill(lease.as_raw(), lease.len(), value);
}

/// Lends two arrays to the owner of a stream, which copies one to the other.
pub(crate) fn copy_lent(
    owner: &Outsider,
    theirs: &Stream,
    source: &Buffer<u8>,
    target: &mut Buffer<u8>,
) {
    let (source, target) = (
        source.lend(theirs).unwrap(),
        target.lend_mut(theirs).unwrap(),
    );
    owner.copy(source.as_raw(), target.as_raw(), target.len());
}

/// Enqueues a kernel that reads an unallocated address.
pub(crate) fn fault(stream: &Stream) {
    let kernels = gate_kernel::load(&stream.device()).unwrap();
    // SAFETY: violated on purpose; on the simulated device an unallocated address is only an error.
    unsafe { kernels.gate(stream, LaunchConfig::new([1, 1, 1], [1, 1, 1]), 64) }.unwrap();
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
