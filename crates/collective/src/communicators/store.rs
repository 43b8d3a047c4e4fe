//! One rank's view of the store of a world, in which the ranks of a group tell each other of a loss
//! and of the steps of closing it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use millstream::__log as log;

use super::journal::{first_difference, silent_ranks};
use crate::world::{Rendezvous, World, WorldError};

/// The time for which the ranks wait for each other's journals.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// The time of one look for a rank that closes the group.
const STEP_LOOK: Duration = Duration::from_millis(20);
/// The value that tells a rank that the group is lost.
const LOST: &[u8] = b"lost";
/// A deadline that does not pass.
const EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// One rank's view of the store of a world, for one group.
#[derive(Clone)]
pub(super) struct SharedStore {
    world: World,
    store: Arc<dyn Rendezvous>,
    /// The prefix of the group's keys.
    prefix: Arc<str>,
    rank: usize,
}

impl SharedStore {
    pub(super) fn new(world: &World, store: Arc<dyn Rendezvous>, prefix: String) -> Self {
        Self {
            world: world.clone(),
            store,
            prefix: prefix.into(),
            rank: world.rank(),
        }
    }

    /// Returns the key of the message to a rank: the loss, or anything else to end the wait.
    fn message_key(&self, rank: usize) -> String {
        format!("{}/tell/{rank}", self.prefix)
    }

    fn journal_key(&self, rank: usize) -> String {
        format!("{}/journal/{rank}", self.prefix)
    }

    /// Waits until another rank has given up, and returns true; false once the own rank has ended,
    /// or if the store is gone.
    pub(super) fn wait_for_loss(&self) -> bool {
        let message = self.store.get(&self.message_key(self.rank), EVER);
        message.is_ok_and(|message| message == LOST)
    }

    pub(super) fn end_wait(&self) {
        if let Err(error) = self.store.set(&self.message_key(self.rank), b"ended") {
            log!(debug, %error, "cannot tell the store of the end of a group");
        }
    }

    /// Returns whether this rank's process may serve the store.
    pub(super) fn serves(&self) -> bool {
        self.rank == 0
    }

    /// Tells the other ranks that this one is at a step of closing the group.
    ///
    /// # Errors
    ///
    /// The reason for which the group is lost.
    pub(super) fn post(&self, step: &str, text: &str) -> Result<(), String> {
        let set = self
            .store
            .set(&self.step_key(step, self.rank), text.as_bytes());
        set.map_err(|error| self.without_store(error))
    }

    /// Waits until all ranks are at a step of closing the group, and returns their texts. `pause`
    /// is called while one is missing, and may end the wait.
    ///
    /// # Errors
    ///
    /// The reason for which the group is lost.
    pub(super) fn collect(
        &self,
        step: &str,
        ranks: usize,
        pause: impl Fn() -> Result<(), String>,
    ) -> Result<Vec<Option<String>>, String> {
        let of_rank = |rank| {
            let key = self.step_key(step, rank);
            loop {
                match self.store.get(&key, STEP_LOOK) {
                    Ok(text) => return Ok(Some(String::from_utf8_lossy(&text).into_owned())),
                    Err(error)
                        if matches!(WorldError::of(&error), Some(WorldError::NotSet { .. })) =>
                    {
                        pause()?;
                    }
                    Err(error) => return Err(self.without_store(error)),
                }
            }
        };
        (0..ranks).map(of_rank).collect()
    }

    fn step_key(&self, step: &str, rank: usize) -> String {
        format!("{}/{step}/{rank}", self.prefix)
    }

    /// Exchanges the journals with the other ranks, and returns the first difference.
    pub(super) fn compare(&self, ranks: usize, own: &str) -> Option<String> {
        let tell = || -> millstream::Result<()> {
            self.store
                .set(&self.journal_key(self.rank), own.as_bytes())?;
            let mut others = (0..ranks).filter(|&other| other != self.rank);
            others.try_for_each(|other| self.store.set(&self.message_key(other), LOST))
        };
        if let Err(error) = tell() {
            return Some(self.without_store(error));
        }
        let end = Instant::now() + ANSWER_WITHIN;
        let journals: Vec<Option<String>> = (0..ranks)
            .map(|rank| {
                if rank == self.rank {
                    return Some(own.to_owned());
                }
                let left = end.saturating_duration_since(Instant::now());
                // The answer of a rank that is not asked in time may be there nevertheless.
                let left = left.max(Duration::from_millis(50));
                let journal = self.store.get(&self.journal_key(rank), left).ok()?;
                Some(String::from_utf8_lossy(&journal).into_owned())
            })
            .collect();
        let silent = silent_ranks(&journals);
        if let Some(silent) = &silent {
            self.world.note_lost(silent);
        }
        silent.or_else(|| first_difference(&journals))
    }

    /// Describes that the store cannot be used, which rank 0 serves.
    pub(super) fn without_store(&self, error: impl std::fmt::Display) -> String {
        let text = format!("the store of the ranks cannot be reached: {error}");
        self.world.note_lost(&text);
        text
    }
}
