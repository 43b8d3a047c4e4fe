//! Random programs over the whole safe interface: their steps, their generator, the interpreter
//! that executes them, and the oracle that computes the expected results. Shared with the
//! scenarios, which run them behind gates and make their driver calls fail.

mod data;
mod elem;
mod generate;
mod host;
mod interpreter;
mod kernels;
mod oracle;
pub(crate) mod outcome;
mod recorded;
pub(crate) mod step;
mod together;

pub(crate) use generate::{Sort, generate};
pub(crate) use interpreter::{Environment, Interpreter};
pub(crate) use oracle::{Allowed, check};
