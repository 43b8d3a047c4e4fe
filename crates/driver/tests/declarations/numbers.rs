//! The constants: results, attributes and flags.

use std::collections::BTreeSet;

use cudarc::driver::sys;
use millstream_driver::{
    DeviceAttribute, FunctionAttribute, P2pAttribute, ResultCode, StreamHandle, cuda::api,
};

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
        PEER_ACCESS_UNSUPPORTED = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
        INVALID_PTX = CUDA_ERROR_INVALID_PTX;
        NVLINK_UNCORRECTABLE = CUDA_ERROR_NVLINK_UNCORRECTABLE;
        UNSUPPORTED_PTX_VERSION = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
        CONTAINED = CUDA_ERROR_CONTAINED;
        SHARED_OBJECT_SYMBOL_NOT_FOUND = CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;
        INVALID_HANDLE = CUDA_ERROR_INVALID_HANDLE;
        ILLEGAL_STATE = CUDA_ERROR_ILLEGAL_STATE;
        LOSSY_QUERY = CUDA_ERROR_LOSSY_QUERY;
        NOT_FOUND = CUDA_ERROR_NOT_FOUND;
        NOT_READY = CUDA_ERROR_NOT_READY;
        ILLEGAL_ADDRESS = CUDA_ERROR_ILLEGAL_ADDRESS;
        LAUNCH_OUT_OF_RESOURCES = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        LAUNCH_TIMEOUT = CUDA_ERROR_LAUNCH_TIMEOUT;
        PEER_ACCESS_ALREADY_ENABLED = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
        PEER_ACCESS_NOT_ENABLED = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
        CONTEXT_IS_DESTROYED = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        ASSERT = CUDA_ERROR_ASSERT;
        TOO_MANY_PEERS = CUDA_ERROR_TOO_MANY_PEERS;
        HOST_MEMORY_ALREADY_REGISTERED = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        HOST_MEMORY_NOT_REGISTERED = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
        HARDWARE_STACK_ERROR = CUDA_ERROR_HARDWARE_STACK_ERROR;
        ILLEGAL_INSTRUCTION = CUDA_ERROR_ILLEGAL_INSTRUCTION;
        MISALIGNED_ADDRESS = CUDA_ERROR_MISALIGNED_ADDRESS;
        INVALID_ADDRESS_SPACE = CUDA_ERROR_INVALID_ADDRESS_SPACE;
        INVALID_PC = CUDA_ERROR_INVALID_PC;
        LAUNCH_FAILED = CUDA_ERROR_LAUNCH_FAILED;
        COOPERATIVE_LAUNCH_TOO_LARGE = CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
        TENSOR_MEMORY_LEAK = CUDA_ERROR_TENSOR_MEMORY_LEAK;
        NOT_PERMITTED = CUDA_ERROR_NOT_PERMITTED;
        NOT_SUPPORTED = CUDA_ERROR_NOT_SUPPORTED;
        MPS_CLIENT_TERMINATED = CUDA_ERROR_MPS_CLIENT_TERMINATED;
        STREAM_CAPTURE_UNSUPPORTED = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        STREAM_CAPTURE_INVALIDATED = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        STREAM_CAPTURE_MERGE = CUDA_ERROR_STREAM_CAPTURE_MERGE;
        STREAM_CAPTURE_UNMATCHED = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
        STREAM_CAPTURE_UNJOINED = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        STREAM_CAPTURE_ISOLATION = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        STREAM_CAPTURE_IMPLICIT = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        CAPTURED_EVENT = CUDA_ERROR_CAPTURED_EVENT;
        STREAM_CAPTURE_WRONG_THREAD = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
        GRAPH_EXEC_UPDATE_FAILURE = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
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
        TOTAL_CONSTANT_MEMORY = CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY;
        WARP_SIZE = CU_DEVICE_ATTRIBUTE_WARP_SIZE;
        MAX_PITCH = CU_DEVICE_ATTRIBUTE_MAX_PITCH;
        MAX_REGISTERS_PER_BLOCK = CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK;
        CLOCK_RATE = CU_DEVICE_ATTRIBUTE_CLOCK_RATE;
        MULTIPROCESSOR_COUNT = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        INTEGRATED = CU_DEVICE_ATTRIBUTE_INTEGRATED;
        ECC_ENABLED = CU_DEVICE_ATTRIBUTE_ECC_ENABLED;
        PCI_BUS_ID = CU_DEVICE_ATTRIBUTE_PCI_BUS_ID;
        PCI_DEVICE_ID = CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID;
        MEMORY_CLOCK_RATE = CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE;
        GLOBAL_MEMORY_BUS_WIDTH = CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH;
        L2_CACHE_SIZE = CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
        MAX_THREADS_PER_MULTIPROCESSOR = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR;
        ASYNC_ENGINE_COUNT = CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT;
        UNIFIED_ADDRESSING = CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING;
        PCI_DOMAIN_ID = CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID;
        COMPUTE_CAPABILITY_MAJOR = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
        COMPUTE_CAPABILITY_MINOR = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
        MAX_SHARED_MEMORY_PER_MULTIPROCESSOR =
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR;
        MAX_REGISTERS_PER_MULTIPROCESSOR = CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR;
        MANAGED_MEMORY = CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY;
        PAGEABLE_MEMORY_ACCESS = CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS;
        CONCURRENT_MANAGED_ACCESS = CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
        MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        COOPERATIVE_LAUNCH = CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH;
        MAX_BLOCKS_PER_MULTIPROCESSOR = CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR;
        MEMORY_POOLS_SUPPORTED = CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    } {
        assert_eq!(ours.as_raw(), theirs, "{ours:?}");
    }
}

