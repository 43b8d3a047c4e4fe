//! Rule 58: the blocks of a cooperative launch are resident at the same time.

#![allow(unsafe_code, reason = "knows the signature of its kernel")]

use std::ffi::c_void;

use crate::{conformance::prelude::*, harness::dims};

pub(crate) fn r58(dev: &DeviceHarness) -> Observation {
    if dev.attribute(DeviceAttribute::COOPERATIVE_LAUNCH)? == 0 {
        return Ok("no cooperative launches".to_owned());
    }
    let multiprocessors = dev.attribute(DeviceAttribute::MULTIPROCESSOR_COUNT)? as u32;
    let threads = dev.attribute(DeviceAttribute::MAX_THREADS_PER_MULTIPROCESSOR)? as u32;
    let (stream, kernel) = (dev.stream()?, dev.kernels().reverse_grid);
    let (grid, block) = (multiprocessors, 64);
    let bytes = (grid * block * 4) as usize;
    let (x, y) = (dev.memory(bytes)?, dev.memory(bytes)?);
    let params: [*const c_void; 2] = [(&raw const x).cast(), (&raw const y).cast()];
    let launch = |grid: u32, block: u32| {
        let dims = dims([grid, 1, 1], [block, 1, 1]);
        // SAFETY: the kernel has two pointers as its arguments. A launch that is not refused has
        // as many threads as the arrays have words.
        unsafe { dev.launch_cooperative_kernel(kernel, &dims, stream, &params) }
    };
    launch(grid, block)?;
    let values = dev.read(y, bytes, stream)?;
    let words = values.as_chunks::<4>().0.iter();
    let expected = (0..grid * block).rev();
    check(
        words.map(|word| u32::from_le_bytes(*word)).eq(expected),
        "each thread reads what another block has written before the barrier",
    )?;
    let refused = dev.refusal(launch(threads / 1024 * multiprocessors + 1, 1024))?;
    check(
        refused == ResultCode::COOPERATIVE_LAUNCH_TOO_LARGE,
        &format!("more blocks than the device holds: {refused}"),
    )?;
    Ok(format!(
        "{grid} blocks met at a barrier; too many: {refused}"
    ))
}
