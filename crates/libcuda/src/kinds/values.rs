//! The values of attributes of features that the simulated device has.
//!
//! Sizes of textures and surfaces are the same from compute capability 6.0 on: those of the CUDA
//! C++ Programming Guide (table 27 of CUDA 13.0's). The attributes that this table does not list
//! (pitches, alternate 3-D sizes, mipmapped sizes) and the alignments are from a published list of
//! the attributes of a Tesla P100, made with PyCUDA, and from outputs of deviceQuery.

use super::Kind;
use super::attributes::number::*;

/// The PCI domain of all simulated devices. Real domains are numbered from 0.
const PCI_DOMAIN: i32 = 0xffff;

const PCI_VENDOR: i32 = 0x10de;

/// Returns the value of an attribute, unless it belongs to a feature that the simulated device does
/// not have, or does not exist.
pub(super) fn value(kind: &Kind, number: i32, device: usize) -> Option<i32> {
    of_device(device, number)
        .or_else(|| of_kind(kind, number))
        .or_else(|| of_any_kind(number))
        .or_else(|| of_textures(kind, number))
        .or_else(|| of_surfaces(number))
}

/// Returns the value of an attribute that depends on the device's place.
fn of_device(device: usize, number: i32) -> Option<i32> {
    Some(match number {
        PCI_DOMAIN_ID => PCI_DOMAIN,
        PCI_BUS_ID => i32::try_from(device).unwrap_or(i32::MAX - 1) + 1,
        PCI_DEVICE_ID => 0,
        _ => return None,
    })
}

/// Returns the value of an attribute that depends on the kind or on its compute capability.
fn of_kind(kind: &Kind, number: i32) -> Option<i32> {
    let limits = kind.limits;
    Some(match number {
        COMPUTE_CAPABILITY_MAJOR => limits.compute_capability.0,
        COMPUTE_CAPABILITY_MINOR => limits.compute_capability.1,
        MULTIPROCESSOR_COUNT => kind.multiprocessors,
        CLOCK_RATE => kind.clock_khz,
        MEMORY_CLOCK_RATE => kind.memory_clock_khz,
        GLOBAL_MEMORY_BUS_WIDTH => kind.memory_bus_bits,
        L2_CACHE_SIZE => kind.l2_bytes,
        ASYNC_ENGINE_COUNT => kind.copy_engines,
        ECC_ENABLED => i32::from(kind.ecc),
        GPU_PCI_DEVICE_ID => i32::from(kind.pci_device) << 16 | PCI_VENDOR,
        MAX_THREADS_PER_MULTIPROCESSOR => limits.threads,
        MAX_BLOCKS_PER_MULTIPROCESSOR => limits.blocks,
        MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => limits.shared_kib << 10,
        MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => limits.shared_opt_in_kib << 10,
        RESERVED_SHARED_MEMORY_PER_BLOCK => limits.shared_reserved_kib << 10,
        SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO => limits.single_to_double,
        _ => return None,
    })
}

fn of_any_kind(number: i32) -> Option<i32> {
    Some(match number {
        MAX_THREADS_PER_BLOCK | MAX_BLOCK_DIM_X | MAX_BLOCK_DIM_Y => 1024,
        MAX_BLOCK_DIM_Z => 64,
        MAX_GRID_DIM_X => i32::MAX,
        MAX_GRID_DIM_Y | MAX_GRID_DIM_Z => 65_535,
        MAX_SHARED_MEMORY_PER_BLOCK => 48 << 10,
        TOTAL_CONSTANT_MEMORY => 64 << 10,
        WARP_SIZE => 32,
        MAX_PITCH => i32::MAX,
        MAX_REGISTERS_PER_BLOCK | MAX_REGISTERS_PER_MULTIPROCESSOR => 64 << 10,
        // The mode in which several processes and threads may use the device.
        COMPUTE_MODE => 0,
        GPU_OVERLAP | CONCURRENT_KERNELS | COMPUTE_PREEMPTION_SUPPORTED => 1,
        STREAM_PRIORITIES_SUPPORTED => 1,
        GLOBAL_L1_CACHE_SUPPORTED | LOCAL_L1_CACHE_SUPPORTED => 1,
        CAN_MAP_HOST_MEMORY | UNIFIED_ADDRESSING => 1,
        HOST_REGISTER_SUPPORTED | CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM => 1,
        MANAGED_MEMORY | CONCURRENT_MANAGED_ACCESS => 1,
        MEMORY_POOLS_SUPPORTED | COOPERATIVE_LAUNCH => 1,
        VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED => 1,
        CAN_USE_STREAM_MEM_OPS_V1 | CAN_USE_64_BIT_STREAM_MEM_OPS_V1 => 1,
        CAN_USE_STREAM_WAIT_VALUE_NOR_V1 => 1,
        CAN_USE_64_BIT_STREAM_MEM_OPS | CAN_USE_STREAM_WAIT_VALUE_NOR => 1,
        // All operations are in one domain of memory order, as on devices before compute
        // capability 9.0.
        MEM_SYNC_DOMAIN_COUNT => 1,
        // The header's answer of a system without NUMA; the memory of a device that is no node has
        // no number either.
        HOST_NUMA_ID | NUMA_ID => -1,
        _ => return None,
    })
}

