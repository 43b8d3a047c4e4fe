//! The memory of a graph: arrays made in the recording that did not leave it.
//!
//! All of it has one access history, which each replay enters as one write: replays of graphs that
//! share a body exclude each other, and none needs an access for each temporary.

#![allow(unsafe_code, reason = "copies constants between bodies")]

use std::{
    panic::Location,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

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
    pub(super) constant: bool,
}

impl Block {
    pub(super) fn bytes(&self) -> u64 {
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
    pub(super) fn new() -> Self {
        Self {
            history: AccessHistory::new(1),
            blocks: Mutex::default(),
        }
    }

    /// Adds memory that nothing else uses any more, apart from operations that are submitted.
    pub(super) fn add(self: &Arc<Self>, allocation: Arc<Allocation>, constant: bool) -> Arc<Block> {
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
    pub(super) fn blocks(&self) -> Vec<Arc<Block>> {
        let mut blocks = self.blocks.lock();
        blocks.retain(|block| block.strong_count() > 0);
        blocks.iter().filter_map(Weak::upgrade).collect()
    }

    pub(super) fn access(&self) -> Access<'_> {
        Access::new(&self.history, 0..self.history.bytes(), AccessKind::Write)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.blocks().iter().map(|block| block.bytes()).sum()
    }
}

impl Block {
    /// Copies the block behind the replays that are enqueued.
    pub(super) fn copy(
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
