//! `DeviceProperties`: name, identity, sizes and limits of a device.

use std::fmt;

use millstream_driver::{DeviceAttribute, DeviceOrdinal, Driver, DriverError};

use crate::{Device, Result};

/// The properties of a device, which are constant while a program runs.
///
/// A simulated device has the properties of an H200, except for its name, UUID and PCI address,
/// which no GPU has.
///
/// ```
/// use millstream::{Device, LaunchConfig};
///
/// let properties = Device::simulated()?.properties()?;
/// assert_eq!(properties.name, "Simulated GPU");
/// assert_eq!(properties.compute_capability, (9, 0));
/// assert_eq!(properties.shared_bytes_per_block, 48 << 10);
/// assert_eq!(properties.shared_bytes_per_block_max, 227 << 10);
/// println!("{} at {}", properties.uuid, properties.pci_address);
/// // As many threads as can be on the device at once, in blocks of 256.
/// let threads = properties.multiprocessors * properties.threads_per_multiprocessor_max;
/// assert_eq!(LaunchConfig::linear(threads as usize).blocks(), [1056, 1, 1]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceProperties {
    /// The device's name, such as `NVIDIA H200`.
    pub name: String,
    /// The globally unique identifier of the device.
    pub uuid: Uuid,
    /// The device's PCI address.
    pub pci_address: PciAddress,
    /// The major and minor number of the compute capability.
    pub compute_capability: (i32, i32),
    /// The total memory of the device, in bytes.
    pub total_bytes: u64,
    /// The number of multiprocessors.
    pub multiprocessors: u32,
    /// The number of threads per warp.
    pub warp_size: u32,
    /// The maximum number of threads per block. A kernel may have a smaller limit.
    pub threads_per_block_max: u32,
    /// The maximum block dimensions in x, y and z, in threads.
    pub block_max: [u32; 3],
    /// The maximum grid dimensions in x, y and z, in blocks.
    pub grid_max: [u32; 3],
    /// The maximum number of resident threads per multiprocessor.
    pub threads_per_multiprocessor_max: u32,
    /// The maximum number of resident blocks per multiprocessor.
    pub blocks_per_multiprocessor_max: u32,
    /// The maximum shared memory per block without opting in, in bytes, including what the kernel
    /// declares.
    pub shared_bytes_per_block: u32,
    /// The maximum shared memory per block of a kernel that opts in, in bytes. A launch opts in
    /// automatically: see
    /// [`LaunchConfig::with_shared_bytes`](crate::LaunchConfig::with_shared_bytes).
    pub shared_bytes_per_block_max: u32,
    /// The shared memory per multiprocessor, in bytes.
    pub shared_bytes_per_multiprocessor: u32,
    /// The maximum number of 32-bit registers per block.
    pub registers_per_block_max: u32,
    /// The number of 32-bit registers per multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// The constant memory available to a kernel, in bytes.
    pub constant_bytes: u32,
    /// The size of the level 2 cache, in bytes.
    pub l2_bytes: u32,
    /// The highest clock rate of the multiprocessors, in kHz.
    pub clock_khz: u32,
    /// The highest clock rate of the memory, in kHz.
    pub memory_clock_khz: u32,
    /// The width of the memory bus, in bits.
    pub memory_bus_bits: u32,
    /// The number of copies that can run concurrently with kernels.
    pub copy_engines: u32,
    /// The maximum pitch of a 2D copy, in bytes.
    pub pitch_bytes_max: u32,
    /// True if the device shares the host's memory.
    pub is_integrated: bool,
    /// True if error correction of the memory is enabled.
    pub has_ecc: bool,
    /// True if the device supports managed memory that the host may access while kernels run: see
    /// [`Device::managed`].
    pub has_managed_memory: bool,
}

