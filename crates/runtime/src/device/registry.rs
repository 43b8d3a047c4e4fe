//! The devices that are open in this process: one state for each, however often it is opened.

use std::{
    panic::Location,
    sync::{Arc, Weak},
};

use millstream_driver::{DeviceOrdinal, Driver};
use parking_lot::Mutex;

use super::teardown::Hooks;
use crate::{Device, Result, context::DeviceState};

/// An open device. Its driver's identity cannot be another's while the state lives.
struct Entry {
    driver: usize,
    ordinal: DeviceOrdinal,
    state: Weak<DeviceState>,
}

static OPEN: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// The device, opened if it is not yet; `note` says how it was chosen.
/// The line that asked for it is that of whoever comes first.
#[track_caller]
pub(super) fn open(driver: Arc<dyn Driver>, ordinal: DeviceOrdinal, note: &str) -> Result<Device> {
    let identity = driver.identity();
    let mut open = OPEN.lock();
    open.retain(|entry| entry.state.strong_count() > 0);
    let known = open
        .iter()
        .find(|entry| entry.driver == identity && entry.ordinal == ordinal);
    if let Some(state) = known.and_then(|entry| entry.state.upgrade()) {
        return Ok(Device::from_state(state));
    }
    let state = Arc::new(DeviceState::open(
        driver,
        ordinal,
        note,
        Location::caller(),
        &Hooks,
    )?);
    state.memory().shared.join(&state);
    open.push(Entry {
        driver: identity,
        ordinal,
        state: Arc::downgrade(&state),
    });
    Ok(Device::from_state(state))
}
