//! Dependencies of a device on operations of other devices.
//!
//! A copy from another device waits for that one's part of it. If the other context is lost
//! meanwhile, the wait ends all the same, and what is copied was never written. So a device that
//! has such a copy pending is lost with the other.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;

use super::{
    DeviceState, StreamState,
    polling::{poll_own_ticket, retain_until_complete},
};
use crate::{Result, tracker::Sequence};

/// An operation of another device that this one waits for, and all before it on its stream.
#[derive(Clone, Debug)]
struct CrossDeviceDependency {
    /// Held by the reactor until the operation is done.
    device: Weak<DeviceState>,
    stream: Arc<StreamState>,
    sequence: Sequence,
}

/// The operations of other devices that a device waits for.
#[derive(Debug, Default)]
pub(crate) struct CrossDeviceDependencies {
    /// Whether there may be some; read whenever the host asks for something.
    any: AtomicBool,
    /// One for each stream.
    pending: Mutex<Vec<CrossDeviceDependency>>,
}

/// Lives until the operation is done or its device lost, and then sees to the device that waits for
/// it: for when that one does not ask in time, while there still is someone to ask.
struct DependencyGuard {
    /// Keeps the device open.
    _source: Arc<DeviceState>,
    target: Weak<DeviceState>,
}

impl Drop for DependencyGuard {
    fn drop(&mut self) {
        if let Some(target) = self.target.upgrade() {
            target.cross_device.check_all(&target, &mut Vec::new());
        }
    }
}

/// Notes that `target` waits for the ticket `sequence` of `source`'s stream, and all before it.
pub(crate) fn depend_on_device(
    target: &Arc<DeviceState>,
    source: &Arc<DeviceState>,
    stream: &Arc<StreamState>,
    sequence: Sequence,
) {
    target.cross_device.insert(CrossDeviceDependency {
        device: Arc::downgrade(source),
        stream: Arc::clone(stream),
        sequence,
    });
    target.cross_device.any.store(true, Ordering::Release);
    let guard = DependencyGuard {
        _source: Arc::clone(source),
        target: Arc::downgrade(target),
    };
    retain_until_complete(source, stream, sequence, guard);
}

impl CrossDeviceDependencies {
    /// Adds a dependency. Of a stream the last operation stands for those before it, so that a copy
    /// in many pieces is asked about once.
    fn insert(&self, source: CrossDeviceDependency) {
        let mut pending = self.pending.lock();
        let same = pending
            .iter_mut()
            .find(|other| Arc::ptr_eq(&other.stream, &source.stream));
        match same {
            Some(other) => other.sequence = other.sequence.max(source.sequence),
            None => pending.push(source),
        }
    }

    /// An error if a device was lost that `device`, whose sources these are, waits for. Called
    /// before a value of the device is believed.
    pub(crate) fn check(&self, device: &DeviceState) -> Result<()> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        self.check_all(device, &mut Vec::new());
        device.check_alive()
    }

    /// Forgets the sources that are done; loses the device if one is lost. Devices that were looked
    /// at are not again, for two may wait for each other.
    fn check_all(&self, device: &DeviceState, visited: &mut Vec<*const DeviceState>) {
        visited.push(device);
        // Others ask meanwhile, so nothing is taken out before it is known; and no lock is held
        // while a driver is asked.
        let pending = self.pending.lock().clone();
        for source in pending {
            // One that is gone was seen by its guard.
            let done = source.device.upgrade().is_none_or(|other| {
                let done = poll_own_ticket(&other, &source.stream, source.sequence);
                if !visited.contains(&Arc::as_ptr(&other)) {
                    other.cross_device.check_all(&other, visited);
                }
                if let Some(loss) = other.loss() {
                    device.lose(|| loss.clone());
                }
                // A failure that loses nothing says nothing.
                done.unwrap_or(false)
            });
            if done {
                self.remove(&source);
            }
        }
    }

    fn remove(&self, done: &CrossDeviceDependency) {
        let mut pending = self.pending.lock();
        pending.retain(|source| {
            !(Arc::ptr_eq(&source.stream, &done.stream) && source.sequence <= done.sequence)
        });
        self.any.store(!pending.is_empty(), Ordering::Release);
    }
}
