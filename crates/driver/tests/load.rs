//! Loading libcuda: a helpful error on a machine without it, a usable driver on a machine with it.

use std::sync::Arc;

use millstream_driver::{
    DeviceOrdinal, Driver,
    cuda::{Cuda, LoadError, OLDEST_DRIVER_VERSION},
};

#[test]
fn libcuda_loads_or_the_error_lists_the_attempts() {
    match Cuda::load() {
        Ok(cuda) => {
            assert!(cuda.device_count().expect("the driver counts its devices") >= 1);
            assert!(cuda.driver_version().expect("the version is known") >= OLDEST_DRIVER_VERSION);
            assert!(cuda.name().starts_with("libcuda "), "{}", cuda.name());
            assert!(!cuda.is_simulated());
            let first = DeviceOrdinal::from_raw(0);
            assert!(
                !cuda
                    .device_name(first)
                    .expect("a device has a name")
                    .is_empty()
            );
            assert!(cuda.device_total_bytes(first).expect("a device has memory") > 0);
        }
        Err(LoadError::LibraryMissing { tried }) => {
            let names: Vec<_> = tried.iter().map(|attempt| attempt.name).collect();
            assert_eq!(names, ["libcuda.so.1", "libcuda.so"]);
            let text = LoadError::LibraryMissing {
                tried: tried.clone(),
            }
            .to_string();
            for attempt in tried.iter() {
                assert!(text.contains(attempt.name), "{text}");
                assert!(text.contains(&attempt.message), "{text}");
            }
            assert!(text.contains("install NVIDIA's driver"), "{text}");
        }
        // The devices are hidden on purpose, as in a test run that must not use the GPU.
        Err(
            error @ LoadError::NoDevice {
                visible_devices: Some(_),
            },
        ) => {
            assert!(
                error.to_string().contains("CUDA_VISIBLE_DEVICES"),
                "{error}"
            );
        }
        // The library exists, so this machine is meant for CUDA, and the test must show the error.
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn every_load_returns_the_same_driver_or_the_same_error() {
    match (Cuda::load(), Cuda::load()) {
        (Ok(first), Ok(second)) => assert!(Arc::ptr_eq(&first, &second)),
        (Err(first), Err(second)) => assert_eq!(first, second),
        _ => panic!("one load succeeded and the other failed"),
    }
}
