//! The store through which ranks meet.

use std::time::{Duration, Instant};

use millstream::Result;

use super::WorldError;

pub(super) const RANKS_MAX: usize = 1 << 16;

pub(super) const KEY_BYTES_MAX: usize = 1024;

pub(super) const VALUE_BYTES_MAX: usize = 64 << 20;

/// A store of keys and values that all ranks of a world share.
///
/// Ranks use it to exchange what they need before they can communicate otherwise, such as the
/// identifier of a communicator. It is made for few and small values. Implement it to let ranks
/// meet in another way, through MPI or a database, and pass it to
/// [`World::with_rendezvous`](crate::world::World::with_rendezvous).
///
/// ```
/// use std::{collections::HashMap, sync::Mutex, time::{Duration, Instant}};
/// use millstream::Result;
/// use millstream_collective::world::{Rendezvous, World, WorldError};
///
/// /// A store for the threads of one process.
/// #[derive(Default)]
/// struct Shared(Mutex<HashMap<String, Vec<u8>>>);
///
/// impl Rendezvous for Shared {
///     fn set(&self, key: &str, value: &[u8]) -> Result<()> {
///         self.0.lock().unwrap().insert(key.to_owned(), value.to_owned());
///         Ok(())
///     }
///
///     fn get(&self, key: &str, deadline: Duration) -> Result<Vec<u8>> {
///         let start = Instant::now();
///         loop {
///             if let Some(value) = self.0.lock().unwrap().get(key) {
///                 return Ok(value.clone());
///             }
///             if start.elapsed() >= deadline {
///                 return Err(WorldError::not_set(key, deadline).into());
///             }
///             std::thread::sleep(Duration::from_millis(1));
///         }
///     }
/// }
///
/// let world = World::with_rendezvous(0, 2, std::sync::Arc::new(Shared::default()))?;
/// let store = world.rendezvous(Duration::ZERO)?;
/// store.set("id", &[1, 2, 3])?;
/// assert_eq!(store.get("id", Duration::ZERO)?, [1, 2, 3]);
/// assert!(store.get("other", Duration::ZERO).is_err());
/// # Ok::<(), millstream::Error>(())
/// ```
pub trait Rendezvous: Send + Sync {
    /// Sets the value of a key, for all ranks; replaces an earlier value. A [`get`](Self::get) on
    /// any rank that begins after this returns gives this value or a later one.
    ///
    /// # Errors
    ///
    /// If the store cannot be reached, or the key or value is longer than it allows.
    fn set(&self, key: &str, value: &[u8]) -> Result<()>;

    /// Returns the value of a key; waits until it is set, for at most `deadline`.
    ///
    /// # Errors
    ///
    /// [`WorldError::NotSet`] if no rank sets the key in time. Also if the store cannot be reached.
    fn get(&self, key: &str, deadline: Duration) -> Result<Vec<u8>>;
}

pub(super) fn check_lengths(key: &str, value: &[u8]) -> Result<(), WorldError> {
    let too_long = |part, bytes, bytes_max| WorldError::TooLong {
        part,
        bytes,
        bytes_max,
    };
    if key.len() > KEY_BYTES_MAX {
        return Err(too_long("key", key.len(), KEY_BYTES_MAX));
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(too_long("value", value.len(), VALUE_BYTES_MAX));
    }
    Ok(())
}

pub(super) fn check_size(size: usize) -> Result<(), WorldError> {
    let size_max = RANKS_MAX;
    if size > size_max {
        return Err(WorldError::TooManyRanks { size, size_max });
    }
    Ok(())
}

/// Returns the rest of a deadline that began to run at `start`.
pub(super) fn remaining(start: Instant, deadline: Duration) -> Duration {
    deadline.saturating_sub(start.elapsed())
}
