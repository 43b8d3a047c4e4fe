//! The commands that can be enqueued: each is a driver call or a few, and the sequence in which
//! they go.

#![allow(unsafe_code, reason = "makes the driver calls that enqueue work")]

use std::ffi::c_void;

use millstream_driver::{
    ContextHandle, DevicePtr, Driver, DriverError, EventHandle, FillPattern, FunctionHandle,
    HostFunction, LaunchDims, ManagedLocation, StreamHandle,
};
use smallvec::SmallVec;

/// The queue that a command goes to.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct DriverStream<'a> {
    /// The device's driver.
    pub driver: &'a dyn Driver,
    /// The device's context. It need not be current on this thread.
    pub context: ContextHandle,
    /// The stream, which belongs to the context.
    pub stream: StreamHandle,
}

/// Something that can be enqueued.
pub(crate) trait Command {
    /// What the driver answers.
    type Output;

    /// Makes the driver calls.
    ///
    /// # Safety
    ///
    /// The queue's context and stream are alive. What the command names is live and as large as it
    /// says until the command has run, and whatever else touches it is ordered with the command.
    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<Self::Output, DriverError>;
}

/// Allocates from the device's pool (rules 31 and 32).
pub(crate) struct Allocate {
    pub(crate) bytes: usize,
}

impl Command for Allocate {
    type Output = DevicePtr;

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<DevicePtr, DriverError> {
        // SAFETY: by this function's contract.
        unsafe {
            driver_stream.driver.mem_alloc_async(
                driver_stream.context,
                self.bytes,
                driver_stream.stream,
            )
        }
    }
}

/// Frees memory of the device's pool (rule 32).
pub(crate) struct Free {
    pub(crate) pointer: DevicePtr,
}

impl Command for Free {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        // SAFETY: by this function's contract.
        unsafe {
            driver_stream.driver.mem_free_async(
                driver_stream.context,
                self.pointer,
                driver_stream.stream,
            )
        }
    }
}

/// Copies page-locked host memory to the device (rule 7).
pub(crate) struct CopyToDevice {
    pub(crate) target: DevicePtr,
    pub(crate) source: *const u8,
    pub(crate) bytes: usize,
}

impl Command for CopyToDevice {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let Self {
            target,
            source,
            bytes,
        } = self;
        // SAFETY: by this function's contract.
        unsafe {
            driver_stream.driver.copy_host_to_device_async(
                driver_stream.context,
                target,
                source,
                bytes,
                driver_stream.stream,
            )
        }
    }
}

/// Copies device memory to page-locked host memory (rule 7).
pub(crate) struct CopyToHost {
    pub(crate) target: *mut u8,
    pub(crate) source: DevicePtr,
    pub(crate) bytes: usize,
}

impl Command for CopyToHost {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let Self {
            target,
            source,
            bytes,
        } = self;
        // SAFETY: by this function's contract.
        unsafe {
            driver_stream.driver.copy_device_to_host_async(
                driver_stream.context,
                target,
                source,
                bytes,
                driver_stream.stream,
            )
        }
    }
}

/// Copies within the device; the ranges do not overlap.
pub(crate) struct CopyOnDevice {
    pub(crate) target: DevicePtr,
    pub(crate) source: DevicePtr,
    pub(crate) bytes: usize,
}

impl Command for CopyOnDevice {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let Self {
            target,
            source,
            bytes,
        } = self;
        // SAFETY: by this function's contract.
        unsafe {
            driver_stream.driver.copy_device_to_device_async(
                driver_stream.context,
                target,
                source,
                bytes,
                driver_stream.stream,
            )
        }
    }
}

/// Copies host memory to the device by way of page-locked blocks, used in turn: for each chunk a
/// host function that sees to it that the chunk is in its block (rule 27), and a copy from there.
pub(crate) struct StagedUpload<F> {
    pub(crate) target: DevicePtr,
    pub(crate) blocks: SmallVec<[*const u8; 4]>,
    pub(crate) bytes: usize,
    pub(crate) chunk_bytes: usize,
    /// Makes the function for the chunk of this number. It is not called on a lost context (rule
    /// 28).
    pub(crate) capture: F,
}

