//! A store in this process's memory: that of a world of one, and the values that rank 0 serves.

use std::{
    collections::HashMap,
    sync::{Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::rendezvous::{Rendezvous, check_lengths, remaining};
use crate::{Result, WorldError};

#[derive(Default)]
pub(super) struct LocalStore {
    values: Mutex<HashMap<String, Vec<u8>>>,
    changed: Condvar,
}

impl Rendezvous for LocalStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        check_lengths(key, value)?;
        self.set_after(key, value, || {});
        Ok(())
    }

    fn get(&self, key: &str, deadline: Duration) -> Result<Vec<u8>> {
        let start = Instant::now();
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(value) = values.get(key) {
                return Ok(value.clone());
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
    /// Sets the value of a key after calling `before`, between which no rank reads the store.
    pub(super) fn set_after(&self, key: &str, value: &[u8], before: impl FnOnce()) {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        before();
        values.insert(key.to_owned(), value.to_owned());
        drop(values);
        self.changed.notify_all();
    }

    /// Returns the value of a key, or calls `otherwise`, during which no value can be set.
    pub(super) fn value_or(&self, key: &str, otherwise: impl FnOnce()) -> Option<Vec<u8>> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values.get(key).cloned();
        if value.is_none() {
            otherwise();
        }
        value
    }
}
