//! The calls beyond [`Driver`](millstream_driver::Driver) that programs of CUDA's driver API need:
//! own contexts, synchronous copies on any stream, and details of kernels and allocations.

#![allow(unsafe_code, reason = "relies on promises about host memory")]

use std::ops::Range;

use millstream_driver::{
    CaptureMode, ContextHandle, Copy2d, DeviceOrdinal, DevicePtr, FunctionHandle, Memory2d,
    ModuleHandle, PoolHandle, Side2d, StreamHandle,
};

use super::{
    copy::CopyForm,
    driver::{Result, counted_inside, other, side},
};
use crate::{Gpu, Report, memory::MemoryKind};

/// The properties of a kernel that its PTX declares.
///
/// ```
/// use millstream_driver::{DeviceOrdinal, Driver};
/// use millstream_sim::{Gpu, SimConfig};
/// let gpu = Gpu::new(SimConfig::new());
/// let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0)).unwrap();
/// let ptx = b".version 8.0 .target sm_90 .address_size 64
///     .visible .entry f(.param .u32 n, .param .u64 out) { ret; }";
/// // SAFETY: the context and the module are alive.
/// let function = unsafe {
///     let module = gpu.module_load(context, ptx).unwrap();
///     gpu.module_function(context, module, "f").unwrap()
/// };
/// let details = gpu.function_details(function).unwrap();
/// assert_eq!((details.name.as_str(), details.params), ("f", vec![0..4, 8..16]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionDetails {
    /// The name in the PTX.
    pub name: String,
    /// The module.
    pub module: ModuleHandle,
    /// The number of the architecture that the PTX is for: 75 for `.target sm_75`.
    pub target: Option<u32>,
    /// The byte range of each parameter in the parameter block.
    pub params: Vec<Range<usize>>,
    /// The static shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// The constant memory that the module declares, in bytes.
    pub constant_bytes: usize,
    /// The local memory of a thread, in bytes.
    pub local_bytes: u32,
    /// The number of PTX's virtual 32-bit registers of a thread, more than a GPU needs.
    pub registers: u32,
    /// The maximum number of threads of a block, from `.maxntid` or `.reqntid`.
    pub max_threads: Option<u32>,
    /// The block dimensions that `.reqntid` requires.
    pub required_block: Option<[u32; 3]>,
}

/// A live allocation, as [`Gpu::allocation_at`] describes it.
///
/// ```
/// use millstream_driver::{DeviceOrdinal, Driver};
/// use millstream_sim::{AllocationKind, Gpu, SimConfig};
/// let gpu = Gpu::new(SimConfig::new());
/// let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0)).unwrap();
/// // SAFETY: the context is alive.
/// let pointer = unsafe { gpu.mem_alloc(context, 64) }.unwrap();
/// let found = gpu.allocation_at(pointer.offset(5)).unwrap();
/// assert_eq!((found.base, found.bytes), (pointer, 64));
/// assert_eq!(found.kind, AllocationKind::Device);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AllocationDetails {
    /// The first address.
    pub base: DevicePtr,
    /// The size in bytes.
    pub bytes: u64,
    /// The kind of memory.
    pub kind: AllocationKind,
    /// The context that allocated it.
    pub context: ContextHandle,
    /// The device.
    pub device: u32,
    /// The pool of the allocation.
    pub pool: Option<PoolHandle>,
    /// The number of the allocation, from 1 in the order of creation.
    pub number: u64,
}

/// The kind of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocationKind {
    /// Device memory outside of pools (`cuMemAlloc`).
    Device,
    /// Memory of a pool of the stream-ordered allocator (`cuMemAllocAsync`).
    Pool,
    /// Page-locked host memory (`cuMemHostAlloc`).
    PageLocked,
    /// Host memory of the caller that is registered as page-locked (`cuMemHostRegister`).
    Registered,
    /// Managed memory (`cuMemAllocManaged`).
    Managed,
    /// A variable of a module.
    Variable,
}

