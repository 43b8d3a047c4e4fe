//! The list of the implemented functions: their symbols, their signature, and the function that
//! implements them.
//!
//! From the list come the exported symbols. `versions` knows which of them `cuGetProcAddress`
//! returns for a name and a version, and `refused.rs` exports all others. A symbol marked
//! `per_thread` is the form for programs that are compiled for per-thread default streams: a null
//! stream, or none, means the calling thread's default stream there.

#![allow(
    unsafe_code,
    reason = "exports functions under the names of CUDA's driver API"
)]
#![allow(
    non_snake_case,
    clippy::too_many_arguments,
    clippy::redundant_closure_call,
    reason = "the names and parameters of CUDA's functions, and other forms of some of them"
)]

use std::{
    ffi::{c_char, c_void},
    sync::OnceLock,
};

use millstream_driver::{ResultCode, StreamHandle};

use crate::{
    abi::{
        AccessFields, Address, AllocationFields, AttributeValue, BlockToSharedPointer, Bytes,
        Copy2dFields, Copy3dFields, Device, FillNodeFields, Handle, HostFunctionPointer,
        HostNodeFields, Image, In, InstantiateFields, KernelNodeFields, KernelNodeFields2,
        LaunchConfigFields, LocationFields, NodeFields, Out, PoolFields, StreamCallbackPointer,
        Text, UpdateFields,
    },
    api::{
        capture::{self, InfoFields},
        context,
        copy::{self, Batch, CopyAttributeFields},
        copy_3d, device, entry, event, fill, function,
        graph::{self, Edges},
        graph_exec,
        graph_node::{self, Fields, Place},
        graph_questions::{self, List},
        launch, library, linker, memory, module, occupancy, pointer, pool, primary, stream,
        user_object,
    },
    call::{self, Call},
    codes::Answer,
    refused,
    symbols::{self, Addresses, Symbol},
};

/// Returns the default stream of a symbol: per-thread if it is marked so.
macro_rules! default_stream {
    () => {
        StreamHandle::LEGACY
    };
    (per_thread) => {
        StreamHandle::PER_THREAD
    };
}

/// Returns whether a symbol is marked `per_thread`.
macro_rules! is_per_thread {
    () => {
        false
    };
    (per_thread) => {
        true
    };
}

/// Returns the number of parameters.
macro_rules! count {
    (($($argument:ident: $ty:ty),*)) => {{
        let names: &[&str] = &[$(stringify!($argument)),*];
        names.len()
    }};
}

/// Exports one symbol.
macro_rules! export {
    ($symbol:ident [$($mode:ident)?] ($($argument:ident: $ty:ty),*) $implementation:expr) => {
        #[unsafe(no_mangle)]
        extern "C" fn $symbol($($argument: $ty),*) -> i32 {
            call::run(stringify!($symbol), default_stream!($($mode)?), |call| {
                ($implementation)(call, $($argument),*)
            })
        }
    };
}

macro_rules! functions {
    ($([$($symbol:ident $($mode:ident)?),+] $arguments:tt => $implementation:expr;)*) => {
        $($(export! { $symbol [$($mode)?] $arguments $implementation })+)*

        /// Every exported symbol that is implemented.
        pub(crate) static SYMBOLS: &[Symbol] = &[$($(Symbol {
            name: stringify!($symbol),
            parameters: count!($arguments),
            per_thread: is_per_thread!($($mode)?),
            address: || $symbol as *const () as usize,
        }),+),*];
    };
}

/// Returns the addresses of all exported symbols.
fn addresses() -> &'static Addresses {
    static ADDRESSES: OnceLock<Addresses> = OnceLock::new();
    ADDRESSES.get_or_init(|| {
        let all = SYMBOLS.iter().chain(refused::SYMBOLS);
        all.map(|symbol| (symbol.name, (symbol.address)()))
            .collect()
    })
}

/// `cuGetProcAddress`: an error if there is no such function.
fn get_proc_address(
    call: &Call,
    name: Text,
    address: Out<usize>,
    version: i32,
    flags: u64,
) -> Answer {
    let status = Out::null();
    let asked = (version, flags);
    let found = symbols::find(call, addresses(), name, address, asked, status)?;
    found.then_some(()).ok_or(ResultCode::NOT_FOUND)
}

/// `cuGetProcAddress_v2`: only the status says whether there is such a function.
fn get_proc_address_with_status(
    call: &Call,
    name: Text,
    address: Out<usize>,
    version: i32,
    flags: u64,
    status: Out<i32>,
) -> Answer {
    symbols::find(call, addresses(), name, address, (version, flags), status).map(drop)
}

