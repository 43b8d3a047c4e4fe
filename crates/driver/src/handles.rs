//! Handles and attribute numbers. A handle is a plain number: copying it does not copy the driver's
//! object, and dropping it frees nothing.

use std::fmt;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident($raw:ty);)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($raw);

        impl $name {
            /// Wraps the driver's number. The handle is valid only with the driver that issued the
            /// number.
            #[must_use]
            pub const fn from_raw(raw: $raw) -> Self {
                Self(raw)
            }

            /// Returns the driver's number, for calls to other libraries.
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
    )*};
}

handles! {
    /// A device by its position in the driver's list, from 0 (`CUdevice`).
    DeviceOrdinal(i32);

    /// A context (`CUcontext`): the address space, streams and modules of one device in this
    /// process.
    ContextHandle(usize);

    /// A stream (`CUstream`): a queue whose operations run in the order in which they were enqueued
    /// (rule 16).
    StreamHandle(usize);

    /// An event (`CUevent`), which captures the work of a stream when it is recorded (rule 22).
    EventHandle(usize);

    /// A loaded module (`CUmodule`).
    ModuleHandle(usize);

    /// A kernel of a loaded module (`CUfunction`), valid until the module is unloaded.
    FunctionHandle(usize);

    /// A pool of the stream-ordered allocator (`CUmemoryPool`).
    PoolHandle(usize);

    /// A graph (`CUgraph`): nodes and their dependencies, a template of executable graphs.
    GraphHandle(usize);

    /// A node of a graph (`CUgraphNode`), valid until its graph is destroyed.
    GraphNodeHandle(usize);

    /// An executable graph (`CUgraphExec`). Its launches run one after the other, on any streams
    /// (rule 46).
    GraphExecHandle(usize);

    /// The condition of a conditional node (`CUgraphConditionalHandle`), which a kernel of the same
    /// graph sets by calling `cudaGraphSetConditional` with this number and a value.
    ConditionHandle(u64);

    /// An array (`CUarray`): texels in a layout of the driver's, for textures and surfaces.
    ArrayHandle(usize);

    /// A texture object (`CUtexObject`), which kernels take as a 64-bit argument.
    TextureHandle(u64);

    /// A surface object (`CUsurfObject`), which kernels take as a 64-bit argument.
    SurfaceHandle(u64);

    /// An address in device memory (`CUdeviceptr`), which the host cannot dereference.
    ///
    /// ```
    /// use millstream_driver::DevicePtr;
    /// assert_eq!(DevicePtr::from_raw(0x100).offset(4), DevicePtr::from_raw(0x104));
    /// ```
    DevicePtr(u64);

    /// A device attribute, identified by its number in `CUdevice_attribute`. Drivers may know more
    /// attributes than the constants declared here.
    DeviceAttribute(i32);

    /// A kernel attribute, identified by its number in `CUfunction_attribute`.
    FunctionAttribute(i32);

    /// An attribute of the link between two devices, identified by its number in
    /// `CUdevice_P2PAttribute`.
    P2pAttribute(i32);
}

impl P2pAttribute {
    /// The relative performance of the link; a lower number is faster.
    pub const PERFORMANCE_RANK: Self = Self(1);
    /// Peer access: 1 if the first device can access the second one's memory, else 0.
    pub const ACCESS_SUPPORTED: Self = Self(2);
    /// Native atomics: 1 if atomic operations over the link are atomic, else 0.
    pub const NATIVE_ATOMIC_SUPPORTED: Self = Self(3);
}

impl FunctionAttribute {
    /// The maximum number of threads in a block of this kernel on its device.
    pub const MAX_THREADS_PER_BLOCK: Self = Self(0);
    /// The static shared memory that the kernel declares, in bytes.
    pub const SHARED_BYTES: Self = Self(1);
    /// The maximum dynamic shared memory of a launch, in bytes. Its initial value is
    /// [`MAX_SHARED_MEMORY_PER_BLOCK`](DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK) minus the
    /// kernel's static shared memory. It can be raised up to
    /// [`MAX_SHARED_MEMORY_PER_BLOCK_OPTIN`](DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    /// minus the same.
    pub const MAX_DYNAMIC_SHARED_BYTES: Self = Self(8);
}

