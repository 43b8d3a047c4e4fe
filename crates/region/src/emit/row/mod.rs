//! Row kernels: several reductions of rows, and what follows from them.

/// Rows in the registers of a block, or of a part of a warp.
pub(crate) mod block;
/// Divisions of a row's elements by values of the row.
pub(crate) mod division;
/// The elements of a row in registers, and the reductions of them.
pub(crate) mod elements;
/// Rows that do not fit in registers.
pub(crate) mod long_row;
/// Many rows of moderate length.
pub(crate) mod many_rows;
