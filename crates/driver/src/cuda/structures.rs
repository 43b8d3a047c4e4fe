//! The table of the structures that libcuda's functions take.

/// Applies the macro `$with` to the structures, declared as in CUDA's headers: their names here and
/// there, and their fields with the names there. A field without another name is part of one there.
#[doc(hidden)]
#[macro_export]
macro_rules! cuda_structures {
    ($with:ident) => {
        $with! {
            /// `CUuuid`: the universally unique identifier of a device.
            #[derive(Default)]
            Uuid = CUuuid_st {
                bytes: [u8; 16] = bytes;
            }

            /// `CUmemLocation`: a memory location; all zero for no hint.
            #[derive(Default)]
            MemoryLocation = CUmemLocation_st {
                kind: c_int = type_;
                id: c_int = id;
            }

            /// `CUmemAccessDesc`: the access of one location to memory.
            #[derive(Default)]
            MemoryAccess = CUmemAccessDesc_st {
                location: MemoryLocation = location;
                flags: c_int = flags;
            }

            /// `CUmemcpyAttributes`: attributes of the copies in a batch.
            #[derive(Default)]
            CopyAttributes = CUmemcpyAttributes_st {
                source_access_order: c_int = srcAccessOrder;
                source_hint: MemoryLocation = srcLocHint;
                target_hint: MemoryLocation = dstLocHint;
                flags: c_uint = flags;
            }

            /// `CUDA_MEMCPY2D`: parameters of a two-dimensional copy. On each side the memory type
            /// selects which of the three addresses is used.
            Memcpy2d = CUDA_MEMCPY2D_st {
                source_x_bytes: usize = srcXInBytes;
                source_y: usize = srcY;
                source_type: c_int = srcMemoryType;
                source_host: *const c_void = srcHost;
                source_device: DevicePtr = srcDevice;
                source_array: usize = srcArray;
                source_pitch: usize = srcPitch;
                target_x_bytes: usize = dstXInBytes;
                target_y: usize = dstY;
                target_type: c_int = dstMemoryType;
                target_host: *mut c_void = dstHost;
                target_device: DevicePtr = dstDevice;
                target_array: usize = dstArray;
                target_pitch: usize = dstPitch;
                width_bytes: usize = WidthInBytes;
                height: usize = Height;
            }

            /// `CUDA_MEMCPY3D_PEER`: parameters of a three-dimensional copy between two contexts.
            /// On each side the memory type selects which of the three addresses is used. In
            /// `CUDA_MEMCPY3D`, which is alike otherwise, the contexts are reserved and null.
            Memcpy3d = CUDA_MEMCPY3D_PEER_st {
                source_x_bytes: usize = srcXInBytes;
                source_y: usize = srcY;
                source_z: usize = srcZ;
                /// The source's level of detail; 0.
                source_lod: usize = srcLOD;
                source_type: c_int = srcMemoryType;
                source_host: *const c_void = srcHost;
                source_device: DevicePtr = srcDevice;
                source_array: usize = srcArray;
                source_context: ContextHandle = srcContext;
                source_pitch: usize = srcPitch;
                source_height: usize = srcHeight;
                target_x_bytes: usize = dstXInBytes;
                target_y: usize = dstY;
                target_z: usize = dstZ;
                /// The target's level of detail; 0.
                target_lod: usize = dstLOD;
                target_type: c_int = dstMemoryType;
                target_host: *mut c_void = dstHost;
                target_device: DevicePtr = dstDevice;
                target_array: usize = dstArray;
                target_context: ContextHandle = dstContext;
                target_pitch: usize = dstPitch;
                target_height: usize = dstHeight;
                width_bytes: usize = WidthInBytes;
                height: usize = Height;
                depth: usize = Depth;
            }

            /// `CUDA_ARRAY3D_DESCRIPTOR`: the shape of an array. A 1-D array has height and depth
            /// 0, a 2-D array depth 0; the depth of a layered array is its number of layers.
            #[derive(Default, PartialEq)]
            ArrayDescriptor = CUDA_ARRAY3D_DESCRIPTOR_st {
                width: usize = Width;
                height: usize = Height;
                depth: usize = Depth;
                format: c_int = Format;
                channels: c_uint = NumChannels;
                flags: c_uint = Flags;
            }

            /// `CUDA_RESOURCE_DESC`: the memory behind a texture or a surface.
            #[derive(Default)]
            ResourceDescriptor = CUDA_RESOURCE_DESC_st {
                kind: c_int = resType;
                /// A union of 128 bytes: an array; or an address, a format with a number of
                /// channels, and a size in bytes, or a width, a height and a pitch.
                words: [u64; 16] = res;
                flags: c_uint = flags;
            }

            /// `CUDA_TEXTURE_DESC`: the way in which a texture is read.
            #[derive(Default, PartialEq)]
            TextureDescriptor = CUDA_TEXTURE_DESC_st {
                address: [c_int; 3] = addressMode;
                filter: c_int = filterMode;
                flags: c_uint = flags;
                anisotropy: c_uint = maxAnisotropy;
                /// The filter, bias and clamps between mipmap levels.
                mipmap: [c_int; 4] = mipmapFilterMode;
                border: [f32; 4] = borderColor;
                /// Zeros.
                reserved: [c_int; 12] = reserved;
            }

            /// `CUlaunchAttribute`: an attribute of a launch. The value is a union of 64 bytes, of
            /// which each attribute here uses the first words.
            #[repr(align(8))]
            #[derive(Default)]
            LaunchAttribute = CUlaunchAttribute_st {
                id: c_int = id;
                /// Padding.
                padding: c_int = pad;
                value: [c_int; 16] = value;
            }

            /// `CUlaunchConfig`: the dimensions, the stream and the attributes of a launch.
            LaunchConfig = CUlaunchConfig_st {
                grid: [c_uint; 3] = gridDimX;
                block: [c_uint; 3] = blockDimX;
                shared_bytes: c_uint = sharedMemBytes;
                stream: StreamHandle = hStream;
                attributes: *const LaunchAttribute = attrs;
                attribute_count: c_uint = numAttrs;
            }

            /// `CUDA_KERNEL_NODE_PARAMS_v2`: a kernel as a graph node.
            KernelNodeParams = CUDA_KERNEL_NODE_PARAMS_v2_st {
                function: FunctionHandle = func;
                grid: [c_uint; 3] = gridDimX;
                block: [c_uint; 3] = blockDimX;
                shared_bytes: c_uint = sharedMemBytes;
                params: *mut *mut c_void = kernelParams;
                /// The arguments in one buffer; null.
                extra: *mut *mut c_void = extra;
                /// The kernel as a `CUkernel`; null.
                kernel: usize = kern;
                /// The context of a `CUkernel`; null.
                context: ContextHandle = ctx;
            }

            /// `CUDA_MEMSET_NODE_PARAMS`: a fill as a graph node.
            MemsetNodeParams = CUDA_MEMSET_NODE_PARAMS_st {
                target: DevicePtr = dst;
                /// The distance between the starts of rows, in bytes; unused with one row.
                pitch: usize = pitch;
                value: c_uint = value;
                /// The size of an element: 1, 2 or 4 bytes.
                element_bytes: c_uint = elementSize;
                width: usize = width;
                height: usize = height;
            }

            /// `CUgraphNodeParams` with the parameters of a conditional node.
            ConditionalNodeParams = CUgraphNodeParams_st {
                node_type: c_int = type_;
                /// Zeros.
                reserved_0: [c_int; 3] = reserved0;
                conditional: ConditionalParams = __bindgen_anon_1;
                /// Zeros: the rest of a union of 232 bytes.
                padding: [u64; 25];
                /// Zero.
                reserved_2: u64 = reserved2;
            }

            /// `CUDA_CONDITIONAL_NODE_PARAMS`: the parameters of a conditional node.
            ConditionalParams = CUDA_CONDITIONAL_NODE_PARAMS {
                condition: ConditionHandle = handle;
                kind: c_int = type_;
                body_count: c_uint = size;
                /// The bodies, returned by the driver, which owns the list.
                bodies: *mut GraphHandle = phGraph_out;
                context: ContextHandle = ctx;
            }

            /// `CUDA_GRAPH_INSTANTIATE_PARAMS`: the flags and results of an instantiation.
            InstantiateParams = CUDA_GRAPH_INSTANTIATE_PARAMS_st {
                flags: u64 = flags;
                /// The stream to upload in, with the flag for it.
                upload_stream: StreamHandle = hUploadStream;
                /// Returned: the node that caused a failure, or null.
                error_node: GraphNodeHandle = hErrNode_out;
                /// Returned: why it failed (`CUgraphInstantiateResult`).
                result: c_int = result_out;
            }

            /// `CUgraphExecUpdateResultInfo`: the result of an update.
            ExecUpdateResultInfo = CUgraphExecUpdateResultInfo_st {
                result: c_int = result;
                /// The node of the new graph that caused the failure, or null.
                error_node: GraphNodeHandle = errorNode;
                /// The origin of a differing edge, or null.
                error_from_node: GraphNodeHandle = errorFromNode;
            }
        }
    };
}
