//! What most tests of fusion use.

pub(super) use millstream::{Device, sim::Schedule};
pub(super) use millstream_region::{Array, Keep, RegionExt};
pub(super) use millstream_testkit::share;
pub(super) use ndarray::{Array1, Array2, Array3, Axis, Ix1, Ix2, Ix3, s};
pub(super) use rand_core::SeedableRng;
pub(super) use rand_pcg::Pcg64Mcg;

pub(super) use crate::fusion::{Counted, Work, below, matrix, seeds};
