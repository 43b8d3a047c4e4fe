//! Attributes of features that the simulated device does not have.
//!
//! Their value is 0, as from a driver or device without the feature, so that programs take their
//! fallback.

use super::attributes::number::*;

/// Returns whether the attribute belongs to a feature that the simulated device does not have.
pub(super) fn is_absent(number: i32) -> bool {
    ABSENT.iter().any(|feature| feature.contains(&number))
}

/// Lists the attributes of absent features: a row has those of one feature.
macro_rules! absent {
    ($($($name:ident)+;)*) => {
        /// The numbers of the attributes, by feature.
        pub(super) static ABSENT: &[&[i32]] = &[$(&[$($name),+]),*];
    };
}

absent! {
    // One device is on one board, and belongs to no group of devices.
    MULTI_GPU_BOARD MULTI_GPU_BOARD_GROUP_ID;
    // Host memory is behind a link without atomic operations, and pageable memory is out of the
    // device's reach, as with PCI Express. Host memory cannot be registered for reading only.
    HOST_NATIVE_ATOMIC_SUPPORTED ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED PAGEABLE_MEMORY_ACCESS
    PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES DIRECT_MANAGED_MEM_ACCESS_FROM_HOST
    READ_ONLY_HOST_REGISTER_SUPPORTED;
    // No other device writes to the memory remotely.
    CAN_FLUSH_REMOTE_WRITES;
    // Grids of several devices have no barrier, and blocks form no clusters. There are no tensor
    // maps, and no function pointers that host and device share.
    COOPERATIVE_MULTI_DEVICE_LAUNCH CLUSTER_LAUNCH TENSOR_MAP_ACCESS_SUPPORTED
    TENSOR_MAP_LARGE_TENSOR_MIN_SIZE UNIFIED_FUNCTION_POINTERS;
    // Only memory of devices can be mapped (`cuMemCreate`, `cuMemMap`), and neither be compressed
    // nor joined for multicast.
    HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
    HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED GENERIC_COMPRESSION_SUPPORTED MULTICAST_SUPPORTED;
    // Processes share neither memory nor events.
    HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED HANDLE_TYPE_WIN32_HANDLE_SUPPORTED
    HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED HANDLE_TYPE_FABRIC_SUPPORTED
    MEMPOOL_SUPPORTED_HANDLE_TYPES IPC_EVENT_SUPPORTED MPS_ENABLED
    HOST_NUMA_MULTINODE_IPC_SUPPORTED;
    // Other devices of the machine, as network cards, cannot reach the simulated device's memory.
    GPU_DIRECT_RDMA_SUPPORTED GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
    GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS GPU_DIRECT_RDMA_WRITES_ORDERING
    GPU_DIRECT_RDMA_WITH_LOCALIZED_MEMORY_SUPPORTED DMA_BUF_SUPPORTED DMA_BUF_MMAP_SUPPORTED
    HOST_ALLOC_DMA_BUF_SUPPORTED;
    // There are no logical endpoints of a fabric, and no atomic reductions across one.
    LOGICAL_ENDPOINT_UNICAST_SUPPORTED LOGICAL_ENDPOINT_MULTICAST_SUPPORTED
    LOGICAL_ENDPOINT_COUNTED_OPS_SUPPORTED
    LOGICAL_ENDPOINT_UNICAST_ACCESS_ON_OWNER_DEVICE_SUPPORTED
    LOGICAL_ENDPOINT_SUPPORTED_HANDLE_TYPES ATOMIC_REDUCTION_SUPPORTED;
    // The device is not divided into domains of locality, and no block's shared memory is
    // oversized.
    LOCALITY_DOMAIN_COUNT LOCALITY_DOMAIN_MULTIPROCESSOR_COUNT
    MAX_OVERSIZED_SHARED_MEMORY_PER_BLOCK;
    // No part of the level 2 cache can be set aside, because caches are not simulated.
    MAX_PERSISTING_L2_CACHE_SIZE MAX_ACCESS_POLICY_WINDOW_SIZE;
    // Arrays are neither sparse nor mapped later.
    SPARSE_CUDA_ARRAY_SUPPORTED DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED;
    // Nothing is shared with graphics libraries.
    TIMELINE_SEMAPHORE_INTEROP_SUPPORTED D3D12_CIG_SUPPORTED D3D12_CIG_STREAMS_SUPPORTED
    VULKAN_CIG_SUPPORTED VULKAN_CIG_STREAMS_SUPPORTED;
    // Memory pools are on the device only.
    HOST_NUMA_MEMORY_POOLS_SUPPORTED HOST_MEMORY_POOLS_SUPPORTED;
    // There is no decompression engine.
    MEM_DECOMPRESS_ALGORITHM_MASK MEM_DECOMPRESS_MAXIMUM_LENGTH;
    // The device is neither part of the processor nor driven by Windows, has no display with a time
    // limit for kernels, and is no NUMA node; the number of the board's maker is unknown.
    INTEGRATED TCC_DRIVER KERNEL_EXEC_TIMEOUT NUMA_CONFIG GPU_PCI_SUBSYSTEM_ID;
}
