//! Kernels: typed launches of PTX, with operands that are read or written. What [`kernels!`](crate::kernels) expands to.

pub mod clause;
mod foreign;
mod grid;
mod launch;
mod module;

pub use foreign::enqueue;
pub use grid::Grid;
pub use launch::{Argument, launch, launch_at};
pub(crate) use module::ModuleCache;
pub use module::{Function, Param, ParamKind, Signature, Source, load, load_generated};

pub use crate::{
    memory::{ReadOperand, WriteOperand},
    submit::Queue,
};
