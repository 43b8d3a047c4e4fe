//! Warp matrix instructions: the fragments that the lanes of a warp hold of a matrix, and the
//! products and rearrangements of fragments.
//!
//! A matrix has an outer and an inner dimension. For the operands of a product, the inner one is
//! that along which products are added: a row of `A` or a column of `B` is contiguous. `D` has the
//! outer dimensions of `A` and `B`, in this order.

use smallvec::SmallVec;

use super::{RegisterClass, Round, Slot};

/// The type of a matrix's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    S8,
    U8,
    F32,
    S32,
    F64,
}

impl Element {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::E4m3 | Self::E5m2 | Self::S8 | Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::Tf32 | Self::F32 | Self::S32 => 4,
            Self::F64 => 8,
        }
    }

    /// Returns the number of elements in a register.
    pub(crate) fn packed(self) -> usize {
        (4 / self.bytes()).max(1)
    }

    pub(crate) fn class(self) -> RegisterClass {
        RegisterClass::of_bytes(self.bytes() as u8)
    }
}

/// The places of a fragment's elements in the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Tiles of `rows` times 8 elements of the outer dimension. Within 8 of them, four lanes hold
    /// `run` adjacent elements each; further elements follow at the distance of 8 in the outer
    /// dimension of the tile, then of `4 * run` in the inner one, then in the next tile.
    Tiles { rows: u8, run: u8 },
    /// Four matrices of eight lanes each, as `m8n8k4` of `f16` has them: a lane holds elements of
    /// the inner dimension.
    QuadRows,
    /// The same, but a lane holds elements of the outer dimension.
    QuadColumns,
    /// The same, for single-precision sums.
    QuadSums,
}

/// The registers that hold a matrix.
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    pub(crate) element: Element,
    pub(crate) layout: Layout,
    pub(crate) outer: usize,
    pub(crate) inner: usize,
    pub(crate) slots: SmallVec<[Slot; 8]>,
}

impl Fragment {
    /// Returns the number of adjacent elements of the inner dimension that a lane holds.
    pub(crate) fn run(&self) -> usize {
        match self.layout {
            Layout::Tiles { run, .. } => run.into(),
            _ => 1,
        }
    }

    /// Returns the number of matrices.
    pub(crate) fn matrices(&self) -> usize {
        match self.layout {
            Layout::Tiles { .. } => 1,
            _ => 4,
        }
    }

    /// Returns the number of elements that a lane holds.
    pub(crate) fn elements(&self) -> usize {
        self.matrices() * self.outer * self.inner / 32
    }

    /// Returns the number of registers that hold them.
    pub(crate) fn registers(&self) -> usize {
        self.elements() / self.element.packed()
    }

    /// Returns the indices of a lane's first element in the outer and the inner dimension.
    fn lane_place(&self, lane: usize) -> [usize; 2] {
        let half = lane / 16 * 4;
        match self.layout {
            Layout::Tiles { run, .. } => [lane / 4, lane % 4 * usize::from(run)],
            Layout::QuadRows => [lane % 4 + half, 0],
            Layout::QuadColumns => [half, lane % 4],
            Layout::QuadSums => [(lane & 1) + half, lane & 2],
        }
    }

    /// Returns the distance between a lane's first element and its element `x`, in the outer and
    /// the inner dimension.
    pub(crate) fn distance(&self, x: usize) -> [usize; 2] {
        match self.layout {
            Layout::Tiles { rows, run } => {
                let (rows, run) = (usize::from(rows), usize::from(run));
                let (element, run_index) = (x % run, x / run);
                let in_tile = rows * (self.inner / (4 * run));
                let (tile, within) = (run_index / in_tile, run_index % in_tile);
                [
                    8 * (within % rows + rows * tile),
                    element + 4 * run * (within / rows),
                ]
            }
            Layout::QuadRows => [0, x],
            Layout::QuadColumns => [x, 0],
            Layout::QuadSums => [x & 2, (x & 4) + (x & 1)],
        }
    }

    /// Returns the index of each lane's first element among all elements, ordered by matrix, outer
    /// and inner dimension.
    pub(crate) fn lane_indices(&self) -> [usize; 32] {
        std::array::from_fn(|lane| {
            let [outer, inner] = self.lane_place(lane);
            let matrix = lane / 4 % self.matrices();
            (matrix * self.outer + outer) * self.inner + inner
        })
    }

