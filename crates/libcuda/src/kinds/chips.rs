//! The kinds of device, each with the source of its values.
//!
//! "deviceQuery" is NVIDIA's sample program of that name, whose output others have published; the
//! versions are those of the driver and of the runtime library in that output. Numbers of PCI
//! devices are from the PCI ID repository (<https://pci-ids.ucw.cz>).

use super::Kind;
use super::capability::{CC_7_0, CC_7_5, CC_8_0, CC_8_9, CC_9_0};

/// All kinds, the default first.
pub static KINDS: [&Kind; 7] = [&H200, &H100, &A100, &L4, &RTX_4090, &T4, &V100];

/// NVIDIA H200. The values are those of the simulated device, which has been compared with an H200.
/// The memory size is that of `nvidia-smi` (driver 550.54.15); the driver keeps a part of it.
pub static H200: Kind = Kind {
    name: "h200",
    device_name: "NVIDIA H200",
    memory_bytes: 143_771 << 20,
    limits: &CC_9_0,
    multiprocessors: 132,
    clock_khz: 1_980_000,
    memory_clock_khz: 3_201_000,
    memory_bus_bits: 6144,
    l2_bytes: 60 << 20,
    copy_engines: 3,
    ecc: true,
    pci_device: 0x2335,
};

/// NVIDIA H100 SXM. Source: deviceQuery (13.0, 12.5). Copy engines and error correction are from
/// the output of `nvaccelinfo` on an H100 PCIe.
pub static H100: Kind = Kind {
    name: "h100",
    device_name: "NVIDIA H100 80GB HBM3",
    memory_bytes: 85_017_755_648,
    limits: &CC_9_0,
    multiprocessors: 132,
    clock_khz: 1_980_000,
    memory_clock_khz: 2_619_000,
    memory_bus_bits: 5120,
    l2_bytes: 52_428_800,
    copy_engines: 3,
    ecc: true,
    pci_device: 0x2330,
};

/// NVIDIA A100 SXM with 40 GB. Source: deviceQuery, published by the Paderborn Center for Parallel
/// Computing. It does not show the copy engines; their number is that of the H100.
pub static A100: Kind = Kind {
    name: "a100",
    device_name: "NVIDIA A100-SXM4-40GB",
    memory_bytes: 42_405_855_232,
    limits: &CC_8_0,
    multiprocessors: 108,
    clock_khz: 1_410_000,
    memory_clock_khz: 1_215_000,
    memory_bus_bits: 5120,
    l2_bytes: 41_943_040,
    copy_engines: 3,
    ecc: true,
    pci_device: 0x20b0,
};

/// NVIDIA L4. Source: deviceQuery (12.0, 11.8).
pub static L4: Kind = Kind {
    name: "l4",
    device_name: "NVIDIA L4",
    memory_bytes: 23_612_293_120,
    limits: &CC_8_9,
    multiprocessors: 58,
    clock_khz: 2_040_000,
    memory_clock_khz: 6_251_000,
    memory_bus_bits: 192,
    l2_bytes: 50_331_648,
    copy_engines: 2,
    ecc: true,
    pci_device: 0x27b8,
};

/// NVIDIA GeForce RTX 4090. Source: deviceQuery (13.0, 11.8).
pub static RTX_4090: Kind = Kind {
    name: "rtx4090",
    device_name: "NVIDIA GeForce RTX 4090",
    memory_bytes: 25_250_627_584,
    limits: &CC_8_9,
    multiprocessors: 128,
    clock_khz: 2_520_000,
    memory_clock_khz: 10_501_000,
    memory_bus_bits: 384,
    l2_bytes: 75_497_472,
    copy_engines: 2,
    ecc: false,
    pci_device: 0x2684,
};

/// Tesla T4. Source: deviceQuery (11.2, 11.2).
pub static T4: Kind = Kind {
    name: "t4",
    device_name: "Tesla T4",
    memory_bytes: 15_843_721_216,
    limits: &CC_7_5,
    multiprocessors: 40,
    clock_khz: 1_590_000,
    memory_clock_khz: 5_001_000,
    memory_bus_bits: 256,
    l2_bytes: 4_194_304,
    copy_engines: 3,
    ecc: true,
    pci_device: 0x1eb8,
};

/// Tesla V100 SXM with 16 GB. Source: deviceQuery (9.0, 9.0). The excerpt does not show the copy
/// engines; 2 suffice for both directions. Error correction is from NVIDIA's data sheet.
pub static V100: Kind = Kind {
    name: "v100",
    device_name: "Tesla V100-SXM2-16GB",
    memory_bytes: 16_945_512_448,
    limits: &CC_7_0,
    multiprocessors: 80,
    clock_khz: 1_530_000,
    memory_clock_khz: 877_000,
    memory_bus_bits: 4096,
    l2_bytes: 6_291_456,
    copy_engines: 2,
    ecc: true,
    pci_device: 0x1db1,
};
