//! placeholder

pub mod cells;
pub mod exec;
pub mod ptx;
