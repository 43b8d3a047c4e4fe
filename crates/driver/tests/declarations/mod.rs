//! Comparison of this crate's declarations of libcuda with published bindings: the parameters of
//! every function, the fields of every structure, and every constant.

#![allow(non_snake_case, reason = "CUDA's own names")]

mod numbers;

use std::{any::type_name, mem::offset_of};

use cudarc::driver::sys;
use millstream_driver::{
    ResultCode,
    cuda::api::{self, types},
};

/// The ABI of a parameter or a result.
#[derive(Debug, PartialEq, Eq)]
struct AbiType {
    size: usize,
    align: usize,
    /// For a pointer, whether its target may be written, and the target's size if this test knows
    /// it.
    pointer: Option<(bool, Option<usize>)>,
}

impl AbiType {
    fn of<T>() -> Self {
        Self {
            size: size_of::<T>(),
            align: align_of::<T>(),
            pointer: pointee(type_name::<T>()),
        }
    }
}

/// Parses a pointer's target from the name of the type, because Rust has no other way to inspect a
/// generic type.
fn pointee(name: &str) -> Option<(bool, Option<usize>)> {
    let (writable, target) = match (name.strip_prefix("*mut "), name.strip_prefix("*const ")) {
        (Some(target), _) => (true, target),
        (_, Some(target)) => (false, target),
        _ => return None,
    };
    let is_struct = [
        "CUmemcpyAttributes_st",
        "CUmemAccessDesc_st",
        "CUDA_MEMCPY2D_st",
        "CUDA_MEMCPY3D_PEER_st",
        "CUuuid_st",
        "CUlaunchConfig_st",
        "CUDA_MEMCPY3D_st",
        "CUDA_KERNEL_NODE_PARAMS_v2_st",
        "CUDA_MEMSET_NODE_PARAMS_st",
        "CUDA_GRAPH_INSTANTIATE_PARAMS_st",
        "CUgraphExecUpdateResultInfo_st",
        "CUgraphNodeParams_st",
        "CUgraphEdgeData_st",
    ]
    .iter()
    .any(|name| target.ends_with(name));
    if target.ends_with("_st") && !target.starts_with('*') && !is_struct {
        // A handle: the bindings declare it as a pointer to an opaque type, this crate as a number.
        return None;
    }
    let size = match target.rsplit("::").next().expect("a split has a part") {
        "c_void" if !target.starts_with('*') => None,
        // This crate passes the union of launch attributes without a type, and no edge data.
        "CUlaunchAttributeValue_union" | "CUgraphEdgeData_st" => None,
        "i8" | "u8" => Some(1),
        "i32" | "u32" | "f32" => Some(4),
        _ if target.starts_with('*') => Some(8),
        "u64" | "usize" | "ContextHandle" | "StreamHandle" | "EventHandle" | "ModuleHandle"
        | "FunctionHandle" | "PoolHandle" | "DevicePtr" | "GraphHandle" | "GraphNodeHandle"
        | "GraphExecHandle" | "ConditionHandle" => Some(8),
        "Memcpy3d" => Some(size_of::<api::Memcpy3d>()),
        "CUDA_MEMCPY3D_st" => Some(size_of::<sys::CUDA_MEMCPY3D_st>()),
        "KernelNodeParams" => Some(size_of::<api::KernelNodeParams>()),
        "CUDA_KERNEL_NODE_PARAMS_v2_st" => Some(size_of::<sys::CUDA_KERNEL_NODE_PARAMS_v2_st>()),
        "MemsetNodeParams" => Some(size_of::<api::MemsetNodeParams>()),
        "CUDA_MEMSET_NODE_PARAMS_st" => Some(size_of::<sys::CUDA_MEMSET_NODE_PARAMS_st>()),
        "InstantiateParams" => Some(size_of::<api::InstantiateParams>()),
        "CUDA_GRAPH_INSTANTIATE_PARAMS_st" => {
            Some(size_of::<sys::CUDA_GRAPH_INSTANTIATE_PARAMS_st>())
        }
        "ExecUpdateResultInfo" => Some(size_of::<api::ExecUpdateResultInfo>()),
        "CUgraphExecUpdateResultInfo_st" => Some(size_of::<sys::CUgraphExecUpdateResultInfo_st>()),
        "ConditionalNodeParams" => Some(size_of::<api::ConditionalNodeParams>()),
        "CUgraphNodeParams_st" => Some(size_of::<sys::CUgraphNodeParams_st>()),
        "CopyAttributes" => Some(size_of::<api::CopyAttributes>()),
        "CUmemcpyAttributes_st" => Some(size_of::<sys::CUmemcpyAttributes_st>()),
        "MemoryAccess" => Some(size_of::<api::MemoryAccess>()),
        "CUmemAccessDesc_st" => Some(size_of::<sys::CUmemAccessDesc_st>()),
        "Memcpy3dPeer" => Some(size_of::<api::Memcpy3dPeer>()),
        "CUDA_MEMCPY3D_PEER_st" => Some(size_of::<sys::CUDA_MEMCPY3D_PEER_st>()),
        "LaunchConfig" => Some(size_of::<api::LaunchConfig>()),
        "CUlaunchConfig_st" => Some(size_of::<sys::CUlaunchConfig_st>()),
        "Uuid" => Some(size_of::<api::Uuid>()),
        "CUuuid_st" => Some(size_of::<sys::CUuuid_st>()),
        "Memcpy2d" => Some(size_of::<api::Memcpy2d>()),
        "CUDA_MEMCPY2D_st" => Some(size_of::<sys::CUDA_MEMCPY2D_st>()),
        enumeration if enumeration.starts_with("CU") && enumeration.contains("_enum") => Some(4),
        other => panic!("`{other}` is a new target of a pointer; say its size here"),
    };
    Some((writable, size))
}

