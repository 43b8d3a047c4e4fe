//! Handles: plain numbers that name a driver's objects. Copying one copies no object, and nothing is freed by dropping one.

use std::fmt;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident($raw:ty)) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($raw);

        impl $name {
            /// Wraps the driver's own number. The handle means something only to the driver that gave the number.
            #[must_use]
            pub const fn from_raw(raw: $raw) -> Self {
                Self(raw)
            }

            /// The driver's own number, for calls to other libraries.
            #[must_use]
            pub const fn as_raw(self) -> $raw {
                self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    };
}

handle! {
    /// A device by its position in the driver's list, from 0 (`CUdevice`).
    ///
    /// ```
    /// assert_eq!(millstream_driver::DeviceOrdinal::from_raw(1).as_raw(), 1);
    /// ```
    DeviceOrdinal(i32)
}
handle! {
    /// A context (`CUcontext`): the address space, streams and modules of one device in this process.
    ///
    /// ```
    /// assert_eq!(millstream_driver::ContextHandle::from_raw(7).as_raw(), 7);
    /// ```
    ContextHandle(usize)
}
handle! {
    /// A stream (`CUstream`): a queue whose operations run in the order in which they were enqueued (rule 16).
    ///
    /// ```
    /// use millstream_driver::StreamHandle;
    /// assert_ne!(StreamHandle::LEGACY, StreamHandle::PER_THREAD);
    /// ```
    StreamHandle(usize)
}
handle! {
    /// An event (`CUevent`): a point in a stream's work, captured by recording it (rule 22).
    ///
    /// ```
    /// assert_eq!(millstream_driver::EventHandle::from_raw(7).as_raw(), 7);
    /// ```
    EventHandle(usize)
}
handle! {
    /// A loaded module (`CUmodule`).
    ///
    /// ```
    /// assert_eq!(millstream_driver::ModuleHandle::from_raw(7).as_raw(), 7);
    /// ```
    ModuleHandle(usize)
}
handle! {
    /// A kernel of a loaded module (`CUfunction`). It dies with its module.
    ///
    /// ```
    /// assert_eq!(millstream_driver::FunctionHandle::from_raw(7).as_raw(), 7);
    /// ```
    FunctionHandle(usize)
}
handle! {
    /// A pool of the stream-ordered allocator (`CUmemoryPool`).
    ///
    /// ```
    /// assert_eq!(millstream_driver::PoolHandle::from_raw(7).as_raw(), 7);
    /// ```
    PoolHandle(usize)
}
handle! {
    /// An address in device memory (`CUdeviceptr`). Not a pointer that the host may read.
    ///
    /// ```
    /// use millstream_driver::DevicePtr;
    /// assert_eq!(DevicePtr::from_raw(0x100).offset(4), DevicePtr::from_raw(0x104));
    /// ```
    DevicePtr(u64)
}
handle! {
    /// A device attribute by its number in `CUdevice_attribute`. New drivers know more numbers than this list.
    ///
    /// ```
    /// assert_eq!(millstream_driver::DeviceAttribute::MULTIPROCESSOR_COUNT.as_raw(), 16);
    /// ```
    DeviceAttribute(i32)
}

impl DevicePtr {
    /// The address `bytes` further on; wraps around like an address does.
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl StreamHandle {
    /// The legacy default stream: waits for, and holds back, every blocking stream of its context (rule 17).
    pub const LEGACY: Self = Self(1);
    /// The per-thread default stream of the calling thread in the context at hand (rule 19).
    pub const PER_THREAD: Self = Self(2);
}

impl DeviceAttribute {
    /// Most threads in a block.
    pub const MAX_THREADS_PER_BLOCK: Self = Self(1);
    /// Largest block in x.
    pub const MAX_BLOCK_DIM_X: Self = Self(2);
    /// Largest block in y.
    pub const MAX_BLOCK_DIM_Y: Self = Self(3);
    /// Largest block in z.
    pub const MAX_BLOCK_DIM_Z: Self = Self(4);
    /// Largest grid in x.
    pub const MAX_GRID_DIM_X: Self = Self(5);
    /// Largest grid in y.
    pub const MAX_GRID_DIM_Y: Self = Self(6);
    /// Largest grid in z.
    pub const MAX_GRID_DIM_Z: Self = Self(7);
    /// Shared memory that a block may have without opting in, in bytes.
    pub const MAX_SHARED_MEMORY_PER_BLOCK: Self = Self(8);
    /// Longest pitch of a 2-D copy, in bytes.
    pub const MAX_PITCH: Self = Self(11);
    /// Threads in a warp.
    pub const WARP_SIZE: Self = Self(10);
    /// Multiprocessors.
    pub const MULTIPROCESSOR_COUNT: Self = Self(16);
    /// Copy engines that can work beside kernels.
    pub const ASYNC_ENGINE_COUNT: Self = Self(40);
    /// Whether host and device share one address space (1) or not (0).
    pub const UNIFIED_ADDRESSING: Self = Self(41);
    /// Major part of the compute capability.
    pub const COMPUTE_CAPABILITY_MAJOR: Self = Self(75);
    /// Minor part of the compute capability.
    pub const COMPUTE_CAPABILITY_MINOR: Self = Self(76);
    /// Whether managed memory can be had (1) or not (0).
    pub const MANAGED_MEMORY: Self = Self(83);
    /// Whether the device reaches ordinary host memory by itself (1) or not (0).
    pub const PAGEABLE_MEMORY_ACCESS: Self = Self(88);
    /// Whether host and device may use managed memory at the same time (1) or not (0): rule 50.
    pub const CONCURRENT_MANAGED_ACCESS: Self = Self(89);
    /// Whether the stream-ordered allocator is there (1) or not (0).
    pub const MEMORY_POOLS_SUPPORTED: Self = Self(115);
}
