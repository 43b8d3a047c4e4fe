//! A parser of PTX text: the syntax of modules, and the [`signatures`] of their kernels.
//!
//! A launch passes arguments at their offsets in a parameter block, so its caller must know the
//! kernel's signature. The runtime checks signatures on real and simulated GPUs alike, and the
//! simulator lowers function bodies to code that it executes. Both therefore depend on this crate.
//! It also contains [labels](Label), because the runtime sets them and the simulator's reports show
//! them.
//!
//! ```
//! let source = ".version 8.0
//!     .target sm_75
//!     .address_size 64
//!     .visible .entry scale(.param .u64 values, .param .f32 factor) { ret; }";
//! let signatures = millstream_ptx::signatures(source).unwrap();
//! assert_eq!(signatures[0].name, "scale");
//! assert_eq!(signatures[0].param_bytes(), 12);
//! ```

mod body;
mod constant;
mod declaration;
mod error;
mod interface;
mod label;
mod lexer;
mod mentions;
mod number;
mod operands;
mod signature;
mod types;

// The syntax tree, which the simulator lowers. It is hidden because it changes with the simulator.
#[doc(hidden)]
pub mod ast;
#[doc(hidden)]
pub mod header;
#[doc(hidden)]
pub mod parser;

pub use error::{PtxError, PtxErrorKind};
pub use interface::{DeviceVariable, Interface, KernelInterface, VariableUse, interface};
pub use label::{Label, Site};
pub use signature::{Param, Signature, signatures};
pub use types::ParamType;
#[doc(hidden)]
pub use types::Type;
