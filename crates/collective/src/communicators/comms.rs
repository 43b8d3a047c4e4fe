//! The communicators of the local ranks, and when they may be used and ended.
//!
//! A thread that makes NCCL's calls may wait in the one that ends a group, and in a world only an
//! abort ends such a wait. So the lock here is held for single looks at a state, not during calls;
//! a *phase* says what the handles are used for. Abort and destruction wait while single operations
//! are being issued, which never block, and while the group is being ended if the communicators
//! block: NCCL then works on the calling thread, which an abort would not wait for.

#![allow(unsafe_code, reason = "asks its own communicators for their state")]

use std::sync::Arc;

use crate::nccl::{CommHandle, CommState, Nccl, NcclError};
use millstream::{__log as log, groups::IdleCondvar};
use parking_lot::Mutex;

/// The use of the communicators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// Operations are being issued.
    Issuing,
    /// A thread is in the call that ends a group, and may wait there.
    EndingGroup,
    /// The communicators are destroyed, or are about to be. Final.
    Gone,
}

/// The communicators of the local ranks, in their order.
pub(super) struct Comms {
    pub(super) nccl: Arc<dyn Nccl>,
    handles: Box<[CommHandle]>,
    /// True if calls return only once their work is enqueued.
    blocks: bool,
    phase: Mutex<Phase>,
    issued: IdleCondvar,
}

/// The communicators are destroyed, or are about to be.
#[derive(Debug)]
pub(super) struct Gone;

impl Comms {
    pub(super) fn new(nccl: Arc<dyn Nccl>, handles: Vec<CommHandle>, blocks: bool) -> Self {
        Self {
            nccl,
            handles: handles.into(),
            blocks,
            phase: Mutex::new(Phase::Idle),
            issued: IdleCondvar::new(),
        }
    }

    /// Makes calls for operations as one group. Groups of the process are serialised by the caller.
    pub(super) fn group(
        &self,
        issue: impl FnOnce(&[CommHandle]) -> Result<(), NcclError>,
    ) -> Result<Result<(), NcclError>, Gone> {
        self.enter(Phase::Issuing)?;
        let begun = self.nccl.group_start();
        let called = begun.clone().and_then(|()| issue(&self.handles));
        // The communicators are not destroyed before this, because the phase was `Issuing`.
        *self.phase.lock() = Phase::EndingGroup;
        self.issued.notify_all();
        if begun.is_ok() {
            // Also after an error, because the group was begun. SAFETY: the arrays and streams are
            // in use by the caller's operations until these are complete.
            let ended = unsafe { self.nccl.group_end() };
            self.enter(Phase::Idle)?;
            if self.blocks {
                self.issued.notify_all();
            }
            return Ok(called.and(ended.map(drop)));
        }
        self.enter(Phase::Idle)?;
        Ok(called)
    }

    fn enter(&self, next: Phase) -> Result<(), Gone> {
        let mut phase = self.phase.lock();
        if *phase == Phase::Gone {
            return Err(Gone);
        }
        *phase = next;
        Ok(())
    }

    /// Returns the state of one communicator, as an error if it has failed.
    pub(super) fn state(
        &self,
        local: usize,
        call: &'static str,
    ) -> Result<Result<CommState, NcclError>, Gone> {
        let phase = self.phase.lock();
        if *phase == Phase::Gone {
            return Err(Gone);
        }
        let comm = self.handles[local];
        // SAFETY: the communicator is alive, because nothing ends it while `phase` is locked.
        Ok(match unsafe { self.nccl.async_error(comm) } {
            Ok(CommState::Failed(code)) => {
                // SAFETY: as above.
                let text = unsafe { self.nccl.last_error(comm) };
                Err(NcclError::new(call, code, text))
            }
            state => state,
        })
    }

    /// Makes the caller the one that ends the communicators. `None` if another did before.
    pub(super) fn take(&self) -> Option<&[CommHandle]> {
        let mut phase = self.phase.lock();
        let is_used = |phase: &Phase| match phase {
            Phase::Issuing => true,
            Phase::EndingGroup => self.blocks,
            Phase::Idle | Phase::Gone => false,
        };
        while is_used(&phase) {
            self.issued.wait(&mut phase);
        }
        let was = std::mem::replace(&mut *phase, Phase::Gone);
        (was != Phase::Gone).then_some(&self.handles)
    }

    /// Begins to end the use of all communicators, which issue no operation from now on.
    pub(super) fn finalize(&self) -> Result<(), Gone> {
        let phase = self.phase.lock();
        if *phase == Phase::Gone {
            return Err(Gone);
        }
        // As one group, because a call of a communicator that blocks may wait for the other ranks.
        let begun = self.nccl.group_start();
        let mut ended = begun.clone();
        for &comm in &self.handles {
            // SAFETY: the communicator is alive, as in `state`; the group that issued operations is
            // dropped.
            ended = ended.and(unsafe { self.nccl.finalize(comm) }.map(drop));
        }
        if begun.is_ok() {
            // SAFETY: as above.
            ended = ended.and(unsafe { self.nccl.group_end() }.map(drop));
        }
        if let Err(error) = ended {
            log!(debug, %error, "cannot finalize communicators");
        }
        Ok(())
    }
}
