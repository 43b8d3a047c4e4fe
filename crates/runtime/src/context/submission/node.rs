//! The nodes of graphs as ordinary operations.

#![allow(unsafe_code, reason = "makes the driver calls that enqueue work")]

use millstream_driver::{DriverError, GraphNode};

use super::{
    commands::{Command, DriverStream, Fill, Launch},
    commands_2d::CopyRows,
};

impl DriverStream<'_> {
    /// Enqueues the operation of a graph's node as an ordinary operation.
    ///
    /// # Safety
    ///
    /// The contract of [`Command::enqueue`].
    pub(crate) unsafe fn enqueue_node(self, node: &GraphNode<'_>) -> Result<(), DriverError> {
        match *node {
            GraphNode::Kernel(ref kernel) => {
                let attributes = &kernel.attributes;
                let command = Launch {
                    function: kernel.function,
                    dims: &kernel.dims,
                    attributes: attributes.is_any().then_some(attributes),
                    params: kernel.params,
                };
                // SAFETY: this function's contract.
                unsafe { command.enqueue(self) }
            }
            GraphNode::Copy(copy) => {
                let command = CopyRows {
                    copy,
                    pitch_bytes_max: usize::MAX,
                };
                // SAFETY: this function's contract.
                unsafe { command.enqueue(self) }
            }
            GraphNode::Fill {
                target,
                pattern,
                count,
            } => {
                let command = Fill {
                    target,
                    pattern,
                    count,
                };
                // SAFETY: this function's contract.
                unsafe { command.enqueue(self) }
            }
            GraphNode::Empty | GraphNode::Child(_) => Ok(()),
        }
    }
}
