//! What is to be calculated: nodes with an operation and operands each, not evaluated until
//! somebody needs a value.
//!
//! A [`Node`] is made once and never changes what it stands for. Its state goes from *planned* to
//! *stored*, when its elements are in memory or a kernel is enqueued that puts them there, or it is
//! *failed* from the beginning. What is planned holds its operands; what is stored holds memory
//! alone, so that a long loop does not keep its history.
//!
//! A [`Session`] is what the nodes of one region have in common: the device, the first mistake, and
//! a table in which equal operations on the same operands are found to be one node.

mod function;
mod key;
mod node;
mod session;

pub(crate) use function::{Comparison, Function, Rounding};
pub(crate) use key::OpKey;
pub(crate) use node::{Node, NodeRef, Op, Reduction, State, Storage};
pub(crate) use session::Session;
