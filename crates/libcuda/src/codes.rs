//! Results: the names and descriptions of `CUresult` numbers.

use std::ffi::CStr;

use millstream_driver::ResultCode;

/// The result of an exported function before it becomes a number.
pub(crate) type Answer<T = ()> = Result<T, ResultCode>;

/// The limit is not supported on this device.
pub(crate) const UNSUPPORTED_LIMIT: ResultCode = ResultCode::from_raw(215);

pub(crate) fn refuse_if(condition: bool, code: ResultCode) -> Answer {
    if condition { Err(code) } else { Ok(()) }
}

/// Returns the name and the description of a result, if CUDA defines the number.
pub(crate) fn name_and_description(code: i32) -> Option<(&'static CStr, &'static CStr)> {
    let found = TABLE.binary_search_by_key(&code, |row| row.0).ok()?;
    let (_, name, description) = TABLE[found];
    Some((name, description))
}

/// Returns the C string of a text that ends with a zero byte.
const fn c_str(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("the only zero byte is the last one"),
    }
}

/// Starts the name of a result as CUDA's headers do.
macro_rules! name {
    (SUCCESS) => {
        "CUDA_SUCCESS\0"
    };
    ($name:ident) => {
        concat!("CUDA_ERROR_", stringify!($name), "\0")
    };
}

macro_rules! codes {
    ($($number:literal $name:ident $description:literal;)*) => {
        /// Every `CUresult` of CUDA 13.5, in ascending order.
        const TABLE: &[(i32, &CStr, &CStr)] =
            &[$(($number, c_str(name!($name)), c_str(concat!($description, "\0")))),*];
    };
}

