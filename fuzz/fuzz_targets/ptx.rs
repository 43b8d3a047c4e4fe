//! PTX: the parser, and loading on a simulated device. Errors are right, panics are not.

#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream::{Device, Ptx};

thread_local! {
    static DEVICE: Device = Device::simulated().expect("a simulated device opens");
}

fuzz_target!(|text: &str| {
    let _ = millstream_ptx::interface(text);
    DEVICE.with(|device| drop(device.module(Ptx::text("fuzz", text))));
});
