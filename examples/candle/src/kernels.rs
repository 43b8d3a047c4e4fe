//! The kernels of the layers.

#![allow(unsafe_code, reason = "guarantees the signatures of the kernels")]

millstream::kernels! {
    // SAFETY: the signatures are those of kernels/decode.cu; the clauses hold all indices of a
    // launch within the arrays.
    pub(crate) unsafe mod decode from include_str!("../../../kernels/decode.ptx") {
        /// Divides by the root of the mean of the squares, and multiplies by the weights.
        pub(crate) safe fn normalise(x: &[f32], weight: &[f32], out: &mut [f32], width: u32)
            requires x.len() >= width, weight.len() >= width, out.len() >= width,
                grid.blocks.x * grid.blocks.y * grid.blocks.z == 1, grid.block.x == 32,
                grid.block.y * grid.block.z == 1;
        /// Multiplies the second half by the `silu` of the first.
        pub(crate) safe fn activate(both: &[f32], out: &mut [f32], width: u32)
            requires both.len() >= 2 * width, out.len() >= width,
                grid.blocks.y * grid.blocks.z == 1, grid.block.y * grid.block.z == 1;
    }
}
