//! Fat binaries: the entries, and the PTX for some devices.

#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_libcuda::fatbin::Fatbin;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(fatbin) = Fatbin::parse(bytes) {
        for capability in [(7, 5), (9, 0), (12, 0), (u32::MAX, u32::MAX)] {
            let _ = fatbin.ptx_for(capability);
        }
    }
});
