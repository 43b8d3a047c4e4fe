//! Scan kernels.

/// The totals of the tiles of columns.
pub(crate) mod column_totals;
/// Scans along another axis than the last.
pub(crate) mod columns;
/// The elements that a thread keeps in shared memory.
pub(crate) mod kept;
/// Scans in one pass of rows that several blocks share.
pub(crate) mod look_back;
/// The elements that a thread loads together.
pub(crate) mod neighbours;
/// The totals that blocks publish to each other.
pub(crate) mod published;
/// Scans of rows.
pub(crate) mod rows;