impl Gpu {
    /// Replaces the calling thread's capture mode, which is global at first, and returns the one
    /// before (`cuThreadExchangeStreamCaptureMode`). A thread in relaxed mode may make calls that
    /// captures forbid otherwise (rule 44); one in thread-local mode is forbidden them by its own
    /// captures only.
    ///
    /// ```
    /// use millstream_driver::CaptureMode;
    /// use millstream_sim::{Gpu, SimConfig};
    /// let gpu = Gpu::new(SimConfig::new());
    /// assert_eq!(gpu.exchange_capture_mode(CaptureMode::Relaxed), CaptureMode::Global);
    /// ```
    pub fn exchange_capture_mode(&self, mode: CaptureMode) -> CaptureMode {
        self.enter().captures.exchange_mode(mode)
    }

    /// Creates a context of a device beside its primary context (`cuCtxCreate`). It has a legacy
    /// default stream of its own.
    ///
    /// ```
    /// use millstream_driver::{DeviceOrdinal, Driver};
    /// use millstream_sim::{Gpu, SimConfig};
    /// let gpu = Gpu::new(SimConfig::new());
    /// let context = gpu.context_create(DeviceOrdinal::from_raw(0)).unwrap();
    /// // SAFETY: the context is alive, and not used after it is destroyed.
    /// unsafe {
    ///     gpu.mem_alloc(context, 64).unwrap();
    ///     gpu.context_destroy(context).unwrap();
    /// }
    /// assert_eq!(gpu.live_object_counts().device_bytes, 0);
    /// ```
    ///
    /// # Errors
    ///
    /// `INVALID_DEVICE` if there is no such device.
    pub fn context_create(&self, device: DeviceOrdinal) -> Result<ContextHandle> {
        self.call("cuCtxCreate", other, |state| state.context_create(device))
    }

    /// Sets the size in bytes of the heap from which kernels of the context allocate
    /// (`cuCtxSetLimit` of `CU_LIMIT_MALLOC_HEAP_SIZE`). It is 8 MiB before.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` after the launch of a kernel that calls `malloc` or `free`, `OUT_OF_MEMORY`
    /// if the device has fewer bytes free.
    pub fn context_set_heap(&self, context: ContextHandle, bytes: u64) -> Result<()> {
        self.call("cuCtxSetLimit", other, |state| {
            state.context_set_heap(context, bytes)
        })
    }

    /// Waits for the work of a context of [`context_create`](Self::context_create), and destroys it
    /// with all its objects (`cuCtxDestroy`).
    ///
    /// # Errors
    ///
    /// `INVALID_CONTEXT` for any other handle.
    ///
    /// # Safety
    ///
    /// No handle of the context is used again.
    pub unsafe fn context_destroy(&self, context: ContextHandle) -> Result<()> {
        self.call("cuCtxDestroy", other, |state| {
            state.context_destroy(context)
        })
    }

    /// Waits for all devices, and ends the access of a context to the memory of the context `peer`
    /// (`cuCtxDisablePeerAccess`).
    ///
    /// # Errors
    ///
    /// `PEER_ACCESS_NOT_ENABLED` if the access was not enabled.
    ///
    /// # Safety
    ///
    /// Both contexts are alive.
    pub unsafe fn context_disable_peer_access(
        &self,
        context: ContextHandle,
        peer: ContextHandle,
    ) -> Result<()> {
        self.call("cuCtxDisablePeerAccess", other, |state| {
            state.context_disable_peer_access(context, peer)
        })
    }

    /// Copies bytes on `stream` and blocks the host as a synchronous copy of the same direction
    /// (rules 1 to 5: which copies wait for what). Synchronous copies of programs that are compiled
    /// for per-thread default streams are such copies.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for memory that is not alive.
    ///
    /// # Safety
    ///
    /// Host memory is readable as a source and writable as a target for `bytes`. Until the copy is
    /// complete, nothing else writes the source or accesses the target. `stream` is alive and
    /// belongs to `context`.
    pub unsafe fn copy_synchronous(
        &self,
        context: ContextHandle,
        target: Memory2d,
        source: Memory2d,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        let row = |memory| Side2d {
            memory,
            pitch_bytes: bytes,
        };
        let copy = Copy2d {
            source: row(source),
            target: row(target),
            width_bytes: bytes,
            height: 1,
        };
        // SAFETY: the caller promises a target that is writable, with exclusive access for the
        // copy, until the copy is complete.
        let target = unsafe { side(&copy.target, &copy) };
        // SAFETY: the caller promises a source that is readable until the copy is complete.
        let source = unsafe { side(&copy.source, &copy) };
        self.call("cuMemcpy", counted_inside, |state| {
            let form = CopyForm::Synchronous;
            state.copy(context, (target, source), bytes, stream, form)
        })
    }

