//! What most scenarios of regions use.

pub(super) use std::{mem, thread};

pub(super) use millstream::{Device, driver::ResultCode};
pub(super) use millstream_region::{Array, Error, Region, RegionExt, UsageErrorKind, region};
pub(super) use ndarray::{Array1, Array2, Axis, Ix1, Ix2, array, s};

pub(super) use crate::scenarios::{
    calls::Calls,
    crossing::{assert_copies, assert_fails},
    evaluate,
    harness::{Harness, everywhere, everywhere_counted, once},
};
