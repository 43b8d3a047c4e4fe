//! Compares our own declarations of libcuda with published bindings: every function's parameters, every number.

#![allow(non_snake_case, reason = "CUDA's own names")]

use std::{any::type_name, collections::BTreeSet, mem::offset_of};

use cudarc::driver::sys;
use millstream_driver::{
    DeviceAttribute, ResultCode, StreamHandle,
    cuda::api::{self, types},
};

/// A parameter or result as the calling convention sees it.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    size: usize,
    align: usize,
    /// For a pointer, whether what it points to may be written, and its size where that is known here.
    pointer: Option<(bool, Option<usize>)>,
}

impl Shape {
    fn of<T>() -> Self {
        Self {
            size: size_of::<T>(),
            align: align_of::<T>(),
            pointer: pointee(type_name::<T>()),
        }
    }
}

/// What a pointer type points to, told by the type's name: there is no other way to ask that of a generic type.
fn pointee(name: &str) -> Option<(bool, Option<usize>)> {
    let (writable, target) = match (name.strip_prefix("*mut "), name.strip_prefix("*const ")) {
        (Some(target), _) => (true, target),
        (_, Some(target)) => (false, target),
        _ => return None,
    };
    let is_struct = ["CUmemcpyAttributes_st", "CUDA_MEMCPY2D_st"]
        .iter()
        .any(|name| target.ends_with(name));
    if target.ends_with("_st") && !target.starts_with('*') && !is_struct {
        // A handle: published as a pointer to a type without content, and a number of that size here.
        return None;
    }
    let size = match target.rsplit("::").next().expect("a split has a part") {
        "c_void" if !target.starts_with('*') => None,
        "i8" | "u8" => Some(1),
        "i32" | "u32" | "f32" => Some(4),
        _ if target.starts_with('*') => Some(8),
        "u64" | "usize" | "ContextHandle" | "StreamHandle" | "EventHandle" | "ModuleHandle"
        | "FunctionHandle" | "PoolHandle" | "DevicePtr" => Some(8),
        "CopyAttributes" => Some(size_of::<api::CopyAttributes>()),
        "CUmemcpyAttributes_st" => Some(size_of::<sys::CUmemcpyAttributes_st>()),
        "Memcpy2d" => Some(size_of::<api::Memcpy2d>()),
        "CUDA_MEMCPY2D_st" => Some(size_of::<sys::CUDA_MEMCPY2D_st>()),
        enumeration if enumeration.starts_with("CU") && enumeration.contains("_enum") => Some(4),
        other => panic!("`{other}` is a new target of a pointer; say its size here"),
    };
    Some((writable, size))
}

/// A function type that can be taken apart: the shape of its result, then of each parameter.
trait Shapes {
    fn shapes() -> Vec<Shape>;
}

macro_rules! shapes {
    ($($parameter:ident)*) => {
        impl<R, $($parameter),*> Shapes for unsafe extern "C" fn($($parameter),*) -> R {
            fn shapes() -> Vec<Shape> {
                vec![Shape::of::<R>(), $(Shape::of::<$parameter>()),*]
            }
        }
        // The bindings wrap each function in one that first finds it, with the same parameters.
        impl<R, $($parameter),*> Shapes for unsafe fn($($parameter),*) -> R {
            fn shapes() -> Vec<Shape> {
                vec![Shape::of::<R>(), $(Shape::of::<$parameter>()),*]
            }
        }
    };
}
shapes!();
shapes!(A);
shapes!(A B);
shapes!(A B C);
shapes!(A B C D);
shapes!(A B C D E);
shapes!(A B C D E F G H I);
shapes!(A B C D E F G H I J K);

fn shapes_of<F: Shapes>(_: F) -> Vec<Shape> {
    F::shapes()
}

/// Compares each function, and says which were compared: `(name, symbol)`.
macro_rules! compare {
    ($($name:ident = $symbol:ident($($any:tt)*);)*) => {
        [$({
            assert_eq!(
                <types::$name as Shapes>::shapes(),
                shapes_of(sys::$symbol as unsafe fn($($any)*) -> _),
                concat!(stringify!($name), ": ours left, published right"),
            );
            (stringify!($name), stringify!($symbol))
        },)*]
    };
}