impl DeviceProperties {
    /// Reads the properties of the device with this ordinal from a driver.
    ///
    /// # Errors
    ///
    /// If there is no such device, or a query fails.
    pub fn read(driver: &dyn Driver, device: DeviceOrdinal) -> Result<Self, DriverError> {
        let signed = |attribute| driver.device_attribute(device, attribute);
        // Attributes that the driver supports are never negative.
        let number = |attribute| signed(attribute).map(|value| u32::try_from(value).unwrap_or(0));
        let flag = |attribute| signed(attribute).map(|value| value != 0);
        Ok(Self {
            name: driver.device_name(device)?,
            uuid: Uuid(driver.device_uuid(device)?),
            pci_address: PciAddress {
                domain: number(DeviceAttribute::PCI_DOMAIN_ID)?,
                bus: number(DeviceAttribute::PCI_BUS_ID)?,
                device: number(DeviceAttribute::PCI_DEVICE_ID)?,
            },
            compute_capability: (
                signed(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR)?,
                signed(DeviceAttribute::COMPUTE_CAPABILITY_MINOR)?,
            ),
            total_bytes: driver.device_total_bytes(device)?,
            multiprocessors: number(DeviceAttribute::MULTIPROCESSOR_COUNT)?,
            warp_size: number(DeviceAttribute::WARP_SIZE)?,
            threads_per_block_max: number(DeviceAttribute::MAX_THREADS_PER_BLOCK)?,
            block_max: [
                number(DeviceAttribute::MAX_BLOCK_DIM_X)?,
                number(DeviceAttribute::MAX_BLOCK_DIM_Y)?,
                number(DeviceAttribute::MAX_BLOCK_DIM_Z)?,
            ],
            grid_max: [
                number(DeviceAttribute::MAX_GRID_DIM_X)?,
                number(DeviceAttribute::MAX_GRID_DIM_Y)?,
                number(DeviceAttribute::MAX_GRID_DIM_Z)?,
            ],
            threads_per_multiprocessor_max: number(
                DeviceAttribute::MAX_THREADS_PER_MULTIPROCESSOR,
            )?,
            blocks_per_multiprocessor_max: number(DeviceAttribute::MAX_BLOCKS_PER_MULTIPROCESSOR)?,
            shared_bytes_per_block: number(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK)?,
            shared_bytes_per_block_max: number(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            shared_bytes_per_multiprocessor: number(
                DeviceAttribute::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
            )?,
            registers_per_block_max: number(DeviceAttribute::MAX_REGISTERS_PER_BLOCK)?,
            registers_per_multiprocessor: number(
                DeviceAttribute::MAX_REGISTERS_PER_MULTIPROCESSOR,
            )?,
            constant_bytes: number(DeviceAttribute::TOTAL_CONSTANT_MEMORY)?,
            l2_bytes: number(DeviceAttribute::L2_CACHE_SIZE)?,
            clock_khz: number(DeviceAttribute::CLOCK_RATE)?,
            memory_clock_khz: number(DeviceAttribute::MEMORY_CLOCK_RATE)?,
            memory_bus_bits: number(DeviceAttribute::GLOBAL_MEMORY_BUS_WIDTH)?,
            copy_engines: number(DeviceAttribute::ASYNC_ENGINE_COUNT)?,
            pitch_bytes_max: number(DeviceAttribute::MAX_PITCH)?,
            is_integrated: flag(DeviceAttribute::INTEGRATED)?,
            has_ecc: flag(DeviceAttribute::ECC_ENABLED)?,
            has_managed_memory: flag(DeviceAttribute::MANAGED_MEMORY)?
                && flag(DeviceAttribute::CONCURRENT_MANAGED_ACCESS)?,
        })
    }
}

impl Device {
    /// Returns the device's properties: name, UUID, sizes and limits. Queries the driver on every
    /// call.
    ///
    /// # Errors
    ///
    /// If a query of the driver fails.
    #[doc(alias(
        "cuDeviceGetAttribute",
        "cudaGetDeviceProperties",
        "get_device_properties"
    ))]
    pub fn properties(&self) -> Result<DeviceProperties> {
        let state = self.state();
        Ok(DeviceProperties::read(&*state.driver, state.ordinal)?)
    }
}

/// The UUID of a device, displayed as by `nvidia-smi -L`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// Returns the bytes in the order in which they are displayed.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GPU")?;
        for (at, byte) in self.0.iter().enumerate() {
            if [0, 4, 6, 8, 10].contains(&at) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uuid({self})")
    }
}

/// The PCI address of a device, displayed as by `lspci -D`. Its function is always 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// The domain of the bus.
    pub domain: u32,
    /// The number of the bus.
    pub bus: u32,
    /// The device's number on its bus.
    pub device: u32,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04x}:{:02x}:{:02x}.0",
            self.domain, self.bus, self.device
        )
    }
}
