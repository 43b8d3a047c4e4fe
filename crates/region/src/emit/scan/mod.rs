//! Scan kernels.

pub(crate) mod column_totals;
pub(crate) mod columns;
pub(crate) mod look_back;
pub(crate) mod neighbours;
pub(crate) mod published;
pub(crate) mod rows;
pub(crate) mod shared_elements;
