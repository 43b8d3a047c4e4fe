//! Kernels in Rust, whose slices are passed as address and length. `slices.ptx` is made of this
//! file by rustc's own backend for PTX:
//!
//! ```sh
//! rustup component add --toolchain nightly rust-src
//! cargo +nightly rustc -Zbuild-std=core --target nvptx64-nvidia-cuda --release --lib -- \
//!     --emit asm -C target-cpu=sm_75
//! ```
//!
//! in a package with this file as its library and `panic = "abort"` in its profile, by rustc
//! 1.97.0-nightly (e50aa6fba 2026-05-19). The PTX is `target/nvptx64-nvidia-cuda/release/deps/*.s`.

#![no_std]
#![feature(abi_ptx, stdarch_nvptx)]
#![allow(unsafe_code, reason = "kernels are entered by the driver")]
#![allow(improper_ctypes_definitions, reason = "slices are passed as Rust passes them")]

use core::arch::nvptx::{_block_dim_x, _block_idx_x, _thread_idx_x};

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

/// Computes y[i] = a * x[i] + y[i] for as many elements as both slices have.
///
/// # Safety
///
/// The grid has one dimension.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn saxpy(a: f32, x: &[f32], y: &mut [f32]) {
    let i = index();
    if let (Some(x), Some(y)) = (x.get(i), y.get_mut(i)) {
        *y += a * *x;
    }
}

/// Stores `first`, `first + 1`, … in the elements of `out`.
///
/// # Safety
///
/// The grid has one dimension.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn count_from(out: &mut [u32], first: u32) {
    let i = index();
    if let Some(out) = out.get_mut(i) {
        *out = first + i as u32;
    }
}
