//! Row kernels: several reductions of rows, and what follows from them.
//!
//! | file | contents |
//! |---|---|
//! | `block.rs` | rows in the registers of a block, or of a part of a warp |
//! | `elements.rs` | the elements of a row in registers, and the reductions of them |
//! | `many_rows.rs` | many rows of moderate length |
//! | `division.rs` | divisions of a row's elements by values of the row |
//! | `long_row.rs` | rows that do not fit in registers |

pub(crate) mod block;
pub(crate) mod division;
pub(crate) mod elements;
pub(crate) mod long_row;
pub(crate) mod many_rows;
