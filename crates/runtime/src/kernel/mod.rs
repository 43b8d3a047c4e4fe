//! Kernels: typed launches of PTX, with operands that are read or written. The targets of the code
//! that [`kernels!`](crate::kernels) generates.

mod across;
pub mod clause;
mod compile;
mod cuda_source;
mod declaration;
mod declared;
mod disk_cache;
mod element;
mod entry_point;
mod foreign;
mod function;
mod generated;
mod includes;
mod launch;
mod launch_config;
mod loaded;
mod matching;
mod module_cache;
mod names;
mod occupancy;
mod param_sizes;
pub(crate) mod sha256;
mod source_hash;
mod typed;
mod variables;

pub use cuda_source::{Cuda, Ptx};
pub use declaration::{ElementLayout, ModuleSource, Param, ParamKind, Signature, Variable};
pub use declared::{Variables, load, load_variables};
pub use element::{Array, Element, Elements, declare_arrays, element};
pub use foreign::{enqueue, enqueue_relocatable};
pub use function::Function;
pub use generated::{load_generated, load_generated_again};
pub use launch::{Argument, launch, launch_at};
pub use launch_config::{Dim3, LaunchConfig};
pub use loaded::Module;
pub(crate) use module_cache::ModuleCache;
pub(crate) use names::interned;
pub use occupancy::{Occupancy, occupancy};

pub use source_hash::{assert_compiled_from, compiled_from, header};
pub use typed::{
    ArgumentFor, ArgumentList, DeclaredParams, Kernel, KernelSignature, LaunchArguments, Read,
    SignatureParam, Value, WithLen, Write,
};

pub use crate::{
    array::{ReadOperand, WriteOperand},
    context::DriverStream,
    element_layout::assert_device_alignment,
};
