//! The functions that are not implemented: they return `CUDA_ERROR_NOT_SUPPORTED` and print their
//! name on standard error at the first call.
//!
//! `versions` explains why an export without parameters can stand in for any function.

#![allow(unsafe_code, reason = "exports functions under CUDA's names")]
#![allow(non_snake_case, reason = "the names of CUDA's functions")]

use std::sync::atomic::{AtomicBool, Ordering};

use millstream_driver::ResultCode;

use crate::{export::Symbol, process::say};

/// Refuses a call, and says so the first time.
fn refuse(name: &str, said: &AtomicBool) -> i32 {
    if !said.swap(true, Ordering::Relaxed) {
        say(&format!("{name} is not supported by the simulated device"));
    }
    ResultCode::NOT_SUPPORTED.as_raw()
}

macro_rules! refused {
    ($($symbol:ident)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $symbol() -> i32 {
            static SAID: AtomicBool = AtomicBool::new(false);
            refuse(stringify!($symbol), &SAID)
        })*

        /// Every exported symbol that is not implemented.
        pub(crate) static SYMBOLS: &[Symbol] = &[$(Symbol {
            name: stringify!($symbol),
            parameters: 0,
            per_thread: false,
            address: || $symbol as *const () as usize,
        }),*];
    };
}

refused! {
    cuArray3DCreate cuArray3DGetDescriptor cuArrayCreate cuArrayGetDescriptor
    cuArrayGetMemoryRequirements cuArrayGetPlane cuArrayGetSparseProperties
    cuCheckpointOperationComplete cuCheckpointProcessCheckpoint
    cuCheckpointProcessGetRestoreThreadId cuCheckpointProcessGetState cuCheckpointProcessLock
    cuCheckpointProcessRestore cuCheckpointProcessUnlock cuCoredumpDeregisterCompleteCallback
    cuCoredumpDeregisterStartCallback cuCoredumpGetAttribute cuCoredumpGetAttributeGlobal
    cuCoredumpRegisterCompleteCallback cuCoredumpRegisterStartCallback cuCoredumpSetAttribute
    cuCoredumpSetAttributeGlobal cuCtxAttach cuCtxCreate cuCtxFromGreenCtx cuCtxGetDevResource
    cuCtxGetExecAffinity cuCtxRecordEvent cuCtxWaitEvent cuDestroyExternalMemory
    cuDestroyExternalSemaphore cuDevResourceGenerateDesc cuDevSmResourceSplit
    cuDevSmResourceSplitByCount cuDeviceGetCliqueCount cuDeviceGetCliqueInfo cuDeviceGetDevResource
    cuDeviceGetFabricClusterUuid cuDeviceGetHostAtomicCapabilities cuDeviceGetLuid
    cuDeviceGetNvSciSyncAttributes cuDeviceGetP2PAtomicCapabilities cuDeviceGetProperties
    cuDeviceRegisterAsyncNotification cuDeviceSetGraphMemAttribute cuDeviceTotalMem
    cuDeviceUnregisterAsyncNotification cuEGLStreamConsumerAcquireFrame cuEGLStreamConsumerConnect
    cuEGLStreamConsumerConnectWithFlags cuEGLStreamConsumerDisconnect
    cuEGLStreamConsumerReleaseFrame cuEGLStreamProducerConnect cuEGLStreamProducerDisconnect
    cuEGLStreamProducerPresentFrame cuEGLStreamProducerReturnFrame cuEventCreateFromEGLSync
    cuExternalMemoryGetMappedBuffer cuExternalMemoryGetMappedMipmappedArray cuFabricCpyBatchAsync
    cuFabricCpyBatchAsync_ptsz cuFlushGPUDirectRDMAWrites cuFuncGetParamCount cuFuncSetSharedSize
    cuGLCtxCreate cuGLCtxCreate_v2 cuGLGetDevices cuGLGetDevices_v2 cuGLInit cuGLMapBufferObject
    cuGLMapBufferObject_v2 cuGLMapBufferObject_v2_ptds cuGLMapBufferObjectAsync
    cuGLMapBufferObjectAsync_v2 cuGLMapBufferObjectAsync_v2_ptsz cuGLRegisterBufferObject
    cuGLSetBufferObjectMapFlags cuGLUnmapBufferObject cuGLUnmapBufferObjectAsync
    cuGLUnregisterBufferObject cuGraphAddBatchMemOpNode cuGraphAddExternalSemaphoresSignalNode
    cuGraphAddExternalSemaphoresWaitNode cuGraphBatchMemOpNodeGetParams
    cuGraphBatchMemOpNodeSetParams cuGraphChildGraphNodeGetGraph cuGraphExecBatchMemOpNodeSetParams
    cuGraphExecExternalSemaphoresSignalNodeSetParams cuGraphExecExternalSemaphoresWaitNodeSetParams
    cuGraphExecGetId cuGraphExternalSemaphoresSignalNodeGetParams
    cuGraphExternalSemaphoresSignalNodeSetParams cuGraphExternalSemaphoresWaitNodeGetParams
    cuGraphExternalSemaphoresWaitNodeSetParams cuGraphGetId cuGraphKernelNodeCopyAttributes
    cuGraphKernelNodeGetAttribute cuGraphKernelNodeSetAttribute cuGraphNodeGetContainingGraph
    cuGraphNodeGetLocalId cuGraphNodeGetParams cuGraphNodeGetToolsId cuGraphicsEGLRegisterImage
    cuGraphicsGLRegisterBuffer cuGraphicsGLRegisterImage cuGraphicsMapResources
    cuGraphicsMapResources_ptsz cuGraphicsResourceGetMappedEglFrame
    cuGraphicsResourceGetMappedMipmappedArray cuGraphicsResourceGetMappedPointer
    cuGraphicsResourceGetMappedPointer_v2 cuGraphicsResourceSetMapFlags
    cuGraphicsResourceSetMapFlags_v2 cuGraphicsSubResourceGetMappedArray cuGraphicsUnmapResources
    cuGraphicsUnmapResources_ptsz cuGraphicsUnregisterResource cuGraphicsVDPAURegisterOutputSurface
    cuGraphicsVDPAURegisterVideoSurface cuGreenCtxCreate cuGreenCtxDestroy cuGreenCtxGetDevResource
    cuGreenCtxGetId cuGreenCtxRecordEvent cuGreenCtxStreamCreate cuGreenCtxWaitEvent
    cuImportExternalMemory cuImportExternalSemaphore cuIpcCloseMemHandle cuIpcGetEventHandle
    cuIpcGetMemHandle cuIpcOpenEventHandle cuIpcOpenMemHandle cuIpcOpenMemHandle_v2
    cuKernelGetParamCount cuLaunch cuLaunchCooperativeKernelMultiDevice cuLaunchGrid
    cuLaunchGridAsync cuLibraryGetManaged cuLibraryGetUnifiedFunction cuLogicalEndpointAddDevice
    cuLogicalEndpointBindAddr cuLogicalEndpointBindMem cuLogicalEndpointCreate
    cuLogicalEndpointDestroy cuLogicalEndpointExport cuLogicalEndpointGetLimits
    cuLogicalEndpointIdRelease cuLogicalEndpointIdReserve cuLogicalEndpointImport
    cuLogicalEndpointQuery cuLogicalEndpointUnbind cuLogsCurrent cuLogsDumpToFile cuLogsDumpToMemory
    cuLogsRegisterCallback cuLogsUnregisterCallback cuMemAlloc cuMemAllocHost cuMemAllocPitch
    cuMemBatchDecompressAsync cuMemBatchDecompressAsync_ptsz cuMemDiscardAndPrefetchBatchAsync
    cuMemDiscardAndPrefetchBatchAsync_ptsz cuMemDiscardBatchAsync cuMemDiscardBatchAsync_ptsz
    cuMemExportToShareableHandle cuMemFree cuMemGetAddressRange cuMemGetHandleForAddressRange
    cuMemGetInfo cuMemGetLocationInfo cuMemHostGetDevicePointer cuMemImportFromShareableHandle
    cuMemMapArrayAsync cuMemMapArrayAsync_ptsz cuMemPoolExportPointer
    cuMemPoolExportToShareableHandle cuMemPoolImportFromShareableHandle cuMemPoolImportPointer
    cuMemPrefetchBatchAsync cuMemPrefetchBatchAsync_ptsz cuMemRangeGetAttribute
    cuMemRangeGetAttributes cuMemcpy2D cuMemcpy2DAsync cuMemcpy2DUnaligned cuMemcpy3D
    cuMemcpy3DAsync cuMemcpy3DBatchAsync cuMemcpy3DBatchAsync_v2 cuMemcpy3DBatchAsync_ptsz
    cuMemcpy3DBatchAsync_v2_ptsz cuMemcpy3DWithAttributesAsync cuMemcpy3DWithAttributesAsync_ptsz
    cuMemcpyAtoA cuMemcpyAtoD cuMemcpyAtoH cuMemcpyAtoHAsync cuMemcpyDtoA cuMemcpyDtoD
    cuMemcpyDtoDAsync cuMemcpyDtoH cuMemcpyDtoHAsync cuMemcpyHtoA cuMemcpyHtoAAsync cuMemcpyHtoD
    cuMemcpyHtoDAsync cuMemcpyWithAttributesAsync cuMemcpyWithAttributesAsync_ptsz cuMemsetD16
    cuMemsetD2D16 cuMemsetD2D32 cuMemsetD2D8 cuMemsetD32 cuMemsetD8 cuMipmappedArrayCreate
    cuMipmappedArrayDestroy cuMipmappedArrayGetLevel cuMipmappedArrayGetMemoryRequirements
    cuMipmappedArrayGetSparseProperties cuModuleGetGlobal cuModuleGetSurfRef cuModuleGetTexRef
    cuMulticastAddDevice cuMulticastBindAddr cuMulticastBindAddr_v2 cuMulticastBindMem
    cuMulticastBindMem_v2 cuMulticastCreate cuMulticastGetGranularity cuMulticastUnbind
    cuOccupancyMaxActiveClusters cuOccupancyMaxPotentialClusterSize cuParamSetSize cuParamSetTexRef
    cuParamSetf cuParamSeti cuParamSetv cuProfilerInitialize cuSignalExternalSemaphoresAsync
    cuSignalExternalSemaphoresAsync_ptsz cuStreamBeginCaptureToCig cuStreamBeginCaptureToCig_ptsz
    cuStreamBeginRecaptureToGraph cuStreamBeginRecaptureToGraph_ptsz cuStreamEndCaptureToCig
    cuStreamEndCaptureToCig_ptsz cuStreamGetDevResource cuStreamGetDevResource_ptsz
    cuStreamGetGreenCtx cuSurfRefGetArray cuSurfRefSetArray cuTensorMapEncodeIm2col
    cuTensorMapEncodeIm2colWide cuTensorMapEncodeTiled cuTensorMapReplaceAddress
    cuTensorMapSetAllocationClass cuTexRefCreate cuTexRefDestroy cuTexRefGetAddress
    cuTexRefGetAddress_v2 cuTexRefGetAddressMode cuTexRefGetArray cuTexRefGetBorderColor
    cuTexRefGetFilterMode cuTexRefGetFlags cuTexRefGetFormat cuTexRefGetMaxAnisotropy
    cuTexRefGetMipmapFilterMode cuTexRefGetMipmapLevelBias cuTexRefGetMipmapLevelClamp
    cuTexRefGetMipmappedArray cuTexRefSetAddress cuTexRefSetAddress_v2 cuTexRefSetAddress2D
    cuTexRefSetAddress2D_v2 cuTexRefSetAddress2D_v3 cuTexRefSetAddressMode cuTexRefSetArray
    cuTexRefSetBorderColor cuTexRefSetFilterMode cuTexRefSetFlags cuTexRefSetFormat
    cuTexRefSetMaxAnisotropy cuTexRefSetMipmapFilterMode cuTexRefSetMipmapLevelBias
    cuTexRefSetMipmapLevelClamp cuTexRefSetMipmappedArray cuVDPAUCtxCreate cuVDPAUCtxCreate_v2
    cuVDPAUGetDevice cuWaitExternalSemaphoresAsync cuWaitExternalSemaphoresAsync_ptsz
}
