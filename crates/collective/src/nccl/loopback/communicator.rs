//! Communicators: their devices, their states, and the numbers of their operations.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use super::{
    invalid,
    link::Link,
    lock,
    operation::{Issued, Sequence},
};
use millstream_driver::ContextHandle;

use crate::nccl::{CommHandle, CommState, NcclError, OperationType, Result};

pub(super) struct Comm {
    pub(super) handle: CommHandle,
    pub(super) context: ContextHandle,
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) link: Arc<Link>,
    pub(super) counters: Mutex<Counters>,
}

/// The numbers of operations that a communicator has issued.
#[derive(Default)]
pub(super) struct Counters {
    all: u64,
    collectives: u64,
    sends: HashMap<usize, u64>,
    receives: HashMap<usize, u64>,
}

/// The devices of all communicators of the process: handle space of the driver, context, handle.
pub(super) static DEVICES: Mutex<Vec<(usize, ContextHandle, CommHandle)>> = Mutex::new(Vec::new());

impl Comm {
    /// Checks that the communicator is ready and the operation's arguments are valid.
    pub(super) fn check(&self, issued: &Issued) -> Result<()> {
        let call = issued.operation.kind.function();
        match self.link.comm_state() {
            CommState::Success => {}
            CommState::InProgress => {
                return Err(invalid(call, "the communicator is not ready".to_owned()));
            }
            CommState::Failed(code) => {
                return Err(NcclError::new(call, code, self.link.failure_text()));
            }
        }
        let named = issued.named_rank();
        if let Some(named) = named.filter(|rank| *rank >= self.size) {
            let text = format!("rank {named} is not in a world of {} ranks", self.size);
            return Err(invalid(call, text));
        }
        let sizes = [
            issued.read_bytes(self.rank, self.size),
            issued.written_bytes(self.rank, self.size),
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
