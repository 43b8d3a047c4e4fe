//! Properties of devices.

use std::collections::BTreeSet;

use crate::scenarios::prelude::*;

#[run_by(everywhere, |harness|)]
fn the_properties_of_a_device_agree_with_each_other() {
    let properties = harness.device.properties().unwrap();
    assert_eq!(properties.name, harness.device.name());
    assert_eq!(
        properties.compute_capability,
        harness.device.compute_capability()
    );
    assert_eq!(
        i64::from(properties.multiprocessors),
        i64::from(harness.device.multiprocessors())
    );
    assert_eq!(properties.warp_size, 32);
    assert!(properties.total_bytes > 1 << 28, "{properties:?}");
    assert!(properties.threads_per_block_max >= 1024 && properties.block_max[0] >= 1024);
    assert!(properties.block_max.iter().all(|&side| side >= 1));
    assert!(properties.grid_max.iter().all(|&side| side >= 65_535));
    assert!(properties.threads_per_multiprocessor_max >= properties.threads_per_block_max);
    assert!(properties.blocks_per_multiprocessor_max >= 1);
    let shared = [
        properties.shared_bytes_per_block,
        properties.shared_bytes_per_block_max,
        properties.shared_bytes_per_multiprocessor,
    ];
    assert!(shared[0] >= 48 << 10 && shared.is_sorted(), "{shared:?}");
    assert!(properties.registers_per_block_max <= properties.registers_per_multiprocessor);
    for size in [
        properties.registers_per_block_max,
        properties.constant_bytes,
        properties.l2_bytes,
        properties.clock_khz,
        properties.memory_clock_khz,
        properties.memory_bus_bits,
        properties.copy_engines,
        properties.pitch_bytes_max,
    ] {
        assert!(size > 0, "{properties:?}");
    }
    assert_eq!(harness.open_again().properties().unwrap(), properties);
    assert_ne!(properties.uuid.as_bytes(), &[0; 16]);
}

#[test]
fn exactly_the_counted_gpus_open() {
    let count = Device::count().unwrap();
    assert!(count >= i32::from(on_gpu()), "{count}");
    let mut uuids = BTreeSet::new();
    for ordinal in 0..count {
        let device = Device::open(Select::Cuda(ordinal)).unwrap();
        assert!(!device.is_simulated());
        let properties = device.properties().unwrap();
        assert!(uuids.insert(properties.uuid), "{} twice", properties.uuid);
    }
    assert!(Device::open(Select::Cuda(count)).is_err());
}

#[test]
fn devices_of_a_simulated_gpu_have_distinct_uuids_and_addresses() {
    let gpu = Gpu::new(SimConfig::new().devices(2));
    let [first, second] = [0, 1].map(|ordinal| {
        Device::open_simulated(&gpu, ordinal)
            .unwrap()
            .properties()
            .unwrap()
    });
    assert_ne!(first.uuid, second.uuid);
    assert_ne!(first.pci_address, second.pci_address);
}
