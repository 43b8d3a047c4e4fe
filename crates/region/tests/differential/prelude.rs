//! What most tests of random programs and of accuracy use.

pub(super) use half::{bf16, f16};
pub(super) use millstream::Device;
pub(super) use millstream_region::{Array, Float, Keep, Region, RegionExt, concatenate};
pub(super) use ndarray::{
    Array1, Array2, Array3, ArrayD, Axis, Ix1, Ix2, IxDyn, Slice, SliceInfoElem, array, s,
};
pub(super) use rand_core::{RngCore, SeedableRng};
pub(super) use rand_pcg::Pcg32;

pub(super) use crate::differential::{
    Outcome,
    configurations::{configuration, everywhere, in_one},
    evaluate,
    host::broadcast,
    host_element::Number,
    step::{Assign, Binary, Bitwise, Compare, Ordered, Reduce, Step, Unary, View},
    value::{Host, Kind},
};