functions! {
    [cuInit] (flags: u32) => entry::init;
    [cuDriverGetVersion] (version: Out<i32>) => entry::driver_version;
    [cuGetErrorName]
        (code: i32, name: Out<*const c_char>) => entry::error_name;
    [cuGetErrorString]
        (code: i32, text: Out<*const c_char>) => entry::error_string;
    [cuGetExportTable]
        (table: Out<*const c_void>, id: In<[u8; 16]>) => entry::export_table;
    [cuGetProcAddress]
        (name: Text, address: Out<usize>, version: i32, flags: u64) => get_proc_address;
    [cuGetProcAddress_v2]
        (name: Text, address: Out<usize>, version: i32, flags: u64, status: Out<i32>)
        => get_proc_address_with_status;
    [cuProfilerStart] () => entry::profiler;
    [cuProfilerStop] () => entry::profiler;
    [cuThreadExchangeStreamCaptureMode]
        (mode: Out<i32>) => capture::exchange_mode;

    [cuDeviceGet] (device: Out<Device>, ordinal: i32) => device::get;
    [cuDeviceGetCount] (count: Out<i32>) => device::count;
    [cuDeviceGetName]
        (name: Out<c_char>, length: i32, device: Device) => device::name;
    [cuDeviceGetUuid, cuDeviceGetUuid_v2]
        (uuid: Out<[u8; 16]>, device: Device) => device::uuid;
    [cuDeviceTotalMem_v2]
        (bytes: Out<usize>, device: Device) => device::total_memory;
    [cuDeviceGetAttribute]
        (value: Out<i32>, attribute: i32, device: Device) => device::attribute;
    [cuDeviceComputeCapability]
        (major: Out<i32>, minor: Out<i32>, device: Device) => device::compute_capability;
    [cuDeviceGetPCIBusId]
        (text: Out<c_char>, length: i32, device: Device) => device::pci_bus_id;
    [cuDeviceGetByPCIBusId]
        (device: Out<Device>, text: Text) => device::by_pci_bus_id;
    [cuDeviceCanAccessPeer]
        (can_access: Out<i32>, device: Device, peer: Device) => device::can_access_peer;
    [cuDeviceGetP2PAttribute]
        (value: Out<i32>, attribute: i32, from: Device, to: Device) => device::p2p_attribute;
    [cuDeviceGetDefaultMemPool]
        (pool: Out<Handle>, device: Device) => pool::default_of;
    [cuDeviceGetMemPool]
        (pool: Out<Handle>, device: Device) => pool::current_of;
    [cuDeviceSetMemPool]
        (device: Device, pool: Handle) => pool::set_current;
    [cuDeviceGetExecAffinitySupport]
        (supported: Out<i32>, kind: i32, device: Device) => device::exec_affinity;

    [cuDevicePrimaryCtxRetain]
        (context: Out<Handle>, device: Device) => primary::retain;
    [cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2]
        (device: Device) => primary::release;
    [cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2]
        (device: Device) => primary::reset;
    [cuDevicePrimaryCtxGetState]
        (device: Device, flags: Out<u32>, active: Out<i32>) => primary::state;
    [cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2]
        (device: Device, flags: u32) => primary::set_flags;

    [cuCtxCreate_v2]
        (context: Out<Handle>, flags: u32, device: Device) => context::create;
    [cuCtxCreate_v3]
        (context: Out<Handle>, params: In<c_void>, count: i32, flags: u32, device: Device)
        => context::create_with_affinity;
    [cuCtxCreate_v4]
        (context: Out<Handle>, params: In<[usize; 3]>, flags: u32, device: Device)
        => context::create_with_params;
    [cuCtxDestroy, cuCtxDestroy_v2]
        (context: Handle) => context::destroy;
    [cuCtxPushCurrent, cuCtxPushCurrent_v2]
        (context: Handle) => context::push;
    [cuCtxPopCurrent, cuCtxPopCurrent_v2]
        (context: Out<Handle>) => context::pop;
    [cuCtxSetCurrent] (context: Handle) => context::set_current;
    [cuCtxGetCurrent] (context: Out<Handle>) => context::get_current;
    [cuCtxGetDevice] (device: Out<Device>) => context::device;
    [cuCtxGetDevice_v2]
        (device: Out<Device>, context: Handle) => context::device_of;
    [cuCtxSynchronize] () => context::synchronize;
    [cuCtxSynchronize_v2]
        (context: Handle) => context::synchronize_given;
    [cuCtxGetFlags] (flags: Out<u32>) => context::get_flags;
    [cuCtxSetFlags] (flags: u32) => context::set_flags;
    [cuCtxGetId] (context: Handle, id: Out<u64>) => context::id;
    [cuCtxGetApiVersion]
        (context: Handle, version: Out<u32>) => context::api_version;
    [cuCtxGetLimit] (value: Out<usize>, limit: u32) => context::get_limit;
    [cuCtxSetLimit] (limit: u32, value: usize) => context::set_limit;
    [cuCtxGetCacheConfig]
        (config: Out<i32>) => context::get_cache_config;
    [cuCtxSetCacheConfig] (config: i32) => context::set_cache_config;
    [cuCtxGetSharedMemConfig]
        (config: Out<i32>) => context::get_bank_config;
    [cuCtxSetSharedMemConfig]
        (config: i32) => context::set_bank_config;
    [cuCtxResetPersistingL2Cache]
        () => context::reset_persisting_cache;
    [cuCtxGetStreamPriorityRange]
        (least: Out<i32>, greatest: Out<i32>) => context::stream_priority_range;
    [cuCtxEnablePeerAccess]
        (peer: Handle, flags: u32) => context::enable_peer_access;
    [cuCtxDisablePeerAccess] (peer: Handle) => context::disable_peer_access;

    [cuStreamCreate] (stream: Out<Handle>, flags: u32) => stream::create;
    [cuStreamCreateWithPriority]
        (stream: Out<Handle>, flags: u32, priority: i32) => stream::create_with_priority;
    [cuStreamDestroy, cuStreamDestroy_v2]
        (stream: Handle) => stream::destroy;
    [cuStreamQuery, cuStreamQuery_ptsz per_thread]
        (stream: Handle) => stream::query;
    [cuStreamSynchronize, cuStreamSynchronize_ptsz per_thread]
        (stream: Handle) => stream::synchronize;
    [cuStreamWaitEvent, cuStreamWaitEvent_ptsz per_thread]
        (stream: Handle, event: Handle, flags: u32) => stream::wait_event;
    [cuStreamGetFlags, cuStreamGetFlags_ptsz per_thread]
        (stream: Handle, flags: Out<u32>) => stream::flags;
    [cuStreamGetPriority, cuStreamGetPriority_ptsz per_thread]
        (stream: Handle, priority: Out<i32>) => stream::priority;
    [cuStreamGetId, cuStreamGetId_ptsz per_thread]
        (stream: Handle, id: Out<u64>) => stream::id;
    [cuStreamGetCtx, cuStreamGetCtx_ptsz per_thread]
        (stream: Handle, context: Out<Handle>) => stream::context;
    [cuStreamGetCtx_v2, cuStreamGetCtx_v2_ptsz per_thread]
        (stream: Handle, context: Out<Handle>, green: Out<Handle>) => stream::context_or_green;
    [cuStreamGetDevice, cuStreamGetDevice_ptsz per_thread]
        (stream: Handle, device: Out<Device>) => stream::device;
    [cuStreamGetAttribute, cuStreamGetAttribute_ptsz per_thread]
        (stream: Handle, attribute: u32, value: Out<AttributeValue>) => stream::attribute;
    [cuStreamSetAttribute, cuStreamSetAttribute_ptsz per_thread]
        (stream: Handle, attribute: u32, value: In<AttributeValue>) => stream::set_attribute;
    [cuStreamCopyAttributes, cuStreamCopyAttributes_ptsz per_thread]
        (target: Handle, source: Handle) => stream::copy_attributes;
    [cuStreamIsCapturing, cuStreamIsCapturing_ptsz per_thread]
        (stream: Handle, status: Out<i32>) => capture::is_capturing;
    [cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz per_thread]
        (stream: Handle, status: Out<i32>, id: Out<u64>) => |call, stream, status, id| {
            let (graph, nodes, edges, count) = (Out::null(), Out::null(), Out::null(), Out::null());
            capture::info(call, stream, status, InfoFields { id, graph, nodes, edges, count })
        };
    [cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz per_thread]
        (
            stream: Handle, status: Out<i32>, id: Out<u64>, graph: Out<Handle>,
            nodes: Out<*const Handle>, count: Out<usize>
        ) => |call, stream, status, id, graph, nodes, count| {
            let edges = Out::null();
            capture::info(call, stream, status, InfoFields { id, graph, nodes, edges, count })
        };
    [cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz per_thread]
        (
            stream: Handle, status: Out<i32>, id: Out<u64>, graph: Out<Handle>,
            nodes: Out<*const Handle>, edges: Out<*const c_void>, count: Out<usize>
        ) => |call, stream, status, id, graph, nodes, edges, count| {
            capture::info(call, stream, status, InfoFields { id, graph, nodes, edges, count })
        };
    [cuStreamBeginCapture, cuStreamBeginCapture_ptsz per_thread]
        (stream: Handle) => |call, stream| capture::begin(call, stream, capture::GLOBAL);
    [cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz per_thread]
        (stream: Handle, mode: i32) => capture::begin;
    [cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz per_thread]
        (
            stream: Handle, graph: Handle, dependencies: In<Handle>, edges: In<u64>, count: usize,
            mode: i32
        ) => |call, stream, graph, dependencies, edges, count, mode| {
            let place = Place { graph, dependencies, count };
            capture::begin_in_graph(call, stream, place, edges, mode)
        };
    [cuStreamEndCapture, cuStreamEndCapture_ptsz per_thread]
        (stream: Handle, graph: Out<Handle>) => capture::end;
    [cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_ptsz per_thread]
        (stream: Handle, nodes: In<Handle>, count: usize, flags: u32)
        => |call, stream, nodes, count, flags| {
            capture::update_dependencies(call, stream, nodes, In::null(), count, flags)
        };
    [cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2_ptsz per_thread]
        (stream: Handle, nodes: In<Handle>, edges: In<u64>, count: usize, flags: u32)
        => capture::update_dependencies;
    [cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz per_thread]
        (stream: Handle, pointer: Address, length: usize, flags: u32) => stream::attach_memory;
    [cuStreamAddCallback, cuStreamAddCallback_ptsz per_thread]
        (stream: Handle, callback: StreamCallbackPointer, data: In<c_void>, flags: u32)
        => stream::add_callback;
    [cuLaunchHostFunc, cuLaunchHostFunc_ptsz per_thread]
        (stream: Handle, function: HostFunctionPointer, data: In<c_void>)
        => stream::launch_host_function;
    [cuLaunchHostFunc_v2, cuLaunchHostFunc_v2_ptsz per_thread]
        (stream: Handle, function: HostFunctionPointer, data: In<c_void>, mode: u32)
        => |call, stream, function, data, mode| match mode {
            // To block or to spin until there is a function to call: both do the same here.
            0 | 1 => stream::launch_host_function(call, stream, function, data),
            _ => Err(ResultCode::INVALID_VALUE),
        };

    [cuGraphCreate] (graph: Out<Handle>, flags: u32) => graph::create;
    [cuGraphDestroy] (graph: Handle) => graph::destroy;
    [cuGraphClone] (copy: Out<Handle>, graph: Handle) => graph::clone;
    [cuGraphDebugDotPrint] (graph: Handle, path: Text, flags: u32) => graph::print;
    [cuGraphAddKernelNode]
        (
            node: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize,
            fields: In<KernelNodeFields>
        )
        => |call, node, graph, dependencies, count, fields| {
            let place = Place { graph, dependencies, count };
            graph_node::add(call, node, place, Fields::Kernel(fields))
        };
    [cuGraphAddKernelNode_v2]
        (
            node: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize,
            fields: In<KernelNodeFields2>
        )
        => |call, node, graph, dependencies, count, fields| {
            let place = Place { graph, dependencies, count };
            graph_node::add(call, node, place, Fields::Kernel2(fields))
        };
    [cuGraphAddMemcpyNode]
        (
            node: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize,
            fields: In<Copy3dFields>, context: Handle
        )
        => |call, node, graph, dependencies, count, fields, _context| {
            let place = Place { graph, dependencies, count };
            graph_node::add(call, node, place, Fields::Copy(fields))
        };
    [cuGraphAddMemsetNode]
        (
            node: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize,
            fields: In<FillNodeFields>, context: Handle
        )
        => |call, node, graph, dependencies, count, fields, _context| {
            let place = Place { graph, dependencies, count };
            graph_node::add(call, node, place, Fields::Fill(fields))
        };
    [cuGraphAddHostNode]
        (
            node: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize,
            fields: In<HostNodeFields>
        )
        => |call, node, graph, dependencies, count, fields| {
            let place = Place { graph, dependencies, count };
            graph_node::add(call, node, place, Fields::Host(fields))
        };
    [cuGraphAddChildGraphNode]
        (node: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize, child: Handle)
        => |call, node, graph, dependencies, count, child| {
            let place = Place { graph, dependencies, count };
            graph_node::add(call, node, place, Fields::Child(child))
        };
    [cuGraphAddEmptyNode]
        (node: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize)
        => |call, node, graph, dependencies, count| {
            let place = Place { graph, dependencies, count };
            graph_node::add(call, node, place, Fields::Empty)
        };
    [cuGraphAddEventRecordNode]
        (node: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize, event: Handle)
        => |call, node, graph, dependencies, count, event| {
            let place = Place { graph, dependencies, count };
            graph_node::add(call, node, place, Fields::Record(event))
        };
    [cuGraphAddEventWaitNode]
        (node: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize, event: Handle)
        => |call, node, graph, dependencies, count, event| {
            let place = Place { graph, dependencies, count };
            graph_node::add(call, node, place, Fields::Wait(event))
        };
    [cuGraphAddMemFreeNode]
        (node: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize, pointer: Address)
        => |call, node, graph, dependencies, count, pointer| {
            let place = Place { graph, dependencies, count };
            graph_node::add(call, node, place, Fields::Free(pointer))
        };
    [cuGraphAddMemAllocNode]
        (
            node: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize,
            fields: Out<AllocationFields>
        ) => |call, node, graph, dependencies, count, fields| {
            let place = Place { graph, dependencies, count };
            graph_node::add_allocation(call, node, place, fields)
        };
    [cuGraphAddNode]
        (
            node: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize,
            fields: Out<NodeFields>
        ) => |call, node, graph, dependencies, count, fields| {
            let place = Place { graph, dependencies, count };
            graph_node::add_any(call, node, place, In::null(), fields)
        };
    [cuGraphAddNode_v2, cuGraphAddNode_v3]
        (
            node: Out<Handle>, graph: Handle, dependencies: In<Handle>, edges: In<u64>,
            count: usize, fields: Out<NodeFields>
        ) => |call, node, graph, dependencies, edges, count, fields| {
            let place = Place { graph, dependencies, count };
            graph_node::add_any(call, node, place, edges, fields)
        };
    [cuGraphAddDependencies]
        (graph: Handle, from: In<Handle>, to: In<Handle>, count: usize)
        => |call, graph, from, to, count| {
            graph::add_dependencies(call, graph, Edges { from, to, data: In::null(), count })
        };
    [cuGraphAddDependencies_v2]
        (graph: Handle, from: In<Handle>, to: In<Handle>, edges: In<u64>, count: usize)
        => |call, graph, from, to, edges, count| {
            graph::add_dependencies(call, graph, Edges { from, to, data: edges, count })
        };
    [cuGraphRemoveDependencies]
        (graph: Handle, from: In<Handle>, to: In<Handle>, count: usize)
        => |call, graph, from, to, count| {
            graph::remove_dependencies(call, graph, Edges { from, to, data: In::null(), count })
        };
    [cuGraphRemoveDependencies_v2]
        (graph: Handle, from: In<Handle>, to: In<Handle>, edges: In<u64>, count: usize)
        => |call, graph, from, to, edges, count| {
            graph::remove_dependencies(call, graph, Edges { from, to, data: edges, count })
        };
    [cuGraphDestroyNode] (node: Handle) => graph_node::destroy;
    [cuGraphConditionalHandleCreate]
        (condition: Out<u64>, graph: Handle, context: Handle, initial: u32, flags: u32)
        => graph::create_condition;

    [cuGraphGetNodes]
        (graph: Handle, values: Out<Handle>, count: Out<usize>)
        => |call, graph, values, count| graph_questions::all(call, graph, List { values, count });
    [cuGraphGetRootNodes]
        (graph: Handle, values: Out<Handle>, count: Out<usize>)
        => |call, graph, values, count| graph_questions::roots(call, graph, List { values, count });
    [cuGraphGetEdges]
        (graph: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>)
        => |call, graph, from, to, count| {
            graph_questions::edges(call, graph, from, to, Out::null(), count)
        };
    [cuGraphGetEdges_v2]
        (
            graph: Handle, from: Out<Handle>, to: Out<Handle>, edges: Out<u64>, count: Out<usize>
        ) => graph_questions::edges;
    [cuGraphNodeGetDependencies]
        (node: Handle, values: Out<Handle>, count: Out<usize>)
        => |call, node, values, count| {
            graph_questions::dependencies(call, node, Out::null(), List { values, count })
        };
    [cuGraphNodeGetDependencies_v2]
        (node: Handle, values: Out<Handle>, edges: Out<u64>, count: Out<usize>)
        => |call, node, values, edges, count| {
            graph_questions::dependencies(call, node, edges, List { values, count })
        };
    [cuGraphNodeGetDependentNodes]
        (node: Handle, values: Out<Handle>, count: Out<usize>)
        => |call, node, values, count| {
            graph_questions::dependents(call, node, Out::null(), List { values, count })
        };
    [cuGraphNodeGetDependentNodes_v2]
        (node: Handle, values: Out<Handle>, edges: Out<u64>, count: Out<usize>)
        => |call, node, values, edges, count| {
            graph_questions::dependents(call, node, edges, List { values, count })
        };
    [cuGraphNodeGetType] (node: Handle, kind: Out<i32>) => graph_questions::kind;
    [cuGraphNodeFindInClone]
        (found: Out<Handle>, node: Handle, clone: Handle) => graph_questions::in_clone;
    [cuGraphKernelNodeGetParams]
        (node: Handle, fields: Out<KernelNodeFields>) => graph_questions::kernel;
    [cuGraphKernelNodeGetParams_v2]
        (node: Handle, fields: Out<KernelNodeFields2>) => graph_questions::kernel_2;
    [cuGraphMemcpyNodeGetParams]
        (node: Handle, fields: Out<Copy3dFields>) => graph_questions::copy;
    [cuGraphMemsetNodeGetParams]
        (node: Handle, fields: Out<FillNodeFields>) => graph_questions::fill;
    [cuGraphHostNodeGetParams]
        (node: Handle, fields: Out<[usize; 2]>) => graph_questions::host;
    [cuGraphEventRecordNodeGetEvent]
        (node: Handle, event: Out<Handle>) => graph_questions::record;
    [cuGraphEventWaitNodeGetEvent]
        (node: Handle, event: Out<Handle>) => graph_questions::wait;
    [cuGraphMemAllocNodeGetParams]
        (node: Handle, fields: Out<AllocationFields>) => graph_questions::allocation;
    [cuGraphMemFreeNodeGetParams]
        (node: Handle, pointer: Out<Address>) => graph_questions::free;
    [cuDeviceGetGraphMemAttribute]
        (device: Device, attribute: i32, value: Out<c_void>) => graph_questions::memory;
    [cuDeviceGraphMemTrim] (device: Device) => graph_questions::trim;

    [cuGraphKernelNodeSetParams]
        (node: Handle, fields: In<KernelNodeFields>)
        => |call, node, fields| graph_node::set(call, node, Fields::Kernel(fields));
    [cuGraphKernelNodeSetParams_v2]
        (node: Handle, fields: In<KernelNodeFields2>)
        => |call, node, fields| graph_node::set(call, node, Fields::Kernel2(fields));
    [cuGraphMemcpyNodeSetParams]
        (node: Handle, fields: In<Copy3dFields>)
        => |call, node, fields| graph_node::set(call, node, Fields::Copy(fields));
    [cuGraphMemsetNodeSetParams]
        (node: Handle, fields: In<FillNodeFields>)
        => |call, node, fields| graph_node::set(call, node, Fields::Fill(fields));
    [cuGraphHostNodeSetParams]
        (node: Handle, fields: In<HostNodeFields>)
        => |call, node, fields| graph_node::set(call, node, Fields::Host(fields));
    [cuGraphEventRecordNodeSetEvent]
        (node: Handle, event: Handle)
        => |call, node, event| graph_node::set(call, node, Fields::Record(event));
    [cuGraphEventWaitNodeSetEvent]
        (node: Handle, event: Handle)
        => |call, node, event| graph_node::set(call, node, Fields::Wait(event));
    [cuGraphNodeSetParams, cuGraphNodeSetParams_v2]
        (node: Handle, fields: In<NodeFields>) => graph_node::set_any;

    [cuGraphInstantiate, cuGraphInstantiate_v2]
        (
            exec: Out<Handle>, graph: Handle, error_node: Out<Handle>, log: Out<c_char>,
            log_bytes: usize
        ) => graph_exec::instantiate;
    [cuGraphInstantiateWithFlags]
        (exec: Out<Handle>, graph: Handle, flags: u64) => graph_exec::instantiate_with_flags;
    [cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz per_thread]
        (exec: Out<Handle>, graph: Handle, fields: Out<InstantiateFields>)
        => graph_exec::instantiate_with_params;
    [cuGraphExecDestroy] (exec: Handle) => graph_exec::destroy;
    [cuGraphExecGetFlags] (exec: Handle, flags: Out<u64>) => graph_exec::flags;
    [cuGraphLaunch, cuGraphLaunch_ptsz per_thread]
        (exec: Handle, stream: Handle) => graph_exec::launch;
    [cuGraphUpload, cuGraphUpload_ptsz per_thread]
        (exec: Handle, stream: Handle) => graph_exec::upload;
    [cuGraphExecKernelNodeSetParams]
        (exec: Handle, node: Handle, fields: In<KernelNodeFields>)
        => |call, exec, node, fields| graph_exec::set(call, exec, node, Fields::Kernel(fields));
    [cuGraphExecKernelNodeSetParams_v2]
        (exec: Handle, node: Handle, fields: In<KernelNodeFields2>)
        => |call, exec, node, fields| graph_exec::set(call, exec, node, Fields::Kernel2(fields));
    [cuGraphExecMemcpyNodeSetParams]
        (exec: Handle, node: Handle, fields: In<Copy3dFields>, context: Handle)
        => |call, exec, node, fields, _context| {
            graph_exec::set(call, exec, node, Fields::Copy(fields))
        };
    [cuGraphExecMemsetNodeSetParams]
        (exec: Handle, node: Handle, fields: In<FillNodeFields>, context: Handle)
        => |call, exec, node, fields, _context| {
            graph_exec::set(call, exec, node, Fields::Fill(fields))
        };
    [cuGraphExecHostNodeSetParams]
        (exec: Handle, node: Handle, fields: In<HostNodeFields>)
        => |call, exec, node, fields| graph_exec::set(call, exec, node, Fields::Host(fields));
    [cuGraphExecEventRecordNodeSetEvent]
        (exec: Handle, node: Handle, event: Handle)
        => |call, exec, node, event| graph_exec::set(call, exec, node, Fields::Record(event));
    [cuGraphExecEventWaitNodeSetEvent]
        (exec: Handle, node: Handle, event: Handle)
        => |call, exec, node, event| graph_exec::set(call, exec, node, Fields::Wait(event));
    [cuGraphExecChildGraphNodeSetParams]
        (exec: Handle, node: Handle, child: Handle)
        => |call, exec, node, child| graph_exec::set(call, exec, node, Fields::Child(child));
    [cuGraphExecNodeSetParams]
        (exec: Handle, node: Handle, fields: In<NodeFields>) => graph_exec::set_any;
    [cuGraphNodeSetEnabled]
        (exec: Handle, node: Handle, enabled: u32) => graph_exec::set_enabled;
    [cuGraphNodeGetEnabled]
        (exec: Handle, node: Handle, enabled: Out<u32>) => graph_exec::enabled;
    [cuGraphExecUpdate]
        (exec: Handle, graph: Handle, error_node: Out<Handle>, result: Out<i32>)
        => |call, exec, graph, error_node: Out<Handle>, result: Out<i32>| {
            graph_exec::update(call, exec, graph, |fields| {
                error_node.set_if_wanted(fields.error_node);
                result.set_if_wanted(fields.result);
            })
        };
    [cuGraphExecUpdate_v2]
        (exec: Handle, graph: Handle, result: Out<UpdateFields>)
        => |call, exec, graph, result: Out<UpdateFields>| {
            graph_exec::update(call, exec, graph, |fields| result.set_if_wanted(fields))
        };

    [cuUserObjectCreate]
        (
            object: Out<Handle>, data: In<c_void>, destroy: HostFunctionPointer, count: u32,
            flags: u32
        ) => user_object::create;
    [cuUserObjectRetain] (object: Handle, count: u32) => user_object::retain;
    [cuUserObjectRelease] (object: Handle, count: u32) => user_object::release;
    [cuGraphRetainUserObject]
        (graph: Handle, object: Handle, count: u32, flags: u32) => user_object::retain_by_graph;
    [cuGraphReleaseUserObject]
        (graph: Handle, object: Handle, count: u32) => user_object::release_by_graph;

    [cuEventCreate] (event: Out<Handle>, flags: u32) => event::create;
    [cuEventDestroy, cuEventDestroy_v2]
        (event: Handle) => event::destroy;
    [cuEventRecord, cuEventRecord_ptsz per_thread]
        (event: Handle, stream: Handle) => event::record;
    [cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz per_thread]
        (event: Handle, stream: Handle, flags: u32) => event::record_with_flags;
    [cuEventQuery] (event: Handle) => event::query;
    [cuEventSynchronize] (event: Handle) => event::synchronize;
    [cuEventElapsedTime, cuEventElapsedTime_v2]
        (milliseconds: Out<f32>, start: Handle, end: Handle) => event::elapsed_time;

    [cuMemAlloc_v2] (pointer: Out<Address>, bytes: usize) => memory::allocate;
    [cuMemAllocPitch_v2]
        (pointer: Out<Address>, pitch: Out<usize>, width: usize, height: usize, element: u32)
        => memory::allocate_pitch;
    [cuMemFree_v2] (pointer: Address) => memory::free;
    [cuMemAllocAsync, cuMemAllocAsync_ptsz per_thread]
        (pointer: Out<Address>, bytes: usize, stream: Handle) => memory::allocate_async;
    [cuMemFreeAsync, cuMemFreeAsync_ptsz per_thread]
        (pointer: Address, stream: Handle) => memory::free_async;
    [cuMemGetInfo_v2]
        (free: Out<usize>, total: Out<usize>) => memory::info;
    [cuMemGetAddressRange_v2]
        (base: Out<Address>, bytes: Out<usize>, pointer: Address) => memory::address_range;
    [cuMemHostAlloc]
        (pointer: Out<*mut u8>, bytes: usize, flags: u32) => memory::allocate_host;
    [cuMemAllocHost_v2]
        (pointer: Out<*mut u8>, bytes: usize) => memory::allocate_host_plain;
    [cuMemFreeHost] (pointer: *mut u8) => memory::free_host;
    [cuMemHostRegister, cuMemHostRegister_v2]
        (pointer: *mut u8, bytes: usize, flags: u32) => memory::register_host;
    [cuMemHostUnregister]
        (pointer: *mut u8) => memory::unregister_host;
    [cuMemHostGetDevicePointer_v2]
        (device: Out<Address>, pointer: *mut u8, flags: u32) => memory::device_pointer_of_host;
    [cuMemHostGetFlags]
        (flags: Out<u32>, pointer: *mut u8) => memory::host_flags;
    [cuMemAllocManaged]
        (pointer: Out<Address>, bytes: usize, flags: u32) => memory::allocate_managed;
    [cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz per_thread]
        (pointer: Address, bytes: usize, device: Device, stream: Handle) => memory::prefetch;
    [cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz per_thread]
        (pointer: Address, bytes: usize, location: LocationFields, flags: u32, stream: Handle)
        => memory::prefetch_to_location;
    [cuMemAdvise]
        (pointer: Address, bytes: usize, advice: i32, device: Device) => memory::advise;
    [cuMemAdvise_v2]
        (pointer: Address, bytes: usize, advice: i32, location: LocationFields)
        => memory::advise_at_location;

    [cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz per_thread]
        (pointer: Out<Address>, bytes: usize, pool: Handle, stream: Handle) => pool::allocate;
    [cuMemPoolCreate]
        (pool: Out<Handle>, fields: In<PoolFields>) => pool::create;
    [cuMemPoolDestroy] (pool: Handle) => pool::destroy;
    [cuMemGetDefaultMemPool]
        (pool: Out<Handle>, location: In<LocationFields>, kind: i32) => pool::default_at;
    [cuMemGetMemPool]
        (pool: Out<Handle>, location: In<LocationFields>, kind: i32) => pool::current_at;
    [cuMemSetMemPool]
        (location: In<LocationFields>, kind: i32, pool: Handle) => pool::set_current_at;
    [cuMemPoolSetAttribute]
        (pool: Handle, attribute: i32, value: In<c_void>) => pool::set_attribute;
    [cuMemPoolGetAttribute]
        (pool: Handle, attribute: i32, value: Out<c_void>) => pool::attribute;
    [cuMemPoolTrimTo] (pool: Handle, keep: usize) => pool::trim;
    [cuMemPoolSetAccess]
        (pool: Handle, descriptions: In<AccessFields>, count: usize) => pool::set_access;
    [cuMemPoolGetAccess]
        (flags: Out<i32>, pool: Handle, location: In<LocationFields>) => pool::access;

    [cuPointerGetAttribute]
        (data: Out<c_void>, attribute: i32, pointer: Address) => pointer::attribute;
    [cuPointerGetAttributes]
        (count: u32, attributes: In<i32>, data: In<Out<c_void>>, pointer: Address)
        => pointer::attributes;
    [cuPointerSetAttribute]
        (value: In<u32>, attribute: i32, pointer: Address) => pointer::set_attribute;

    [cuMemcpy, cuMemcpy_ptds per_thread]
        (target: Address, source: Address, bytes: usize) => copy::any;
    [cuMemcpyAsync, cuMemcpyAsync_ptsz per_thread]
        (target: Address, source: Address, bytes: usize, stream: Handle) => copy::any_async;
    [cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz per_thread]
        (targets: In<Address>, sources: In<Address>, sizes: In<usize>, count: usize,
        attributes: In<CopyAttributeFields>, starts: In<usize>, attributes_count: usize,
        failed: Out<usize>, stream: Handle)
        => |call, targets, sources, sizes, count, attributes, starts, attributes_count, failed,
            stream| {
            let batch =
                Batch { targets, sources, sizes, count, attributes, starts, attributes_count };
            copy::batch(call, &batch, failed, stream)
        };
    [cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz per_thread]
        (targets: In<Address>, sources: In<Address>, sizes: In<usize>, count: usize,
        attributes: In<CopyAttributeFields>, starts: In<usize>, attributes_count: usize,
        stream: Handle)
        => |call, targets, sources, sizes, count, attributes, starts, attributes_count, stream| {
            let batch =
                Batch { targets, sources, sizes, count, attributes, starts, attributes_count };
            copy::batch(call, &batch, Out::null(), stream)
        };
    [cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds per_thread]
        (target: Address, source: *mut u8, bytes: usize) => copy::host_to_device;
    [cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz per_thread]
        (target: Address, source: *mut u8, bytes: usize, stream: Handle)
        => copy::host_to_device_async;
    [cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds per_thread]
        (target: *mut u8, source: Address, bytes: usize) => copy::device_to_host;
    [cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz per_thread]
        (target: *mut u8, source: Address, bytes: usize, stream: Handle)
        => copy::device_to_host_async;
    [cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds per_thread]
        (target: Address, source: Address, bytes: usize) => copy::device_to_device;
    [cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz per_thread]
        (target: Address, source: Address, bytes: usize, stream: Handle)
        => copy::device_to_device_async;
    [cuMemcpyPeer, cuMemcpyPeer_ptds per_thread]
        (target: Address, target_context: Handle, source: Address, source_context: Handle,
        bytes: usize) => copy::peer;
    [cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz per_thread]
        (target: Address, target_context: Handle, source: Address, source_context: Handle,
        bytes: usize, stream: Handle) => copy::peer_async;
    [cuMemcpy2D_v2, cuMemcpy2D_v2_ptds per_thread]
        (copy: In<Copy2dFields>) => copy::of_rows;
    [cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds per_thread]
        (copy: In<Copy2dFields>) => copy::of_rows;
    [cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz per_thread]
        (copy: In<Copy2dFields>, stream: Handle) => copy::of_rows_async;
    [cuMemcpy3D_v2, cuMemcpy3D_v2_ptds per_thread]
        (copy: In<Copy3dFields>) => copy_3d::of_boxes;
    [cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz per_thread]
        (copy: In<Copy3dFields>, stream: Handle) => copy_3d::of_boxes_async;
    [cuMemcpy3DPeer, cuMemcpy3DPeer_ptds per_thread]
        (copy: In<Copy3dFields>) => copy_3d::peer;
    [cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz per_thread]
        (copy: In<Copy3dFields>, stream: Handle) => copy_3d::peer_async;

    [cuMemsetD8_v2, cuMemsetD8_v2_ptds per_thread]
        (target: Address, value: u8, count: usize) => fill::bytes;
    [cuMemsetD16_v2, cuMemsetD16_v2_ptds per_thread]
        (target: Address, value: u16, count: usize) => fill::halves;
    [cuMemsetD32_v2, cuMemsetD32_v2_ptds per_thread]
        (target: Address, value: u32, count: usize) => fill::words;
    [cuMemsetD8Async, cuMemsetD8Async_ptsz per_thread]
        (target: Address, value: u8, count: usize, stream: Handle) => fill::bytes_async;
    [cuMemsetD16Async, cuMemsetD16Async_ptsz per_thread]
        (target: Address, value: u16, count: usize, stream: Handle) => fill::halves_async;
    [cuMemsetD32Async, cuMemsetD32Async_ptsz per_thread]
        (target: Address, value: u32, count: usize, stream: Handle) => fill::words_async;
    [cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds per_thread]
        (target: Address, pitch: usize, value: u8, width: usize, height: usize)
        => fill::rows_of_bytes;
    [cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds per_thread]
        (target: Address, pitch: usize, value: u16, width: usize, height: usize)
        => fill::rows_of_halves;
    [cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds per_thread]
        (target: Address, pitch: usize, value: u32, width: usize, height: usize)
        => fill::rows_of_words;
    [cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz per_thread]
        (target: Address, pitch: usize, value: u8, width: usize, height: usize, stream: Handle)
        => fill::rows_of_bytes_async;
    [cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz per_thread]
        (target: Address, pitch: usize, value: u16, width: usize, height: usize, stream: Handle)
        => fill::rows_of_halves_async;
    [cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz per_thread]
        (target: Address, pitch: usize, value: u32, width: usize, height: usize, stream: Handle)
        => fill::rows_of_words_async;

    [cuModuleLoad] (module: Out<Handle>, path: Text) => module::load_file;
    [cuModuleLoadData]
        (module: Out<Handle>, image: Image) => module::load_data;
    [cuModuleLoadDataEx]
        (module: Out<Handle>, image: Image, count: u32, numbers: In<i32>, values: Out<usize>)
        => module::load_data_with_options;
    [cuModuleLoadFatBinary]
        (module: Out<Handle>, image: Image) => module::load_data;
    [cuModuleUnload] (module: Handle) => module::unload;
    [cuModuleGetFunction]
        (function: Out<Handle>, module: Handle, name: Text) => module::function;
    [cuModuleGetGlobal_v2]
        (pointer: Out<Address>, bytes: Out<usize>, module: Handle, name: Text)
        => module::global;
    [cuModuleGetFunctionCount]
        (count: Out<u32>, module: Handle) => module::function_count;
    [cuModuleEnumerateFunctions]
        (functions: Out<Handle>, count: u32, module: Handle) => module::functions;
    [cuModuleGetLoadingMode]
        (mode: Out<i32>) => module::loading_mode;

    [cuLibraryLoadData]
        (library: Out<Handle>, image: Image, numbers: In<i32>, values: Out<usize>, count: u32,
        library_numbers: In<i32>, library_values: In<usize>, library_count: u32)
        => library::load_data;
    [cuLibraryLoadFromFile]
        (library: Out<Handle>, path: Text, numbers: In<i32>, values: Out<usize>, count: u32,
        library_numbers: In<i32>, library_values: In<usize>, library_count: u32)
        => library::load_file;
    [cuLibraryUnload] (library: Handle) => library::unload;
    [cuLibraryGetModule]
        (module: Out<Handle>, library: Handle) => library::get_module;
    [cuLibraryGetKernel]
        (kernel: Out<Handle>, library: Handle, name: Text) => library::kernel;
    [cuLibraryGetKernelCount]
        (count: Out<u32>, library: Handle) => library::kernel_count;
    [cuLibraryEnumerateKernels]
        (kernels: Out<Handle>, count: u32, library: Handle) => library::kernels;
    [cuLibraryGetGlobal]
        (pointer: Out<Address>, bytes: Out<usize>, library: Handle, name: Text)
        => library::global;
    [cuKernelGetFunction]
        (function: Out<Handle>, kernel: Handle) => library::kernel_function;
    [cuKernelGetLibrary]
        (library: Out<Handle>, kernel: Handle) => library::kernel_library;
    [cuKernelGetName]
        (name: Out<*const c_char>, kernel: Handle) => library::kernel_name;
    [cuKernelGetAttribute]
        (value: Out<i32>, attribute: i32, kernel: Handle, device: Device)
        => library::kernel_attribute;
    [cuKernelSetAttribute]
        (attribute: i32, value: i32, kernel: Handle, device: Device)
        => library::kernel_set_attribute;
    [cuKernelSetCacheConfig]
        (kernel: Handle, config: i32, device: Device) => library::kernel_set_cache_config;
    [cuKernelGetParamInfo]
        (kernel: Handle, index: usize, offset: Out<usize>, bytes: Out<usize>)
        => library::kernel_param_info;

    [cuFuncGetAttribute]
        (value: Out<i32>, attribute: i32, function: Handle) => function::attribute;
    [cuFuncSetAttribute]
        (function: Handle, attribute: i32, value: i32) => function::set_attribute;
    [cuFuncSetCacheConfig]
        (function: Handle, config: i32) => function::set_config;
    [cuFuncSetSharedMemConfig]
        (function: Handle, config: i32) => function::set_config;
    [cuFuncGetModule]
        (module: Out<Handle>, function: Handle) => function::module;
    [cuFuncGetName]
        (name: Out<*const c_char>, function: Handle) => function::name;
    [cuFuncGetParamInfo]
        (function: Handle, index: usize, offset: Out<usize>, bytes: Out<usize>)
        => function::param_info;
    [cuFuncIsLoaded]
        (state: Out<i32>, function: Handle) => function::is_loaded;
    [cuFuncLoad] (function: Handle) => function::load;

    [cuLaunchKernel, cuLaunchKernel_ptsz per_thread]
        (function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, shared_bytes: u32, stream: Handle, pointers: In<*const c_void>,
        extra: In<*const c_void>) => launch::kernel;
    [cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz per_thread]
        (function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, shared_bytes: u32, stream: Handle, pointers: In<*const c_void>)
        => launch::cooperative_kernel;
    [cuLaunchKernelEx, cuLaunchKernelEx_ptsz per_thread]
        (config: In<LaunchConfigFields>, function: Handle, pointers: In<*const c_void>,
        extra: In<*const c_void>) => launch::with_config;

    [cuOccupancyMaxActiveBlocksPerMultiprocessor]
        (blocks: Out<i32>, function: Handle, block: i32, dynamic_bytes: usize)
        => occupancy::active_blocks;
    [cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags]
        (blocks: Out<i32>, function: Handle, block: i32, dynamic_bytes: usize, flags: u32)
        => occupancy::active_blocks_with_flags;
    [cuOccupancyMaxPotentialBlockSize]
        (grid: Out<i32>, block: Out<i32>, function: Handle,
        shared_of_block: BlockToSharedPointer, dynamic_bytes: usize, limit: i32)
        => occupancy::potential_block;
    [cuOccupancyMaxPotentialBlockSizeWithFlags]
        (grid: Out<i32>, block: Out<i32>, function: Handle,
        shared_of_block: BlockToSharedPointer, dynamic_bytes: usize, limit: i32, flags: u32)
        => occupancy::potential_block_with_flags;
    [cuOccupancyAvailableDynamicSMemPerBlock]
        (bytes: Out<usize>, function: Handle, blocks: i32, block: i32)
        => occupancy::available_shared;

    [cuLinkCreate, cuLinkCreate_v2]
        (count: u32, numbers: In<i32>, values: Out<usize>, linker: Out<Handle>)
        => linker::create;
    [cuLinkAddData, cuLinkAddData_v2]
        (linker: Handle, kind: i32, data: Bytes, size: usize, name: In<c_char>, count: u32,
        numbers: In<i32>, values: In<usize>) => linker::add_data;
    [cuLinkAddFile, cuLinkAddFile_v2]
        (linker: Handle, kind: i32, path: Text, count: u32, numbers: In<i32>,
        values: In<usize>) => linker::add_file;
    [cuLinkComplete]
        (linker: Handle, image: Out<*const c_void>, size: Out<usize>) => linker::complete;
    [cuLinkDestroy] (linker: Handle) => linker::destroy;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::versions;

    #[test]
    fn every_symbol_of_the_headers_is_exported_once_and_no_other() {
        let mut exported = BTreeMap::new();
        for symbol in SYMBOLS.iter().chain(refused::SYMBOLS) {
            let before = exported.insert(symbol.name, symbol);
            assert!(before.is_none(), "{} is listed twice", symbol.name);
        }
        for version in versions::symbols() {
            let found = exported.remove(version.symbol);
            assert!(found.is_some(), "{} is not exported", version.symbol);
        }
        let unknown: Vec<_> = exported.keys().collect();
        assert!(unknown.is_empty(), "not in the headers: {unknown:?}");
    }

    #[test]
    fn implemented_functions_have_as_many_parameters_as_in_the_headers() {
        let parameters: BTreeMap<_, _> = versions::symbols()
            .map(|version| (version.symbol, version.parameters))
            .collect();
        for symbol in SYMBOLS {
            let expected = parameters.get(symbol.name).copied();
            assert_eq!(Some(symbol.parameters), expected, "{}", symbol.name);
        }
    }

    #[test]
    fn exactly_the_per_thread_versions_use_the_default_stream_of_the_thread() {
        let per_thread: Vec<_> = versions::FUNCTIONS
            .iter()
            .flat_map(|function| function.per_thread)
            .map(|version| version.symbol)
            .collect();
        for symbol in SYMBOLS {
            let expected = per_thread.contains(&symbol.name);
            assert_eq!(symbol.per_thread, expected, "{}", symbol.name);
        }
    }
}
