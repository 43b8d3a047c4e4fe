//! The version of the library: CUDA 12 or CUDA 13.
//!
//! Programs ask for the version node `libcudart.so.12` or `libcudart.so.13`, and the loader warns
//! and later fails if a library defines neither. rustc cannot define one, because it passes a
//! version script of its own to the linker. `millstream run` therefore writes a copy of this
//! library for each version, in which it fills [`MILLSTREAM_CUDART`]: the version definitions, and
//! a dynamic section that names them. Two copies also keep two runtimes in one process apart.

#![allow(unsafe_code, reason = "exports the symbols that the command finds")]

use std::sync::atomic::{AtomicU32, Ordering};

/// The place in the library's data that the command `millstream` fills.
#[repr(C, align(8))]
struct Room {
    /// 12 or 13.
    major: AtomicU32,
    /// The size of the whole.
    bytes: u32,
    /// The version definitions and the dynamic section.
    free: Free,
}

/// Bytes that only the loader reads.
#[repr(transparent)]
struct Free(std::cell::UnsafeCell<[u8; 2032]>);

// SAFETY: the library itself never touches the bytes.
unsafe impl Sync for Free {}

#[unsafe(no_mangle)]
static MILLSTREAM_CUDART: Room = Room {
    major: AtomicU32::new(13),
    bytes: size_of::<Room>() as u32,
    free: Free(std::cell::UnsafeCell::new([0; 2032])),
};

// The names of the version nodes must be in the table of dynamic strings.
#[unsafe(export_name = "libcudart.so.12")]
static NODE_12: u8 = 12;
#[unsafe(export_name = "libcudart.so.13")]
static NODE_13: u8 = 13;

/// Returns the major version of CUDA whose runtime this is.
pub(crate) fn major() -> u32 {
    MILLSTREAM_CUDART.major.load(Ordering::Relaxed)
}
