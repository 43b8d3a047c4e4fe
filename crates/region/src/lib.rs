//! "Run this block on the GPU": arrays on a device that are evaluated when they are needed, and `#[region]`.

mod element;
#[doc(hidden)]
pub mod maths;
#[doc(hidden)]
pub mod product;

pub use element::{Element, Float, Number};
