//! Factors with arbitrary strides in their arrays.

use millstream_region::product::Factor;
use rand_core::RngCore;

use crate::product::exact::Case;

pub(crate) fn below(rng: &mut dyn RngCore, end: usize) -> usize {
    (rng.next_u64() % end as u64) as usize
}

/// A factor on the host: an array, and the position and strides of the elements in it. The last two
/// dimensions are rows and columns.
#[derive(Debug)]
pub(crate) struct Layout<T> {
    pub(crate) elements: Vec<T>,
    pub(crate) sizes: Vec<usize>,
    offset: usize,
    strides: Vec<isize>,
}

impl<T: Case> Layout<T> {
    /// Creates a factor with its dimensions in random order and gaps between them, some reversed,
    /// some of stride 0.
    pub(crate) fn random(rng: &mut dyn RngCore, sizes: &[usize]) -> Self {
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, below(rng, at + 1));
        }
        let mut strides = vec![0_isize; sizes.len()];
        let mut offset = below(rng, 3);
        let mut span = 1;
        for dim in order {
            if below(rng, 8) == 0 {
                continue; // Every index has the same elements.
            }
            strides[dim] = span as isize;
            if below(rng, 4) == 0 {
                offset += sizes[dim].saturating_sub(1) * span;
                strides[dim] = -strides[dim];
            }
            span = span * sizes[dim].max(1) + below(rng, 3);
        }
        Self::filled(rng, sizes, offset, strides, span + offset + 2)
    }

    /// Creates a row-major factor without gaps.
    pub(crate) fn plain(rng: &mut dyn RngCore, sizes: &[usize]) -> Self {
        let mut strides = vec![1_isize; sizes.len()];
        for dim in (1..sizes.len()).rev() {
            strides[dim - 1] = strides[dim] * sizes[dim] as isize;
        }
        Self::filled(rng, sizes, 0, strides, sizes.iter().product())
    }

    /// Creates a factor whose rows or columns are contiguous, with gaps between them. In steps of
    /// eight elements they are as far behind each other as behind `offset`.
    pub(crate) fn lines(
        rng: &mut dyn RngCore,
        sizes: &[usize],
        has_rows: bool,
        offset: usize,
    ) -> Self {
        let rank = sizes.len();
        let (along, across) = match has_rows {
            true => (rank - 1, rank - 2),
            false => (rank - 2, rank - 1),
        };
        let mut strides = vec![1_isize; rank];
        let mut span = sizes[along].next_multiple_of(8) + 8;
        strides[across] = span as isize;
        span *= sizes[across];
        for dim in (0..rank - 2).rev() {
            strides[dim] = span as isize;
            span *= sizes[dim];
        }
        Self::filled(rng, sizes, offset, strides, span + offset)
    }

    /// Creates a column-major factor without gaps.
    pub(crate) fn transposed(rng: &mut dyn RngCore, sizes: &[usize]) -> Self {
        let mut swapped = sizes.to_vec();
        let last = sizes.len() - 1;
        swapped.swap(last - 1, last);
        let mut layout = Self::plain(rng, &swapped);
        layout.strides.swap(last - 1, last);
        layout.sizes.swap(last - 1, last);
        layout
    }

    fn filled(
        rng: &mut dyn RngCore,
        sizes: &[usize],
        offset: usize,
        strides: Vec<isize>,
        len: usize,
    ) -> Self {
        let mut layout = Self {
            elements: vec![T::JUNK; len],
            sizes: sizes.to_vec(),
            offset,
            strides,
        };
        for index in 0..sizes.iter().product() {
            let at = layout.place(index);
            layout.elements[at] = T::random(rng);
        }
        layout
    }

    /// Returns the position of the element at a row-major linear index.
    fn place(&self, mut index: usize) -> usize {
        let mut at = self.offset as isize;
        for (size, stride) in self.sizes.iter().zip(&self.strides).rev() {
            at += (index % size) as isize * stride;
            index /= size;
        }
        at as usize
    }

    pub(crate) fn at(&self, matrix: usize, row: usize, column: usize) -> T {
        let [.., rows, columns] = self.sizes[..] else {
            panic!("a factor has rows and columns, not shape {:?}", self.sizes);
        };
        self.elements[self.place((matrix * rows + row) * columns + column)]
    }

    /// Returns a factor with the same strides and other elements.
    pub(crate) fn map<U>(&self, function: impl Fn(T) -> U) -> Layout<U> {
        Layout {
            elements: self
                .elements
                .iter()
                .map(|&element| function(element))
                .collect(),
            sizes: self.sizes.clone(),
            offset: self.offset,
            strides: self.strides.clone(),
        }
    }

    pub(crate) fn strides_text(&self) -> String {
        format!("strides {:?} from {}", self.strides, self.offset)
    }

    pub(crate) fn factor<'a>(&'a self, buffer: &'a millstream::Buffer<u8>) -> Factor<'a> {
        let [batch_strides @ .., row_stride, column_stride] = &self.strides[..] else {
            panic!("a factor has rows and columns, not shape {:?}", self.sizes);
        };
        Factor {
            buffer,
            offset: self.offset,
            row_stride: *row_stride,
            column_stride: *column_stride,
            batch_strides,
        }
    }
}
