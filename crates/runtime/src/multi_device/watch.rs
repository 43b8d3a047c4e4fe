//! The watch over crossings: keeps their devices open until they are complete, and then settles
//! their imports. Each device watches the crossings on its streams, with one registration at the
//! reactor for all of them.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::verdict::{CrossDeviceImport, Place, answers};
use crate::{
    context::{DeviceState, StreamState, Visit, retain_patiently},
    tracker::{DeviceNumber, Sequence},
};

/// A crossing that may not be complete yet.
struct Watched {
    place: Arc<Place>,
    /// The operation's ticket, if it has no import that knows it.
    sequence: Sequence,
    import: Option<Arc<CrossDeviceImport>>,
    /// The other devices, which stay open.
    others: SmallVec<[Arc<DeviceState>; 2]>,
}

impl Watched {
    /// Returns the ticket of the last operation for which this stands.
    fn sequence(&self) -> Sequence {
        let import = self.import.as_ref();
        import.map_or(self.sequence, |import| import.sequence())
    }

    /// Ends the watch of the operation `sequence`. Returns `false` if this stands for a later one
    /// by now.
    fn end(&self, sequence: Sequence) -> bool {
        let import = self.import.as_ref();
        import.is_none_or(|import| import.end_watch(sequence))
    }

    /// Returns whether this crossing need not be watched any more because of the later crossing
    /// `sequence` at this place: nothing else asks for this one's verdict. Threads may note
    /// crossings of a stream out of order.
    fn is_replaced_at(&self, place: &Arc<Place>, sequence: Sequence) -> bool {
        let import = self.import.as_ref();
        Arc::ptr_eq(&self.place, place)
            && self.sequence() <= sequence
            && import.is_none_or(|import| Arc::strong_count(import) == 1)
    }
}

/// The crossings on the streams of one device that may not be complete.
#[derive(Default)]
pub(crate) struct Crossings(Mutex<WatchState>);

#[derive(Default)]
struct WatchState {
    watched: Vec<Watched>,
    /// True while the reactor polls for one of them.
    registered: bool,
}

/// Returns the place of crossings on the stream with these devices, first the one on which they
/// run: that of the last crossing, if it is the same.
pub(super) fn place(devices: &[&Arc<DeviceState>], stream: &Arc<StreamState>) -> Arc<Place> {
    let state = devices[0].multi_device().crossings.0.lock();
    match state.watched.last() {
        Some(last) if last.place.is_of(stream, devices) => Arc::clone(&last.place),
        _ => Place::new(stream, devices),
    }
}

/// Keeps all devices of a crossing open until it is complete, and then settles its import. The
/// first of `devices` is the one on which it runs.
pub(super) fn watch(
    devices: &[&Arc<DeviceState>],
    place: Arc<Place>,
    sequence: Sequence,
    import: Option<Arc<CrossDeviceImport>>,
) {
    let device = devices[0];
    let mut state = device.multi_device().crossings.0.lock();
    // Nothing depends on the stream's last crossing any more, and it is complete once this one is.
    // A stream that overwrites the same array again and again comes here.
    let replaced = match state.watched.last_mut() {
        Some(last) if last.is_replaced_at(&place, sequence) => {
            last.sequence = sequence;
            std::mem::replace(&mut last.import, import)
        }
        _ => {
            state.watched.push(Watched {
                place: Arc::clone(&place),
                sequence,
                import,
                others: devices[1..].iter().copied().cloned().collect(),
            });
            None
        }
    };
    let registered = std::mem::replace(&mut state.registered, true);
    drop(state);
    // Only now, because the last reference to an import takes other locks.
    drop(replaced);
    if !registered {
        register(device, &place.stream, sequence);
    }
}

/// Settles crossings once the stream's ticket `sequence` is complete.
fn register(device: &Arc<DeviceState>, stream: &Arc<StreamState>, sequence: Sequence) {
    let settle = SettleOnDrop(Arc::downgrade(device));
    retain_patiently(device, stream, sequence, settle);
}

/// Settles the completed crossings of a device when it is dropped.
struct SettleOnDrop(Weak<DeviceState>);

impl Drop for SettleOnDrop {
    fn drop(&mut self) {
        if let Some(device) = Visit::to(&self.0) {
            settle_completed(&device);
        }
    }
}

/// Settles the completed crossings, and registers the next one. Those of a lost device never
/// complete and are settled too.
fn settle_completed(device: &Arc<DeviceState>) {
    let watched = std::mem::take(&mut device.multi_device().crossings.0.lock().watched);
    let is_lost = device.lost().is_some();
    let (mut over, mut pending) = (Vec::new(), Vec::new());
    for watched in watched {
        let sequence = watched.sequence();
        if is_lost || watched.place.stream.is_done(sequence) {
            over.push((watched, sequence));
        } else {
            pending.push(watched);
        }
    }
    settle(device, &over);
    let (over, later): (Vec<_>, Vec<_>) = over
        .into_iter()
        .partition(|(watched, sequence)| watched.end(*sequence));
    pending.extend(later.into_iter().map(|(watched, _)| watched));
    let mut state = device.multi_device().crossings.0.lock();
    state.watched.extend(pending);
    let next = state
        .watched
        .first()
        .map(|next| (Arc::clone(&next.place), next.sequence()));
    state.registered = next.is_some();
    drop(state);
    if let Some((place, sequence)) = next {
        register(device, &place.stream, sequence);
    }
    // Only now, because the last reference to a device closes it.
    drop(over);
}

/// Settles the imports of completed crossings, with one query of each device for all of them.
fn settle(device: &Arc<DeviceState>, over: &[(Watched, Sequence)]) {
    let undecided = |(watched, _): &&(Watched, Sequence)| {
        let import = watched.import.as_ref();
        import.is_some_and(|import| !import.is_decided())
    };
    let undecided: Vec<&(Watched, Sequence)> = over.iter().filter(undecided).collect();
    let mut outlived: Vec<DeviceNumber> = Vec::new();
    for (watched, _) in &undecided {
        for other in std::iter::once(device).chain(&watched.others) {
            if !outlived.contains(&other.number()) && answers(other) {
                outlived.push(other.number());
            }
        }
    }
    for (watched, sequence) in undecided {
        if let Some(import) = &watched.import {
            import.decide_after(*sequence, &outlived);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use super::*;
    use crate::{
        Device,
        tracker::{Import, LaterOperation},
    };

    #[test]
    fn an_import_that_stands_for_a_later_operation_by_now_is_still_watched() {
        let stream = Device::simulated().and_then(|device| device.stream());
        let stream = stream.expect("a simulated device opens");
        let [first, later] = [7, 8].map(Sequence::of);
        let place = Place::new(stream.state(), &[stream.device_state()]);
        let call = ("copy", Location::caller());
        let import = CrossDeviceImport::new(call, &place, first, None);
        let watched = Watched {
            place,
            sequence: first,
            import: Some(Arc::clone(&import)),
            others: SmallVec::new(),
        };
        assert!(import.repeat(&LaterOperation {
            label: call.0,
            location: call.1,
            ticket: stream.state().ticket(later),
            is_on: &|_| true,
        }));
        assert!(!watched.end(first));
        assert!(watched.end(later));
    }
}
