//! A store in this process's memory: that of a world of one, and the values that rank 0 serves.

use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::rendezvous::{Rendezvous, check_lengths, remaining};
use millstream::Result;

use super::WorldError;

/// The largest number of bytes that a store keeps, for which each key counts [`KEY_BYTES`] more.
const BYTES_MAX: usize = 1 << 30;
const KEY_BYTES: usize = 1 << 10;

#[derive(Default)]
pub(super) struct LocalStore {
    values: Mutex<Values>,
    changed: Condvar,
}

#[derive(Default)]
struct Values {
    entries: HashMap<String, Entry>,
    bytes: usize,
}

#[derive(Default)]
struct Entry {
    value: Option<Arc<[u8]>>,
    /// The number of calls that are setting the key. The earlier value is not read meanwhile.
    setting: usize,
}

impl Values {
    fn get(&self, key: &str) -> Option<Arc<[u8]>> {
        let entry = self.entries.get(key).filter(|entry| entry.setting == 0)?;
        entry.value.clone()
    }
}

impl Rendezvous for LocalStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        check_lengths(key, value)?;
        Ok(self.set_after(key, value.into(), || {})?)
    }

    fn get(&self, key: &str, deadline: Duration) -> Result<Vec<u8>> {
        let start = Instant::now();
        let mut values = self.values();
        loop {
            if let Some(value) = values.get(key) {
                drop(values);
                return Ok(value.to_vec());
            }
            let left = remaining(start, deadline);
            if left.is_zero() {
                return Err(WorldError::not_set(key, deadline).into());
            }
            let woken = self.changed.wait_timeout(values, left);
            values = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl LocalStore {
    fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the value of a key after calling `before`. Until that returns, this key is not read.
    ///
    /// # Errors
    ///
    /// [`WorldError::TooLong`] if the store is full; `before` is then not called.
    pub(super) fn set_after(
        &self,
        key: &str,
        value: Arc<[u8]>,
        before: impl FnOnce(),
    ) -> Result<(), WorldError> {
        let bytes = |value: &[u8]| KEY_BYTES + key.len() + value.len();
        let mut values = self.values();
        let after = values.bytes + bytes(&value);
        if after > BYTES_MAX {
            return Err(WorldError::TooLong {
                part: "store",
                bytes: after,
                bytes_max: BYTES_MAX,
            });
        }
        values.bytes = after;
        values.entries.entry(key.to_owned()).or_default().setting += 1;
        drop(values);
        before();
        let mut values = self.values();
        let entry = values.entries.entry(key.to_owned()).or_default();
        entry.setting -= 1;
        if let Some(earlier) = entry.value.replace(value) {
            values.bytes -= bytes(&earlier);
        }
        drop(values);
        self.changed.notify_all();
        Ok(())
    }

    /// Returns the value of a key, or calls `otherwise`, during which no value can be set.
    pub(super) fn value_or(&self, key: &str, otherwise: impl FnOnce()) -> Option<Arc<[u8]>> {
        let values = self.values();
        let value = values.get(key);
        if value.is_none() {
            otherwise();
        }
        value
    }
}
