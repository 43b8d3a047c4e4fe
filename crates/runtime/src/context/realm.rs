//! The realm: the open devices of the process, through which a device resolves tickets of another.
//!
//! An operation may use memory of several devices, so the access history of an allocation may hold
//! tickets of any device. A device finds its own streams in its own table and those of others here.
//! An entry is removed when its device is closed. An operation that uses memory of another device
//! keeps all its devices open until it is complete ([`multi_device`](crate::multi_device)), so a
//! ticket of a closed device needs no wait.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use parking_lot::RwLock;

use super::{DeviceState, DeviceStream, streams::Streams};
use crate::tracker::{DeviceNumber, StreamId, Ticket};

/// An open device.
struct OpenDevice {
    device: Weak<DeviceState>,
    /// Kept beside the device, so that looking at a ticket never drops the last reference to one.
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

pub(super) fn device(number: DeviceNumber) -> Option<Arc<DeviceState>> {
    REALM.read().get(&number)?.device.upgrade()
}

pub(crate) fn contains(number: DeviceNumber) -> bool {
    REALM.read().contains_key(&number)
}

pub(super) fn all() -> Vec<Arc<DeviceState>> {
    let realm = REALM.read();
    realm
        .values()
        .filter_map(|open| open.device.upgrade())
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
    use std::{thread, time::Duration};

    use millstream_sim::{Gpu, SimConfig};

    use super::*;
    use crate::context::Device;

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