#[test]
fn every_function_has_the_published_parameters() {
    let compared = compare! {
        cuInit = cuInit(_);
        cuGetErrorName = cuGetErrorName(_, _);
        cuGetErrorString = cuGetErrorString(_, _);
        cuDeviceGetCount = cuDeviceGetCount(_);
        cuDeviceGet = cuDeviceGet(_, _);
        cuDeviceGetName = cuDeviceGetName(_, _, _);
        cuDeviceTotalMem = cuDeviceTotalMem_v2(_, _);
        cuDeviceGetAttribute = cuDeviceGetAttribute(_, _, _);
        cuDeviceGetDefaultMemPool = cuDeviceGetDefaultMemPool(_, _);
        cuDevicePrimaryCtxRetain = cuDevicePrimaryCtxRetain(_, _);
        cuDevicePrimaryCtxRelease = cuDevicePrimaryCtxRelease_v2(_);
        cuCtxSetCurrent = cuCtxSetCurrent(_);
        cuCtxSynchronize = cuCtxSynchronize();
        cuCtxGetStreamPriorityRange = cuCtxGetStreamPriorityRange(_, _);
        cuStreamCreateWithPriority = cuStreamCreateWithPriority(_, _, _);
        cuStreamDestroy = cuStreamDestroy_v2(_);
        cuStreamQuery = cuStreamQuery(_);
        cuStreamSynchronize = cuStreamSynchronize(_);
        cuStreamWaitEvent = cuStreamWaitEvent(_, _, _);
        cuEventCreate = cuEventCreate(_, _);
        cuEventDestroy = cuEventDestroy_v2(_);
        cuEventRecord = cuEventRecord(_, _);
        cuEventQuery = cuEventQuery(_);
        cuEventSynchronize = cuEventSynchronize(_);
        cuEventElapsedTime = cuEventElapsedTime(_, _, _);
        cuMemGetInfo = cuMemGetInfo_v2(_, _);
        cuMemAlloc = cuMemAlloc_v2(_, _);
        cuMemFree = cuMemFree_v2(_);
        cuMemAllocAsync = cuMemAllocAsync(_, _, _);
        cuMemFreeAsync = cuMemFreeAsync(_, _);
        cuMemAllocManaged = cuMemAllocManaged(_, _, _);
        cuMemPoolSetAttribute = cuMemPoolSetAttribute(_, _, _);
        cuMemPoolGetAttribute = cuMemPoolGetAttribute(_, _, _);
        cuMemPoolTrimTo = cuMemPoolTrimTo(_, _);
        cuMemHostAlloc = cuMemHostAlloc(_, _, _);
        cuMemFreeHost = cuMemFreeHost(_);
        cuMemHostRegister = cuMemHostRegister_v2(_, _, _);
        cuMemHostUnregister = cuMemHostUnregister(_);
        cuMemcpyHtoD = cuMemcpyHtoD_v2(_, _, _);
        cuMemcpyDtoH = cuMemcpyDtoH_v2(_, _, _);
        cuMemcpyDtoD = cuMemcpyDtoD_v2(_, _, _);
        cuMemcpyHtoDAsync = cuMemcpyHtoDAsync_v2(_, _, _, _);
        cuMemcpyDtoHAsync = cuMemcpyDtoHAsync_v2(_, _, _, _);
        cuMemcpyDtoDAsync = cuMemcpyDtoDAsync_v2(_, _, _, _);
        cuMemcpy = cuMemcpy(_, _, _);
        cuMemcpyAsync = cuMemcpyAsync(_, _, _, _);
        cuMemcpy2DAsync = cuMemcpy2DAsync_v2(_, _);
        cuMemsetD8Async = cuMemsetD8Async(_, _, _, _);
        cuMemsetD16Async = cuMemsetD16Async(_, _, _, _);
        cuMemsetD32Async = cuMemsetD32Async(_, _, _, _);
        cuModuleLoadDataEx = cuModuleLoadDataEx(_, _, _, _, _);
        cuModuleUnload = cuModuleUnload(_);
        cuModuleGetFunction = cuModuleGetFunction(_, _, _);
        cuModuleGetGlobal = cuModuleGetGlobal_v2(_, _, _, _);
        cuFuncGetAttribute = cuFuncGetAttribute(_, _, _);
        cuLaunchKernel = cuLaunchKernel(_, _, _, _, _, _, _, _, _, _, _);
        cuLaunchHostFunc = cuLaunchHostFunc(_, _, _);
        cuMemPrefetchAsync = cuMemPrefetchAsync(_, _, _, _);
        cuMemAdvise = cuMemAdvise(_, _, _, _);
        cuMemcpyBatchAsync = cuMemcpyBatchAsync(_, _, _, _, _, _, _, _, _);
        cuFuncLoad = cuFuncLoad(_);
        cuFuncGetParamInfo = cuFuncGetParamInfo(_, _, _, _);
    };
    assert_eq!(
        compared,
        api::SYMBOLS,
        "a declaration is not compared, or under another symbol"
    );
    assert_eq!(
        <api::DriverGetVersion as Shapes>::shapes(),
        shapes_of(sys::cuDriverGetVersion as unsafe fn(_) -> _)
    );
    assert_eq!(
        <api::GetProcAddress as Shapes>::shapes(),
        shapes_of(sys::cuGetProcAddress_v2 as unsafe fn(_, _, _, _, _) -> _)
    );
    // A callback's own parameters are behind a pointer, so the comparison above does not see them.
    let _: fn(Option<unsafe extern "C" fn(*mut std::ffi::c_void)>) -> sys::CUhostFn = |callback| callback;
}

