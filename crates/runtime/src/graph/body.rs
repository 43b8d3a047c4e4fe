//! The memory of a graph: arrays made in the recording that did not leave it.
//!
//! All of it has one access history, which each replay enters as one write: replays of graphs that
//! share a body exclude each other, and none needs an access for each temporary.

#![allow(unsafe_code, reason = "copies constants between bodies")]

use std::{
    cmp::Reverse,
    panic::Location,
    sync::{Arc, Weak},
};

use millstream_driver::DevicePtr;
use parking_lot::Mutex;

use super::node::{Node, NodeAccess, Operand, OperandMemory};
use crate::{
    Buffer, Result, Stream,
    context::{CopyOnDevice, Operation, submit},
    error::OperationKind,
    memory::Allocation,
    tracker::{Access, AccessHistory, AccessKind},
};

/// Memory that only replays use. The operands of graphs own its blocks.
#[derive(Debug)]
pub(super) struct Body {
    history: AccessHistory,
    blocks: Mutex<Vec<Weak<Block>>>,
}

/// A block of a body. It is freed behind the replays that are enqueued once no operand of a graph
/// is in it.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) body: Arc<Body>,
    pub(super) allocation: Arc<Allocation>,
    /// True if no other graph may write it.
    constant: bool,
}

impl Block {
    fn bytes(&self) -> u64 {
        self.allocation.history.bytes()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let uses = self.body.history.all_tickets();
        self.allocation.history.inherit_more(&uses);
    }
}

impl Body {
    /// Creates a body without memory.
    pub(super) fn new() -> Self {
        Self {
            history: AccessHistory::new(1),
            blocks: Mutex::default(),
        }
    }

    /// Adds memory that nothing else uses any more, apart from operations that are submitted.
    fn add(self: &Arc<Self>, allocation: Arc<Allocation>, constant: bool) -> Arc<Block> {
        self.history.inherit_more(&allocation.history.all_tickets());
        let block = Arc::new(Block {
            body: Arc::clone(self),
            allocation,
            constant,
        });
        self.blocks.lock().push(Arc::downgrade(&block));
        block
    }

    /// Returns the blocks that graphs use, and forgets the others.
    fn blocks(&self) -> Vec<Arc<Block>> {
        let mut blocks = self.blocks.lock();
        blocks.retain(|block| block.strong_count() > 0);
        blocks.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the access of a replay.
    pub(super) fn access(&self) -> Access<'_> {
        Access::new(&self.history, 0..self.history.bytes(), AccessKind::Write)
    }

    /// Returns the size of all blocks in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks().iter().map(|block| block.bytes()).sum()
    }

    /// Gives the operands that were made in a recording memory of this body, as far as it has large
    /// enough blocks, and adds the memory of the others to the body. Constants keep their own
    /// memory, and so do operands of captured nodes, whose addresses cannot be changed.
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

    /// Gives the operands that are in bodies memory of this one, which is allocated. Constants are
    /// copied. The copies run on the stream.
    pub(super) fn duplicate(
        self: &Arc<Self>,
        stream: &Stream,
        operands: &mut [Operand],
        location: &'static Location<'static>,
    ) -> Result<()> {
        // By the addresses of the originals: operands that were never alive together share a block.
        let mut made: Vec<(DevicePtr, Arc<Block>)> = Vec::new();
        for operand in operands {
            let OperandMemory::Block(original) = &operand.memory else {
                continue;
            };
            let known = made.iter().find(|(known, _)| *known == operand.pointer);
            let block = match known {
                Some((_, block)) => Arc::clone(block),
                None => {
                    let bytes = usize::try_from(original.bytes()).unwrap_or(usize::MAX);
                    let copy = stream.zeros_at::<u8>(bytes, location)?;
                    if original.constant {
                        original.copy(stream, &copy, location)?;
                    }
                    let copy = Allocation::recorded(copy.shared_memory());
                    let block = self.add(copy, original.constant);
                    made.push((operand.pointer, Arc::clone(&block)));
                    block
                }
            };
            operand.pointer = block.allocation.pointer;
            operand.memory = OperandMemory::Block(block);
        }
        Ok(())
    }
}

impl Block {
    /// Copies the block behind the replays that are enqueued.
    fn copy(
        &self,
        stream: &Stream,
        copy: &Buffer<u8>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let to = copy.view().span;
        let command = CopyOnDevice {
            target: to.pointer(),
            source: self.allocation.pointer,
            bytes: to.bytes.len(),
        };
        let mut operation = Operation {
            kind: OperationKind::DeviceToDevice,
            label: "instance",
            location,
            bytes: to.bytes.len() as u64,
            accesses: [self.body.access(), to.access(AccessKind::Write)].into(),
            host_waiter: None,
        };
        // SAFETY: both blocks are alive and have this length.
        unsafe {
            submit(
                stream.device_state(),
                stream.state(),
                &mut operation,
                command,
            )
        }
        .map(drop)
    }
}
