//! Results: the names and descriptions of `CUresult` numbers.

use std::ffi::CStr;

use millstream_driver::ResultCode;

/// The result of an exported function before it becomes a number.
pub(crate) type Answer<T = ()> = Result<T, ResultCode>;

/// The limit is not supported on this device.
pub(crate) const UNSUPPORTED_LIMIT: ResultCode = ResultCode::from_raw(215);

/// Returns the name and the description of a result, if CUDA defines the number.
pub(crate) fn name_and_description(code: i32) -> Option<(&'static CStr, &'static CStr)> {
    let found = TABLE.binary_search_by_key(&code, |row| row.0).ok()?;
    let (_, name, description) = TABLE[found];
    Some((name, description))
}

/// Every `CUresult` of CUDA 13, in ascending order.
const TABLE: &[(i32, &CStr, &CStr)] = &[
    (0, c"CUDA_SUCCESS", c"no error"),
    (1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
    (4, c"CUDA_ERROR_DEINITIALIZED", c"driver shutting down"),
    (
        5,
        c"CUDA_ERROR_PROFILER_DISABLED",
        c"the profiler is disabled",
    ),
    (
        6,
        c"CUDA_ERROR_PROFILER_NOT_INITIALIZED",
        c"the profiler is not initialized",
    ),
    (
        7,
        c"CUDA_ERROR_PROFILER_ALREADY_STARTED",
        c"profiler already started",
    ),
    (
        8,
        c"CUDA_ERROR_PROFILER_ALREADY_STOPPED",
        c"profiler already stopped",
    ),
    (
        34,
        c"CUDA_ERROR_STUB_LIBRARY",
        c"CUDA driver is a stub library",
    ),
    (
        46,
        c"CUDA_ERROR_DEVICE_UNAVAILABLE",
        c"the device is busy or unavailable",
    ),
    (
        100,
        c"CUDA_ERROR_NO_DEVICE",
        c"no CUDA-capable device is detected",
    ),
    (101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
    (
        102,
        c"CUDA_ERROR_DEVICE_NOT_LICENSED",
        c"device doesn't have valid Grid license",
    ),
    (
        200,
        c"CUDA_ERROR_INVALID_IMAGE",
        c"device kernel image is invalid",
    ),
    (
        201,
        c"CUDA_ERROR_INVALID_CONTEXT",
        c"invalid device context",
    ),
    (
        202,
        c"CUDA_ERROR_CONTEXT_ALREADY_CURRENT",
        c"context already current",
    ),
    (
        205,
        c"CUDA_ERROR_MAP_FAILED",
        c"mapping of buffer object failed",
    ),
    (
        206,
        c"CUDA_ERROR_UNMAP_FAILED",
        c"unmapping of buffer object failed",
    ),
    (207, c"CUDA_ERROR_ARRAY_IS_MAPPED", c"array is mapped"),
    (
        208,
        c"CUDA_ERROR_ALREADY_MAPPED",
        c"resource already mapped",
    ),
    (
        209,
        c"CUDA_ERROR_NO_BINARY_FOR_GPU",
        c"no kernel image is available for execution on the device",
    ),
    (
        210,
        c"CUDA_ERROR_ALREADY_ACQUIRED",
        c"resource already acquired",
    ),
    (211, c"CUDA_ERROR_NOT_MAPPED", c"resource not mapped"),
    (
        212,
        c"CUDA_ERROR_NOT_MAPPED_AS_ARRAY",
        c"resource not mapped as array",
    ),
    (
        213,
        c"CUDA_ERROR_NOT_MAPPED_AS_POINTER",
        c"resource not mapped as pointer",
    ),
    (
        214,
        c"CUDA_ERROR_ECC_UNCORRECTABLE",
        c"uncorrectable ECC error encountered",
    ),
    (
        215,
        c"CUDA_ERROR_UNSUPPORTED_LIMIT",
        c"limit is not supported on this architecture",
    ),
    (
        216,
        c"CUDA_ERROR_CONTEXT_ALREADY_IN_USE",
        c"the device is in use by another thread",
    ),
    (
        217,
        c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
        c"peer access is not supported",
    ),
    (
        218,
        c"CUDA_ERROR_INVALID_PTX",
        c"a PTX JIT compilation failed",
    ),
    (
        219,
        c"CUDA_ERROR_INVALID_GRAPHICS_CONTEXT",
        c"invalid OpenGL or DirectX context",
    ),
    (
        220,
        c"CUDA_ERROR_NVLINK_UNCORRECTABLE",
        c"uncorrectable NVLink error",
    ),
    (
        221,
        c"CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
        c"PTX JIT compiler library not found",
    ),
    (
        222,
        c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        c"the PTX version is not supported",
    ),
    (
        223,
        c"CUDA_ERROR_JIT_COMPILATION_DISABLED",
        c"PTX JIT compilation was disabled",
    ),
    (
        224,
        c"CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY",
        c"the execution affinity is not supported",
    ),
    (
        225,
        c"CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC",
        c"device-side synchronization is not supported",
    ),
    (
        226,
        c"CUDA_ERROR_CONTAINED",
        c"contained error of an access to another device",
    ),
    (
        300,
        c"CUDA_ERROR_INVALID_SOURCE",
        c"device kernel image is invalid",
    ),
    (301, c"CUDA_ERROR_FILE_NOT_FOUND", c"file not found"),
    (
        302,
        c"CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND",
        c"shared object symbol not found",
    ),
    (
        303,
        c"CUDA_ERROR_SHARED_OBJECT_INIT_FAILED",
        c"shared object initialization failed",
    ),
    (
        304,
        c"CUDA_ERROR_OPERATING_SYSTEM",
        c"operating system call failed",
    ),
    (
        400,
        c"CUDA_ERROR_INVALID_HANDLE",
        c"invalid resource handle",
    ),
    (
        401,
        c"CUDA_ERROR_ILLEGAL_STATE",
        c"the operation cannot be performed in the present state",
    ),
    (
        402,
        c"CUDA_ERROR_LOSSY_QUERY",
        c"attempted introspection would be semantically lossy",
    ),
    (500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (600, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (
        700,
        c"CUDA_ERROR_ILLEGAL_ADDRESS",
        c"an illegal memory access was encountered",
    ),
    (
        701,
        c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        c"too many resources requested for launch",
    ),
    (
        702,
        c"CUDA_ERROR_LAUNCH_TIMEOUT",
        c"the launch timed out and was terminated",
    ),
    (
        703,
        c"CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING",
        c"launch uses incompatible texturing mode",
    ),
    (
        704,
        c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
        c"peer access is already enabled",
    ),
    (
        705,
        c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
        c"peer access has not been enabled",
    ),
    (
        708,
        c"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE",
        c"cannot set while device is active in this process",
    ),
    (
        709,
        c"CUDA_ERROR_CONTEXT_IS_DESTROYED",
        c"context is destroyed",
    ),
    (710, c"CUDA_ERROR_ASSERT", c"device-side assert triggered"),
    (
        711,
        c"CUDA_ERROR_TOO_MANY_PEERS",
        c"peer mapping resources exhausted",
    ),
    (
        712,
        c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        c"host memory is already registered",
    ),
    (
        713,
        c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        c"host memory is not registered",
    ),
    (
        714,
        c"CUDA_ERROR_HARDWARE_STACK_ERROR",
        c"hardware stack error",
    ),
    (
        715,
        c"CUDA_ERROR_ILLEGAL_INSTRUCTION",
        c"an illegal instruction was encountered",
    ),
    (716, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address"),
    (
        717,
        c"CUDA_ERROR_INVALID_ADDRESS_SPACE",
        c"operation not supported on this address space",
    ),
    (718, c"CUDA_ERROR_INVALID_PC", c"invalid program counter"),
    (
        719,
        c"CUDA_ERROR_LAUNCH_FAILED",
        c"unspecified launch failure",
    ),
    (
        720,
        c"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
        c"too many blocks in cooperative launch",
    ),
    (
        721,
        c"CUDA_ERROR_TENSOR_MEMORY_LEAK",
        c"tensor memory not completely freed",
    ),
    (800, c"CUDA_ERROR_NOT_PERMITTED", c"operation not permitted"),
    (801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
    (
        802,
        c"CUDA_ERROR_SYSTEM_NOT_READY",
        c"system not yet initialized",
    ),
    (
        803,
        c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        c"driver and system do not match",
    ),
    (
        804,
        c"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        c"forward compatibility is not supported on this device",
    ),
    (
        805,
        c"CUDA_ERROR_MPS_CONNECTION_FAILED",
        c"MPS connection failed",
    ),
    (806, c"CUDA_ERROR_MPS_RPC_FAILURE", c"MPS call failed"),
    (
        807,
        c"CUDA_ERROR_MPS_SERVER_NOT_READY",
        c"MPS server is not ready",
    ),
    (
        808,
        c"CUDA_ERROR_MPS_MAX_CLIENTS_REACHED",
        c"too many MPS clients",
    ),
    (
        809,
        c"CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED",
        c"too many MPS connections",
    ),
    (
        810,
        c"CUDA_ERROR_MPS_CLIENT_TERMINATED",
        c"MPS client was terminated",
    ),
    (
        811,
        c"CUDA_ERROR_CDP_NOT_SUPPORTED",
        c"CUDA dynamic parallelism is not supported",
    ),
    (
        812,
        c"CUDA_ERROR_CDP_VERSION_MISMATCH",
        c"CUDA dynamic parallelism version mismatch",
    ),
    (
        900,
        c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        c"operation not permitted when stream is capturing",
    ),
    (
        901,
        c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        c"operation failed due to a previous error during capture",
    ),
    (
        902,
        c"CUDA_ERROR_STREAM_CAPTURE_MERGE",
        c"the operation would merge two captures",
    ),
    (
        903,
        c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
        c"capture ended in another stream than it began",
    ),
    (
        904,
        c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
        c"the capture has unjoined work",
    ),
    (
        905,
        c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
        c"dependency on work that is not captured",
    ),
    (
        906,
        c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
        c"implicit dependency on a capturing stream",
    ),
    (
        907,
        c"CUDA_ERROR_CAPTURED_EVENT",
        c"the event was recorded in a capturing stream",
    ),
    (
        908,
        c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
        c"capture ended by the wrong thread",
    ),
    (909, c"CUDA_ERROR_TIMEOUT", c"wait operation timed out"),
    (
        910,
        c"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
        c"the graph update violates its constraints",
    ),
    (
        911,
        c"CUDA_ERROR_EXTERNAL_DEVICE",
        c"an error outside of CUDA",
    ),
    (
        912,
        c"CUDA_ERROR_INVALID_CLUSTER_SIZE",
        c"invalid cluster size",
    ),
    (
        913,
        c"CUDA_ERROR_FUNCTION_NOT_LOADED",
        c"the function is not loaded",
    ),
    (
        914,
        c"CUDA_ERROR_INVALID_RESOURCE_TYPE",
        c"invalid resource type",
    ),
    (
        915,
        c"CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION",
        c"invalid resource configuration",
    ),
    (999, c"CUDA_ERROR_UNKNOWN", c"unknown error"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_agrees_with_the_driver_crate() {
        assert!(TABLE.is_sorted_by(|one, next| one.0 < next.0));
        let named = TABLE.iter().filter_map(|(raw, name, _)| {
            let known = ResultCode::from_raw(*raw).name()?;
            Some((name.to_str().unwrap(), known))
        });
        let mut checked = 0;
        for (name, known) in named {
            let prefix = if known == "SUCCESS" {
                "CUDA_"
            } else {
                "CUDA_ERROR_"
            };
            assert_eq!(name, format!("{prefix}{known}"));
            checked += 1;
        }
        assert!(checked > 30);
    }
}
