//! The kinds of device, each with the source of its values.
//!
//! "deviceQuery" is NVIDIA's sample program of that name, whose output others have published; the
//! versions are those of the driver and of the runtime library in that output. Numbers of PCI
//! devices are from the PCI ID repository (<https://pci-ids.ucw.cz>).

use super::Kind;
use super::capability::{CC_7_0, CC_7_5, CC_8_0, CC_8_9, CC_9_0};

/// All kinds, the default first.
pub static KINDS: [&Kind; 7] = [&H200, &H100, &A100, &L4, &RTX_4090, &T4, &V100];

/// Declares kinds. A row has a kind's names, the size of its memory, its limits and the number of
/// its multiprocessors; then the clock rates of the chip and of the memory, the width of the bus,
/// the size of the level 2 cache, the copy engines, error correction, and the PCI device.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $device_name:literal, $memory_bytes:expr,
       $limits:expr, $multiprocessors:literal, $clock_khz:literal, $memory_clock_khz:literal,
       $memory_bus_bits:literal, $l2_bytes:expr, $copy_engines:literal, $ecc:literal,
       $pci_device:literal;)*) => {$(
        $(#[$doc])*
        pub static $kind: Kind = Kind {
            name: $name,
            device_name: $device_name,
            memory_bytes: $memory_bytes,
            limits: $limits,
            multiprocessors: $multiprocessors,
            clock_khz: $clock_khz,
            memory_clock_khz: $memory_clock_khz,
            memory_bus_bits: $memory_bus_bits,
            l2_bytes: $l2_bytes,
            copy_engines: $copy_engines,
            ecc: $ecc,
            pci_device: $pci_device,
        };
    )*};
}

kinds! {
    /// NVIDIA H200. The values are those of the simulated device, which has been compared with an
    /// H200. The memory size is that of `nvidia-smi` (driver 550.54.15); the driver keeps a part of
    /// it.
    H200 = "h200", "NVIDIA H200", 143_771 << 20, &CC_9_0, 132,
        1_980_000, 3_201_000, 6144, 60 << 20, 3, true, 0x2335;

    /// NVIDIA H100 SXM. Source: deviceQuery (13.0, 12.5). Copy engines and error correction are
    /// from the output of `nvaccelinfo` on an H100 PCIe.
    H100 = "h100", "NVIDIA H100 80GB HBM3", 85_017_755_648, &CC_9_0, 132,
        1_980_000, 2_619_000, 5120, 52_428_800, 3, true, 0x2330;

    /// NVIDIA A100 SXM with 40 GB. Source: deviceQuery, published by the Paderborn Center for
    /// Parallel Computing. It does not show the copy engines; their number is that of the H100.
    A100 = "a100", "NVIDIA A100-SXM4-40GB", 42_405_855_232, &CC_8_0, 108,
        1_410_000, 1_215_000, 5120, 41_943_040, 3, true, 0x20b0;

    /// NVIDIA L4. Source: deviceQuery (12.0, 11.8).
    L4 = "l4", "NVIDIA L4", 23_612_293_120, &CC_8_9, 58,
        2_040_000, 6_251_000, 192, 50_331_648, 2, true, 0x27b8;

    /// NVIDIA GeForce RTX 4090. Source: deviceQuery (13.0, 11.8).
    RTX_4090 = "rtx4090", "NVIDIA GeForce RTX 4090", 25_250_627_584, &CC_8_9, 128,
        2_520_000, 10_501_000, 384, 75_497_472, 2, false, 0x2684;

    /// Tesla T4. Source: deviceQuery (11.2, 11.2).
    T4 = "t4", "Tesla T4", 15_843_721_216, &CC_7_5, 40,
        1_590_000, 5_001_000, 256, 4_194_304, 3, true, 0x1eb8;

    /// Tesla V100 SXM with 16 GB. Source: deviceQuery (9.0, 9.0). The excerpt does not show the
    /// copy engines; 2 suffice for both directions. Error correction is from NVIDIA's data sheet.
    V100 = "v100", "Tesla V100-SXM2-16GB", 16_945_512_448, &CC_7_0, 80,
        1_530_000, 877_000, 4096, 6_291_456, 2, true, 0x1db1;
}
