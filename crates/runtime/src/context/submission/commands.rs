//! Commands: the driver calls of each kind of operation.

#![allow(unsafe_code, reason = "makes the driver calls that enqueue work")]

use std::ffi::c_void;

use millstream_driver::{
    ContextHandle, Copy2d, Copy3d, DevicePtr, Driver, DriverError, FillPattern, FunctionHandle,
    GraphNode, HostFunction, KernelNode, LaunchAttributes, LaunchDims, ManagedLocation, PeerCopy,
    Side2d, StreamHandle,
};
use smallvec::SmallVec;

use crate::context::recording::{DOWNLOAD, HOST_MEMORY, NodeSink, NotRecorded};

/// The driver's handles of the stream to which a command is enqueued.
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

impl<'a> DriverStream<'a> {
    #[inline(always)]
    pub(crate) fn parts(self) -> (&'a dyn Driver, ContextHandle, StreamHandle) {
        (self.driver, self.context, self.stream)
    }
}

/// A command that can be enqueued on a stream.
pub(crate) trait Command {
    /// Whether other streams may wait for the operation's own work, so that a sync point behind it
    /// is of use.
    const HAS_WORK: bool = true;

    /// Whether a sync point is recorded behind the operation in any case.
    const ALWAYS_RECORDS: bool = false;

    /// The result of the driver calls.
    type Output;

    /// Makes the driver calls.
    ///
    /// # Safety
    ///
    /// The context and the stream are alive. The memory that the command names is allocated and as
    /// large as the command says until the command has run, and every other access to it is ordered
    /// with the command.
    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<Self::Output, DriverError>;

    /// Passes the nodes that stand for the command in a graph to the sink, each behind the one
    /// before. `driver_stream` is the recording stream, which has no work.
    ///
    /// # Errors
    ///
    /// If a graph cannot contain the command.
    fn record(
        self,
        _driver_stream: DriverStream<'_>,
        _sink: &mut dyn NodeSink,
    ) -> Result<Self::Output, NotRecorded>
    where
        Self: Sized,
    {
        Err(NotRecorded::Refused(
            "a graph has no such operation: enqueue it on another stream, before or behind the \
             replay",
        ))
    }
}

fn copy_node(target: DevicePtr, source: DevicePtr, bytes: usize) -> GraphNode<'static> {
    GraphNode::Copy(Copy2d {
        source: Side2d::device(source, bytes),
        target: Side2d::device(target, bytes),
        width_bytes: bytes,
        height: 1,
    })
}

/// Implements a command that is one call of the driver: its fields are the call's arguments between
/// the context and the stream.
macro_rules! driver_call {
    ($command:ident $(<$life:lifetime>)? = $call:ident($($field:ident),*) -> $output:ty
     { $($items:tt)* }) => {
        impl $(<$life>)? Command for $command $(<$life>)? {
            $($items)*

            type Output = $output;

            unsafe fn enqueue(
                self,
                driver_stream: DriverStream<'_>,
            ) -> Result<$output, DriverError> {
                let (driver, context, stream) = driver_stream.parts();
                // SAFETY: by this function's contract.
                unsafe { driver.$call(context, $(self.$field,)* stream) }
            }
        }
    };
}

/// An allocation from the device's pool (rules 31 and 32: it is placed on the stream's device, and
/// other streams must be ordered after it).
pub(crate) struct Allocate {
    pub(crate) bytes: usize,
}

driver_call! { Allocate = mem_alloc_async(bytes) -> DevicePtr {
    // The first operation on the memory follows on the same stream.
    const HAS_WORK: bool = false;
} }

/// A stream-ordered free of pool memory (rule 32: the free must be ordered after every use).
pub(crate) struct Free {
    pub(crate) pointer: DevicePtr,
}

driver_call! { Free = mem_free_async(pointer) -> () {} }

/// A copy of page-locked host memory to the device (rule 7: asynchronous; the host memory is read
/// when the copy runs).
pub(crate) struct CopyToDevice {
    pub(crate) target: DevicePtr,
    pub(crate) source: *const u8,
    pub(crate) bytes: usize,
}

driver_call! { CopyToDevice = copy_host_to_device_async(target, source, bytes) -> () {
    fn record(self, _: DriverStream<'_>, _: &mut dyn NodeSink) -> Result<(), NotRecorded> {
        Err(NotRecorded::Refused(HOST_MEMORY))
    }
} }

/// A copy of device memory to page-locked host memory (rule 7).
pub(crate) struct CopyToHost {
    pub(crate) target: *mut u8,
    pub(crate) source: DevicePtr,
    pub(crate) bytes: usize,
}

driver_call! { CopyToHost = copy_device_to_host_async(target, source, bytes) -> () {
    fn record(self, _: DriverStream<'_>, _: &mut dyn NodeSink) -> Result<(), NotRecorded> {
        Err(NotRecorded::Refused(DOWNLOAD))
    }
} }

/// A copy between the memory of two devices, or of one.
pub(crate) struct CopyPeer(pub(crate) PeerCopy);

impl Command for CopyPeer {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let (driver, context, stream) = driver_stream.parts();
        // SAFETY: by this function's contract.
        unsafe { driver.copy_peer_async(context, &self.0, stream) }
    }
}

