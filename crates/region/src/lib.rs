//! "Run this block on the GPU": arrays on a device that are evaluated when they are needed, and `#[region]`.

mod element;

pub use element::{Element, Float, Number};
