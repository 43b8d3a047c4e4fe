//! Tests of the kinds of device.

use millstream_driver::{DeviceAttribute, DeviceOrdinal, Driver};
use millstream_sim::{Gpu, SimConfig};

use super::absent::ABSENT;
use super::*;
use crate::versions::NEWEST_CUDA;

#[test]
fn every_attribute_of_the_header_has_a_value_for_every_kind() {
    assert_eq!(ATTRIBUTES.len(), 161);
    for kind in KINDS {
        for &(name, number) in ATTRIBUTES {
            let value = kind.attribute(number, 0);
            assert!(value.is_some(), "{name} of {}", kind.name);
        }
        for number in [i32::MIN, -1, 0, 162, i32::MAX] {
            assert_eq!(kind.attribute(number, 0), None, "{number}");
        }
    }
}

#[test]
fn an_absent_feature_is_listed_once_and_has_no_other_value() {
    let mut absent: Vec<i32> = ABSENT.concat();
    for &number in &absent {
        assert_eq!(values::value(&H200, number, 0), None, "{number}");
        assert_eq!(H200.attribute(number, 0), Some(0), "{number}");
    }
    let listed = absent.len();
    absent.sort_unstable();
    absent.dedup();
    assert_eq!(absent.len(), listed);
}

#[test]
fn the_default_kind_agrees_with_the_simulated_device() {
    let gpu = Gpu::new(SimConfig::new().devices(2));
    assert_eq!(gpu.driver_version().unwrap(), NEWEST_CUDA);
    for device in 0..2 {
        let ordinal = DeviceOrdinal::from_raw(device);
        let mut compared = 0;
        for &(name, number) in ATTRIBUTES {
            let attribute = DeviceAttribute::from_raw(number);
            if let Ok(value) = gpu.device_attribute(ordinal, attribute) {
                let found = KINDS[0].attribute(number, device as usize);
                assert_eq!(found, Some(value), "{name} of device {device}");
                compared += 1;
            }
        }
        assert!(compared >= 35, "{compared} attributes");
    }
}

#[test]
fn a_kind_is_found_by_its_name_in_any_case() {
    assert_eq!(Kind::find("h200"), Some(&H200));
    assert_eq!(Kind::find("H200"), Some(&H200));
    assert_eq!(Kind::find("RTX4090"), Some(&RTX_4090));
    for unknown in ["", "h2000", "h 200", "NVIDIA H200"] {
        assert_eq!(Kind::find(unknown), None, "{unknown}");
    }
    for kind in KINDS {
        assert_eq!(Kind::find(kind.name), Some(kind));
    }
}

#[test]
fn kinds_differ_as_their_sources_say() {
    let of = |kind: &Kind, number| kind.attribute(number, 0).unwrap();
    for (kind, capability, opt_in, threads, multiprocessors) in [
        (&H200, (9, 0), 232_448, 2048, 132),
        (&H100, (9, 0), 232_448, 2048, 132),
        (&A100, (8, 0), 166_912, 2048, 108),
        (&L4, (8, 9), 101_376, 1536, 58),
        (&RTX_4090, (8, 9), 101_376, 1536, 128),
        (&T4, (7, 5), 65_536, 1024, 40),
        (&V100, (7, 0), 98_304, 2048, 80),
    ] {
        assert_eq!(kind.compute_capability(), capability);
        assert_eq!(of(kind, number::COMPUTE_CAPABILITY_MAJOR), capability.0);
        assert_eq!(of(kind, number::COMPUTE_CAPABILITY_MINOR), capability.1);
        assert_eq!(of(kind, number::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), opt_in);
        assert_eq!(of(kind, number::MAX_THREADS_PER_MULTIPROCESSOR), threads);
        assert_eq!(of(kind, number::MULTIPROCESSOR_COUNT), multiprocessors);
        assert!(kind.memory_bytes > 14 << 30);
    }
    assert_eq!(of(&H200, number::GPU_PCI_DEVICE_ID), 0x2335_10de);
}

#[test]
fn an_older_driver_lacks_newer_attributes() {
    let count = |cuda_version| {
        let numbers = ATTRIBUTES.iter().map(|&(_, number)| number);
        numbers
            .filter(|&number| H200.attribute_for_driver(number, 0, cuda_version).is_some())
            .count()
    };
    for (cuda_version, expected) in [
        (11_000, 123),
        (11_070, 123),
        (11_080, 124),
        (12_000, 128),
        (12_040, 134),
        (12_080, 140),
        (12_090, 143),
        (13_000, 147),
        (13_010, 148),
        (13_030, 154),
        (13_040, 159),
        (13_050, 161),
    ] {
        assert_eq!(count(cuda_version), expected, "{cuda_version}");
    }
    assert_eq!(H200.attribute_for_driver(number::NUMA_ID, 0, 12_010), None);
    assert_eq!(
        H200.attribute_for_driver(number::NUMA_ID, 0, 12_020),
        Some(-1)
    );
    assert_eq!(H200.attribute_for_driver(148, 0, 13_000), None);
    assert_eq!(H200.attribute_for_driver(162, 0, 13_050), None);
}
