//! The table of libcuda's functions.

/// Applies the macro `$with` to libcuda's functions, first the required ones and then those that
/// older drivers lack. Each row is a name, its symbol in the library if that has a suffix, and the
/// parameters. The result is always a [`ResultCode`](crate::ResultCode).
#[doc(hidden)]
#[macro_export]
macro_rules! cuda_functions {
    ($with:ident) => { $with! {
    required {
        cuInit(flags: c_uint);
        cuGetErrorName(code: ResultCode, name: *mut *const c_char);
        cuGetErrorString(code: ResultCode, text: *mut *const c_char);

        cuDeviceGetCount(count: *mut c_int);
        cuDeviceGet(device: *mut c_int, ordinal: c_int);
        cuDeviceGetName(name: *mut c_char, capacity: c_int, device: c_int);
        cuDeviceGetUuid[cuDeviceGetUuid_v2](uuid: *mut Uuid, device: c_int);
        cuDeviceTotalMem[cuDeviceTotalMem_v2](bytes: *mut usize, device: c_int);
        cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int);
        cuDeviceGetPCIBusId(address: *mut c_char, capacity: c_int, device: c_int);
        cuDeviceCanAccessPeer(can_access: *mut c_int, device: c_int, peer: c_int);
        cuDeviceGetP2PAttribute(value: *mut c_int, attribute: c_int, source: c_int, target: c_int);
        cuDeviceGetDefaultMemPool(pool: *mut PoolHandle, device: c_int);
        cuDevicePrimaryCtxRetain(context: *mut ContextHandle, device: c_int);
        cuDevicePrimaryCtxRelease[cuDevicePrimaryCtxRelease_v2](device: c_int);

        cuCtxGetCurrent(context: *mut ContextHandle);
        cuCtxSetCurrent(context: ContextHandle);
        cuCtxSynchronize();
        cuCtxEnablePeerAccess(peer: ContextHandle, flags: c_uint);
        cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);

        cuStreamCreateWithPriority(stream: *mut StreamHandle, flags: c_uint, priority: c_int);
        cuStreamDestroy[cuStreamDestroy_v2](stream: StreamHandle);
        cuStreamQuery(stream: StreamHandle);
        cuStreamGetCtx(stream: StreamHandle, context: *mut ContextHandle);
        cuPointerGetAttributes(
            count: c_uint, attributes: *mut c_int, values: *mut *mut c_void, pointer: DevicePtr
        );
        cuStreamSynchronize(stream: StreamHandle);
        cuStreamWaitEvent(stream: StreamHandle, event: EventHandle, flags: c_uint);

        cuEventCreate(event: *mut EventHandle, flags: c_uint);
        cuEventDestroy[cuEventDestroy_v2](event: EventHandle);
        cuEventRecord(event: EventHandle, stream: StreamHandle);
        cuEventQuery(event: EventHandle);
        cuEventSynchronize(event: EventHandle);
        cuEventElapsedTime(milliseconds: *mut f32, start: EventHandle, end: EventHandle);

        cuMemGetInfo[cuMemGetInfo_v2](free: *mut usize, total: *mut usize);
        cuMemAlloc[cuMemAlloc_v2](pointer: *mut DevicePtr, bytes: usize);
        cuMemFree[cuMemFree_v2](pointer: DevicePtr);
        cuMemAllocAsync(pointer: *mut DevicePtr, bytes: usize, stream: StreamHandle);
        cuMemFreeAsync(pointer: DevicePtr, stream: StreamHandle);
        cuMemAllocManaged(pointer: *mut DevicePtr, bytes: usize, flags: c_uint);
        cuMemPoolSetAttribute(pool: PoolHandle, attribute: c_int, value: *mut c_void);
        cuMemPoolGetAttribute(pool: PoolHandle, attribute: c_int, value: *mut c_void);
        cuMemPoolSetAccess(pool: PoolHandle, accesses: *const MemoryAccess, count: usize);
        cuMemPoolTrimTo(pool: PoolHandle, keep_bytes: usize);
        cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
        cuMemFreeHost(pointer: *mut c_void);
        cuMemHostRegister[cuMemHostRegister_v2](pointer: *mut c_void, bytes: usize, flags: c_uint);
        cuMemHostUnregister(pointer: *mut c_void);

        cuMemcpyHtoD[cuMemcpyHtoD_v2](target: DevicePtr, source: *const c_void, bytes: usize);
        cuMemcpyDtoH[cuMemcpyDtoH_v2](target: *mut c_void, source: DevicePtr, bytes: usize);
        cuMemcpyDtoD[cuMemcpyDtoD_v2](target: DevicePtr, source: DevicePtr, bytes: usize);
        cuMemcpyHtoDAsync[cuMemcpyHtoDAsync_v2](
            target: DevicePtr, source: *const c_void, bytes: usize, stream: StreamHandle
        );
        cuMemcpyDtoHAsync[cuMemcpyDtoHAsync_v2](
            target: *mut c_void, source: DevicePtr, bytes: usize, stream: StreamHandle
        );
        cuMemcpyDtoDAsync[cuMemcpyDtoDAsync_v2](
            target: DevicePtr, source: DevicePtr, bytes: usize, stream: StreamHandle
        );
        cuMemcpy(target: DevicePtr, source: DevicePtr, bytes: usize);
        cuMemcpyAsync(target: DevicePtr, source: DevicePtr, bytes: usize, stream: StreamHandle);
        cuMemcpy2DAsync[cuMemcpy2DAsync_v2](copy: *const Memcpy2d, stream: StreamHandle);
        cuMemcpy3DAsync[cuMemcpy3DAsync_v2](copy: *const Memcpy3d, stream: StreamHandle);
        cuMemcpyPeerAsync(
            target: DevicePtr, target_context: ContextHandle, source: DevicePtr,
            source_context: ContextHandle, bytes: usize, stream: StreamHandle
        );
        cuMemcpy3DPeerAsync(copy: *const Memcpy3d, stream: StreamHandle);
        cuMemsetD8Async(target: DevicePtr, value: u8, count: usize, stream: StreamHandle);
        cuMemsetD16Async(target: DevicePtr, value: u16, count: usize, stream: StreamHandle);
        cuMemsetD32Async(target: DevicePtr, value: u32, count: usize, stream: StreamHandle);

        cuArray3DCreate[cuArray3DCreate_v2](
            array: *mut ArrayHandle, shape: *const ArrayDescriptor
        );
        cuArrayDestroy(array: ArrayHandle);
        cuTexObjectCreate(
            texture: *mut TextureHandle, resource: *const ResourceDescriptor,
            mode: *const TextureDescriptor, view: *const c_void
        );
        cuTexObjectDestroy(texture: TextureHandle);
        cuSurfObjectCreate(surface: *mut SurfaceHandle, resource: *const ResourceDescriptor);
        cuSurfObjectDestroy(surface: SurfaceHandle);

        cuModuleLoadDataEx(
            module: *mut ModuleHandle, image: *const c_void, option_count: c_uint,
            options: *mut c_int, option_values: *mut *mut c_void
        );
        cuModuleUnload(module: ModuleHandle);
        cuModuleGetFunction(
            function: *mut FunctionHandle, module: ModuleHandle, name: *const c_char
        );
        cuModuleGetGlobal[cuModuleGetGlobal_v2](
            pointer: *mut DevicePtr, bytes: *mut usize, module: ModuleHandle, name: *const c_char
        );
        cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: FunctionHandle);
        cuFuncSetAttribute(function: FunctionHandle, attribute: c_int, value: c_int);
        cuLaunchKernel(
            function: FunctionHandle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
            block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint,
            stream: StreamHandle, params: *mut *mut c_void, extra: *mut *mut c_void
        );
        cuOccupancyMaxActiveBlocksPerMultiprocessor(
            blocks: *mut c_int, function: FunctionHandle, block_threads: c_int,
            dynamic_shared_bytes: usize
        );
        cuOccupancyMaxPotentialBlockSize(
            min_blocks: *mut c_int, threads: *mut c_int, function: FunctionHandle,
            shared_bytes_of: BlockToShared, dynamic_shared_bytes: usize, threads_max: c_int
        );
        cuLaunchHostFunc(
            stream: StreamHandle, function: HostCallback, data: *mut c_void
        );
        cuGraphCreate(graph: *mut GraphHandle, flags: c_uint);
        cuGraphDestroy(graph: GraphHandle);
        cuGraphClone(copy: *mut GraphHandle, graph: GraphHandle);
        cuGraphDestroyNode(node: GraphNodeHandle);
        cuGraphAddKernelNode[cuGraphAddKernelNode_v2](
            node: *mut GraphNodeHandle, graph: GraphHandle, dependencies: *const GraphNodeHandle,
            count: usize, params: *const KernelNodeParams
        );
        cuGraphGetNodes(graph: GraphHandle, nodes: *mut GraphNodeHandle, count: *mut usize);
        cuGraphNodeGetType(node: GraphNodeHandle, node_type: *mut c_int);
        cuGraphNodeGetDependencies(
            node: GraphNodeHandle, dependencies: *mut GraphNodeHandle, count: *mut usize
        );
        cuGraphKernelNodeGetParams[cuGraphKernelNodeGetParams_v2](
            node: GraphNodeHandle, params: *mut KernelNodeParams
        );
        cuGraphKernelNodeGetAttribute(node: GraphNodeHandle, attribute: c_int, value: *mut c_void);
        cuGraphKernelNodeSetAttribute(
            node: GraphNodeHandle, attribute: c_int, value: *const c_void
        );
        cuGraphAddMemcpyNode(
            node: *mut GraphNodeHandle, graph: GraphHandle, dependencies: *const GraphNodeHandle,
            count: usize, params: *const Memcpy3d, context: ContextHandle
        );
        cuGraphAddMemsetNode(
            node: *mut GraphNodeHandle, graph: GraphHandle, dependencies: *const GraphNodeHandle,
            count: usize, params: *const MemsetNodeParams, context: ContextHandle
        );
        cuGraphAddChildGraphNode(
            node: *mut GraphNodeHandle, graph: GraphHandle, dependencies: *const GraphNodeHandle,
            count: usize, child: GraphHandle
        );
        cuGraphAddEmptyNode(
            node: *mut GraphNodeHandle, graph: GraphHandle, dependencies: *const GraphNodeHandle,
            count: usize
        );
        cuGraphAddDependencies(
            graph: GraphHandle, from: *const GraphNodeHandle, to: *const GraphNodeHandle,
            count: usize
        );
        cuGraphInstantiateWithParams(
            exec: *mut GraphExecHandle, graph: GraphHandle, params: *mut InstantiateParams
        );
        cuGraphExecDestroy(exec: GraphExecHandle);
        cuGraphUpload(exec: GraphExecHandle, stream: StreamHandle);
        cuGraphLaunch(exec: GraphExecHandle, stream: StreamHandle);
        cuGraphExecKernelNodeSetParams[cuGraphExecKernelNodeSetParams_v2](
            exec: GraphExecHandle, node: GraphNodeHandle, params: *const KernelNodeParams
        );
        cuGraphExecMemcpyNodeSetParams(
            exec: GraphExecHandle, node: GraphNodeHandle, params: *const Memcpy3d,
            context: ContextHandle
        );
        cuGraphExecMemsetNodeSetParams(
            exec: GraphExecHandle, node: GraphNodeHandle, params: *const MemsetNodeParams,
            context: ContextHandle
        );
        cuGraphKernelNodeSetParams[cuGraphKernelNodeSetParams_v2](
            node: GraphNodeHandle, params: *const KernelNodeParams
        );
        cuGraphMemcpyNodeSetParams(node: GraphNodeHandle, params: *const Memcpy3d);
        cuGraphMemsetNodeSetParams(node: GraphNodeHandle, params: *const MemsetNodeParams);
        cuGraphExecChildGraphNodeSetParams(
            exec: GraphExecHandle, node: GraphNodeHandle, child: GraphHandle
        );
        cuGraphExecUpdate[cuGraphExecUpdate_v2](
            exec: GraphExecHandle, graph: GraphHandle, result: *mut ExecUpdateResultInfo
        );
        cuStreamBeginCapture[cuStreamBeginCapture_v2](stream: StreamHandle, mode: c_int);
        cuStreamEndCapture(stream: StreamHandle, graph: *mut GraphHandle);
        cuStreamGetCaptureInfo[cuStreamGetCaptureInfo_v2](
            stream: StreamHandle, status: *mut c_int, id: *mut u64, graph: *mut GraphHandle,
            dependencies: *mut *const GraphNodeHandle, count: *mut usize
        );
        cuStreamUpdateCaptureDependencies(
            stream: StreamHandle, dependencies: *mut GraphNodeHandle, count: usize, flags: c_uint
        );
    }
    optional {
        cuMemPrefetchAsync(pointer: DevicePtr, bytes: usize, device: c_int, stream: StreamHandle);
        cuMemAdvise(pointer: DevicePtr, bytes: usize, advice: c_int, device: c_int);
        cuMemcpyBatchAsync(
            targets: *mut DevicePtr, sources: *mut DevicePtr, sizes: *mut usize, count: usize,
            attributes: *mut CopyAttributes, attribute_starts: *mut usize, attribute_count: usize,
            failed_at: *mut usize, stream: StreamHandle
        );
        cuFuncLoad(function: FunctionHandle);
        cuLaunchKernelEx(
            config: *const LaunchConfig, function: FunctionHandle, params: *mut *mut c_void,
            extra: *mut *mut c_void
        );
        cuGraphConditionalHandleCreate(
            condition: *mut ConditionHandle, graph: GraphHandle, context: ContextHandle,
            initial: c_uint, flags: c_uint
        );
        cuGraphAddNode[cuGraphAddNode_v2](
            node: *mut GraphNodeHandle, graph: GraphHandle, dependencies: *const GraphNodeHandle,
            edge_data: *const c_void, count: usize, params: *mut ConditionalNodeParams
        );
        cuFuncGetParamInfo(
            function: FunctionHandle, index: usize, offset: *mut usize, bytes: *mut usize
        );
    } } };
}
