//! Reuse of streams: those whose handles were dropped serve again.

use std::sync::Arc;

use super::{DeviceState, StreamState};
use crate::{Result, tracker::Ticket};

impl DeviceState {
    /// Returns a retired stream of ordinary priority whose last operation has one of these tickets,
    /// the first that has one, or else a stream like [`acquire_stream`](Self::acquire_stream). All
    /// work that is pending on the former is ordered before operations after the ticket anyway.
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

    /// Takes a retired stream of ordinary priority whose last operation has this ticket.
    fn take_retired_behind(&self, ticket: Ticket) -> Option<Arc<StreamState>> {
        let stream = self.stream(ticket.stream)?;
        let is_last = stream.shared.lock().points.submitted() == ticket.sequence;
        if !is_last || stream.priority != self.clamped(0) {
            return None;
        }
        let mut retired = self.retired.lock();
        let at = retired
            .iter()
            .rposition(|known| Arc::ptr_eq(known, stream))?;
        retired.remove(at)
    }

    /// Takes the stream of this priority that has been retired for the longest time, and is the
    /// likeliest to be idle.
    pub(super) fn take_retired(&self, priority: i32) -> Option<Arc<StreamState>> {
        let mut retired = self.retired.lock();
        let at = retired
            .iter()
            .position(|stream| stream.priority == priority)?;
        retired.remove(at)
    }

    /// Retires a stream whose last handle was dropped. Its pending work continues.
    pub(crate) fn retire_stream(&self, stream: Arc<StreamState>) {
        self.retired.lock().push_back(stream);
    }

    /// Returns the numbers of the streams that are not retired.
    #[cfg(feature = "sim")]
    pub(crate) fn held_streams(&self) -> Vec<u64> {
        let retired: Vec<_> = self
            .retired
            .lock()
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
