//! The subcommand `millstream devices`: lists the machine's devices and the default device.

use std::{fmt::Display, process::ExitCode};

use millstream::{
    Device, Select,
    device::{DeviceProperties, Topology},
};
use millstream_driver::{DeviceOrdinal, Driver, cuda::Cuda};
use millstream_sim::{Gpu, SimConfig};

/// Prints this machine's devices. Fails if the default device does not exist.
pub(crate) fn print() -> ExitCode {
    let default = Device::open(Select::Auto);
    crate::print(&report(&default));
    match default {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn report(default: &Result<Device, millstream::Error>) -> String {
    let default = default
        .as_ref()
        .map(|device| (device.name(), device.selection_reason()));
    let cuda = match Cuda::load() {
        Ok(cuda) => driver_lines("cuda:", &*cuda),
        Err(error) => format!("cuda: none: {error}\n"),
    };
    let simulated = std::env::var("MILLSTREAM_DEVICE").ok();
    let simulated = Gpu::new(simulated_machine(simulated.as_deref()));
    default_line(default) + &cuda + &driver_lines("sim:", &simulated)
}

/// Returns the simulated machine that the value of `MILLSTREAM_DEVICE` describes, or one of a
/// single device. The default device's line shows the error of an invalid value.
fn simulated_machine(value: Option<&str>) -> SimConfig {
    let settings = value.filter(|value| value.starts_with("sim"));
    let parsed = settings.and_then(|settings| SimConfig::parse(settings).ok());
    parsed.unwrap_or_default()
}

/// Formats the default device, which programs get that choose none: its name and the reason.
fn default_line(default: Result<(&str, &str), impl Display>) -> String {
    match default {
        Ok((name, reason)) => format!("default: {name} ({reason})\n"),
        Err(error) => format!("default: none: {error}\n"),
    }
}

/// Formats the properties of each device of a driver, and the links between them.
pub(crate) fn driver_lines(prefix: &str, driver: &dyn Driver) -> String {
    let count = match driver.device_count() {
        Ok(count) => count,
        Err(error) => return format!("{prefix} none: {error}\n"),
    };
    let lines =
        |ordinal: i32| match DeviceProperties::read(driver, DeviceOrdinal::from_raw(ordinal)) {
            Ok(properties) => {
                let (device, more) = (headline(&properties), details(&properties));
                format!("{prefix}{ordinal} {device}, {}\n{more}", driver.name())
            }
            Err(error) => format!("{prefix}{ordinal} properties unavailable: {error}\n"),
        };
    (0..count).map(lines).collect::<String>() + &topology_lines(count, driver)
}

/// Formats the links between the devices of a driver, on indented lines, if there are several.
fn topology_lines(count: i32, driver: &dyn Driver) -> String {
    if count < 2 {
        return String::new();
    }
    match Topology::read(driver) {
        Ok(topology) => {
            let text = topology.to_string();
            let lines = text.lines().map(|line| format!("  {line}\n"));
            "links:\n".to_owned() + &lines.collect::<String>()
        }
        Err(error) => format!("links unavailable: {error}\n"),
    }
}

/// Formats the main properties of a device, on one line.
fn headline(device: &DeviceProperties) -> String {
    let (major, minor) = device.compute_capability;
    format!(
        "{}, {:.1} GiB, compute capability {major}.{minor}, {} multiprocessors",
        device.name,
        device.total_bytes as f64 / f64::from(1 << 30),
        device.multiprocessors,
    )
}

/// Formats the other properties of a device, on indented lines.
fn details(device: &DeviceProperties) -> String {
    let with = |has: bool, what: &str| {
        if has {
            format!(", {what}")
        } else {
            String::new()
        }
    };
    let [block_x, block_y, block_z] = device.block_max;
    let [grid_x, grid_y, grid_z] = device.grid_max;
    [
        format!("{}, PCI {}", device.uuid, device.pci_address),
        format!(
            "{} MHz, memory {} MHz on {} bits{}{}{}",
            device.clock_khz / 1000,
            device.memory_clock_khz / 1000,
            device.memory_bus_bits,
            with(device.has_ecc, "ECC"),
            with(device.is_integrated, "shared with the host"),
            with(device.has_managed_memory, "managed memory"),
        ),
        format!(
            "L2 cache {} KiB, constant memory {} KiB, {} copy engines, pitch up to {} bytes",
            device.l2_bytes >> 10,
            device.constant_bytes >> 10,
            device.copy_engines,
            device.pitch_bytes_max,
        ),
        format!(
            "multiprocessor: {} threads, {} blocks, {} KiB of shared memory, {} registers, \
             warps of {}",
            device.threads_per_multiprocessor_max,
            device.blocks_per_multiprocessor_max,
            device.shared_bytes_per_multiprocessor >> 10,
            device.registers_per_multiprocessor,
            device.warp_size,
        ),
        format!(
            "block: {} threads, up to {block_x} x {block_y} x {block_z}, {} KiB of shared memory, \
             {} KiB by opting in, {} registers",
            device.threads_per_block_max,
            device.shared_bytes_per_block >> 10,
            device.shared_bytes_per_block_max >> 10,
            device.registers_per_block_max,
        ),
        format!("grid: up to {grid_x} x {grid_y} x {grid_z} blocks"),
    ]
    .map(|line| format!("  {line}\n"))
    .concat()
}

#[cfg(test)]
mod tests {
    use millstream_driver::{DriverError, ResultCode};

    use super::*;

    #[test]
    fn the_properties_of_each_device_and_their_links_are_shown() {
        let gpu = Gpu::new(SimConfig::new().devices(2).memory_bytes(3 << 29));
        let lines = driver_lines("sim:", &gpu);
        let name = gpu.name();
        let expected = [0, 1].map(|ordinal| {
            format!(
                "sim:{ordinal} Simulated GPU, 1.5 GiB, compute capability 9.0, \
                 132 multiprocessors, {name}
  GPU-73696d75-6c61-7465-6400-00000000000{ordinal}, PCI ffff:0{}:00.0
  1980 MHz, memory 3201 MHz on 6144 bits, ECC, managed memory
  L2 cache 61440 KiB, constant memory 64 KiB, 3 copy engines, pitch up to 2147483647 bytes
  multiprocessor: 2048 threads, 32 blocks, 228 KiB of shared memory, 65536 registers, warps of 32
  block: 1024 threads, up to 1024 x 1024 x 64, 48 KiB of shared memory, \
                 227 KiB by opting in, 65536 registers
  grid: up to 2147483647 x 65535 x 65535 blocks
",
                ordinal + 1
            )
        });
        let links = "\
links:
        GPU0     GPU1     NUMA  PCI           name
  GPU0  X        P2P+A/0  -     ffff:01:00.0  Simulated GPU
  GPU1  P2P+A/0  X        -     ffff:02:00.0  Simulated GPU
  P2P   peer access over PCIe, or over NVLink links whose number is unknown
  +A    atomic operations on the other device's memory are native
  /     the driver's rank of the link's performance: lower is faster
";
        assert_eq!(lines, expected.concat() + links);
        let one = driver_lines("sim:", &Gpu::new(SimConfig::new()));
        assert!(!one.contains("links"), "{one}");
    }

    #[test]
    fn the_simulated_machine_is_the_one_of_the_environment() {
        let four = simulated_machine(Some("sim:devices=4"));
        assert_eq!(four, SimConfig::new().devices(4));
        for value in [None, Some("sim"), Some("cuda:1"), Some("sim:devices=x")] {
            assert_eq!(simulated_machine(value), SimConfig::default(), "{value:?}");
        }
    }

    #[test]
    fn the_default_device_is_shown_with_its_reason_or_its_error() {
        assert_eq!(
            default_line(Ok::<_, DriverError>(("Simulated GPU", "by request"))),
            "default: Simulated GPU (by request)\n"
        );
        let error = DriverError::new("cuInit", ResultCode::NOT_PERMITTED);
        assert_eq!(
            default_line(Err(error)),
            "default: none: cuInit failed: CUDA_ERROR_NOT_PERMITTED (800)\n"
        );
    }
}
