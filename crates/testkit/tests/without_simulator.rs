//! The runtime without the feature `sim`.

#![allow(unsafe_code, reason = "opens a device of a driver that does nothing")]

use std::sync::Arc;

use millstream::{
    Device, Error, Select, UsageErrorKind,
    kernel::{self, ModuleSource, Param, ParamKind, Signature},
};
use millstream_testkit::null::NullDriver;

/// A kernel with one parameter of 8 bytes.
const PTX: &str = ".version 8.0\n.target sm_75\n.address_size 64\n\
                   .visible .entry fill(.param .u64 out) { ret; }\n";

#[test]
fn automatic_selection_needs_a_gpu() {
    let asks_for_a_gpu =
        std::env::var("MILLSTREAM_DEVICE").is_ok_and(|value| value.starts_with("cuda"));
    match Device::open(Select::Auto) {
        Ok(device) => assert!(!device.is_simulated(), "{device}"),
        Err(Error::Unavailable { .. }) if asks_for_a_gpu => {}
        Err(error) => {
            assert!(matches!(error, Error::NoSimulator { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("enable the feature `sim`"), "{text}");
        }
    }
}

/// Loads the kernel as if it were declared with one parameter of this kind.
fn load(kind: ParamKind) -> Result<(), Error> {
    // SAFETY: the driver does nothing, and no memory of it is touched.
    let device = unsafe { Device::with_driver(Arc::new(NullDriver::new(0)), 0) }?;
    let kernels = vec![Signature {
        name: "fill",
        params: Vec::leak(vec![Param { name: "out", kind }]),
    }];
    let source: &'static ModuleSource = Box::leak(Box::new(ModuleSource {
        module: "tested",
        origin: "a test's text",
        declared: "without_simulator.rs",
        ptx: PTX,
        cuda: None,
        kernels: Vec::leak(kernels),
        variables: &[],
    }));
    kernel::load(&device, source).map(drop)
}

#[test]
fn signatures_are_checked() {
    load(ParamKind::Scalar { size: 8, align: 8 }).expect("the declaration is right");
    match load(ParamKind::Scalar { size: 4, align: 4 }) {
        Err(Error::Usage(usage_error)) => {
            assert!(
                matches!(usage_error.problem(), UsageErrorKind::Signature { .. }),
                "{usage_error}"
            );
        }
        other => panic!("{other:?}"),
    }
}
