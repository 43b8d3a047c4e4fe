//! Structures that libcuda's functions take, declared as in CUDA's headers.

use std::ffi::{c_int, c_uint, c_void};

use crate::{
    ConditionHandle, ContextHandle, DevicePtr, FunctionHandle, GraphHandle, GraphNodeHandle,
    StreamHandle,
};

/// `CUuuid`: the universally unique identifier of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Uuid {
    /// The bytes, in the order in which they are printed.
    pub bytes: [u8; 16],
}

/// `CUmemLocation`: a memory location; all zero for no hint.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryLocation {
    /// The kind of location (`CUmemLocationType`).
    pub kind: c_int,
    /// The number of the location within its kind.
    pub id: c_int,
}

/// `CUmemAccessDesc`: the access of one location to memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryAccess {
    /// The location that accesses the memory.
    pub location: MemoryLocation,
    /// The kinds of access (`CUmemAccess_flags`).
    pub flags: c_int,
}

/// `CUmemcpyAttributes`: attributes of the copies in a batch.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyAttributes {
    /// The order of accesses to the source (`CUmemcpySrcAccessOrder`).
    pub source_access_order: c_int,
    /// A location hint for a source in managed memory.
    pub source_hint: MemoryLocation,
    /// A location hint for a target in managed memory.
    pub target_hint: MemoryLocation,
    /// Flags (`CUmemcpyFlags`).
    pub flags: c_uint,
}

/// `CUDA_MEMCPY2D`: parameters of a two-dimensional copy. On each side the memory type selects
/// which of the three addresses is used.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy2d {
    /// The bytes to skip at the start of each source row.
    pub source_x_bytes: usize,
    /// The source rows to skip.
    pub source_y: usize,
    /// The source's memory type (`CUmemorytype`).
    pub source_type: c_int,
    /// The first source row, in host memory.
    pub source_host: *const c_void,
    /// The first source row, in device memory.
    pub source_device: DevicePtr,
    /// The source as a `CUarray`.
    pub source_array: usize,
    /// The distance between the starts of source rows, in bytes.
    pub source_pitch: usize,
    /// The bytes to skip at the start of each target row.
    pub target_x_bytes: usize,
    /// The target rows to skip.
    pub target_y: usize,
    /// The target's memory type (`CUmemorytype`).
    pub target_type: c_int,
    /// The first target row, in host memory.
    pub target_host: *mut c_void,
    /// The first target row, in device memory.
    pub target_device: DevicePtr,
    /// The target as a `CUarray`.
    pub target_array: usize,
    /// The distance between the starts of target rows, in bytes.
    pub target_pitch: usize,
    /// The length of a row, in bytes.
    pub width_bytes: usize,
    /// The number of rows.
    pub height: usize,
}

/// `CUDA_MEMCPY3D_PEER`: parameters of a three-dimensional copy between two contexts. On each side
/// the memory type selects which of the three addresses is used.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy3dPeer {
    /// The bytes to skip at the start of each source row.
    pub source_x_bytes: usize,
    /// The source rows to skip.
    pub source_y: usize,
    /// The source planes to skip.
    pub source_z: usize,
    /// The source's level of detail; 0.
    pub source_lod: usize,
    /// The source's memory type (`CUmemorytype`).
    pub source_type: c_int,
    /// The first source row, in host memory.
    pub source_host: *const c_void,
    /// The first source row, in device memory.
    pub source_device: DevicePtr,
    /// The source as a `CUarray`.
    pub source_array: usize,
    /// The source's context.
    pub source_context: ContextHandle,
    /// The distance between the starts of source rows, in bytes.
    pub source_pitch: usize,
    /// The number of rows of a source plane.
    pub source_height: usize,
    /// The bytes to skip at the start of each target row.
    pub target_x_bytes: usize,
    /// The target rows to skip.
    pub target_y: usize,
    /// The target planes to skip.
    pub target_z: usize,
    /// The target's level of detail; 0.
    pub target_lod: usize,
    /// The target's memory type (`CUmemorytype`).
    pub target_type: c_int,
    /// The first target row, in host memory.
    pub target_host: *mut c_void,
    /// The first target row, in device memory.
    pub target_device: DevicePtr,
    /// The target as a `CUarray`.
    pub target_array: usize,
    /// The target's context.
    pub target_context: ContextHandle,
    /// The distance between the starts of target rows, in bytes.
    pub target_pitch: usize,
    /// The number of rows of a target plane.
    pub target_height: usize,
    /// The length of a row, in bytes.
    pub width_bytes: usize,
    /// The number of rows of a plane.
    pub height: usize,
    /// The number of planes.
    pub depth: usize,
}

/// `CUlaunchAttribute`: an attribute of a launch. The value is a union of 64 bytes, of which each
/// attribute here uses the first words.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default)]
pub struct LaunchAttribute {
    /// The attribute (`CUlaunchAttributeID`).
    pub id: c_int,
    /// Padding.
    pub padding: c_int,
    /// The value.
    pub value: [c_int; 16],
}