/// A function type whose result and parameters can be listed, in that order.
trait AbiSignature {
    fn abi_types() -> Vec<AbiType>;
}

macro_rules! signatures {
    ($($parameter:ident)*) => {
        impl<R, $($parameter),*> AbiSignature for unsafe extern "C" fn($($parameter),*) -> R {
            fn abi_types() -> Vec<AbiType> {
                vec![AbiType::of::<R>(), $(AbiType::of::<$parameter>()),*]
            }
        }
        // The bindings wrap each function in one with the same parameters that loads the library
        // first.
        impl<R, $($parameter),*> AbiSignature for unsafe fn($($parameter),*) -> R {
            fn abi_types() -> Vec<AbiType> {
                vec![AbiType::of::<R>(), $(AbiType::of::<$parameter>()),*]
            }
        }
    };
}
signatures!();
signatures!(A);
signatures!(A B);
signatures!(A B C);
signatures!(A B C D);
signatures!(A B C D E);
signatures!(A B C D E F);
signatures!(A B C D E F G H I);
signatures!(A B C D E F G H I J);
signatures!(A B C D E F G H I J K);

fn abi_types_of<F: AbiSignature>(_: F) -> Vec<AbiType> {
    F::abi_types()
}

/// The published function of a row: that of the name, unless another symbol follows.
macro_rules! published {
    ($name:ident) => {
        sys::$name
    };
    ($name:ident $symbol:ident) => {
        sys::$symbol
    };
}

/// Stands for the type of a parameter.
macro_rules! any {
    ($parameter:ident) => {
        _
    };
}

/// Compares each function with the published one.
macro_rules! compare {
    ($($kind:ident {
        $($name:ident $([$symbol:ident])? ($($parameter:ident: $type:ty),*);)*
    })*) => {
        $($(assert_eq!(
            <types::$name as AbiSignature>::abi_types(),
            abi_types_of(published!($name $($symbol)?) as unsafe fn($(any!($parameter)),*) -> _),
            concat!(stringify!($name), ": ours left, published right"),
        );)*)*
    };
}

#[test]
fn every_function_has_the_published_parameters() {
    millstream_driver::cuda_functions!(compare);
    assert_eq!(
        <api::DriverGetVersion as AbiSignature>::abi_types(),
        abi_types_of(sys::cuDriverGetVersion as unsafe fn(_) -> _)
    );
    assert_eq!(
        <api::GetProcAddress as AbiSignature>::abi_types(),
        abi_types_of(sys::cuGetProcAddress_v2 as unsafe fn(_, _, _, _, _) -> _)
    );
    // A callback's own parameters are behind a pointer, so the comparison above does not include
    // them.
    let _: fn(Option<unsafe extern "C" fn(*mut std::ffi::c_void)>) -> sys::CUhostFn =
        |callback| callback;
}

