//! Random programs over the whole safe interface: what they are made of, who draws them, who
//! carries them out, and the oracle that knows what must come of them. Shared with the scenarios,
//! which run them behind gates and make their calls fail.

mod data;
mod elem;
mod generate;
mod host;
mod interpreter;
mod kernels;
mod oracle;
pub(crate) mod outcome;
pub(crate) mod step;
mod together;

pub(crate) use generate::{Sort, generate};
pub(crate) use interpreter::{Environment, Interpreter};
pub(crate) use oracle::{Allowed, check};
