//! The realm: the open devices of the process, through which a device resolves tickets of another.
//!
//! An operation may use memory of several devices, so the access history of an allocation may hold
//! tickets of any device. A device finds its own streams in its own table and those of others here.
//! An entry is removed when its device is closed. An operation that uses memory of another device
//! keeps all its devices open until it is complete ([`multi_device`](crate::multi_device)), so a
//! ticket of a closed device needs no wait.

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{Arc, Weak},
};

use parking_lot::RwLock;

use super::{DeviceState, DeviceStream, streams::Streams};
use crate::tracker::{DeviceNumber, StreamId, Ticket};

struct OpenDevice {
    device: Weak<DeviceState>,
    /// Kept beside the device, so that looking at a ticket takes no reference to one.
    streams: Arc<Streams>,
}

static REALM: RwLock<BTreeMap<DeviceNumber, OpenDevice>> = RwLock::new(BTreeMap::new());

pub(crate) fn enter(device: &Arc<DeviceState>) {
    let open = OpenDevice {
        device: Arc::downgrade(device),
        streams: Arc::clone(&device.streams),
    };
    REALM.write().insert(device.streams.device(), open);
}

/// Removes a device that is being closed.
pub(super) fn leave(number: DeviceNumber) {
    let left = REALM.write().remove(&number);
    drop(left);
}

/// A reference to a device that its other users may drop meanwhile. Its own drop never closes the
/// device on this thread, which may hold locks: the last reference is left to the closing thread.
pub(crate) struct Visit(Option<Arc<DeviceState>>);

impl Visit {
    pub(crate) fn new(device: Arc<DeviceState>) -> Self {
        Self(Some(device))
    }

    /// Visits a device that may be closed.
    pub(crate) fn to(device: &Weak<DeviceState>) -> Option<Self> {
        device.upgrade().map(Self::new)
    }
}

impl Deref for Visit {
    type Target = Arc<DeviceState>;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("only the drop takes it")
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if let Some(last) = self.0.take().and_then(Arc::into_inner) {
            last.close_later();
        }
    }
}

pub(super) fn device(number: DeviceNumber) -> Option<Visit> {
    Visit::to(&REALM.read().get(&number)?.device)
}

pub(crate) fn contains(number: DeviceNumber) -> bool {
    REALM.read().contains_key(&number)
}

pub(super) fn all() -> Vec<Visit> {
    let realm = REALM.read();
    realm
        .values()
        .filter_map(|open| Visit::to(&open.device))
        .collect()
}

pub(super) fn find(id: StreamId) -> Option<DeviceStream> {
    let device = device(id.device())?;
    let stream = Arc::clone(device.stream(id)?);
    Some(DeviceStream { device, stream })
}

/// Returns whether the ticket is known to be complete, or its device is closed.
#[cold]
pub(super) fn is_done(ticket: Ticket) -> bool {
    let realm = REALM.read();
    let streams = realm.get(&ticket.stream.device()).map(|open| &open.streams);
    let stream = streams.and_then(|streams| streams.get(ticket.stream));
    stream.is_none_or(|stream| stream.is_done(ticket.sequence))
}

#[cfg(all(test, feature = "sim", not(shuttle)))]
mod tests {
    use std::{
        thread,
        time::{Duration, Instant},
    };

    use millstream_sim::{Gpu, SimConfig};

    use super::*;
    use crate::{
        context::Device,
        sync::ranked::{self, Ranked},
    };

    /// Another thread may drop all handles of a device while this one visits it with locks held.
    #[test]
    fn a_device_that_is_visited_last_under_a_lock_is_closed() {
        let gpu = Gpu::new(SimConfig::new());
        let device = Device::open_simulated(&gpu, 0).expect("it opens");
        let stream = device.stream().unwrap();
        let array = stream.upload(&[1_u8; 9]).unwrap();
        let visit = super::device(device.state().number()).expect("it is open");
        drop((array, stream, device));
        assert_ne!(gpu.live_object_counts().streams, 0);
        let lock = Ranked::<{ ranked::UNSETTLED }, _>::new(());
        let held = lock.lock();
        drop(visit);
        drop(held);
        let since = Instant::now();
        while gpu.live_object_counts().streams > 0 {
            assert!(since.elapsed() < Duration::from_secs(30), "it is closed");
            thread::sleep(Duration::from_micros(100));
        }
    }

    #[test]
    fn closed_devices_leave_the_realm() {
        for gpu in (0..100).map(|_| Gpu::new(SimConfig::new().devices(2))) {
            for round in 0..100 {
                let [one, other] =
                    [0, 1].map(|ordinal| Device::open_simulated(&gpu, ordinal).expect("it opens"));
                let numbers = [&one, &other].map(|device| device.state().number());
                assert!(numbers.into_iter().all(contains));
                if round % 10 == 0 {
                    let (here, there) = (one.stream().unwrap(), other.stream().unwrap());
                    let source = here.upload(&[1_u8; 9]).unwrap();
                    let mut target = there.zeros::<u8>(9).unwrap();
                    there.copy(&source, &mut target).unwrap();
                    assert_eq!(there.download(&target).unwrap().wait().unwrap(), [1; 9]);
                }
                drop((one, other));
                // The watch of the copy keeps both devices open until it is known to be complete.
                while numbers.into_iter().any(contains) {
                    thread::sleep(Duration::from_micros(100));
                }
            }
        }
    }
}
