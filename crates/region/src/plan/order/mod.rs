//! The order in which kernels combine elements.
//!
//! The last bits of a sum of floats depend on the order of its additions. That order follows from
//! shapes, types and operations alone, so that every device gives the same bits. The numbers that
//! decide it stand here, although a device's size was the reason for some of them: to change one
//! is to change results. Everything else about a kernel, a schedule decides (`schedule/`).
//!
//! | file | contents |
//! |---|---|
//! | `split.rs` | the accumulators of contiguous rows |
//! | `row.rs` | those of row kernels |
//! | `reduction.rs` | the accumulators and partial results of reductions |
//! | `scan.rs` | the tiles and segments of scans |
//! | `attention.rs` | the tiles of attention |

pub(crate) mod attention;
pub(crate) mod reduction;
pub(crate) mod row;
pub(crate) mod scan;
pub(crate) mod split;

pub(crate) use attention::TileSizes;
pub(crate) use reduction::{ReducedRows, ReductionOrder};
pub(crate) use row::{RowOrder, arrays_of_simple};
pub(crate) use scan::{LANES, ScanOrder};
pub(crate) use split::{ROW_THREADS, RowSplit};
