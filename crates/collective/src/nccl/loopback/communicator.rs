//! Communicators: their devices, their states, and the numbers of their operations.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use super::{
    invalid,
    link::Link,
    lock,
    operation::{Operation, OperationType, Sequence},
};
use millstream_driver::ContextHandle;

use crate::nccl::{CommHandle, CommState, NcclError, Result};

/// A communicator.
pub(super) struct Comm {
    pub(super) handle: CommHandle,
    pub(super) context: ContextHandle,
    pub(super) rank: u32,
    pub(super) size: usize,
    pub(super) link: Arc<Link>,
    pub(super) counters: Mutex<Counters>,
}

/// The numbers of operations that a communicator has issued.
#[derive(Default)]
pub(super) struct Counters {
    all: u64,
    collectives: u64,
    sends: HashMap<u32, u64>,
    receives: HashMap<u32, u64>,
}

/// The devices of all communicators of the process: handle space of the driver, context, handle.
pub(super) static DEVICES: Mutex<Vec<(usize, ContextHandle, CommHandle)>> = Mutex::new(Vec::new());

impl Comm {
    /// Checks that the communicator is ready and the operation's arguments are valid.
    pub(super) fn check(&self, operation: &Operation) -> Result<()> {
        let call = operation.call;
        match self.link.comm_state() {
            CommState::Success => {}
            CommState::InProgress => {
                return Err(invalid(call, "the communicator is not ready".to_owned()));
            }
            CommState::Failed(code) => {
                return Err(NcclError::new(call, code, self.link.failure_text()));
            }
        }
        let named = operation.kind.named_rank();
        if let Some(named) = named.filter(|rank| *rank as usize >= self.size) {
            let text = format!("rank {named} is not in a world of {} ranks", self.size);
            return Err(invalid(call, text));
        }
        let sizes = [
            operation.read_bytes(self.rank, self.size),
            operation.written_bytes(self.rank, self.size),
        ];
        if sizes.contains(&None) {
            return Err(invalid(call, "the count is too large".to_owned()));
        }
        Ok(())
    }

    /// Returns whether the process has communicators on other devices of the same driver.
    pub(super) fn shares_driver(&self, handle_space: usize) -> bool {
        let devices = lock(&DEVICES);
        devices
            .iter()
            .any(|(space, context, _)| *space == handle_space && *context != self.context)
    }
}

impl Counters {
    /// Counts an operation, and returns its number and its position among those that it must match.
    pub(super) fn next(&mut self, kind: OperationType) -> (u64, Sequence) {
        self.all += 1;
        let counter = match kind {
            OperationType::Send { peer } => self.sends.entry(peer).or_default(),
            OperationType::Recv { peer } => self.receives.entry(peer).or_default(),
            _ => &mut self.collectives,
        };
        *counter += 1;
        (self.all, *counter)
    }
}
