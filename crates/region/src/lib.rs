//! "Run this block on the GPU": arrays on a device that are evaluated when they are needed, and `#[region]`.

mod array;
mod codegen;
mod element;
mod error;
mod evaluate;
mod graph;
mod host;
#[doc(hidden)]
pub mod maths;
#[doc(hidden)]
pub mod product;
mod region;
mod shape;

pub use array::{Array, Bits, Chosen, Dot, ElementByElement, Operand, Part, concatenate, stack};
pub use element::{Element, Float, Number};
pub use error::{Error, Lengths, Misuse, Problem, Result};
#[doc(hidden)]
pub use host::{Arriving, Elements, Kept, Parcel, ScalarParcel, Source, Succeeded, VecParcel, WriteBack};
pub use host::{DeviceValue, Input, InputMut, Output, Parameter, Pending, Place};
pub use region::{Region, RegionExt};