/// A copy between an array and linear memory.
pub(crate) struct CopyBox<'a> {
    pub(crate) copy: &'a Copy3d,
}

driver_call! { CopyBox<'a> = copy_3d_async(copy) -> () {} }

/// A copy within the device. The ranges do not overlap.
pub(crate) struct CopyOnDevice {
    pub(crate) target: DevicePtr,
    pub(crate) source: DevicePtr,
    pub(crate) bytes: usize,
}

driver_call! { CopyOnDevice = copy_device_to_device_async(target, source, bytes) -> () {
    fn record(self, _: DriverStream<'_>, sink: &mut dyn NodeSink) -> Result<(), NotRecorded> {
        sink.add(&copy_node(self.target, self.source, self.bytes));
        Ok(())
    }
} }

/// An upload through page-locked blocks, used in turn. For each chunk it enqueues a host function,
/// which makes sure that the chunk is in its block (rule 27: host functions run in stream order),
/// and a copy from there.
pub(crate) struct StagedUpload<F> {
    pub(crate) target: DevicePtr,
    pub(crate) blocks: SmallVec<[*const u8; 4]>,
    pub(crate) bytes: usize,
    pub(crate) chunk_bytes: usize,
    /// Creates the host function for the chunk with this number. On a lost context the host
    /// function is never called (rule 28).
    pub(crate) capture: F,
}

impl<F: Fn(usize) -> HostFunction> Command for StagedUpload<F> {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let starts = (0..self.bytes).step_by(self.chunk_bytes);
        for ((number, start), block) in starts.enumerate().zip(self.blocks.iter().cycle()) {
            let bytes = self.chunk_bytes.min(self.bytes - start);
            let capture = (self.capture)(number);
            let (driver, context, stream) = driver_stream.parts();
            // SAFETY: by this function's contract.
            unsafe { driver.launch_host_function(context, stream, capture) }?;
            let copy = CopyToDevice {
                target: self.target.offset(start as u64),
                source: *block,
                bytes,
            };
            // SAFETY: by this function's contract. The block is refilled only by a host function
            // behind this copy (rule 27).
            unsafe { copy.enqueue(driver_stream) }?;
        }
        Ok(())
    }
}

/// A prefetch of managed memory to a location (rule 51: an operation of its stream that changes no
/// value).
pub(crate) struct Prefetch {
    pub(crate) pointer: DevicePtr,
    pub(crate) bytes: usize,
    pub(crate) location: ManagedLocation,
}

driver_call! { Prefetch = mem_prefetch_async(pointer, bytes, location) -> () {} }

/// A fill with an element whose size the driver supports (rule 12: asynchronous for device memory).
pub(crate) struct Fill {
    pub(crate) target: DevicePtr,
    pub(crate) pattern: FillPattern,
    pub(crate) count: usize,
}

driver_call! { Fill = memset_async(target, pattern, count) -> () {
    fn record(self, _: DriverStream<'_>, sink: &mut dyn NodeSink) -> Result<(), NotRecorded> {
        let Self {
            target,
            pattern,
            count,
        } = self;
        sink.add(&GraphNode::Fill {
            target,
            pattern,
            count,
        });
        Ok(())
    }
} }

/// A kernel launch (rule 13: asynchronous).
pub(crate) struct Launch<'a> {
    pub(crate) function: FunctionHandle,
    pub(crate) dims: &'a LaunchDims,
    pub(crate) attributes: Option<&'a LaunchAttributes>,
    pub(crate) params: &'a [*const c_void],
}

impl Command for Launch<'_> {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        if let Some(attributes) = self.attributes {
            // SAFETY: by this function's contract.
            return unsafe {
                driver_stream.driver.launch_kernel_with(
                    driver_stream.context,
                    self.function,
                    self.dims,
                    attributes,
                    driver_stream.stream,
                    self.params,
                )
            };
        }
        let (driver, context, stream) = driver_stream.parts();
        // SAFETY: by this function's contract.
        unsafe { driver.launch_kernel(context, self.function, self.dims, stream, self.params) }
    }

    fn record(self, _: DriverStream<'_>, sink: &mut dyn NodeSink) -> Result<(), NotRecorded> {
        sink.add(&GraphNode::Kernel(KernelNode {
            function: self.function,
            dims: *self.dims,
            attributes: self.attributes.copied().unwrap_or_default(),
            params: self.params,
        }));
        Ok(())
    }
}

/// No work: an operation that only takes a place in the order. Its caller records a sync point
/// behind it where one is needed.
pub(crate) struct Marker;

impl Command for Marker {
    const HAS_WORK: bool = false;

    type Output = ();

    unsafe fn enqueue(self, _: DriverStream<'_>) -> Result<(), DriverError> {
        Ok(())
    }
}

/// A marker behind work that another library has enqueued, with a sync point behind it.
pub(crate) struct EndOfForeignWork;

impl Command for EndOfForeignWork {
    const HAS_WORK: bool = false;

    const ALWAYS_RECORDS: bool = true;

    type Output = ();

    unsafe fn enqueue(self, _: DriverStream<'_>) -> Result<(), DriverError> {
        Ok(())
    }
}
