//! The kernels of the transformer.

#![allow(unsafe_code, reason = "guarantees the signatures of the kernels")]

millstream::kernels! {
    // SAFETY: the signatures are those of decode.cu; the clauses hold all indices of a launch
    // within the arrays, and what comes from device memory is clamped by the kernels.
    pub(crate) unsafe mod decode from include_str!("../../../kernels/decode.ptx") {
        pub(crate) safe fn embed(
            table: &[f32], state: &[u32], x: &mut [f32], vocabulary: u32, width: u32,
        ) requires vocabulary > 0, table.len() >= vocabulary * width, state.len() >= 2,
            x.len() >= width, grid.blocks.y * grid.blocks.z == 1,
            grid.block.y * grid.block.z == 1;
        pub(crate) safe fn normalise(x: &[f32], weight: &[f32], out: &mut [f32], width: u32)
            requires x.len() >= width, weight.len() >= width, out.len() >= width,
                grid.blocks.x * grid.blocks.y * grid.blocks.z == 1, grid.block.x == 32,
                grid.block.y * grid.block.z == 1;
        pub(crate) safe fn product(
            matrix: &[f32], x: &[f32], out: &mut [f32], rows: u32, columns: u32, add: u32,
        ) requires matrix.len() >= rows * columns, x.len() >= columns, out.len() >= rows,
            grid.block.x % 32 == 0, grid.blocks.y * grid.blocks.z == 1,
            grid.block.y * grid.block.z == 1;
        pub(crate) safe fn rotate(
            qkv: &mut [f32], turns: &[f32], state: &[u32], keys: &mut [f32], values: &mut [f32],
            width: u32, head: u32, context: u32,
        ) requires qkv.len() >= 3 * width, width % 2 == 0, head % 2 == 0, head > 0, context > 0,
            turns.len() >= context * head, state.len() >= 2, keys.len() >= context * width,
            values.len() >= context * width, grid.blocks.y * grid.blocks.z == 1,
            grid.block.y * grid.block.z == 1;
        pub(crate) safe fn attend(
            qkv: &[f32], keys: &[f32], values: &[f32], state: &[u32], scores: &mut [f32],
            out: &mut [f32], width: u32, head: u32, context: u32,
        ) requires qkv.len() >= width, context > 0, keys.len() >= context * width,
            values.len() >= context * width, state.len() >= 2,
            scores.len() >= grid.blocks.x * context, out.len() >= width,
            grid.blocks.x * head <= width, grid.blocks.y * grid.blocks.z == 1,
            grid.block.x == 32, grid.block.y * grid.block.z == 1;
        pub(crate) safe fn activate(both: &[f32], out: &mut [f32], width: u32)
            requires both.len() >= 2 * width, out.len() >= width,
                grid.blocks.y * grid.blocks.z == 1, grid.block.y * grid.block.z == 1;
        pub(crate) safe fn choose(
            logits: &[f32], state: &mut [u32], tokens: &mut [u32], running: &mut [u32],
            vocabulary: u32, count: u32,
        ) requires logits.len() >= vocabulary, state.len() >= 2, tokens.len() >= count,
            running.len() >= 1, grid.blocks.x * grid.blocks.y * grid.blocks.z == 1,
            grid.block.x == 32, grid.block.y * grid.block.z == 1;
    }
}
