//! The memory of a graph: arrays made in the recording that did not leave it.
//!
//! All of it has one access history, which each replay enters as one write: replays of graphs that
//! share a body exclude each other, and none needs an access for each temporary.

#![allow(unsafe_code, reason = "copies constants between bodies")]

use std::{cmp::Reverse, panic::Location, sync::Arc};

use millstream_driver::DevicePtr;
use parking_lot::Mutex;

use super::node::{Node, NodeAccess, Operand, OperandMemory};
use crate::{
    Buffer, Result, Stream,
    context::{CopyOnDevice, Operation, submit},
    error::OperationKind,
    memory::Allocation,
    tracker::{Access, AccessHistory, AccessKind, Ticket},
};

/// Memory that only replays use.
#[derive(Debug)]
pub(super) struct Body {
    history: AccessHistory,
    blocks: Mutex<Vec<Block>>,
}

/// A block of a body.
#[derive(Debug)]
struct Block {
    allocation: Arc<Allocation>,
    /// True if no other graph may write it.
    constant: bool,
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
    pub(super) fn add(&self, allocation: Arc<Allocation>, constant: bool) {
        self.history.inherit_more(&allocation.history.all_tickets());
        self.blocks.lock().push(Block {
            allocation,
            constant,
        });
    }

    /// Returns the access of a replay.
    pub(super) fn access(&self) -> Access<'_> {
        Access::new(&self.history, 0..self.history.bytes(), AccessKind::Write)
    }

    /// Returns the size of all blocks in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let blocks = self.blocks.lock();
        blocks
            .iter()
            .map(|block| block.allocation.history.bytes())
            .sum()
    }

    /// Gives the operands in `blocks` memory of this body, as far as it has large enough blocks,
    /// and adds the other memory to the body. Constants keep their own memory, and so do operands
    /// of captured nodes, whose addresses cannot be changed.
    ///
    /// `blocks` are operands of a new graph by number, with their memory, which nothing else uses.
    pub(super) fn adopt(
        &self,
        operands: &mut [Operand],
        nodes: &[Node],
        mut blocks: Vec<(usize, Arc<Allocation>)>,
    ) {
        // A recorded replay of another graph that shares this body uses it in between.
        let is_called = |pointer: DevicePtr| {
            operands.iter().any(|operand| match &operand.memory {
                OperandMemory::Called { .. } => operand.pointer == pointer,
                _ => false,
            })
        };
        let mut free: Vec<(u64, DevicePtr)> =
            self.blocks.lock().iter().filter_map(usable).collect();
        free.retain(|&(_, pointer)| !is_called(pointer));
        free.sort_unstable_by_key(|&(bytes, _)| bytes);
        // The largest first, each in the smallest block that is large enough.
        blocks.sort_by_key(|&(number, _)| Reverse(operands[number].bytes));
        for (number, own) in blocks {
            let is_captured = nodes.iter().any(|node| {
                let uses = |access: &NodeAccess| access.operand == number;
                node.work.is_captured() && node.accesses.iter().any(uses)
            });
            let operand = &mut operands[number];
            let constant = matches!(operand.memory, OperandMemory::Body { constant: true });
            let at = free.partition_point(|&(bytes, _)| bytes < operand.bytes);
            if constant || is_captured || at == free.len() {
                self.add(own, constant || is_captured);
            } else {
                operand.pointer = free.remove(at).1;
            }
        }
    }

    /// Gives the operands that are in this body, or in that of another graph whose replay was
    /// recorded, memory of the body `other`, which is allocated. Constants are copied. The copies
    /// run on the stream.
    pub(super) fn duplicate(
        &self,
        stream: &Stream,
        other: &Self,
        operands: &mut [Operand],
        location: &'static Location<'static>,
    ) -> Result<()> {
        let mut made: Vec<(DevicePtr, DevicePtr)> = Vec::new();
        for operand in operands {
            let (body, constant) = match &operand.memory {
                OperandMemory::Outside(_) => continue,
                OperandMemory::Body { constant } => (self, *constant),
                OperandMemory::Called { body, constant } => (&**body, *constant),
            };
            // Operands that were never alive together share a block.
            if let Some(&(_, copy)) = made
                .iter()
                .find(|(original, _)| *original == operand.pointer)
            {
                operand.pointer = copy;
                operand.memory = OperandMemory::Body { constant };
                continue;
            }
            let block = body.block_at(operand.pointer);
            let bytes = usize::try_from(block.history.bytes()).unwrap_or(usize::MAX);
            let copy = stream.zeros_at::<u8>(bytes, location)?;
            if constant {
                body.copy_block(stream, &block, &copy, location)?;
            }
            made.push((operand.pointer, copy.as_raw()));
            operand.pointer = copy.as_raw();
            operand.memory = OperandMemory::Body { constant };
            other.add(Allocation::recorded(copy.shared_memory()), constant);
        }
        Ok(())
    }

    /// Returns the block at this address.
    pub(super) fn block_at(&self, pointer: DevicePtr) -> Arc<Allocation> {
        let blocks = self.blocks.lock();
        let mut blocks = blocks.iter().map(|block| &block.allocation);
        let found = blocks.find(|allocation| allocation.pointer == pointer);
        Arc::clone(found.expect("an operand of the body is a block of it"))
    }

    /// Copies a block behind the replays that are enqueued.
    fn copy_block(
        &self,
        stream: &Stream,
        block: &Allocation,
        copy: &Buffer<u8>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let to = copy.view().span;
        let command = CopyOnDevice {
            target: to.pointer(),
            source: block.pointer,
            bytes: to.bytes.len(),
        };
        let operation = Operation {
            kind: OperationKind::DeviceToDevice,
            label: "instance",
            location,
            bytes: to.bytes.len() as u64,
            accesses: [self.access(), to.access(AccessKind::Write)].into(),
            host_waiter: None,
        };
        // SAFETY: both blocks are alive and have this length.
        unsafe { submit(stream.device_state(), stream.state(), operation, command) }.map(drop)
    }
}

/// Returns the size and the address of a block that another graph may write.
fn usable(block: &Block) -> Option<(u64, DevicePtr)> {
    let Block {
        allocation,
        constant,
    } = block;
    (!constant).then(|| (allocation.history.bytes(), allocation.pointer))
}

impl Body {
    /// Frees the blocks that no operand uses, behind the replays that are enqueued.
    pub(super) fn free_unused(&mut self, operands: &[Operand]) {
        let in_body = |operand: &&Operand| operand.outside().is_none();
        let used: Vec<DevicePtr> = operands
            .iter()
            .filter(in_body)
            .map(|operand| operand.pointer)
            .collect();
        let is_unused = |block: &mut Block| !used.contains(&block.allocation.pointer);
        let unused: Vec<Block> = self.blocks.get_mut().extract_if(.., is_unused).collect();
        free(&self.history.all_tickets(), unused);
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        free(
            &self.history.all_tickets(),
            std::mem::take(self.blocks.get_mut()),
        );
    }
}

/// Frees blocks behind these uses.
fn free(uses: &[Ticket], blocks: Vec<Block>) {
    for mut block in blocks {
        // It is the only reference.
        if let Some(allocation) = Arc::get_mut(&mut block.allocation) {
            allocation.history.inherit(uses);
        }
    }
}
