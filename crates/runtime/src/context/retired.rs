//! Reuse of streams: those whose handles were dropped serve again.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{DeviceState, StreamState, polling::query_stream};
use crate::{Result, tracker::Ticket};

/// The number of retired streams that are checked for an idle one.
const RETIRED_SCAN_MAX: usize = 5;
/// How often the stream retired last is skipped after it was found busy. It stays busy as long as
/// the host runs ahead of the device.
const LAST_SKIPPED: usize = 8;
/// The maximum number of pending operations on a stream that is reused behind its last write. A
/// stream takes about four times as many before a call blocks (rule 54), possibly until the calling
/// thread does what the first operation waits for.
const FOLLOWED_MAX: u64 = 256;

impl DeviceState {
    /// Returns a stream for an operation that follows one of these tickets: a retired stream of
    /// ordinary priority whose last operation has the ticket, so that its pending work delays
    /// nothing; otherwise a stream like [`acquire_stream`](Self::acquire_stream).
    pub(crate) fn acquire_stream_behind(
        &self,
        mut tickets: impl Iterator<Item = Ticket>,
    ) -> Result<Arc<StreamState>> {
        self.check_alive()?;
        match tickets.find_map(|ticket| self.take_retired_behind(ticket)) {
            Some(stream) => Ok(stream),
            None => self.acquire_stream(0),
        }
    }

    /// Takes a retired stream of ordinary priority whose last operation has this ticket, unless it
    /// has many pending operations.
    fn take_retired_behind(&self, ticket: Ticket) -> Option<Arc<StreamState>> {
        let stream = self.stream(ticket.stream)?;
        let is_last = stream.shared.lock().points.submitted() == ticket.sequence;
        let pending = ticket.sequence.get().saturating_sub(stream.done().get());
        if !is_last || pending > FOLLOWED_MAX || stream.priority != self.clamped(0) {
            return None;
        }
        let retired = &mut self.retired.lock().streams;
        let at = retired
            .iter()
            .rposition(|retired_stream| Arc::ptr_eq(retired_stream, stream))?;
        retired.remove(at)
    }

    /// Takes an idle retired stream of this priority.
    ///
    /// First it looks at the stream that was retired last: the memory of its operations was dropped
    /// last, and is then reused without a wait. Then it looks at the streams retired first, which
    /// are most likely idle.
    pub(super) fn take_idle(&self, priority: i32) -> Option<Arc<StreamState>> {
        let begins_with_last = self.retired.lock().begins_with_last();
        let mut busy: SmallVec<[Arc<StreamState>; RETIRED_SCAN_MAX]> = SmallVec::new();
        let stream = loop {
            let is_last = begins_with_last && busy.is_empty();
            let stream = match busy.len() {
                RETIRED_SCAN_MAX.. => None,
                _ => self.retired.lock().take(priority, is_last),
            };
            match stream {
                Some(stream) if !query_stream(self, &stream).unwrap_or(false) => busy.push(stream),
                stream => break stream,
            }
        };
        if !busy.is_empty() {
            let mut retired = self.retired.lock();
            if begins_with_last {
                retired.last_skipped = LAST_SKIPPED;
            }
            // The one that was retired last stays the last.
            retired.streams.extend(busy.into_iter().rev());
        }
        stream
    }

    /// Retires a stream whose last handle was dropped. Its pending work continues.
    pub(crate) fn retire_stream(&self, stream: Arc<StreamState>) {
        self.retired.lock().streams.push_back(stream);
    }

    #[cfg(feature = "sim")]
    pub(crate) fn held_streams(&self) -> Vec<u64> {
        let retired: Vec<_> = self
            .retired
            .lock()
            .streams
            .iter()
            .map(|stream| stream.number)
            .collect();
        let mut numbers: Vec<_> = self
            .all_streams()
            .iter()
            .filter(|stream| {
                stream
                    .adopted
                    .as_ref()
                    .is_none_or(|adopted| adopted.is_in_use())
            })
            .map(|stream| stream.number)
            .collect();
        numbers.retain(|number| !retired.contains(number));
        numbers
    }
}

#[cfg(all(test, feature = "sim", not(shuttle)))]
mod tests {
    use millstream_sim::{Gpu, SimConfig};

    use crate::context::Device;

    #[test]
    fn streams_retired_first_are_reused_while_the_last_are_busy() {
        let gpu = Gpu::new(SimConfig::new());
        let device = Device::open_simulated(&gpu, 0).expect("it opens");
        let streams: Vec<_> = (0..14).map(|_| device.stream().unwrap()).collect();
        let busy = streams[..1].iter().chain(&streams[8..]);
        let gates: Vec<_> = busy.map(|stream| gpu.hold(stream.as_raw())).collect();
        drop(streams);
        let before = gpu.live_object_counts().streams;
        let reused: Vec<_> = (0..6).map(|_| device.stream().unwrap()).collect();
        assert_eq!(gpu.live_object_counts().streams, before);
        drop((gates, reused));
    }
}
