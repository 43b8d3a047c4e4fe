//! Row kernels: several reductions of rows, and what follows from them.

pub(crate) mod block;
pub(crate) mod division;
pub(crate) mod elements;
pub(crate) mod long_row;
pub(crate) mod many_rows;
