//! The trait [`Driver`], with one method per driver function, and its argument types.

#![allow(unsafe_code, reason = "declares unsafe methods; has no unsafe block")]

use std::{fmt, time::Duration};

use crate::*;

type Result<T> = std::result::Result<T, DriverError>;

/// The minimum alignment of memory that a [`Driver`] allocates, in bytes: device, managed and
/// page-locked memory alike. CUDA guarantees it for every address that one of its memory allocation
/// routines returns.
///
/// Page-locked and managed memory usually begins at a page boundary, but no driver guarantees that.
///
/// ```
/// assert!(millstream_driver::ALLOCATION_ALIGNMENT >= align_of::<u128>());
/// ```
pub const ALLOCATION_ALIGNMENT: usize = 256;

/// The result of querying a stream or an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// All the queried work has finished.
    Complete,
    /// Some of the queried work is still running or waiting.
    Pending,
}

impl Completion {
    /// Returns whether this is [`Completion::Complete`].
    #[must_use]
    pub fn is_complete(self) -> bool {
        self == Self::Complete
    }
}

/// The purpose of an event, which decides whether it records time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// An event for ordering and completion (`CU_EVENT_DISABLE_TIMING`), the cheaper kind.
    Ordering,
    /// An event that also records a time stamp, for [`Driver::event_elapsed_ms`].
    Timing,
    /// An event for ordering that a capture refuses (`CU_EVENT_INTERPROCESS` and
    /// `CU_EVENT_DISABLE_TIMING`): a record on a capturing stream is
    /// [`ResultCode::STREAM_CAPTURE_UNSUPPORTED`](crate::ResultCode::STREAM_CAPTURE_UNSUPPORTED),
    /// changes nothing, and leaves the capture valid. A record may wait, on the device, for the
    /// event's earlier record.
    Interprocess,
}

/// The range of stream priorities of a device; lower numbers run first
/// (`cuCtxGetStreamPriorityRange`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityRange {
    /// The number of the lowest priority, usually 0.
    pub least: i32,
    /// The number of the highest priority, usually negative.
    pub greatest: i32,
}

/// Memory statistics of a pool of the stream-ordered allocator, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    /// Memory that is allocated and not yet freed.
    pub used_bytes: u64,
    /// The peak of `used_bytes`.
    pub used_peak_bytes: u64,
    /// Memory that the pool has reserved from the system, allocated or not.
    pub reserved_bytes: u64,
    /// The peak of `reserved_bytes`.
    pub reserved_peak_bytes: u64,
}

/// A host function that runs in stream order. It must not call the driver (rule 27).
pub type HostFunction = Box<dyn FnOnce() + Send>;

/// Declares one method of the table. An optional one is not supported unless it is implemented.
macro_rules! method {
    ([safe] $(#[$doc:meta])*
     $name:ident($($arg:ident: $type:ty),*) -> $value:ty = $call:ident) => {
        $(#[$doc])*
        fn $name(&self, $($arg: $type),*) -> Result<$value>;
    };
    ([unsafe] $(#[$doc:meta])*
     $name:ident($($arg:ident: $type:ty),*) -> $value:ty = $call:ident) => {
        $(#[$doc])*
        unsafe fn $name(&self, $($arg: $type),*) -> Result<$value>;
    };
    ([safe optional] $(#[$doc:meta])*
     $name:ident($($arg:ident: $type:ty),*) -> $value:ty = $call:ident) => {
        $(#[$doc])*
        fn $name(&self, $($arg: $type),*) -> Result<$value> {
            $(let _ = $arg;)*
            Err(DriverError::new(stringify!($call), ResultCode::NOT_SUPPORTED))
        }
    };
    ([unsafe optional] $(#[$doc:meta])*
     $name:ident($($arg:ident: $type:ty),*) -> $value:ty = $call:ident) => {
        $(#[$doc])*
        unsafe fn $name(&self, $($arg: $type),*) -> Result<$value> {
            $(let _ = $arg;)*
            Err(DriverError::new(stringify!($call), ResultCode::NOT_SUPPORTED))
        }
    };
}

/// Declares the methods of the table.
macro_rules! declare {
    ($($(#[$doc:meta])* [$safety:ident $class:ident $(($stream:ident))? $($optional:ident)?]
       fn $name:ident($($arg:ident: $type:ty),*) -> $value:ty = $function:ident $call:tt;)*) => {
        $(method! {
            [$safety $($optional)?] $(#[$doc])* $name($($arg: $type),*) -> $value = $function
        })*
    };
}

/// A GPU driver: libcuda or the simulated one.
///
/// Every method corresponds to the `cu*` function that its documentation names and has that
/// function's behaviour. Methods take the context that the function needs current as an argument,
/// and the implementation makes it current. Handles must come from the same driver. Any method may
/// be called from any thread at any time unless its documentation says otherwise.
///
/// # Errors
///
/// Every fallible method returns a [`DriverError`] that names the call. Because work is
/// asynchronous, any call may also return the failure of earlier work. A failure for which
/// [`ResultCode::is_sticky`](crate::ResultCode::is_sticky) holds means that the context is lost.
pub trait Driver: Send + Sync + fmt::Debug {
    /// Returns the driver's display name: `libcuda 13.0`, `the simulator`.
    fn name(&self) -> String;

    /// Returns a number that identifies this driver while it lives. Two references with the same
    /// number refer to the same driver.
    fn identity(&self) -> usize {
        std::ptr::from_ref(self).cast::<()>().addr()
    }

    /// Returns a number that identifies the set of handles this driver understands. A driver that
    /// wraps another returns the wrapped driver's number.
    fn handle_space(&self) -> usize {
        self.identity()
    }

    /// Returns whether the device is simulated.
    fn is_simulated(&self) -> bool;

    /// Returns the time on the host's clock in nanoseconds since a fixed point. With a simulated
    /// device this is virtual time.
    fn now_ns(&self) -> u64;

    /// Puts the calling thread to sleep for about `duration` on the clock of
    /// [`now_ns`](Self::now_ns). May return early.
    fn pause(&self, duration: Duration);

    /// Returns the stream's number in this driver's reports, counted from 1 in the order in which
    /// the streams of its device were created. `None` for default streams, and from drivers without
    /// reports.
    fn stream_number(&self, _stream: StreamHandle) -> Option<u64> {
        None
    }

    /// Records the beginning or the end of an access by the host, through its own loads and stores,
    /// to memory that a device may also use. The caller calls it once before the access and once
    /// after it. libcuda ignores it; the simulated driver checks the access for races.
    fn note_host_access(&self, _access: &HostAccess) {}

    /// Records that the caller reuses an allocation for new contents without freeing it. For all
    /// work enqueued later the contents are undefined, as after a new allocation. libcuda ignores
    /// it; the simulated driver then reports reads of the old contents.
    fn note_memory_reuse(&self, _reuse: &MemoryReuse) {}

    /// Declares which parameters of a kernel are arrays of floating-point numbers. libcuda ignores
    /// it; the simulated driver compares the declaration with the kernel's accesses.
    fn note_float_operands(&self, _function: FunctionHandle, _operands: &[FloatOperand]) {}

    driver_methods!(declare);
}
