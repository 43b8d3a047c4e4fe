//! The kernels of the example, in Rust. `../../kernels.ptx` is made of this file by rustc's own
//! backend for NVIDIA's GPUs, in this folder:
//!
//! ```sh
//! rustup component add --toolchain nightly rust-src
//! cargo +nightly rustc -Zbuild-std=core --target nvptx64-nvidia-cuda --release --lib -- \
//!     --emit asm -C target-cpu=sm_75
//! cp target/nvptx64-nvidia-cuda/release/deps/*.s ../kernels.ptx
//! ```
//!
//! Checked in is the PTX of rustc 1.97.0-nightly (e50aa6fba 2026-05-19).

#![no_std]
#![feature(abi_ptx, stdarch_nvptx)]
#![allow(unsafe_code, reason = "kernels are entered by the driver")]
#![allow(improper_ctypes_definitions, reason = "slices are passed as Rust passes them")]

use core::{
    arch::nvptx::{_block_dim_x, _block_idx_x, _thread_idx_x},
    slice,
    sync::atomic::{AtomicU32, Ordering},
};

/// Returns the index of this thread in a grid of one dimension.
fn index() -> usize {
    // SAFETY: this reads a special register.
    let block = unsafe { _block_idx_x() };
    // SAFETY: this reads a special register.
    let threads = unsafe { _block_dim_x() };
    // SAFETY: this reads a special register.
    let thread = unsafe { _thread_idx_x() };
    block as usize * threads as usize + thread as usize
}

/// Returns the number of steps after which the point leaves the circle of radius 2, at most `most`.
fn escape_time(x: f32, y: f32, most: u32) -> u32 {
    let (mut re, mut im) = (0.0_f32, 0.0_f32);
    for step in 0..most {
        if re * re + im * im > 4.0 {
            return step;
        }
        (re, im) = (re * re - im * im + x, 2.0 * re * im + y);
    }
    most
}

/// Stores the escape time of each point of a picture, row by row. rustc passes the slice as one
/// parameter of 16 bytes.
///
/// # Safety
///
/// The grid has one dimension.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn escape_times(
    times: &mut [u32],
    width: u32,
    left: f32,
    top: f32,
    step: f32,
    most: u32,
) {
    let i = index();
    if let Some(time) = times.get_mut(i)
        && let Some(column) = (i as u32).checked_rem(width)
    {
        let row = i as u32 / width;
        let (x, y) = (left + step * column as f32, top - 2.0 * step * row as f32);
        *time = escape_time(x, y, most);
    }
}

/// Counts the escape times, each in the bin of its number. The last bin counts the greater ones as
/// well. As from other compilers of Rust, the address and the length of each slice are two
/// parameters.
///
/// # Safety
///
/// The pointers and the lengths are those of two slices that do not overlap, and the grid has one
/// dimension.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn histogram(
    times: *const u32,
    times_len: usize,
    bins: *mut u32,
    bins_len: usize,
) {
    // SAFETY: these are the parts of a slice.
    let times = unsafe { slice::from_raw_parts(times, times_len) };
    // SAFETY: these are the parts of a slice, and an atomic number has the layout of a number.
    let bins = unsafe { slice::from_raw_parts(bins.cast::<AtomicU32>(), bins_len) };
    if let Some(&time) = times.get(index())
        && let Some(last) = bins.len().checked_sub(1)
        && let Some(bin) = bins.get(last.min(time as usize))
    {
        bin.fetch_add(1, Ordering::Relaxed);
    }
}