impl<F: Fn(usize) -> HostFunction> Command for StagedUpload<F> {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let starts = (0..self.bytes).step_by(self.chunk_bytes);
        for ((number, start), block) in starts.enumerate().zip(self.blocks.iter().cycle()) {
            let bytes = self.chunk_bytes.min(self.bytes - start);
            let capture = (self.capture)(number);
            // SAFETY: by this function's contract.
            unsafe {
                driver_stream.driver.launch_host_function(
                    driver_stream.context,
                    driver_stream.stream,
                    capture,
                )
            }?;
            let copy = CopyToDevice {
                target: self.target.offset(start as u64),
                source: *block,
                bytes,
            };
            // SAFETY: by this function's contract. The block is filled anew only by a function
            // behind this copy (rule 27).
            unsafe { copy.enqueue(driver_stream) }?;
        }
        Ok(())
    }
}

/// A command behind an event of another device's (rule 26).
pub(crate) struct AfterEvent<C> {
    pub(crate) event: EventHandle,
    pub(crate) command: C,
}

impl<C: Command> Command for AfterEvent<C> {
    type Output = C::Output;

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<C::Output, DriverError> {
        // SAFETY: by this function's contract.
        unsafe {
            driver_stream.driver.stream_wait_event(
                driver_stream.context,
                driver_stream.stream,
                self.event,
            )
        }?;
        // SAFETY: by this function's contract.
        unsafe { self.command.enqueue(driver_stream) }
    }
}

/// Moves managed memory to where it will be used (rule 51).
pub(crate) struct Prefetch {
    pub(crate) pointer: DevicePtr,
    pub(crate) bytes: usize,
    pub(crate) location: ManagedLocation,
}

impl Command for Prefetch {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let Self {
            pointer,
            bytes,
            location,
        } = self;
        // SAFETY: by this function's contract.
        unsafe {
            driver_stream.driver.mem_prefetch_async(
                driver_stream.context,
                pointer,
                bytes,
                location,
                driver_stream.stream,
            )
        }
    }
}

/// Repeats an element that the driver has a fill for (rule 12).
pub(crate) struct Fill {
    pub(crate) target: DevicePtr,
    pub(crate) pattern: FillPattern,
    pub(crate) count: usize,
}

impl Command for Fill {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let Self {
            target,
            pattern,
            count,
        } = self;
        // SAFETY: by this function's contract.
        unsafe {
            driver_stream.driver.memset_async(
                driver_stream.context,
                target,
                pattern,
                count,
                driver_stream.stream,
            )
        }
    }
}

/// Repeats what the first `ready_bytes` bytes at `target` hold over `bytes` bytes from there on, by
/// copying what is there already: as much again, then twice as much, …
pub(crate) struct Repeat {
    pub(crate) target: DevicePtr,
    pub(crate) ready_bytes: usize,
    pub(crate) bytes: usize,
}

impl Command for Repeat {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let mut ready = self.ready_bytes;
        while ready < self.bytes {
            let bytes = ready.min(self.bytes - ready);
            let copy = CopyOnDevice {
                target: self.target.offset(ready as u64),
                source: self.target,
                bytes,
            };
            // SAFETY: by this function's contract; source and target do not overlap, for `bytes` is
            // at most `ready`, and the copies of one stream run one after the other (rule 16).
            unsafe { copy.enqueue(driver_stream) }?;
            ready += bytes;
        }
        Ok(())
    }
}

/// Launches a kernel (rule 13).
pub(crate) struct Launch<'a> {
    pub(crate) function: FunctionHandle,
    pub(crate) dims: &'a LaunchDims,
    pub(crate) params: &'a [*const c_void],
}

impl Command for Launch<'_> {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        // SAFETY: by this function's contract.
        unsafe {
            driver_stream.driver.launch_kernel(
                driver_stream.context,
                self.function,
                self.dims,
                driver_stream.stream,
                self.params,
            )
        }
    }
}

/// Calls of another library, which enqueues the work.
pub(crate) struct Foreign<F> {
    pub(crate) call: F,
}

impl<F: FnOnce(DriverStream<'_>) -> Result<(), DriverError>> Command for Foreign<F> {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        (self.call)(driver_stream)
    }
}
