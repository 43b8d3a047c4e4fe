//! The CUDA versions that introduced the newer device attributes.
//!
//! An older driver refuses the number of a newer attribute. The headers do not say when they gained
//! an attribute; this list compares the headers of 11.7, 11.8, 12.0 to 12.9 (12.7 was not
//! published) and 13.0 to 13.5.

use super::attributes::{ATTRIBUTES, number::*};

/// The CUDA version of the oldest header that was compared.
const OLDEST: i32 = 11_070;

/// Lists the attributes that the oldest header does not have: a row has a version, and those whose
/// first header is that of the version.
macro_rules! newer {
    ($($version:literal: $($name:ident)+;)*) => {
        const NEWER: &[(i32, &[i32])] = &[$(($version, &[$($name),+])),*];
    };
}

newer! {
    11_080: CLUSTER_LAUNCH;
    12_000: IPC_EVENT_SUPPORTED MEM_SYNC_DOMAIN_COUNT TENSOR_MAP_ACCESS_SUPPORTED
        UNIFIED_FUNCTION_POINTERS;
    12_010: MULTICAST_SUPPORTED;
    12_020: NUMA_CONFIG NUMA_ID HOST_NUMA_ID;
    12_030: HANDLE_TYPE_FABRIC_SUPPORTED MPS_ENABLED;
    12_050: D3D12_CIG_SUPPORTED;
    12_080: MEM_DECOMPRESS_ALGORITHM_MASK MEM_DECOMPRESS_MAXIMUM_LENGTH GPU_PCI_DEVICE_ID
        GPU_PCI_SUBSYSTEM_ID HOST_NUMA_MULTINODE_IPC_SUPPORTED;
    12_090: VULKAN_CIG_SUPPORTED HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
        HOST_NUMA_MEMORY_POOLS_SUPPORTED;
    13_000: HOST_MEMORY_POOLS_SUPPORTED HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
        HOST_ALLOC_DMA_BUF_SUPPORTED ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED;
    13_010: ATOMIC_REDUCTION_SUPPORTED;
    13_030: D3D12_CIG_STREAMS_SUPPORTED DMA_BUF_MMAP_SUPPORTED LOGICAL_ENDPOINT_UNICAST_SUPPORTED
        LOGICAL_ENDPOINT_MULTICAST_SUPPORTED LOGICAL_ENDPOINT_COUNTED_OPS_SUPPORTED
        LOGICAL_ENDPOINT_UNICAST_ACCESS_ON_OWNER_DEVICE_SUPPORTED;
    13_040: LOCALITY_DOMAIN_COUNT LOCALITY_DOMAIN_MULTIPROCESSOR_COUNT
        MAX_OVERSIZED_SHARED_MEMORY_PER_BLOCK LOGICAL_ENDPOINT_SUPPORTED_HANDLE_TYPES
        GPU_DIRECT_RDMA_WITH_LOCALIZED_MEMORY_SUPPORTED;
    13_050: VULKAN_CIG_STREAMS_SUPPORTED TENSOR_MAP_LARGE_TENSOR_MIN_SIZE;
}

/// Returns whether a driver of this CUDA version has the attribute. Drivers older than the oldest
/// header that was compared count as that one.
pub(super) fn has_attribute(cuda_version: i32, number: i32) -> bool {
    let since = NEWER
        .iter()
        .find(|(_, numbers)| numbers.contains(&number))
        .map_or(OLDEST, |&(version, _)| version);
    since <= cuda_version.max(OLDEST) && ATTRIBUTES.iter().any(|&(_, known)| known == number)
}
