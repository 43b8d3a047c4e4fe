//! What most targets use.

pub(super) use anyhow::{Context, Result};
pub(super) use millstream::{Device, LaunchConfig, Select, Stream};
pub(super) use millstream_region::{Array, RegionExt};
pub(super) use ndarray::{Ix2, s};

pub(super) use crate::{
    cudarc::Cudarc,
    harness::Harness,
    kernels::sums,
    report::{Goal, Row, Target},
    timing::{SampleSize, Variant, gb_per_s, median, medians},
};
