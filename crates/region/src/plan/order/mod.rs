//! The order in which kernels combine elements.
//!
//! The last bits of a sum of floats depend on the order of its additions. That order follows from
//! shapes, types and operations alone, so that every device gives the same bits. The numbers that
//! decide it stand here, although a device's size was the reason for some of them: to change one
//! is to change results. Everything else about a kernel, a schedule decides (`schedule/`).

pub(crate) mod attention; // the tiles of attention
pub(crate) mod nested; // the elements of a reduction within another kernel
pub(crate) mod reduction; // the accumulators and partial results of reductions
pub(crate) mod row; // those of row kernels
pub(crate) mod scan; // the tiles and segments of scans
pub(crate) mod split; // the accumulators of contiguous rows
