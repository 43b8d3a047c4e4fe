//! Launches of the built-in kernels for matrix products.

#![allow(unsafe_code, reason = "launches kernels whose accesses have strides")]

use std::panic::Location;

use millstream::{
    Buffer, LaunchConfig, Result, Stream,
    kernel::{self, Argument},
};

use crate::{
    element::DType,
    product::{
        launch_plan::{BLOCKS_MAX, BuiltinKernel, THREADS, part_bytes},
        operand::CheckedProduct,
        source::source,
    },
};

/// Launches a kernel with these arguments, for elements of a type, from a source line.
///
/// # Safety
///
/// The arguments match the kernel's parameters and keep its accesses within the arrays.
unsafe fn launch<const N: usize>(
    (stream, dtype, location): (&Stream, DType, &'static Location<'static>),
    kernel: BuiltinKernel,
    blocks: usize,
    mut arguments: [Argument<'_>; N],
) -> Result<()> {
    let (module, number) = source(dtype, kernel);
    let functions = kernel::load(&stream.device(), module)?;
    let (function, arguments) = (&functions[number], &mut arguments);
    // The kernels loop over the work that remains.
    let blocks = [blocks.min(BLOCKS_MAX) as u32, 1, 1];
    let grid = LaunchConfig::new(blocks, [THREADS as u32, 1, 1]);
    // SAFETY: this function's contract.
    unsafe { kernel::launch_at(function, stream, grid, arguments, location) }
}

/// Enqueues a checked product. `out` has `m × n` elements for each matrix of the batch.
pub(super) fn enqueue(
    stream: &Stream,
    dtype: DType,
    operands: CheckedProduct<'_>,
    out: &mut Buffer<u8>,
    location: &'static Location<'static>,
) -> Result<()> {
    let operands = match operands.layout.m {
        1 => operands.transposed(),
        _ => operands,
    };
    let plan = operands.launch_plan(dtype, &stream.device());
    let CheckedProduct { layout, a, b } = operands;
    debug_assert_eq!(out.len(), layout.elements() * dtype.bytes());
    let shape = plan.shape(&layout);
    let site = (stream, dtype, location);
    let sum = plan.sum(&layout);
    let mut parts = match &sum {
        // SAFETY: the kernel writes all of it before it is read.
        Some(sum) => Some(unsafe { stream.uninit::<u8>(sum.parts * part_bytes(dtype)) }?),
        None => None,
    };
    let mut product = parts.as_mut().unwrap_or(&mut *out).slice_mut(..);
    let (a, b) = (Argument::read(&a.view), Argument::read(&b.view));
    let arguments = [
        a,
        b,
        Argument::write(&mut product),
        Argument::scalar(&shape),
    ];
    // SAFETY: these are the parameters of the multiplication kernels. With the shape's strides, the
    // factors lie within their views, which `CheckedProduct::new` checked. The splits cover `k`,
    // and `product` has a matrix for each: the caller's, or one of parts. For vectors, `n` is 1.
    unsafe { launch(site, plan.kernel, plan.blocks, arguments) }?;
    let (Some(sum), Some(parts)) = (sum, parts) else {
        return Ok(());
    };
    let (parts, mut out) = (parts.slice(..), out.slice_mut(..));
    let (parts, out) = (Argument::read(&parts), Argument::write(&mut out));
    let [batches, splits, length, lanes] = sum.scalars.each_ref().map(Argument::scalar);
    let arguments = [parts, out, batches, splits, length, lanes];
    // SAFETY: these are the kernel's parameters, and the sizes are those of the two arrays.
    unsafe { launch(site, BuiltinKernel::Sum, sum.blocks, arguments) }
}