#[test]
fn a_wrong_declaration_would_be_noticed() {
    type Swapped = unsafe extern "C" fn(*mut u64, i32) -> ResultCode;
    type Right = unsafe extern "C" fn(*mut i32, i32) -> ResultCode;
    let published = || shapes_of(sys::cuDeviceGet as unsafe fn(_, _) -> _);
    assert_eq!(Right::shapes(), published());
    assert_ne!(Swapped::shapes(), published(), "a result of another size");
    assert_ne!(
        types::cuInit::shapes(),
        published(),
        "another number of parameters"
    );
    assert_ne!(
        <unsafe extern "C" fn(*const i32, i32) -> ResultCode>::shapes(),
        published(),
        "a result that cannot be written"
    );
}

#[test]
fn structures_have_the_published_fields() {
    macro_rules! fields {
        ($ours:ty, $theirs:ty: $($field:ident = $published:ident;)*) => {
            $(assert_eq!(
                offset_of!($ours, $field),
                offset_of!($theirs, $published),
                concat!(stringify!($ours), "::", stringify!($field))
            );)*
            assert_eq!(size_of::<$ours>(), size_of::<$theirs>());
        };
    }
    fields! { api::Memcpy2d, sys::CUDA_MEMCPY2D_st:
        source_x_bytes = srcXInBytes;
        source_y = srcY;
        source_type = srcMemoryType;
        source_host = srcHost;
        source_device = srcDevice;
        source_array = srcArray;
        source_pitch = srcPitch;
        target_x_bytes = dstXInBytes;
        target_y = dstY;
        target_type = dstMemoryType;
        target_host = dstHost;
        target_device = dstDevice;
        target_array = dstArray;
        target_pitch = dstPitch;
        width_bytes = WidthInBytes;
        height = Height;
    }
    fields! { api::CopyAttributes, sys::CUmemcpyAttributes_st:
        source_access_order = srcAccessOrder;
        source_hint = srcLocHint;
        target_hint = dstLocHint;
        flags = flags;
    }
}

