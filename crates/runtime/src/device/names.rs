//! Stream numbers, and names of objects for the simulated device's reports.

use std::panic::Location;

use millstream_driver::{DevicePtr, MemoryReuse};
use millstream_sim::race::Label;

use super::DeviceState;
use crate::tracker::StreamId;

impl DeviceState {
    /// The number of a stream of this device.
    pub(crate) fn stream_number(&self, id: StreamId) -> u64 {
        self.stream(id).map_or(0, |stream| stream.number)
    }

    /// The numbers of the streams that have a handle or belong to a thread.
    pub(crate) fn held_streams(&self) -> Vec<u64> {
        let retired: Vec<_> = self.retired.lock().iter().map(|stream| stream.number).collect();
        let mut numbers: Vec<_> = self.all_streams().iter().map(|stream| stream.number).collect();
        numbers.retain(|number| !retired.contains(number));
        numbers
    }

    /// Names the objects that this thread creates until the label is dropped, for reports of a
    /// simulated device. `None` on a GPU.
    pub(crate) fn named(&self, label: &'static str, location: &'static Location<'static>) -> Option<Label> {
        self.is_simulated.then(|| Label::at(label, location))
    }

    /// Names memory that is given out again or kept for reuse.
    pub(crate) fn name_memory(
        &self,
        pointer: DevicePtr,
        label: &'static str,
        location: &'static Location<'static>,
    ) {
        self.driver.note_memory_reuse(&MemoryReuse {
            pointer,
            label,
            location,
        });
    }
}
