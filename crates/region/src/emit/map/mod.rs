//! Element-wise kernels.

pub(crate) mod elements;
pub(crate) mod join_arrays;
pub(crate) mod sections;
pub(crate) mod stencil;
pub(crate) mod tile;
pub(crate) mod transpose;