#[test]
fn results_have_the_published_numbers() {
    use sys::cudaError_enum as published;
    macro_rules! codes {
        ($($ours:ident = $theirs:ident;)*) => {
            [$((ResultCode::$ours, published::$theirs as i32),)*]
        };
    }
    let codes = codes! {
        SUCCESS = CUDA_SUCCESS;
        INVALID_VALUE = CUDA_ERROR_INVALID_VALUE;
        OUT_OF_MEMORY = CUDA_ERROR_OUT_OF_MEMORY;
        NOT_INITIALIZED = CUDA_ERROR_NOT_INITIALIZED;
        DEINITIALIZED = CUDA_ERROR_DEINITIALIZED;
        NO_DEVICE = CUDA_ERROR_NO_DEVICE;
        INVALID_DEVICE = CUDA_ERROR_INVALID_DEVICE;
        INVALID_IMAGE = CUDA_ERROR_INVALID_IMAGE;
        INVALID_CONTEXT = CUDA_ERROR_INVALID_CONTEXT;
        NO_BINARY_FOR_GPU = CUDA_ERROR_NO_BINARY_FOR_GPU;
        ECC_UNCORRECTABLE = CUDA_ERROR_ECC_UNCORRECTABLE;
        INVALID_PTX = CUDA_ERROR_INVALID_PTX;
        NVLINK_UNCORRECTABLE = CUDA_ERROR_NVLINK_UNCORRECTABLE;
        UNSUPPORTED_PTX_VERSION = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
        CONTAINED = CUDA_ERROR_CONTAINED;
        SHARED_OBJECT_SYMBOL_NOT_FOUND = CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;
        INVALID_HANDLE = CUDA_ERROR_INVALID_HANDLE;
        NOT_FOUND = CUDA_ERROR_NOT_FOUND;
        NOT_READY = CUDA_ERROR_NOT_READY;
        ILLEGAL_ADDRESS = CUDA_ERROR_ILLEGAL_ADDRESS;
        LAUNCH_OUT_OF_RESOURCES = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        LAUNCH_TIMEOUT = CUDA_ERROR_LAUNCH_TIMEOUT;
        CONTEXT_IS_DESTROYED = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        ASSERT = CUDA_ERROR_ASSERT;
        HOST_MEMORY_ALREADY_REGISTERED = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        HOST_MEMORY_NOT_REGISTERED = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
        HARDWARE_STACK_ERROR = CUDA_ERROR_HARDWARE_STACK_ERROR;
        ILLEGAL_INSTRUCTION = CUDA_ERROR_ILLEGAL_INSTRUCTION;
        MISALIGNED_ADDRESS = CUDA_ERROR_MISALIGNED_ADDRESS;
        INVALID_ADDRESS_SPACE = CUDA_ERROR_INVALID_ADDRESS_SPACE;
        INVALID_PC = CUDA_ERROR_INVALID_PC;
        LAUNCH_FAILED = CUDA_ERROR_LAUNCH_FAILED;
        TENSOR_MEMORY_LEAK = CUDA_ERROR_TENSOR_MEMORY_LEAK;
        NOT_PERMITTED = CUDA_ERROR_NOT_PERMITTED;
        NOT_SUPPORTED = CUDA_ERROR_NOT_SUPPORTED;
        MPS_CLIENT_TERMINATED = CUDA_ERROR_MPS_CLIENT_TERMINATED;
        STREAM_CAPTURE_UNSUPPORTED = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        STREAM_CAPTURE_INVALIDATED = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        EXTERNAL_DEVICE = CUDA_ERROR_EXTERNAL_DEVICE;
        UNKNOWN = CUDA_ERROR_UNKNOWN;
    };
    let compared: BTreeSet<i32> = codes.iter().map(|&(_, theirs)| theirs).collect();
    for (ours, theirs) in codes {
        assert_eq!(ours.as_raw(), theirs, "{ours}");
    }
    for raw in 0..=1000 {
        let code = ResultCode::from_raw(raw);
        assert_eq!(
            code.name().is_some(),
            compared.contains(&raw),
            "{code} is named but not compared"
        );
    }
}

#[test]
fn device_attributes_have_the_published_numbers() {
    use sys::CUdevice_attribute_enum as published;
    macro_rules! attributes {
        ($($ours:ident = $theirs:ident;)*) => {
            [$((DeviceAttribute::$ours, published::$theirs as i32),)*]
        };
    }
    for (ours, theirs) in attributes! {
        MAX_THREADS_PER_BLOCK = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
        MAX_BLOCK_DIM_X = CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X;
        MAX_BLOCK_DIM_Y = CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y;
        MAX_BLOCK_DIM_Z = CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z;
        MAX_GRID_DIM_X = CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X;
        MAX_GRID_DIM_Y = CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y;
        MAX_GRID_DIM_Z = CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z;
        MAX_SHARED_MEMORY_PER_BLOCK = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK;
        MAX_PITCH = CU_DEVICE_ATTRIBUTE_MAX_PITCH;
        WARP_SIZE = CU_DEVICE_ATTRIBUTE_WARP_SIZE;
        MULTIPROCESSOR_COUNT = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        ASYNC_ENGINE_COUNT = CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT;
        UNIFIED_ADDRESSING = CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING;
        COMPUTE_CAPABILITY_MAJOR = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
        COMPUTE_CAPABILITY_MINOR = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
        MANAGED_MEMORY = CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY;
        PAGEABLE_MEMORY_ACCESS = CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS;
        CONCURRENT_MANAGED_ACCESS = CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
        MEMORY_POOLS_SUPPORTED = CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    } {
        assert_eq!(ours.as_raw(), theirs, "{ours:?}");
    }
}

