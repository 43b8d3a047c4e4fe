//! What the simulated device says of itself: an H200's figures.

use millstream_driver::{DeviceAttribute, ResultCode};

use crate::{
    launch::BLOCK_MAX,
    module::BLOCK_THREADS_MAX,
    world::{Answer, Refusal},
};

/// The device's name.
pub(crate) const NAME: &str = "Simulated GPU";
/// The CUDA version that the driver says it supports: 12.9.
pub(crate) const DRIVER_VERSION: i32 = 12_090;
/// The largest grid in each direction.
pub(crate) const GRID_MAX: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
/// The longest pitch of a 2-D copy, in bytes.
pub(crate) const PITCH_MAX: u64 = i32::MAX as u64;
/// Shared memory of a block, static and dynamic together, in bytes.
pub(crate) const SHARED_BYTES_MAX: u32 = 48 << 10;

/// The value of an attribute.
pub(crate) fn value(attribute: DeviceAttribute) -> Answer<i32> {
    Ok(match attribute {
        DeviceAttribute::MAX_THREADS_PER_BLOCK => BLOCK_THREADS_MAX as i32,
        DeviceAttribute::MAX_BLOCK_DIM_X => BLOCK_MAX[0] as i32,
        DeviceAttribute::MAX_BLOCK_DIM_Y => BLOCK_MAX[1] as i32,
        DeviceAttribute::MAX_BLOCK_DIM_Z => BLOCK_MAX[2] as i32,
        DeviceAttribute::MAX_GRID_DIM_X => GRID_MAX[0] as i32,
        DeviceAttribute::MAX_GRID_DIM_Y => GRID_MAX[1] as i32,
        DeviceAttribute::MAX_GRID_DIM_Z => GRID_MAX[2] as i32,
        DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK => SHARED_BYTES_MAX as i32,
        DeviceAttribute::MAX_PITCH => PITCH_MAX as i32,
        DeviceAttribute::WARP_SIZE => 32,
        DeviceAttribute::MULTIPROCESSOR_COUNT => 132,
        DeviceAttribute::ASYNC_ENGINE_COUNT => 3,
        DeviceAttribute::UNIFIED_ADDRESSING => 1,
        DeviceAttribute::COMPUTE_CAPABILITY_MAJOR => 9,
        DeviceAttribute::COMPUTE_CAPABILITY_MINOR => 0,
        DeviceAttribute::MANAGED_MEMORY => 1,
        DeviceAttribute::PAGEABLE_MEMORY_ACCESS => 0,
        DeviceAttribute::CONCURRENT_MANAGED_ACCESS => 1,
        DeviceAttribute::MEMORY_POOLS_SUPPORTED => 1,
        _ => {
            return Err(Refusal::new(
                ResultCode::INVALID_VALUE,
                format!("the simulated device has no attribute {}", attribute.as_raw()),
            ));
        }
    })
}