#[test]
fn a_wrong_declaration_is_detected() {
    type Swapped = unsafe extern "C" fn(*mut u64, i32) -> ResultCode;
    type Right = unsafe extern "C" fn(*mut i32, i32) -> ResultCode;
    let published = || abi_types_of(sys::cuDeviceGet as unsafe fn(_, _) -> _);
    assert_eq!(Right::abi_types(), published());
    assert_ne!(
        Swapped::abi_types(),
        published(),
        "a result of another size"
    );
    assert_ne!(
        types::cuInit::abi_types(),
        published(),
        "another number of parameters"
    );
    assert_ne!(
        <unsafe extern "C" fn(*const i32, i32) -> ResultCode>::abi_types(),
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
    fields! { api::Memcpy3dPeer, sys::CUDA_MEMCPY3D_PEER_st:
        source_x_bytes = srcXInBytes;
        source_y = srcY;
        source_z = srcZ;
        source_lod = srcLOD;
        source_type = srcMemoryType;
        source_host = srcHost;
        source_device = srcDevice;
        source_array = srcArray;
        source_context = srcContext;
        source_pitch = srcPitch;
        source_height = srcHeight;
        target_x_bytes = dstXInBytes;
        target_y = dstY;
        target_z = dstZ;
        target_lod = dstLOD;
        target_type = dstMemoryType;
        target_host = dstHost;
        target_device = dstDevice;
        target_array = dstArray;
        target_context = dstContext;
        target_pitch = dstPitch;
        target_height = dstHeight;
        width_bytes = WidthInBytes;
        height = Height;
        depth = Depth;
    }
    fields! { api::Memcpy3d, sys::CUDA_MEMCPY3D_st:
        source_x_bytes = srcXInBytes;
        source_y = srcY;
        source_z = srcZ;
        source_lod = srcLOD;
        source_type = srcMemoryType;
        source_host = srcHost;
        source_device = srcDevice;
        source_array = srcArray;
        reserved_0 = reserved0;
        source_pitch = srcPitch;
        source_height = srcHeight;
        target_x_bytes = dstXInBytes;
        target_y = dstY;
        target_z = dstZ;
        target_lod = dstLOD;
        target_type = dstMemoryType;
        target_host = dstHost;
        target_device = dstDevice;
        target_array = dstArray;
        reserved_1 = reserved1;
        target_pitch = dstPitch;
        target_height = dstHeight;
        width_bytes = WidthInBytes;
        height = Height;
        depth = Depth;
    }
    fields! { api::KernelNodeParams, sys::CUDA_KERNEL_NODE_PARAMS_v2_st:
        function = func;
        grid = gridDimX;
        block = blockDimX;
        shared_bytes = sharedMemBytes;
        params = kernelParams;
        extra = extra;
        kernel = kern;
        context = ctx;
    }
    fields! { api::MemsetNodeParams, sys::CUDA_MEMSET_NODE_PARAMS_st:
        target = dst;
        pitch = pitch;
        value = value;
        element_bytes = elementSize;
        width = width;
        height = height;
    }
    fields! { api::ConditionalNodeParams, sys::CUgraphNodeParams_st:
        node_type = type_;
        reserved_0 = reserved0;
        conditional = __bindgen_anon_1;
        reserved_2 = reserved2;
    }
    fields! { api::ConditionalParams, sys::CUDA_CONDITIONAL_NODE_PARAMS:
        condition = handle;
        kind = type_;
        body_count = size;
        bodies = phGraph_out;
        context = ctx;
    }
    fields! { api::InstantiateParams, sys::CUDA_GRAPH_INSTANTIATE_PARAMS_st:
        flags = flags;
        upload_stream = hUploadStream;
        error_node = hErrNode_out;
        result = result_out;
    }
    fields! { api::ExecUpdateResultInfo, sys::CUgraphExecUpdateResultInfo_st:
        result = result;
        error_node = errorNode;
        error_from_node = errorFromNode;
    }
    fields! { api::MemoryAccess, sys::CUmemAccessDesc_st:
        location = location;
        flags = flags;
    }
    fields! { api::LaunchConfig, sys::CUlaunchConfig_st:
        grid = gridDimX;
        block = blockDimX;
        shared_bytes = sharedMemBytes;
        stream = hStream;
        attributes = attrs;
        attribute_count = numAttrs;
    }
    fields! { api::LaunchAttribute, sys::CUlaunchAttribute_st:
        id = id;
        padding = pad;
        value = value;
    }
    fields! { api::Uuid, sys::CUuuid_st:
        bytes = bytes;
    }
    fields! { api::CopyAttributes, sys::CUmemcpyAttributes_st:
        source_access_order = srcAccessOrder;
        source_hint = srcLocHint;
        target_hint = dstLocHint;
        flags = flags;
    }
}