/// `CUlaunchConfig`: the dimensions, the stream and the attributes of a launch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    /// The number of blocks in x, y and z.
    pub grid: [c_uint; 3],
    /// The number of threads per block in x, y and z.
    pub block: [c_uint; 3],
    /// The dynamic shared memory per block, in bytes.
    pub shared_bytes: c_uint,
    /// The stream.
    pub stream: StreamHandle,
    /// The attributes.
    pub attributes: *const LaunchAttribute,
    /// The number of attributes.
    pub attribute_count: c_uint,
}

/// `CUDA_MEMCPY3D`: parameters of a three-dimensional copy. On each side the memory type selects
/// which of the three addresses is used.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy3d {
    /// The bytes to skip at the start of each source row.
    pub source_x_bytes: usize,
    /// The source rows to skip.
    pub source_y: usize,
    /// The source planes to skip.
    pub source_z: usize,
    /// The source's level of detail; 0.
    pub source_lod: usize,
    /// The source's memory type (`CUmemorytype`).
    pub source_type: c_int,
    /// The first source row, in host memory.
    pub source_host: *const c_void,
    /// The first source row, in device memory.
    pub source_device: DevicePtr,
    /// The source as a `CUarray`.
    pub source_array: usize,
    /// Null.
    pub reserved_0: usize,
    /// The distance between the starts of source rows, in bytes.
    pub source_pitch: usize,
    /// The number of rows of a source plane.
    pub source_height: usize,
    /// The bytes to skip at the start of each target row.
    pub target_x_bytes: usize,
    /// The target rows to skip.
    pub target_y: usize,
    /// The target planes to skip.
    pub target_z: usize,
    /// The target's level of detail; 0.
    pub target_lod: usize,
    /// The target's memory type (`CUmemorytype`).
    pub target_type: c_int,
    /// The first target row, in host memory.
    pub target_host: *mut c_void,
    /// The first target row, in device memory.
    pub target_device: DevicePtr,
    /// The target as a `CUarray`.
    pub target_array: usize,
    /// Null.
    pub reserved_1: usize,
    /// The distance between the starts of target rows, in bytes.
    pub target_pitch: usize,
    /// The number of rows of a target plane.
    pub target_height: usize,
    /// The length of a row, in bytes.
    pub width_bytes: usize,
    /// The number of rows of a plane.
    pub height: usize,
    /// The number of planes.
    pub depth: usize,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`: a kernel as a graph node.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelNodeParams {
    /// The kernel.
    pub function: FunctionHandle,
    /// The number of blocks in x, y and z.
    pub grid: [c_uint; 3],
    /// The number of threads per block in x, y and z.
    pub block: [c_uint; 3],
    /// The dynamic shared memory per block, in bytes.
    pub shared_bytes: c_uint,
    /// The addresses of the arguments.
    pub params: *mut *mut c_void,
    /// The arguments in one buffer; null.
    pub extra: *mut *mut c_void,
    /// The kernel as a `CUkernel`; null.
    pub kernel: usize,
    /// The context of a `CUkernel`; null.
    pub context: ContextHandle,
}

/// `CUDA_MEMSET_NODE_PARAMS`: a fill as a graph node.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemsetNodeParams {
    /// The first byte.
    pub target: DevicePtr,
    /// The distance between the starts of rows, in bytes; unused with one row.
    pub pitch: usize,
    /// The element.
    pub value: c_uint,
    /// The size of an element: 1, 2 or 4 bytes.
    pub element_bytes: c_uint,
    /// The number of elements of a row.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
}

/// `CUgraphNodeParams` with the parameters of a conditional node.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ConditionalNodeParams {
    /// The kind of node (`CUgraphNodeType`).
    pub node_type: c_int,
    /// Zeros.
    pub reserved_0: [c_int; 3],
    /// The parameters of this kind.
    pub conditional: ConditionalParams,
    /// Zeros: the rest of a union of 232 bytes.
    pub padding: [u64; 25],
    /// Zero.
    pub reserved_2: u64,
}

/// `CUDA_CONDITIONAL_NODE_PARAMS`: the parameters of a conditional node.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ConditionalParams {
    /// The condition.
    pub condition: ConditionHandle,
    /// The kind (`CUgraphConditionalNodeType`).
    pub kind: c_int,
    /// The number of bodies.
    pub body_count: c_uint,
    /// The bodies, returned by the driver, which owns the list.
    pub bodies: *mut GraphHandle,
    /// The context.
    pub context: ContextHandle,
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`: the flags and results of an instantiation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct InstantiateParams {
    /// Flags (`CUgraphInstantiate_flags`).
    pub flags: u64,
    /// The stream to upload in, with the flag for it.
    pub upload_stream: StreamHandle,
    /// Returned: the node that caused a failure, or null.
    pub error_node: GraphNodeHandle,
    /// Returned: why it failed (`CUgraphInstantiateResult`).
    pub result: c_int,
}

/// `CUgraphExecUpdateResultInfo`: the result of an update.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExecUpdateResultInfo {
    /// Why it failed (`CUgraphExecUpdateResult`).
    pub result: c_int,
    /// The node of the new graph that caused the failure, or null.
    pub error_node: GraphNodeHandle,
    /// The origin of a differing edge, or null.
    pub error_from_node: GraphNodeHandle,
}