#[test]
fn flags_have_the_published_numbers() {
    use sys::{
        CUdriverProcAddress_flags_enum as proc_address, CUevent_flags_enum as event,
        CUevent_wait_flags_enum as wait, CUfunction_attribute_enum as function, CUjit_option_enum as jit,
        CUmem_advise_enum as advise, CUmemPool_attribute_enum as pool, CUstream_flags_enum as stream,
    };
    for (name, ours, theirs) in [
        (
            "stream default",
            api::STREAM_DEFAULT,
            stream::CU_STREAM_DEFAULT as u32,
        ),
        (
            "stream non-blocking",
            api::STREAM_NON_BLOCKING,
            stream::CU_STREAM_NON_BLOCKING as u32,
        ),
        (
            "event default",
            api::EVENT_DEFAULT,
            event::CU_EVENT_DEFAULT as u32,
        ),
        (
            "event without timing",
            api::EVENT_DISABLE_TIMING,
            event::CU_EVENT_DISABLE_TIMING as u32,
        ),
        (
            "wait default",
            api::EVENT_WAIT_DEFAULT,
            wait::CU_EVENT_WAIT_DEFAULT as u32,
        ),
        (
            "host alloc portable",
            api::MEMHOSTALLOC_PORTABLE,
            sys::CU_MEMHOSTALLOC_PORTABLE,
        ),
        (
            "managed, attached globally",
            api::MEM_ATTACH_GLOBAL,
            sys::CUmemAttach_flags_enum::CU_MEM_ATTACH_GLOBAL as u32,
        ),
        (
            "host register portable",
            api::MEMHOSTREGISTER_PORTABLE,
            sys::CU_MEMHOSTREGISTER_PORTABLE,
        ),
    ] {
        assert_eq!(ours, theirs, "{name}");
    }
    for (name, ours, theirs) in [
        (
            "release threshold",
            api::MEMPOOL_ATTR_RELEASE_THRESHOLD,
            pool::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD as i32,
        ),
        (
            "reserved",
            api::MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
            pool::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT as i32,
        ),
        (
            "reserved, peak",
            api::MEMPOOL_ATTR_RESERVED_MEM_HIGH,
            pool::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH as i32,
        ),
        (
            "used",
            api::MEMPOOL_ATTR_USED_MEM_CURRENT,
            pool::CU_MEMPOOL_ATTR_USED_MEM_CURRENT as i32,
        ),
        (
            "used, peak",
            api::MEMPOOL_ATTR_USED_MEM_HIGH,
            pool::CU_MEMPOOL_ATTR_USED_MEM_HIGH as i32,
        ),
        (
            "mostly read",
            api::MEM_ADVISE_SET_READ_MOSTLY,
            advise::CU_MEM_ADVISE_SET_READ_MOSTLY as i32,
        ),
        (
            "no longer mostly read",
            api::MEM_ADVISE_UNSET_READ_MOSTLY,
            advise::CU_MEM_ADVISE_UNSET_READ_MOSTLY as i32,
        ),
        (
            "preferred location",
            api::MEM_ADVISE_SET_PREFERRED_LOCATION,
            advise::CU_MEM_ADVISE_SET_PREFERRED_LOCATION as i32,
        ),
        (
            "no preferred location",
            api::MEM_ADVISE_UNSET_PREFERRED_LOCATION,
            advise::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION as i32,
        ),
        (
            "accessed by",
            api::MEM_ADVISE_SET_ACCESSED_BY,
            advise::CU_MEM_ADVISE_SET_ACCESSED_BY as i32,
        ),
        (
            "no longer accessed by",
            api::MEM_ADVISE_UNSET_ACCESSED_BY,
            advise::CU_MEM_ADVISE_UNSET_ACCESSED_BY as i32,
        ),
        (
            "host memory",
            api::MEMORYTYPE_HOST,
            sys::CUmemorytype_enum::CU_MEMORYTYPE_HOST as i32,
        ),
        (
            "device memory",
            api::MEMORYTYPE_DEVICE,
            sys::CUmemorytype_enum::CU_MEMORYTYPE_DEVICE as i32,
        ),
        (
            "read during the call",
            api::MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
            sys::CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL as i32,
        ),
        (
            "threads per block",
            api::FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
            function::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK as i32,
        ),
        (
            "error log",
            api::JIT_ERROR_LOG_BUFFER,
            jit::CU_JIT_ERROR_LOG_BUFFER as i32,
        ),
        (
            "error log's size",
            api::JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as i32,
        ),
    ] {
        assert_eq!(ours, theirs, "{name}");
    }
    assert_eq!(
        api::GET_PROC_ADDRESS_LEGACY_STREAM,
        proc_address::CU_GET_PROC_ADDRESS_LEGACY_STREAM as u64
    );
    // A cast in CUDA's headers, `((CUdevice)-1)`, which bindings leave out.
    assert_eq!(api::DEVICE_CPU, -1);
    // In CUDA's headers these two are casts, `((CUstream)0x1)` and `((CUstream)0x2)`, which bindings leave out.
    assert_eq!(
        (StreamHandle::LEGACY.as_raw(), StreamHandle::PER_THREAD.as_raw()),
        (1, 2)
    );
}
