//! The placement of operands in the memory of a graph.

use std::{cmp::Reverse, panic::Location, sync::Arc};

use millstream_driver::DevicePtr;

use super::{
    body::{Block, Body},
    node::{Node, NodeAccess},
    operand::{Operand, OperandMemory},
};
use crate::{Result, Stream, memory::Allocation};

impl Body {
    /// Places the arrays of a recording in blocks of this body that are large enough, and adds the
    /// memory of the others to the body. Constants keep their own memory, and so do operands of
    /// captured nodes, whose addresses cannot be changed.
    pub(super) fn adopt(self: &Arc<Self>, operands: &mut [Operand], nodes: &[Node]) {
        // A recorded replay of another graph that shares this body uses it in between.
        let is_called = |block: &Arc<Block>| {
            operands.iter().any(|operand| match &operand.memory {
                OperandMemory::Block(called) => Arc::ptr_eq(called, block),
                _ => false,
            })
        };
        let mut free = self.blocks();
        free.retain(|block| !block.constant && !is_called(block));
        free.sort_by_key(|block| block.bytes());
        // The largest first, each in the smallest block that is large enough.
        let mut order: Vec<usize> = (0..operands.len()).collect();
        order.sort_by_key(|&number| Reverse(operands[number].bytes));
        for number in order {
            let operand = &mut operands[number];
            let OperandMemory::Recorded {
                allocation,
                constant,
            } = &operand.memory
            else {
                continue;
            };
            let is_captured = nodes.iter().any(|node| {
                let uses = |access: &NodeAccess| access.operand == number;
                node.work.is_captured() && node.accesses.iter().any(uses)
            });
            let is_own = *constant || is_captured;
            let at = free.partition_point(|block| block.bytes() < operand.bytes);
            let block = if is_own || at == free.len() {
                self.add(Arc::clone(allocation), is_own)
            } else {
                free.remove(at)
            };
            operand.pointer = block.allocation.pointer;
            operand.memory = OperandMemory::Block(block);
        }
    }

    /// Moves operands from other bodies to new blocks of this one. Constants are copied, on the
    /// stream.
    pub(super) fn duplicate(
        self: &Arc<Self>,
        stream: &Stream,
        operands: &mut [Operand],
        location: &'static Location<'static>,
    ) -> Result<()> {
        // By the addresses of the originals: operands that were never alive together share a block.
        let mut copies: Vec<(DevicePtr, Arc<Block>)> = Vec::new();
        for operand in operands {
            let OperandMemory::Block(original) = &operand.memory else {
                continue;
            };
            let earlier = copies
                .iter()
                .find(|(original, _)| *original == operand.pointer);
            let block = match earlier {
                Some((_, block)) => Arc::clone(block),
                None => {
                    let bytes = usize::try_from(original.bytes()).unwrap_or(usize::MAX);
                    let copy = stream.zeros_at::<u8>(bytes, location)?;
                    if original.constant {
                        original.copy(stream, &copy, location)?;
                    }
                    let copy = Allocation::recorded(copy.shared_memory());
                    let block = self.add(copy, original.constant);
                    copies.push((operand.pointer, Arc::clone(&block)));
                    block
                }
            };
            operand.pointer = block.allocation.pointer;
            operand.memory = OperandMemory::Block(block);
        }
        Ok(())
    }
}