impl DevicePtr {
    /// Returns the address `bytes` further on; wraps on overflow.
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl StreamHandle {
    /// The legacy default stream. Each of its operations waits for every blocking stream of its
    /// context, and later work of those streams waits for it (rule 17).
    pub const LEGACY: Self = Self(1);
    /// The per-thread default stream of the calling thread in a method's context. Each pair of a
    /// thread and a context has one (rule 19).
    pub const PER_THREAD: Self = Self(2);
}

impl DeviceAttribute {
    /// The maximum number of threads in a block.
    pub const MAX_THREADS_PER_BLOCK: Self = Self(1);
    /// The maximum size of a block in x.
    pub const MAX_BLOCK_DIM_X: Self = Self(2);
    /// The maximum size of a block in y.
    pub const MAX_BLOCK_DIM_Y: Self = Self(3);
    /// The maximum size of a block in z.
    pub const MAX_BLOCK_DIM_Z: Self = Self(4);
    /// The maximum size of a grid in x.
    pub const MAX_GRID_DIM_X: Self = Self(5);
    /// The maximum size of a grid in y.
    pub const MAX_GRID_DIM_Y: Self = Self(6);
    /// The maximum size of a grid in z.
    pub const MAX_GRID_DIM_Z: Self = Self(7);
    /// The maximum shared memory of a block without opting in, in bytes.
    pub const MAX_SHARED_MEMORY_PER_BLOCK: Self = Self(8);
    /// The constant memory of a kernel, in bytes.
    pub const TOTAL_CONSTANT_MEMORY: Self = Self(9);
    /// The number of threads in a warp.
    pub const WARP_SIZE: Self = Self(10);
    /// The maximum pitch of a two-dimensional copy, in bytes.
    pub const MAX_PITCH: Self = Self(11);
    /// The maximum number of 32-bit registers of a block.
    pub const MAX_REGISTERS_PER_BLOCK: Self = Self(12);
    /// The peak clock rate of the multiprocessors, in kHz.
    pub const CLOCK_RATE: Self = Self(13);
    /// The number of multiprocessors.
    pub const MULTIPROCESSOR_COUNT: Self = Self(16);
    /// Integrated device: 1 if it shares the host's memory, 0 if it has its own.
    pub const INTEGRATED: Self = Self(18);
    /// Error correction (ECC) of device memory: 1 if enabled, else 0.
    pub const ECC_ENABLED: Self = Self(32);
    /// The PCI bus number of the device.
    pub const PCI_BUS_ID: Self = Self(33);
    /// The PCI device number on its bus.
    pub const PCI_DEVICE_ID: Self = Self(34);
    /// The peak clock rate of the memory, in kHz.
    pub const MEMORY_CLOCK_RATE: Self = Self(36);
    /// The width of the memory bus, in bits.
    pub const GLOBAL_MEMORY_BUS_WIDTH: Self = Self(37);
    /// The size of the level 2 cache, in bytes.
    pub const L2_CACHE_SIZE: Self = Self(38);
    /// The maximum number of resident threads on a multiprocessor.
    pub const MAX_THREADS_PER_MULTIPROCESSOR: Self = Self(39);
    /// The number of copy engines, which transfer data while kernels run.
    pub const ASYNC_ENGINE_COUNT: Self = Self(40);
    /// Unified addressing: 1 if host and device share one address space, else 0.
    pub const UNIFIED_ADDRESSING: Self = Self(41);
    /// The PCI domain number of the device.
    pub const PCI_DOMAIN_ID: Self = Self(50);
    /// The major version of the compute capability.
    pub const COMPUTE_CAPABILITY_MAJOR: Self = Self(75);
    /// The minor version of the compute capability.
    pub const COMPUTE_CAPABILITY_MINOR: Self = Self(76);
    /// The maximum shared memory of a multiprocessor, in bytes.
    pub const MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: Self = Self(81);
    /// The maximum number of 32-bit registers of a multiprocessor.
    pub const MAX_REGISTERS_PER_MULTIPROCESSOR: Self = Self(82);
    /// Managed memory: 1 if the device supports it, else 0.
    pub const MANAGED_MEMORY: Self = Self(83);
    /// Pageable memory access: 1 if the device can access ordinary host memory, else 0.
    pub const PAGEABLE_MEMORY_ACCESS: Self = Self(88);
    /// Concurrent managed access: 1 if the host may access managed memory while kernels run, else 0
    /// (rule 50).
    pub const CONCURRENT_MANAGED_ACCESS: Self = Self(89);
    /// Cooperative launches: 1 if the device supports them, else 0.
    pub const COOPERATIVE_LAUNCH: Self = Self(95);
    /// The maximum shared memory of a block after opting in, in bytes; see
    /// [`FunctionAttribute::MAX_DYNAMIC_SHARED_BYTES`].
    pub const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: Self = Self(97);
    /// The maximum number of resident blocks on a multiprocessor.
    pub const MAX_BLOCKS_PER_MULTIPROCESSOR: Self = Self(106);
    /// Stream-ordered allocation (memory pools): 1 if the device supports it, else 0.
    pub const MEMORY_POOLS_SUPPORTED: Self = Self(115);
}
