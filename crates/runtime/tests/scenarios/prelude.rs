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
    Rejected, Release, Result, Select, Stream, UsageErrorKind,
    driver::{Driver, DriverError, FillPattern, ResultCode},
    interop::{After, ForeignCall, write},
    sim::{Gpu, Link, Links, Schedule, SimConfig},
};
pub(crate) use millstream_testkit::{
    calls::Calls,
    configurations::{Sizes, on_gpu},
    harness::{
        CLOSED_WITHIN, Gate, Harness, Watch, assert_nothing_left, everywhere, everywhere_counted,
        everywhere_simulated, gate_kernel, once,
    },
    instrumented::open,
    outsiders::{BYTES, Drops, Outsider, adopted},
};

pub(crate) use crate::scenarios::{arrays::sums, child::in_process, shapes::problem};
