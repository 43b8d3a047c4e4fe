//! Device attributes of the simulated device, with the values of an H200.

use millstream_driver::{DeviceAttribute, DeviceOrdinal, PoolHandle, ResultCode};

use super::{launch::BLOCK_MAX, module::BLOCK_THREADS_MAX};
use crate::{
    core::{
        call_error::{CallError, CallResult},
        gpu::StateGuard,
    },
    exec::{
        MULTIPROCESSORS, RESIDENT_BLOCKS, RESIDENT_SHARED_BYTES, RESIDENT_THREADS, SHARED_BYTES_MAX,
    },
};

/// The name of every simulated device.
pub(crate) const NAME: &str = "Simulated GPU";
/// The CUDA version that the driver reports: the newest whose PTX is known.
pub(crate) const DRIVER_VERSION: i32 = 13_050;
/// The maximum grid size in each dimension.
pub(crate) const GRID_MAX: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
/// The maximum pitch of a 2-D copy, in bytes.
pub(crate) const PITCH_MAX: u64 = i32::MAX as u64;
/// The default limit for a block's shared memory, static plus dynamic, in bytes; a kernel can opt
/// in to more.
pub(crate) const SHARED_BYTES: u32 = 48 << 10;

/// The PCI domain of all simulated devices. Real domains are numbered from 0.
const PCI_DOMAIN: i32 = 0xffff;

/// Returns the UUID of the device with this index: equal on every run, and distinct from real GPUs.
pub(crate) fn uuid(device: usize) -> [u8; 16] {
    let mut uuid = *b"simulated\0\0\0\0\0\0\0";
    uuid[12..].copy_from_slice(&(device as u32).to_be_bytes());
    uuid
}

pub(crate) fn pci_bus_id(device: usize) -> String {
    format!("{PCI_DOMAIN:04X}:{:02X}:00.0", pci_bus(device))
}

fn pci_bus(device: usize) -> i32 {
    device as i32 + 1
}

impl StateGuard<'_> {
    pub(super) fn driver_version(&self) -> CallResult<i32> {
        Ok(DRIVER_VERSION)
    }

    pub(super) fn device_count(&self) -> CallResult<i32> {
        Ok(self.devices.len() as i32)
    }

    pub(super) fn device_name(&self, device: DeviceOrdinal) -> CallResult<String> {
        self.device_index(device).map(|_| NAME.into())
    }

    pub(super) fn device_uuid(&self, device: DeviceOrdinal) -> CallResult<[u8; 16]> {
        self.device_index(device).map(uuid)
    }

    pub(super) fn device_total_bytes(&self, device: DeviceOrdinal) -> CallResult<u64> {
        self.device_index(device).map(|_| self.config.memory_bytes)
    }

    pub(super) fn device_attribute(
        &self,
        device: DeviceOrdinal,
        attribute: DeviceAttribute,
    ) -> CallResult<i32> {
        value(self.device_index(device)?, attribute)
    }

    pub(super) fn device_pci_bus_id(&self, device: DeviceOrdinal) -> CallResult<String> {
        self.device_index(device).map(pci_bus_id)
    }

    pub(super) fn default_pool(&self, device: DeviceOrdinal) -> CallResult<PoolHandle> {
        Ok(self.devices[self.device_index(device)?].default_pool)
    }
}

pub(crate) fn value(device: usize, attribute: DeviceAttribute) -> CallResult<i32> {
    Ok(match attribute {
        DeviceAttribute::MAX_THREADS_PER_BLOCK => BLOCK_THREADS_MAX as i32,
        DeviceAttribute::MAX_BLOCK_DIM_X => BLOCK_MAX[0] as i32,
        DeviceAttribute::MAX_BLOCK_DIM_Y => BLOCK_MAX[1] as i32,
        DeviceAttribute::MAX_BLOCK_DIM_Z => BLOCK_MAX[2] as i32,
        DeviceAttribute::MAX_GRID_DIM_X => GRID_MAX[0] as i32,
        DeviceAttribute::MAX_GRID_DIM_Y => GRID_MAX[1] as i32,
        DeviceAttribute::MAX_GRID_DIM_Z => GRID_MAX[2] as i32,
        DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK => SHARED_BYTES as i32,
        DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => SHARED_BYTES_MAX as i32,
        DeviceAttribute::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => RESIDENT_SHARED_BYTES as i32,
        DeviceAttribute::TOTAL_CONSTANT_MEMORY => 64 << 10,
        DeviceAttribute::WARP_SIZE => 32,
        DeviceAttribute::MAX_PITCH => PITCH_MAX as i32,
        DeviceAttribute::MAX_REGISTERS_PER_BLOCK => 64 << 10,
        DeviceAttribute::MAX_REGISTERS_PER_MULTIPROCESSOR => 64 << 10,
        DeviceAttribute::CLOCK_RATE => 1_980_000,
        DeviceAttribute::MULTIPROCESSOR_COUNT => MULTIPROCESSORS as i32,
        DeviceAttribute::MAX_THREADS_PER_MULTIPROCESSOR => RESIDENT_THREADS as i32,
        DeviceAttribute::MAX_BLOCKS_PER_MULTIPROCESSOR => RESIDENT_BLOCKS as i32,
        DeviceAttribute::INTEGRATED => 0,
        DeviceAttribute::ECC_ENABLED => 1,
        DeviceAttribute::PCI_DOMAIN_ID => PCI_DOMAIN,
        DeviceAttribute::PCI_BUS_ID => pci_bus(device),
        DeviceAttribute::PCI_DEVICE_ID => 0,
        DeviceAttribute::MEMORY_CLOCK_RATE => 3_201_000,
        DeviceAttribute::GLOBAL_MEMORY_BUS_WIDTH => 6144,
        DeviceAttribute::L2_CACHE_SIZE => 60 << 20,
        DeviceAttribute::ASYNC_ENGINE_COUNT => 3,
        DeviceAttribute::UNIFIED_ADDRESSING => 1,
        DeviceAttribute::COMPUTE_CAPABILITY_MAJOR => 9,
        DeviceAttribute::COMPUTE_CAPABILITY_MINOR => 0,
        DeviceAttribute::MANAGED_MEMORY => 1,
        DeviceAttribute::PAGEABLE_MEMORY_ACCESS => 0,
        DeviceAttribute::CONCURRENT_MANAGED_ACCESS => 1,
        DeviceAttribute::MEMORY_POOLS_SUPPORTED => 1,
        DeviceAttribute::COOPERATIVE_LAUNCH => 1,
        _ => {
            return Err(CallError::new(
                ResultCode::INVALID_VALUE,
                format!(
                    "the simulated device has no attribute {}",
                    attribute.as_raw()
                ),
            ));
        }
    })
}
