//! Kernels: typed launches of PTX, with operands that are read or written. The targets of the code
//! that [`kernels!`](crate::kernels) generates.

mod across;
pub mod clause;
mod element;
mod foreign;
mod generated;
mod launch;
mod launch_config;
mod module;

pub use element::{Array, Element, declare_arrays, element};
pub use foreign::enqueue;
pub use generated::{load_generated, load_generated_again};
pub use launch::{Argument, launch, launch_at};
pub use launch_config::{Dim3, LaunchConfig};
pub(crate) use module::ModuleCache;
pub use module::{Function, ModuleSource, Param, ParamKind, Signature, load};

pub use crate::{
    context::DriverStream,
    memory::{ReadOperand, WriteOperand, assert_device_alignment},
};
