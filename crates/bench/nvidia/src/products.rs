//! Declaration of a kernel with four arrays.

#![allow(unsafe_code, reason = "guarantees the signature of the kernel")]

millstream::kernels! {
    /// A kernel with four arrays.
    // SAFETY: the signature is that of muladd.cu; its threads touch `n` elements of each array and
    // no others.
    pub(crate) unsafe mod products from include_str!("../../../../kernels/muladd.ptx") {
        pub(crate) safe fn muladd(a: &[f32], b: &[f32], c: &[f32], d: &mut [f32], n: u64)
            requires a.len() >= n, b.len() >= n, c.len() >= n, d.len() >= n;
    }
}
