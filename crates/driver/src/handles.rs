//! Handles: plain numbers that name a driver's objects. Copying one copies no object, and nothing
//! is freed by dropping one.

use std::fmt;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident($raw:ty)) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($raw);

        impl $name {
            /// Wraps the driver's own number. The handle means something only to the driver that
            /// gave the number.
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
    /// A context (`CUcontext`): the address space, streams and modules of one device in this
    /// process.
    ///
    /// ```
    /// assert_eq!(millstream_driver::ContextHandle::from_raw(7).as_raw(), 7);
    /// ```
    ContextHandle(usize)
}
handle! {
    /// A stream (`CUstream`): a queue whose operations run in the order in which they were enqueued
    /// (rule 16).
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
    /// A device attribute by its number in `CUdevice_attribute`. New drivers know more numbers than
    /// this list.
    ///
    /// ```
    /// assert_eq!(millstream_driver::DeviceAttribute::MULTIPROCESSOR_COUNT.as_raw(), 16);
    /// ```
    DeviceAttribute(i32)
}

handle! {
    /// A kernel's attribute by its number in `CUfunction_attribute`.
    ///
    /// ```
    /// assert_eq!(millstream_driver::FunctionAttribute::SHARED_BYTES.as_raw(), 1);
    /// ```
    FunctionAttribute(i32)
}

impl FunctionAttribute {
    /// Most threads in a block of this kernel on its device.
    pub const MAX_THREADS_PER_BLOCK: Self = Self(0);
    /// Shared memory that the kernel declares itself, in bytes.
    pub const SHARED_BYTES: Self = Self(1);
    /// The most dynamic shared memory that a launch may ask for, in bytes. At first that is
    /// [`MAX_SHARED_MEMORY_PER_BLOCK`](DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK) without what
    /// the kernel declares itself; it can be set to as much as
    /// [`MAX_SHARED_MEMORY_PER_BLOCK_OPTIN`](DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    /// without that.
    pub const MAX_DYNAMIC_SHARED_BYTES: Self = Self(8);
}

impl DevicePtr {
    /// The address `bytes` further on; wraps around like an address does.
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl StreamHandle {
    /// The legacy default stream: waits for, and holds back, every blocking stream of its context
    /// (rule 17).
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
    /// Constant memory of a kernel, in bytes.
    pub const TOTAL_CONSTANT_MEMORY: Self = Self(9);
    /// Threads in a warp.
    pub const WARP_SIZE: Self = Self(10);
    /// Longest pitch of a 2-D copy, in bytes.
    pub const MAX_PITCH: Self = Self(11);
    /// Registers, of 32 bits, that a block may have.
    pub const MAX_REGISTERS_PER_BLOCK: Self = Self(12);
    /// The highest clock rate of the multiprocessors, in kHz.
    pub const CLOCK_RATE: Self = Self(13);
    /// Multiprocessors.
    pub const MULTIPROCESSOR_COUNT: Self = Self(16);
    /// Whether the device shares the host's memory (1) or has its own (0).
    pub const INTEGRATED: Self = Self(18);
    /// Whether errors of the memory are corrected (1) or not (0).
    pub const ECC_ENABLED: Self = Self(32);
    /// The device's bus on PCI.
    pub const PCI_BUS_ID: Self = Self(33);
    /// The device's number on its bus.
    pub const PCI_DEVICE_ID: Self = Self(34);
    /// The highest clock rate of the memory, in kHz.
    pub const MEMORY_CLOCK_RATE: Self = Self(36);
    /// Width of the memory's bus, in bits.
    pub const GLOBAL_MEMORY_BUS_WIDTH: Self = Self(37);
    /// The level 2 cache, in bytes.
    pub const L2_CACHE_SIZE: Self = Self(38);
    /// Most threads that are on a multiprocessor at a time.
    pub const MAX_THREADS_PER_MULTIPROCESSOR: Self = Self(39);
    /// Copy engines that can work beside kernels.
    pub const ASYNC_ENGINE_COUNT: Self = Self(40);
    /// Whether host and device share one address space (1) or not (0).
    pub const UNIFIED_ADDRESSING: Self = Self(41);
    /// The domain of the device's bus on PCI.
    pub const PCI_DOMAIN_ID: Self = Self(50);
    /// Major part of the compute capability.
    pub const COMPUTE_CAPABILITY_MAJOR: Self = Self(75);
    /// Minor part of the compute capability.
    pub const COMPUTE_CAPABILITY_MINOR: Self = Self(76);
    /// Shared memory of a multiprocessor, in bytes.
    pub const MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: Self = Self(81);
    /// Registers, of 32 bits, of a multiprocessor.
    pub const MAX_REGISTERS_PER_MULTIPROCESSOR: Self = Self(82);
    /// Whether managed memory can be had (1) or not (0).
    pub const MANAGED_MEMORY: Self = Self(83);
    /// Whether the device reaches ordinary host memory by itself (1) or not (0).
    pub const PAGEABLE_MEMORY_ACCESS: Self = Self(88);
    /// Whether host and device may use managed memory at the same time (1) or not (0): rule 50.
    pub const CONCURRENT_MANAGED_ACCESS: Self = Self(89);
    /// Shared memory that a block may have by opting in, in bytes; see
    /// [`FunctionAttribute::MAX_DYNAMIC_SHARED_BYTES`].
    pub const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: Self = Self(97);
    /// Most blocks that are on a multiprocessor at a time.
    pub const MAX_BLOCKS_PER_MULTIPROCESSOR: Self = Self(106);
    /// Whether the stream-ordered allocator is there (1) or not (0).
    pub const MEMORY_POOLS_SUPPORTED: Self = Self(115);
}
