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
pub struct Queue<'a> {
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
    unsafe fn enqueue(self, queue: Queue<'_>) -> Result<Self::Output, DriverError>;
}

/// Allocates from the device's pool (rules 31 and 32).
pub(crate) struct Allocate {
    pub(crate) bytes: usize,
}

impl Command for Allocate {
    type Output = DevicePtr;

    unsafe fn enqueue(self, queue: Queue<'_>) -> Result<DevicePtr, DriverError> {
        // SAFETY: by this function's contract.
        unsafe {
            queue
                .driver
                .mem_alloc_async(queue.context, self.bytes, queue.stream)
        }
    }
}

/// Frees memory of the device's pool (rule 32).
pub(crate) struct Free {
    pub(crate) pointer: DevicePtr,
}

impl Command for Free {
    type Output = ();

    unsafe fn enqueue(self, queue: Queue<'_>) -> Result<(), DriverError> {
        // SAFETY: by this function's contract.
        unsafe {
            queue
                .driver
                .mem_free_async(queue.context, self.pointer, queue.stream)
        }
    }
}

/// Copies page-locked host memory to the device (rule 7).
pub(crate) struct ToDevice {
    pub(crate) target: DevicePtr,
    pub(crate) source: *const u8,
    pub(crate) bytes: usize,
}

impl Command for ToDevice {
    type Output = ();

    unsafe fn enqueue(self, queue: Queue<'_>) -> Result<(), DriverError> {
        let Self {
            target,
            source,
            bytes,
        } = self;
        // SAFETY: by this function's contract.
        unsafe {
            queue.driver.copy_host_to_device_async(
                queue.context,
                target,
                source,
                bytes,
                queue.stream,
            )
        }
    }
}

/// Copies device memory to page-locked host memory (rule 7).
pub(crate) struct ToHost {
    pub(crate) target: *mut u8,
    pub(crate) source: DevicePtr,
    pub(crate) bytes: usize,
}

impl Command for ToHost {
    type Output = ();

    unsafe fn enqueue(self, queue: Queue<'_>) -> Result<(), DriverError> {
        let Self {
            target,
            source,
            bytes,
        } = self;
        // SAFETY: by this function's contract.
        unsafe {
            queue.driver.copy_device_to_host_async(
                queue.context,
                target,
                source,
                bytes,
                queue.stream,
            )
        }
    }
}

/// Copies within the device; the ranges do not overlap.
pub(crate) struct WithinDevice {
    pub(crate) target: DevicePtr,
    pub(crate) source: DevicePtr,
    pub(crate) bytes: usize,
}

impl Command for WithinDevice {
    type Output = ();

    unsafe fn enqueue(self, queue: Queue<'_>) -> Result<(), DriverError> {
        let Self {
            target,
            source,
            bytes,
        } = self;
        // SAFETY: by this function's contract.
        unsafe {
            queue.driver.copy_device_to_device_async(
                queue.context,
                target,
                source,
                bytes,
                queue.stream,
            )
        }
    }
}

/// Copies host memory to the device by way of page-locked blocks, used in turn: for each piece a
/// host function that sees to it that the piece is in its block (rule 27), and a copy from there.
pub(crate) struct StagedUpload<F> {
    pub(crate) target: DevicePtr,
    pub(crate) blocks: SmallVec<[*const u8; 4]>,
    pub(crate) bytes: usize,
    pub(crate) piece_bytes: usize,
    /// Makes the function for the piece of this number. It is not called on a lost context (rule
    /// 28).
    pub(crate) capture: F,
}

impl<F: Fn(usize) -> HostFunction> Command for StagedUpload<F> {
    type Output = ();

    unsafe fn enqueue(self, queue: Queue<'_>) -> Result<(), DriverError> {
        let starts = (0..self.bytes).step_by(self.piece_bytes);
        for ((number, start), block) in starts.enumerate().zip(self.blocks.iter().cycle()) {
            let bytes = self.piece_bytes.min(self.bytes - start);
            let capture = (self.capture)(number);
            // SAFETY: by this function's contract.
            unsafe {
                queue
                    .driver
                    .launch_host_function(queue.context, queue.stream, capture)
            }?;
            let copy = ToDevice {
                target: self.target.offset(start as u64),
                source: *block,
                bytes,
            };
            // SAFETY: by this function's contract. The block is filled anew only by a function
            // behind this copy (rule 27).
            unsafe { copy.enqueue(queue) }?;
        }
        Ok(())
    }
}

/// A command behind an event of another device's (rule 26).
pub(crate) struct Behind<C> {
    pub(crate) event: EventHandle,
    pub(crate) command: C,
}

impl<C: Command> Command for Behind<C> {
    type Output = C::Output;

    unsafe fn enqueue(self, queue: Queue<'_>) -> Result<C::Output, DriverError> {
        // SAFETY: by this function's contract.
        unsafe {
            queue
                .driver
                .stream_wait_event(queue.context, queue.stream, self.event)
        }?;
        // SAFETY: by this function's contract.
        unsafe { self.command.enqueue(queue) }
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

    unsafe fn enqueue(self, queue: Queue<'_>) -> Result<(), DriverError> {
        let Self {
            pointer,
            bytes,
            location,
        } = self;
        // SAFETY: by this function's contract.
        unsafe {
            queue
                .driver
                .mem_prefetch_async(queue.context, pointer, bytes, location, queue.stream)
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

    unsafe fn enqueue(self, queue: Queue<'_>) -> Result<(), DriverError> {
        let Self {
            target,
            pattern,
            count,
        } = self;
        // SAFETY: by this function's contract.
        unsafe {
            queue
                .driver
                .memset_async(queue.context, target, pattern, count, queue.stream)
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

    unsafe fn enqueue(self, queue: Queue<'_>) -> Result<(), DriverError> {
        let mut ready = self.ready_bytes;
        while ready < self.bytes {
            let bytes = ready.min(self.bytes - ready);
            let copy = WithinDevice {
                target: self.target.offset(ready as u64),
                source: self.target,
                bytes,
            };
            // SAFETY: by this function's contract; source and target do not overlap, for `bytes` is
            // at most `ready`, and the copies of one stream run one after the other (rule 16).
            unsafe { copy.enqueue(queue) }?;
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

    unsafe fn enqueue(self, queue: Queue<'_>) -> Result<(), DriverError> {
        // SAFETY: by this function's contract.
        unsafe {
            queue.driver.launch_kernel(
                queue.context,
                self.function,
                self.dims,
                queue.stream,
                self.params,
            )
        }
    }
}

/// Calls of another library, which enqueues the work.
pub(crate) struct Foreign<F> {
    pub(crate) call: F,
}

impl<F: FnOnce(Queue<'_>) -> Result<(), DriverError>> Command for Foreign<F> {
    type Output = ();

    unsafe fn enqueue(self, queue: Queue<'_>) -> Result<(), DriverError> {
        (self.call)(queue)
    }
}
