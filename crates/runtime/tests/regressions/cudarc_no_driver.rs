//! cudarc: without a CUDA driver the first call panics, even in a program that could run without a
//! GPU.
//!
//! Here opening a GPU without a driver is an error that names the libraries searched for, and a
//! simulated device works.

use std::panic::catch_unwind;

use millstream::{Device, Error, Result, Select};

use crate::regressions::configurations::on_gpu;

#[test]
fn a_missing_driver_is_an_error_and_no_panic() {
    let opened = catch_unwind(|| Device::open(Select::Cuda(0))).expect("no panic");
    match opened {
        Ok(device) => assert!(!device.is_simulated()),
        Err(error) => {
            assert!(!on_gpu(), "MILLSTREAM_DEVICE names a GPU: {error}");
            assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        }
    }
    let simulated = || -> Result<_> {
        let stream = Device::simulated()?.stream()?;
        let array = stream.upload(&[1_u8, 2, 3])?;
        stream.download(&array)?.wait()
    };
    assert_eq!(simulated().unwrap(), [1, 2, 3]);
}