    /// Returns what is added to these indices for element `x`.
    pub(crate) fn index_distance(&self, x: usize) -> usize {
        let [outer, inner] = self.distance(x);
        outer * self.inner + inner
    }
}

/// A product of matrices: `D = A · B + C`.
#[derive(Clone, Debug)]
pub(crate) struct Multiply {
    pub(crate) a: Fragment,
    pub(crate) b: Fragment,
    pub(crate) c: Fragment,
    pub(crate) d: Fragment,
    /// True if integer sums are clamped, and do not wrap.
    pub(crate) saturate: bool,
    /// The rounding of double-precision sums.
    pub(crate) round: Round,
}

/// The places of the elements of 8-by-8 matrices of 16-bit elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A lane holds a row in four registers; the lanes of a matrix follow those of the one before.
    Rows,
    /// A register holds a matrix, of which each lane has two adjacent elements of a row.
    Fragment,
}

impl Form {
    /// Returns the register, the lane and the half of an element.
    pub(crate) fn place(self, matrix: usize, row: usize, column: usize) -> (usize, usize, usize) {
        match self {
            Self::Rows => (column / 2, 8 * matrix + row, column % 2),
            Self::Fragment => (matrix, 4 * row + column / 2, column % 2),
        }
    }

    /// Returns the number of registers that `matrices` matrices occupy.
    pub(crate) fn registers(self, matrices: usize) -> usize {
        match self {
            Self::Rows => 4,
            Self::Fragment => matrices,
        }
    }
}

/// A rearrangement of up to four 8-by-8 matrices of 16-bit elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rearrange {
    pub(crate) matrices: usize,
    pub(crate) transpose: bool,
    pub(crate) from: Form,
    pub(crate) to: Form,
    pub(crate) a: [Slot; 4],
    pub(crate) d: [Slot; 4],
}

impl Rearrange {
    /// Returns the slots of the operands.
    pub(crate) fn operands(&self) -> &[Slot] {
        &self.a[..self.from.registers(self.matrices)]
    }

    /// Returns the slots of the results.
    pub(crate) fn results(&self) -> &[Slot] {
        &self.d[..self.to.registers(self.matrices)]
    }

    /// Calls `copy` with the place of each element in the result and in the operands: the register,
    /// the lane and the half.
    pub(crate) fn each(&self, mut copy: impl FnMut([usize; 3], [usize; 3])) {
        for matrix in 0..self.matrices {
            for (row, column) in (0..64).map(|at| (at / 8, at % 8)) {
                let (r, c) = if self.transpose {
                    (column, row)
                } else {
                    (row, column)
                };
                let (to, from) = (
                    self.to.place(matrix, r, c),
                    self.from.place(matrix, row, column),
                );
                copy(to.into(), from.into());
            }
        }
    }
}

/// An operation on the registers of all lanes.
#[derive(Clone, Debug)]
pub(crate) enum MatrixOp {
    Multiply(Box<Multiply>),
    Rearrange(Rearrange),
}

impl MatrixOp {
    /// Calls `read` with each slot that the operation reads.
    pub(crate) fn operands(&self, read: &mut dyn FnMut(RegisterClass, Slot)) {
        match self {
            Self::Multiply(of) => {
                for fragment in [&of.a, &of.b, &of.c] {
                    let class = fragment.element.class();
                    fragment.slots.iter().for_each(|slot| read(class, *slot));
                }
            }
            Self::Rearrange(of) => {
                let operands = of.operands().iter();
                operands.for_each(|slot| read(RegisterClass::Word, *slot));
            }
        }
    }

    /// Calls `write` with each slot that the operation writes.
    pub(crate) fn results(&self, write: &mut dyn FnMut(RegisterClass, Slot)) {
        match self {
            Self::Multiply(of) => {
                let class = of.d.element.class();
                of.d.slots.iter().for_each(|slot| write(class, *slot));
            }
            Self::Rearrange(of) => {
                let results = of.results().iter();
                results.for_each(|slot| write(RegisterClass::Word, *slot));
            }
        }
    }
}