    /// Copies rows like [`copy_2d_async`](millstream_driver::Driver::copy_2d_async), but blocks the
    /// host as a synchronous copy of the same direction (`cuMemcpy2D`, rules 1 to 5: which copies
    /// wait for what).
    ///
    /// # Errors
    ///
    /// As `copy_2d_async`.
    ///
    /// # Safety
    ///
    /// As `copy_2d_async`.
    pub unsafe fn copy_2d_synchronous(
        &self,
        context: ContextHandle,
        copy: &Copy2d,
        stream: StreamHandle,
    ) -> Result<()> {
        // SAFETY: the caller promises rows that are writable, with exclusive access for the copy,
        // until the copy is complete.
        let target = unsafe { side(&copy.target, copy) };
        // SAFETY: the caller promises rows that are readable until the copy is complete.
        let source = unsafe { side(&copy.source, copy) };
        self.call("cuMemcpy2D", counted_inside, |state| {
            let form = CopyForm::Synchronous;
            state.copy_2d(context, (target, source), copy, stream, form)
        })
    }

    /// Returns the properties of a kernel; `None` for a handle that is not alive.
    #[must_use]
    pub fn function_details(&self, function: FunctionHandle) -> Option<FunctionDetails> {
        let state = self.enter();
        let found = state.functions.get(&function)?;
        let module = &state.modules.get(&found.module)?.ptx;
        let kernel = module.kernel(&found.name)?;
        let constants = module.variables().iter().filter(|it| it.constant);
        let params = kernel.signature().params.iter();
        Some(FunctionDetails {
            name: kernel.name().to_owned(),
            module: found.module,
            target: module.target(),
            params: params
                .map(|param| param.offset..param.offset + param.size)
                .collect(),
            shared_bytes: kernel.static_shared_bytes(),
            constant_bytes: constants.map(|constant| constant.size).sum(),
            local_bytes: kernel.local_bytes(),
            registers: kernel.registers(),
            max_threads: kernel.max_threads(),
            required_block: kernel.required_block(),
        })
    }

    /// Returns the names of the module's kernels, in the order of the text; `None` for a handle
    /// that is not alive.
    #[must_use]
    pub fn module_kernels(&self, module: ModuleHandle) -> Option<Vec<String>> {
        let state = self.enter();
        let kernels = state.modules.get(&module)?.ptx.kernels();
        Some(kernels.map(|kernel| kernel.name().to_owned()).collect())
    }

    /// Returns the allocation that contains the address, of the device or of the host; `None` if
    /// there is none, or its free was enqueued.
    #[must_use]
    pub fn allocation_at(&self, address: DevicePtr) -> Option<AllocationDetails> {
        let state = self.enter();
        let found = state.memory.around(address.as_raw())?;
        // CUDA's calls do not know the heap of kernels.
        if found.is_dead_to_new_work() || found.kind == MemoryKind::Heap {
            return None;
        }
        Some(AllocationDetails {
            base: DevicePtr::from_raw(found.base),
            bytes: found.bytes,
            kind: match found.kind {
                MemoryKind::Device | MemoryKind::Mapped => AllocationKind::Device,
                MemoryKind::Pool => AllocationKind::Pool,
                MemoryKind::Pinned => AllocationKind::PageLocked,
                MemoryKind::Registered => AllocationKind::Registered,
                MemoryKind::Managed | MemoryKind::ManagedVariable => AllocationKind::Managed,
                MemoryKind::Variable | MemoryKind::Constant | MemoryKind::Heap => {
                    AllocationKind::Variable
                }
            },
            context: found.context,
            device: found.device,
            pool: found.pool,
            number: found.info.number,
        })
    }

    /// Sets the function that reports name as the creator of the allocation that starts at the
    /// address: of several driver functions that make the same allocation, the one that the program
    /// called.
    pub fn set_allocation_origin(&self, base: DevicePtr, function: &'static str) {
        self.enter().memory.set_origin(base.as_raw(), function);
    }

    /// Passes each later report to a function when it is found, and keeps none among the
    /// [reports](Self::reports). The function runs within the driver call, which may be of any
    /// thread, and must not use the simulated GPU.
    pub fn on_report(&self, function: impl FnMut(Report) + Send + 'static) {
        self.enter().on_report = Some(Box::new(function));
    }
}
