//! Launches of the built-in kernels for matrix products.

#![allow(
    unsafe_code,
    reason = "launches kernels whose accesses depend on strides"
)]

use std::panic::Location;

use millstream::{
    Buffer, LaunchConfig, Result, Stream,
    kernel::{self, Argument},
};

use crate::{
    element::DType,
    product::{
        launch_plan::{
            BLOCKS_MAX, BuiltinKernel, LaunchPlan, RawShape, SumPlan, THREADS, part_bytes,
        },
        operand::CheckedProduct,
        source::source,
    },
};

/// The stream, the element type and the source line of a product's launches.
#[derive(Clone, Copy)]
struct Launcher<'a> {
    stream: &'a Stream,
    dtype: DType,
    location: &'static Location<'static>,
}

impl Launcher<'_> {
    /// Launches a multiplication kernel.
    ///
    /// # Safety
    ///
    /// With the shape's offsets and strides, the elements of both factors lie within `a` and `b`,
    /// and `out` has `batches × splits × m × n` elements, of the size of parts if there are several
    /// splits. The splits of `k` cover it. For the kernels of vectors, `n` is 1.
    unsafe fn multiply(
        self,
        kernel: BuiltinKernel,
        blocks: usize,
        (a, b): (Argument<'_>, Argument<'_>),
        out: &mut Buffer<u8>,
        shape: &RawShape,
    ) -> Result<()> {
        let mut out = out.slice_mut(..);
        let mut arguments = [a, b, Argument::write(&mut out), Argument::scalar(shape)];
        // SAFETY: these are the parameters of the multiplication kernels, which touch no elements
        // outside the matrices.
        unsafe { self.launch(kernel, blocks, &mut arguments) }
    }

    /// Launches the kernel that sums partial products.
    ///
    /// # Safety
    ///
    /// `parts` has the elements of the plan, of the size of parts, and `out` those of the product.
    unsafe fn sum(self, parts: &Buffer<u8>, out: &mut Buffer<u8>, plan: &SumPlan) -> Result<()> {
        let (parts, mut out) = (parts.slice(..), out.slice_mut(..));
        let (parts, out) = (Argument::read(&parts), Argument::write(&mut out));
        let [batches, splits, length, lanes] = plan.scalars.each_ref().map(Argument::scalar);
        let mut arguments = [parts, out, batches, splits, length, lanes];
        // SAFETY: these are the kernel's parameters.
        unsafe { self.launch(BuiltinKernel::Sum, plan.blocks, &mut arguments) }
    }

    /// Launches a kernel with these arguments.
    ///
    /// # Safety
    ///
    /// The arguments match the kernel's parameters and keep its accesses within the arrays.
    unsafe fn launch<const N: usize>(
        self,
        kernel: BuiltinKernel,
        blocks: usize,
        arguments: &mut [Argument<'_>; N],
    ) -> Result<()> {
        let functions = kernel::load(&self.stream.device(), source(self.dtype))?;
        let function = &functions[kernel as usize];
        // The kernels loop over the work that remains.
        let blocks = [blocks.min(BLOCKS_MAX) as u32, 1, 1];
        let grid = LaunchConfig::new(blocks, [THREADS as u32, 1, 1]);
        // SAFETY: this function's contract.
        unsafe { kernel::launch_at(function, self.stream, grid, arguments, self.location) }
    }
}

/// Enqueues a checked product. `out` has `m × n` elements for each matrix of the batch.
pub(super) fn enqueue(
    stream: &Stream,
    dtype: DType,
    operands: CheckedProduct<'_>,
    out: &mut Buffer<u8>,
    location: &'static Location<'static>,
) -> Result<()> {
    let CheckedProduct { layout, a, b } = match operands.layout.m {
        1 => operands.transposed(),
        _ => operands,
    };
    debug_assert_eq!(out.len(), layout.elements() * dtype.bytes());
    let plan = LaunchPlan::of(&layout);
    let shape = plan.shape(&layout);
    let launcher = Launcher {
        stream,
        dtype,
        location,
    };
    let (kernel, blocks) = (plan.kernel, plan.blocks);
    let factors = (Argument::read(&a.view), Argument::read(&b.view));
    let Some(sum) = plan.sum(&layout) else {
        // SAFETY: `CheckedProduct::new` checked the factors, and the caller `out`.
        return unsafe { launcher.multiply(kernel, blocks, factors, out, &shape) };
    };
    // SAFETY: the kernel writes all of it before it is read.
    let mut parts = unsafe { stream.uninit::<u8>(sum.parts * part_bytes(dtype)) }?;
    // SAFETY: `CheckedProduct::new` checked the factors, and there is a matrix for each split.
    unsafe { launcher.multiply(kernel, blocks, factors, &mut parts, &shape) }?;
    // SAFETY: the sizes are those of the two arrays.
    unsafe { launcher.sum(&parts, out, &sum) }
}
