//! Operands of matrix products, checked against their buffers.

use millstream::{Buffer, Device, View, driver::DevicePtr};

use crate::{
    element::DType,
    product::{
        launch_plan::{EPILOGUE_K_MAX, LaunchPlan, capability},
        layout::{FactorStrides, ProductLayout},
    },
};

/// The sizes of a matrix product or of a batch of products.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct ProductShape<'a> {
    /// The sizes of the batch's dimensions, outermost first; empty for a single product.
    pub batch: &'a [usize],
    /// The number of rows of the first factor and of the product.
    pub m: usize,
    /// The number of columns of the first factor and of rows of the second.
    pub k: usize,
    /// The number of columns of the second factor and of the product.
    pub n: usize,
}

impl<'a> ProductShape<'a> {
    /// Returns the sizes of a product of this shape, whose first factor has that shape.
    pub(crate) fn of(product: &'a [usize], left: &[usize]) -> Self {
        let (batch, matrix) = product.split_at(product.len() - 2);
        Self {
            batch,
            m: matrix[0],
            k: left[left.len() - 1],
            n: matrix[1],
        }
    }

    pub(super) fn out_len(&self) -> usize {
        let sizes = self.batch.iter().chain([&self.m, &self.n]);
        if sizes.clone().any(|&size| size == 0) {
            return 0;
        }
        sizes.fold(1, |len: usize, &size| len.saturating_mul(size))
    }
}

/// A factor of a product: a strided matrix or batch of matrices in an array. Strides count elements
/// and may be negative or 0.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Factor<'a> {
    /// The array that contains the elements.
    pub buffer: &'a Buffer<u8>,
    /// The position of the first element of the first matrix, in elements.
    pub offset: usize,
    /// The distance from an element to the one below it.
    pub row_stride: isize,
    /// The distance from an element to the one to its right.
    pub column_stride: isize,
    /// The distance from a matrix to the next along each dimension of the batch.
    pub batch_strides: &'a [isize],
}

impl Factor<'_> {
    /// Returns the memory and the strides of a factor that lies within its array.
    #[track_caller]
    fn checked(
        &self,
        dtype: DType,
        batch: &[usize],
        rows: usize,
        columns: usize,
    ) -> (FactorMemory<'_>, FactorStrides<'_>) {
        let (view, offset) = self.used_range(dtype, batch, rows, columns);
        let bytes = (self.offset * dtype.bytes()) as u64;
        let address = self.buffer.as_raw().offset(bytes);
        let strides = FactorStrides {
            offset,
            row: self.row_stride,
            column: self.column_stride,
            batch: self.batch_strides,
        };
        let position = self.offset;
        let memory = FactorMemory {
            view,
            address,
            position,
        };
        (memory, strides)
    }

    /// Returns the smallest view of the array that contains all elements, and the position of the
    /// first element in it.
    fn used_range(
        &self,
        dtype: DType,
        batch: &[usize],
        rows: usize,
        columns: usize,
    ) -> (View<'_, u8>, usize) {
        assert_eq!(
            batch.len(),
            self.batch_strides.len(),
            "a factor has one stride per dimension of the batch"
        );
        let dims = batch.iter().zip(self.batch_strides);
        let dims = dims.chain([(&rows, &self.row_stride), (&columns, &self.column_stride)]);
        let (mut first, mut last) = (self.offset as i128, self.offset as i128);
        for (&size, &stride) in dims {
            // With absurdly large sizes, the sum saturates and is rejected below.
            let span = (size as i128 - 1).saturating_mul(stride as i128);
            if span < 0 {
                first = first.saturating_add(span);
            } else {
                last = last.saturating_add(span);
            }
        }
        let len = self.buffer.len() / dtype.bytes();
        assert!(
            first >= 0 && last < len as i128,
            "a factor spans elements {first} to {last} of an array of {len}"
        );
        let (first, last) = (first as usize, last as usize);
        let bytes = first * dtype.bytes()..(last + 1) * dtype.bytes();
        (self.buffer.slice(bytes), self.offset - first)
    }
}

/// A factor within its buffer.
#[derive(Debug)]
pub(super) struct FactorMemory<'a> {
    /// The view with the elements of the factor, in which its layout counts.
    pub(super) view: View<'a, u8>,
    /// The address of the first element.
    pub(super) address: DevicePtr,
    /// The position of the first element in the array.
    position: usize,
}

/// A non-empty product whose factors lie within their arrays.
#[derive(Debug)]
pub(super) struct CheckedProduct<'a> {
    pub(super) layout: ProductLayout,
    pub(super) a: FactorMemory<'a>,
    pub(super) b: FactorMemory<'a>,
}

impl<'a> CheckedProduct<'a> {
    /// Checks the factors of a product with at least one element and a `k` of at least 1.
    #[track_caller]
    pub(super) fn new(
        dtype: DType,
        shape: &ProductShape<'_>,
        a: &'a Factor<'a>,
        b: &'a Factor<'a>,
    ) -> Self {
        let &ProductShape { batch, m, k, n } = shape;
        let (a, a_strides) = a.checked(dtype, batch, m, k);
        let (b, b_strides) = b.checked(dtype, batch, k, n);
        let layout = ProductLayout::new(shape, a_strides, b_strides);
        Self { layout, a, b }
    }

    /// Returns the plan of the product, which must not have a single row: that of the factors where
    /// they lie in their arrays, as that of a kernel with an epilogue.
    pub(super) fn launch_plan(&self, dtype: DType, device: &Device) -> LaunchPlan {
        let mut layout = self.layout;
        layout.a.offset = self.a.position;
        layout.b.offset = self.b.position;
        LaunchPlan::of(&layout, dtype, capability(device))
    }

    /// Returns whether a built-in kernel computes the product if it has an epilogue, and a library
    /// if it has none.
    pub(super) fn is_for_epilogue(&self, dtype: DType, device: &Device) -> bool {
        // The bits were compared for multiples of eight; those of 17 differ.
        capability(device) == 90
            && self.layout.k <= EPILOGUE_K_MAX
            && self.layout.k.is_multiple_of(8)
            && self.launch_plan(dtype, device).kernel.is_tensor()
    }

    pub(super) fn transposed(self) -> Self {
        Self {
            layout: self.layout.transposed(),
            a: self.b,
            b: self.a,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the size in bytes and the offset of the used range of an array of `f32`.
    fn used_range(
        bytes: usize,
        (offset, row_stride, batch_strides): (usize, isize, &[isize]),
        batch: &[usize],
        (rows, columns): (usize, usize),
    ) -> (usize, usize) {
        let stream = millstream::Device::simulated().unwrap().stream().unwrap();
        let (buffer, column_stride) = (&stream.zeros(bytes).unwrap(), 1);
        let factor = Factor {
            buffer,
            offset,
            row_stride,
            column_stride,
            batch_strides,
        };
        let (view, offset) = factor.used_range(DType::F32, batch, rows, columns);
        (view.len(), offset)
    }

    #[test]
    #[should_panic(expected = "a factor spans elements 0 to 6 of an array of 6")]
    fn a_factor_beyond_its_array_is_rejected() {
        used_range(24, (0, 4, &[]), &[], (2, 3));
    }

    #[test]
    fn negative_strides_reach_backwards() {
        let used = used_range(100, (20, -5, &[0]), &[9], (4, 3));
        assert_eq!(used, (4 * (20 + 2 - 5 + 1), 15));
    }
}