#[test]
fn function_attributes_have_the_published_numbers() {
    use sys::CUfunction_attribute_enum as published;
    for (ours, theirs) in [
        (
            FunctionAttribute::MAX_THREADS_PER_BLOCK,
            published::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
        ),
        (
            FunctionAttribute::SHARED_BYTES,
            published::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
        ),
        (
            FunctionAttribute::MAX_DYNAMIC_SHARED_BYTES,
            published::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        ),
    ] {
        assert_eq!(ours.as_raw(), theirs as i32, "{ours:?}");
    }
}

#[test]
fn link_attributes_have_the_published_numbers() {
    use sys::CUdevice_P2PAttribute_enum as published;
    for (ours, theirs) in [
        (
            P2pAttribute::PERFORMANCE_RANK,
            published::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK,
        ),
        (
            P2pAttribute::ACCESS_SUPPORTED,
            published::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED,
        ),
        (
            P2pAttribute::NATIVE_ATOMIC_SUPPORTED,
            published::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
        ),
    ] {
        assert_eq!(ours.as_raw(), theirs as i32, "{ours:?}");
    }
}

#[test]
fn flags_have_the_published_numbers() {
    use sys::{
        CUdriverProcAddress_flags_enum as proc_address, CUevent_flags_enum as event,
        CUevent_wait_flags_enum as wait, CUjit_option_enum as jit,
        CUlaunchAttributeID_enum as launch, CUmem_advise_enum as advise,
        CUmemPool_attribute_enum as pool, CUstream_flags_enum as stream,
        CUstreamCaptureMode_enum as capture_mode, CUstreamCaptureStatus_enum as capture_status,
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
            "condition with an initial value",
            api::GRAPH_COND_ASSIGN_DEFAULT,
            sys::CU_GRAPH_COND_ASSIGN_DEFAULT,
        ),
        (
            "replace a capture's dependencies",
            api::STREAM_SET_CAPTURE_DEPENDENCIES,
            sys::CUstreamUpdateCaptureDependencies_flags_enum::CU_STREAM_SET_CAPTURE_DEPENDENCIES
                as u32,
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
            "no access",
            api::MEM_ACCESS_FLAGS_PROT_NONE,
            sys::CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_NONE as i32,
        ),
        (
            "access to read and write",
            api::MEM_ACCESS_FLAGS_PROT_READWRITE,
            sys::CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_READWRITE as i32,
        ),
        (
            "location on a device",
            api::MEM_LOCATION_TYPE_DEVICE,
            sys::CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE as i32,
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
            "kernel node",
            api::GRAPH_NODE_TYPE_KERNEL,
            sys::CUgraphNodeType_enum::CU_GRAPH_NODE_TYPE_KERNEL as i32,
        ),
        (
            "conditional node",
            api::GRAPH_NODE_TYPE_CONDITIONAL,
            sys::CUgraphNodeType_enum::CU_GRAPH_NODE_TYPE_CONDITIONAL as i32,
        ),
        (
            "if",
            api::GRAPH_COND_TYPE_IF,
            sys::CUgraphConditionalNodeType_enum::CU_GRAPH_COND_TYPE_IF as i32,
        ),
        (
            "while",
            api::GRAPH_COND_TYPE_WHILE,
            sys::CUgraphConditionalNodeType_enum::CU_GRAPH_COND_TYPE_WHILE as i32,
        ),
        (
            "global capture",
            api::STREAM_CAPTURE_MODE_GLOBAL,
            capture_mode::CU_STREAM_CAPTURE_MODE_GLOBAL as i32,
        ),
        (
            "thread-local capture",
            api::STREAM_CAPTURE_MODE_THREAD_LOCAL,
            capture_mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as i32,
        ),
        (
            "relaxed capture",
            api::STREAM_CAPTURE_MODE_RELAXED,
            capture_mode::CU_STREAM_CAPTURE_MODE_RELAXED as i32,
        ),
        (
            "active capture",
            api::STREAM_CAPTURE_STATUS_ACTIVE,
            capture_status::CU_STREAM_CAPTURE_STATUS_ACTIVE as i32,
        ),
        (
            "invalidated capture",
            api::STREAM_CAPTURE_STATUS_INVALIDATED,
            capture_status::CU_STREAM_CAPTURE_STATUS_INVALIDATED as i32,
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
        (
            "cooperative launch",
            api::LAUNCH_ATTRIBUTE_COOPERATIVE,
            launch::CU_LAUNCH_ATTRIBUTE_COOPERATIVE as i32,
        ),
        (
            "cluster dimension",
            api::LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            launch::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION as i32,
        ),
        (
            "priority of a launch",
            api::LAUNCH_ATTRIBUTE_PRIORITY,
            launch::CU_LAUNCH_ATTRIBUTE_PRIORITY as i32,
        ),
    ] {
        assert_eq!(ours, theirs, "{name}");
    }
    assert_eq!(
        api::GET_PROC_ADDRESS_LEGACY_STREAM,
        proc_address::CU_GET_PROC_ADDRESS_LEGACY_STREAM as u64
    );
    // CUDA's headers define it by a cast, `((CUdevice)-1)`, which bindings leave out.
    assert_eq!(api::DEVICE_CPU, -1);
    // CUDA's headers define these two by casts, `((CUstream)0x1)` and `((CUstream)0x2)`, which
    // bindings leave out.
    assert_eq!(
        (
            StreamHandle::LEGACY.as_raw(),
            StreamHandle::PER_THREAD.as_raw()
        ),
        (1, 2)
    );
}
