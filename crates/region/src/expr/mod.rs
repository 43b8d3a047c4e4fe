//! The lazy expression graph: nodes with an operation and operands, evaluated when a value is
//! requested.
//!
//! A [`Node`] represents the same elements for its whole life. It starts *planned*, with an
//! operation that computes the elements, and becomes *stored* when a kernel is enqueued that writes
//! them to memory; a *failed* node holds an error from the beginning; an *awaiting* node stands for
//! the result of a collective between the devices of a mesh, which stores it. A planned node holds
//! its operands, a stored node only its memory, so that a long loop does not keep its history.
//!
//! A [`Session`] holds the state that the nodes of one region share: the device, the first error,
//! and a table that interns nodes, so that equal operations on the same operands are one node.
//!
//! - A new element-wise function is a line of `function.rs`, its instructions in
//!   `emit/body/elementwise.rs`, and a method in `array/elementwise.rs`.
//! - A new reduction is a line of `op.rs`, its accumulator in `emit/body/reducer.rs`, and a method
//!   in `array/reduce.rs`.

mod collective;
mod function;
mod key;
mod node;
mod op;
mod session;

pub(crate) use collective::{Collective, CollectiveKind, MeshMember, MeshShape};
pub(crate) use function::{Comparison, Function, Rounding};
pub(crate) use key::{FreeLengths, KeyType, push_input, push_map, push_operation};
pub(crate) use node::{AxisSet, Node, NodeRef, State, Storage};
pub(crate) use op::{Attention, FunctionOperands, Op, Reduction, ScatterMode, Sorted};
pub(crate) use session::{LaunchLog, LoggedLaunch, LoggedParameter, Overdue, Session, shape_error};
