//! PTX: from text to signatures and executable kernels.
//!
//! [`signatures`] reads the headers only. [`parse`] reads everything and lowers each kernel to the compact operations that
//! [`crate::exec`] runs, so an instruction that cannot be executed is refused here, by name and line, and never found at a launch.

mod access;
mod ast;
mod calls;
pub(crate) mod code;
mod declaration;
mod error;
mod extra;
mod lexer;
mod lower;
mod module;
mod number;
mod operation;
mod parser;
mod signature;
pub(crate) mod types;

pub use error::{PtxError, PtxErrorKind};
pub use module::{Kernel, Module, Variable, parse};
pub use signature::{Param, Signature, signatures};
pub use types::ParamType;
