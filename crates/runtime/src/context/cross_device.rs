//! Dependencies of a device on operations of other devices.
//!
//! A copy between devices is two operations, and the target's waits for the source's. If the
//! source's context is lost meanwhile, the wait ends anyway and the target copies data that was
//! never written. A device with such a pending copy is therefore marked lost together with the
//! source.

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

/// A dependency on an operation of another device, and on all operations before it on its stream.
#[derive(Clone, Debug)]
struct CrossDeviceDependency {
    /// Weak: the reactor keeps the device open until the operation is complete.
    device: Weak<DeviceState>,
    stream: Arc<StreamState>,
    sequence: Sequence,
}

/// The dependencies of a device on operations of other devices.
#[derive(Debug, Default)]
pub(crate) struct CrossDeviceDependencies {
    /// True if there may be pending dependencies; read whenever the host asks for a value.
    any: AtomicBool,
    /// The pending dependencies, at most one per stream.
    pending: Mutex<Vec<CrossDeviceDependency>>,
}

/// A guard that checks the target's dependencies when it is dropped, which is when the source's
/// operation is complete or its device is lost. This covers the case that the target is not polled
/// while the source is still open.
struct DependencyGuard {
    /// Keeps the source device open.
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

/// Makes `target` depend on the ticket `sequence` of `stream`, a stream of `source`, and on all
/// tickets before it.
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
    /// Adds a dependency. Per stream only the last operation is kept, because it implies those
    /// before it; a copy of many chunks is therefore polled once.
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

    /// Returns an error if a device that `device`, the owner of these dependencies, waits for is
    /// lost. Called before a value of the device is returned as valid.
    pub(crate) fn check(&self, device: &DeviceState) -> Result<()> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        self.check_all(device, &mut Vec::new());
        device.check_alive()
    }

    /// Removes the completed dependencies, and marks the device lost if a source is lost. Visited
    /// devices are skipped, because two devices may depend on each other.
    fn check_all(&self, device: &DeviceState, visited: &mut Vec<*const DeviceState>) {
        visited.push(device);
        // Other threads check concurrently, so a dependency is removed only once its state is
        // known; and no lock is held during driver calls.
        let pending = self.pending.lock().clone();
        for source in pending {
            // If the source device is closed, its guard has already made this check.
            let done = source.device.upgrade().is_none_or(|other| {
                let done = poll_own_ticket(&other, &source.stream, source.sequence);
                if !visited.contains(&Arc::as_ptr(&other)) {
                    other.cross_device.check_all(&other, visited);
                }
                if let Some(loss) = other.loss() {
                    device.lose(|| loss.clone());
                }
                // A failed query that does not mark the source lost says nothing about completion.
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
