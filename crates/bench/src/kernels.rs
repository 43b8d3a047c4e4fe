//! Declarations of the benchmarks' kernels.

#![allow(unsafe_code, reason = "guarantees the signatures of the kernels")]

millstream::kernels! {
    /// A kernel with three arrays.
    // SAFETY: the signature is that of vecadd.cu; its threads touch `n` elements of each array and
    // no others.
    pub(crate) unsafe mod sums from include_str!("../kernels/vecadd.ptx") {
        pub(crate) safe fn vecadd(a: &[f32], b: &[f32], c: &mut [f32], n: u64)
            requires a.len() >= n, b.len() >= n, c.len() >= n;
    }
}

millstream::kernels! {
    /// A kernel that keeps its stream busy.
    // SAFETY: the signature is that of gate.cu.
    pub(crate) unsafe mod gate from include_str!("../kernels/gate.ptx") {
        /// Spins until the word at `flag` is nonzero. The device must be able to read `flag` until
        /// then.
        pub(crate) unsafe fn gate(flag: u64);
    }
}
