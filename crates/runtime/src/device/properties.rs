//! `DeviceProperties`: name, identity, sizes and limits of a device.

use std::fmt;

use millstream_driver::{DeviceAttribute, DeviceOrdinal, Driver, DriverError};

use crate::{Device, Result};

/// The properties of a device, which do not change while a program runs.
///
/// A simulated device has those of an H200, with a name, a UUID and a PCI address that no GPU has.
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
    /// The device's name, as `NVIDIA H200`.
    pub name: String,
    /// The number that tells the device from every other one, on whatever machine.
    pub uuid: Uuid,
    /// The device's place on PCI.
    pub pci_address: PciAddress,
    /// Major and minor number of the compute capability.
    pub compute_capability: (i32, i32),
    /// All of the device's memory, in bytes.
    pub total_bytes: u64,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Threads of a warp.
    pub warp_size: u32,
    /// Most threads of a block. A kernel may have a smaller limit.
    pub threads_per_block_max: u32,
    /// Largest block in x, y and z, in threads.
    pub block_max: [u32; 3],
    /// Largest grid in x, y and z, in blocks.
    pub grid_max: [u32; 3],
    /// Most threads that are on a multiprocessor at a time.
    pub threads_per_multiprocessor_max: u32,
    /// Most blocks that are on a multiprocessor at a time.
    pub blocks_per_multiprocessor_max: u32,
    /// Shared memory that a block of every kernel may have, in bytes, with what the kernel
    /// declares.
    pub shared_bytes_per_block: u32,
    /// The most that a block of a kernel may have that opts in, in bytes, which a launch does by
    /// itself: see [`LaunchConfig::with_shared_bytes`](crate::LaunchConfig::with_shared_bytes).
    pub shared_bytes_per_block_max: u32,
    /// Shared memory of a multiprocessor, in bytes.
    pub shared_bytes_per_multiprocessor: u32,
    /// Registers, of 32 bits, that a block may have.
    pub registers_per_block_max: u32,
    /// Registers, of 32 bits, of a multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// Constant memory of a kernel, in bytes.
    pub constant_bytes: u32,
    /// The level 2 cache, in bytes.
    pub l2_bytes: u32,
    /// The highest clock rate of the multiprocessors, in kHz.
    pub clock_khz: u32,
    /// The highest clock rate of the memory, in kHz.
    pub memory_clock_khz: u32,
    /// Width of the memory's bus, in bits.
    pub memory_bus_bits: u32,
    /// Copies that can be made beside kernels at a time.
    pub copy_engines: u32,
    /// The longest distance between the rows of a copy, in bytes.
    pub pitch_bytes_max: u32,
    /// Whether the device shares the host's memory.
    pub is_integrated: bool,
    /// Whether errors of the memory are corrected.
    pub has_ecc: bool,
    /// Whether managed memory can be had that the host may touch while kernels run: see
    /// [`Device::managed`].
    pub has_managed_memory: bool,
}

impl DeviceProperties {
    /// Asks a driver for the properties of its device of this ordinal.
    ///
    /// ```
    /// use millstream::{DeviceProperties, driver::DeviceOrdinal, sim::{Gpu, SimConfig}};
    ///
    /// let gpu = Gpu::new(SimConfig::new().devices(2).memory_bytes(1 << 30));
    /// let second = DeviceProperties::read(&*gpu.driver(), DeviceOrdinal::from_raw(1))?;
    /// assert_eq!(second.total_bytes, 1 << 30);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no such device, or the driver cannot say.
    pub fn read(driver: &dyn Driver, device: DeviceOrdinal) -> Result<Self, DriverError> {
        let signed = |attribute| driver.device_attribute(device, attribute);
        // No attribute is negative, where the driver has it.
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
    /// The device's properties: name, UUID, sizes and limits. Asks the driver anew at every call.
    ///
    /// # Errors
    ///
    /// If the driver cannot say.
    pub fn properties(&self) -> Result<DeviceProperties> {
        let state = self.state();
        Ok(DeviceProperties::read(&*state.driver, state.ordinal)?)
    }
}

/// The number of a device, unique among all devices. Shown as `nvidia-smi -L` shows it.
///
/// ```
/// let uuid = millstream::Device::simulated()?.properties()?.uuid;
/// assert_eq!(uuid.to_string(), "GPU-73696d75-6c61-7465-6400-000000000000");
/// assert_eq!(&uuid.as_bytes()[..9], b"simulated");
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// The bytes, in the order in which they are shown.
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

/// The place of a device on PCI, shown as `lspci -D` shows it. Its function is always 0.
///
/// ```
/// let address = millstream::Device::simulated()?.properties()?.pci_address;
/// assert_eq!(address.to_string(), "ffff:01:00.0");
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// The domain of the bus.
    pub domain: u32,
    /// The bus.
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