codes! {
    0 SUCCESS "no error";
    1 INVALID_VALUE "invalid argument";
    2 OUT_OF_MEMORY "out of memory";
    3 NOT_INITIALIZED "initialization error";
    4 DEINITIALIZED "driver shutting down";
    5 PROFILER_DISABLED "the profiler is disabled";
    6 PROFILER_NOT_INITIALIZED "the profiler is not initialized";
    7 PROFILER_ALREADY_STARTED "profiler already started";
    8 PROFILER_ALREADY_STOPPED "profiler already stopped";
    34 STUB_LIBRARY "CUDA driver is a stub library";
    36 CALL_REQUIRES_NEWER_DRIVER "API call is not supported in the installed CUDA driver";
    46 DEVICE_UNAVAILABLE "the device is busy or unavailable";
    47 MULTICAST_RESOURCE_FULL "multicast resources are exhausted";
    100 NO_DEVICE "no CUDA-capable device is detected";
    101 INVALID_DEVICE "invalid device ordinal";
    102 DEVICE_NOT_LICENSED "device doesn't have valid Grid license";
    200 INVALID_IMAGE "device kernel image is invalid";
    201 INVALID_CONTEXT "invalid device context";
    202 CONTEXT_ALREADY_CURRENT "context already current";
    205 MAP_FAILED "mapping of buffer object failed";
    206 UNMAP_FAILED "unmapping of buffer object failed";
    207 ARRAY_IS_MAPPED "array is mapped";
    208 ALREADY_MAPPED "resource already mapped";
    209 NO_BINARY_FOR_GPU "no kernel image is available for execution on the device";
    210 ALREADY_ACQUIRED "resource already acquired";
    211 NOT_MAPPED "resource not mapped";
    212 NOT_MAPPED_AS_ARRAY "resource not mapped as array";
    213 NOT_MAPPED_AS_POINTER "resource not mapped as pointer";
    214 ECC_UNCORRECTABLE "uncorrectable ECC error encountered";
    215 UNSUPPORTED_LIMIT "limit is not supported on this architecture";
    216 CONTEXT_ALREADY_IN_USE "the device is in use by another thread";
    217 PEER_ACCESS_UNSUPPORTED "peer access is not supported";
    218 INVALID_PTX "a PTX JIT compilation failed";
    219 INVALID_GRAPHICS_CONTEXT "invalid OpenGL or DirectX context";
    220 NVLINK_UNCORRECTABLE "uncorrectable NVLink error";
    221 JIT_COMPILER_NOT_FOUND "PTX JIT compiler library not found";
    222 UNSUPPORTED_PTX_VERSION "the PTX version is not supported";
    223 JIT_COMPILATION_DISABLED "PTX JIT compilation was disabled";
    224 UNSUPPORTED_EXEC_AFFINITY "the execution affinity is not supported";
    225 UNSUPPORTED_DEVSIDE_SYNC "device-side synchronization is not supported";
    226 CONTAINED "contained error of an access to another device";
    227 INSUFFICIENT_LOADER_VERSION "the loader is too old for the image";
    300 INVALID_SOURCE "device kernel image is invalid";
    301 FILE_NOT_FOUND "file not found";
    302 SHARED_OBJECT_SYMBOL_NOT_FOUND "shared object symbol not found";
    303 SHARED_OBJECT_INIT_FAILED "shared object initialization failed";
    304 OPERATING_SYSTEM "operating system call failed";
    400 INVALID_HANDLE "invalid resource handle";
    401 ILLEGAL_STATE "the operation cannot be performed in the present state";
    402 LOSSY_QUERY "attempted introspection would be semantically lossy";
    500 NOT_FOUND "named symbol not found";
    600 NOT_READY "device not ready";
    700 ILLEGAL_ADDRESS "an illegal memory access was encountered";
    701 LAUNCH_OUT_OF_RESOURCES "too many resources requested for launch";
    702 LAUNCH_TIMEOUT "the launch timed out and was terminated";
    703 LAUNCH_INCOMPATIBLE_TEXTURING "launch uses incompatible texturing mode";
    704 PEER_ACCESS_ALREADY_ENABLED "peer access is already enabled";
    705 PEER_ACCESS_NOT_ENABLED "peer access has not been enabled";
    708 PRIMARY_CONTEXT_ACTIVE "cannot set while device is active in this process";
    709 CONTEXT_IS_DESTROYED "context is destroyed";
    710 ASSERT "device-side assert triggered";
    711 TOO_MANY_PEERS "peer mapping resources exhausted";
    712 HOST_MEMORY_ALREADY_REGISTERED "host memory is already registered";
    713 HOST_MEMORY_NOT_REGISTERED "host memory is not registered";
    714 HARDWARE_STACK_ERROR "hardware stack error";
    715 ILLEGAL_INSTRUCTION "an illegal instruction was encountered";
    716 MISALIGNED_ADDRESS "misaligned address";
    717 INVALID_ADDRESS_SPACE "operation not supported on this address space";
    718 INVALID_PC "invalid program counter";
    719 LAUNCH_FAILED "unspecified launch failure";
    720 COOPERATIVE_LAUNCH_TOO_LARGE "too many blocks in cooperative launch";
    721 TENSOR_MEMORY_LEAK "tensor memory not completely freed";
    800 NOT_PERMITTED "operation not permitted";
    801 NOT_SUPPORTED "operation not supported";
    802 SYSTEM_NOT_READY "system not yet initialized";
    803 SYSTEM_DRIVER_MISMATCH "driver and system do not match";
    804 COMPAT_NOT_SUPPORTED_ON_DEVICE "forward compatibility is not supported on this device";
    805 MPS_CONNECTION_FAILED "MPS connection failed";
    806 MPS_RPC_FAILURE "MPS call failed";
    807 MPS_SERVER_NOT_READY "MPS server is not ready";
    808 MPS_MAX_CLIENTS_REACHED "too many MPS clients";
    809 MPS_MAX_CONNECTIONS_REACHED "too many MPS connections";
    810 MPS_CLIENT_TERMINATED "MPS client was terminated";
    811 CDP_NOT_SUPPORTED "CUDA dynamic parallelism is not supported";
    812 CDP_VERSION_MISMATCH "CUDA dynamic parallelism version mismatch";
    900 STREAM_CAPTURE_UNSUPPORTED "operation not permitted when stream is capturing";
    901 STREAM_CAPTURE_INVALIDATED "operation failed due to a previous error during capture";
    902 STREAM_CAPTURE_MERGE "the operation would merge two captures";
    903 STREAM_CAPTURE_UNMATCHED "capture ended in another stream than it began";
    904 STREAM_CAPTURE_UNJOINED "the capture has unjoined work";
    905 STREAM_CAPTURE_ISOLATION "dependency on work that is not captured";
    906 STREAM_CAPTURE_IMPLICIT "implicit dependency on a capturing stream";
    907 CAPTURED_EVENT "the event was recorded in a capturing stream";
    908 STREAM_CAPTURE_WRONG_THREAD "capture ended by the wrong thread";
    909 TIMEOUT "wait operation timed out";
    910 GRAPH_EXEC_UPDATE_FAILURE "the graph update violates its constraints";
    911 EXTERNAL_DEVICE "an error outside of CUDA";
    912 INVALID_CLUSTER_SIZE "invalid cluster size";
    913 FUNCTION_NOT_LOADED "the function is not loaded";
    914 INVALID_RESOURCE_TYPE "invalid resource type";
    915 INVALID_RESOURCE_CONFIGURATION "invalid resource configuration";
    916 KEY_ROTATION "ongoing key rotation sequence";
    917 STREAM_DETACHED "the stream is detached";
    918 GRAPH_RECAPTURE_FAILURE "the recapture does not match the graph";
    919 FABRIC_NOT_READY "the fabric is not ready";
    999 UNKNOWN "unknown error";
}

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