fn of_textures(kind: &Kind, number: i32) -> Option<i32> {
    Some(match number {
        TEXTURE_ALIGNMENT => 512,
        TEXTURE_PITCH_ALIGNMENT => 32,
        CAN_TEX2D_GATHER => 1,
        MAXIMUM_TEXTURE1D_WIDTH => 131_072,
        MAXIMUM_TEXTURE1D_LINEAR_WIDTH => kind.limits.texture_1d_linear,
        MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH => 16_384,
        MAXIMUM_TEXTURE1D_LAYERED_WIDTH => 32_768,
        MAXIMUM_TEXTURE1D_LAYERED_LAYERS => 2048,
        MAXIMUM_TEXTURE2D_WIDTH => 131_072,
        MAXIMUM_TEXTURE2D_HEIGHT => 65_536,
        MAXIMUM_TEXTURE2D_LINEAR_WIDTH => 131_072,
        MAXIMUM_TEXTURE2D_LINEAR_HEIGHT => 65_000,
        MAXIMUM_TEXTURE2D_LINEAR_PITCH => 2_097_120,
        MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH | MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT => 32_768,
        MAXIMUM_TEXTURE2D_GATHER_WIDTH | MAXIMUM_TEXTURE2D_GATHER_HEIGHT => 32_768,
        MAXIMUM_TEXTURE2D_LAYERED_WIDTH | MAXIMUM_TEXTURE2D_LAYERED_HEIGHT => 32_768,
        MAXIMUM_TEXTURE2D_LAYERED_LAYERS => 2048,
        MAXIMUM_TEXTURE3D_WIDTH | MAXIMUM_TEXTURE3D_HEIGHT | MAXIMUM_TEXTURE3D_DEPTH => 16_384,
        MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE | MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE => 8192,
        MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE => 32_768,
        MAXIMUM_TEXTURECUBEMAP_WIDTH | MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH => 32_768,
        MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS => 2046,
        _ => return None,
    })
}

/// Returns the value of an attribute of surfaces. The guide's table says 1048 layers of 2-D
/// surfaces, a misprint; lists of attributes have 2048.
fn of_surfaces(number: i32) -> Option<i32> {
    Some(match number {
        SURFACE_ALIGNMENT => 512,
        MAXIMUM_SURFACE1D_WIDTH | MAXIMUM_SURFACE1D_LAYERED_WIDTH => 32_768,
        MAXIMUM_SURFACE1D_LAYERED_LAYERS => 2048,
        MAXIMUM_SURFACE2D_WIDTH => 131_072,
        MAXIMUM_SURFACE2D_HEIGHT => 65_536,
        MAXIMUM_SURFACE2D_LAYERED_WIDTH | MAXIMUM_SURFACE2D_LAYERED_HEIGHT => 32_768,
        MAXIMUM_SURFACE2D_LAYERED_LAYERS => 2048,
        MAXIMUM_SURFACE3D_WIDTH | MAXIMUM_SURFACE3D_HEIGHT | MAXIMUM_SURFACE3D_DEPTH => 16_384,
        MAXIMUM_SURFACECUBEMAP_WIDTH | MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH => 32_768,
        MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS => 2046,
        _ => return None,
    })
}
