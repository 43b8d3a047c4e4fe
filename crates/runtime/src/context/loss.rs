//! The loss of a device, and the operations suspected of causing it.
//!
//! A driver reports that a context is lost, but not which operation lost it. The runtime knows how
//! far each stream had progressed: each stream remembers its last operations, and when the loss is
//! noticed, the first operation of each stream that is not known to be complete is a suspect.

use std::{panic::Location, sync::Arc};

use millstream_driver::{DeviceOrdinal, DriverError};

use super::StreamState;
use crate::{
    Error,
    error::{OperationKind, Suspect},
    tracker::{Sequence, Ticket},
};

/// The number of kernels that a stream remembers.
const KERNELS_MAX: usize = 32;
/// The number of other operations that a stream remembers.
const OTHERS_MAX: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct RecentOperations {
    kernels: Ring<KERNELS_MAX>,
    graphs: Ring<OTHERS_MAX>,
    others: Ring<OTHERS_MAX>,
}

#[derive(Clone, Copy, Debug)]
struct Submitted {
    label: &'static str,
    location: &'static Location<'static>,
    ticket: Sequence,
}

/// A ring buffer of the last `N` operations of one class.
#[derive(Debug)]
struct Ring<const N: usize> {
    operations: [Option<Submitted>; N],
    count: usize,
}

impl<const N: usize> Default for Ring<N> {
    fn default() -> Self {
        Self {
            operations: [None; N],
            count: 0,
        }
    }
}

impl<const N: usize> Ring<N> {
    #[inline]
    fn push(&mut self, operation: Submitted) {
        self.operations[self.count % N] = Some(operation);
        self.count = self.count.wrapping_add(1);
    }

    /// Returns the earliest remembered operation after ticket `done`.
    fn first_behind(&self, done: Sequence) -> Option<Submitted> {
        let later = self.operations.iter().flatten();
        let later = later.filter(|operation| operation.ticket > done);
        later.min_by_key(|operation| operation.ticket).copied()
    }
}

impl RecentOperations {
    #[inline]
    pub(crate) fn note(
        &mut self,
        ticket: Ticket,
        kind: OperationKind,
        label: &'static str,
        location: &'static Location<'static>,
    ) {
        let operation = Submitted {
            label,
            location,
            ticket: ticket.sequence,
        };
        match kind {
            OperationKind::Kernel => self.kernels.push(operation),
            OperationKind::Graph => self.graphs.push(operation),
            _ => self.others.push(operation),
        }
    }

    /// Returns the earliest remembered kernel or graph and the earliest remembered other operation
    /// after ticket `done`.
    fn first_behind(&self, done: Sequence) -> (Option<Candidate>, Option<Candidate>) {
        let candidate = |is_graph| {
            move |operation| Candidate {
                operation,
                is_graph,
            }
        };
        let kernel = self.kernels.first_behind(done).map(candidate(false));
        let graph = self.graphs.first_behind(done).map(candidate(true));
        let first = kernel.into_iter().chain(graph);
        (
            first.min_by_key(|first| first.operation.ticket),
            self.others.first_behind(done).map(candidate(false)),
        )
    }
}

/// An operation that may become a suspect.
struct Candidate {
    operation: Submitted,
    is_graph: bool,
}

/// The cause and the suspects of the loss of a device, or of a device that it depends on.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    pub(crate) cause: DriverError,
    pub(crate) suspects: Arc<[Suspect]>,
}

impl Loss {
    /// Collects the suspects: for each stream the first kernel or graph that is not known to be
    /// complete; if no stream has one, the first other operations.
    pub(crate) fn notice(
        cause: DriverError,
        device: DeviceOrdinal,
        streams: &[Arc<StreamState>],
    ) -> Self {
        let first = streams.iter().map(|stream| {
            let (kernel, other) = stream.shared.lock().recent.first_behind(stream.done());
            let suspect = |Candidate {
                               operation,
                               is_graph,
                           }| Suspect {
                label: operation.label,
                location: operation.location,
                is_graph,
                device: device.as_raw(),
                stream: stream.number,
                ticket: operation.ticket.get(),
            };
            (kernel.map(suspect), other.map(suspect))
        });
        let (kernels, others): (Vec<_>, Vec<_>) = first.unzip();
        let mut suspects: Vec<Suspect> = kernels.into_iter().flatten().collect();
        if suspects.is_empty() {
            suspects = others.into_iter().flatten().collect();
        }
        Self {
            cause,
            suspects: suspects.into(),
        }
    }

    /// Returns the error for every operation on the lost device.
    pub(crate) fn error(&self) -> Error {
        Error::DeviceLost {
            cause: self.cause.clone(),
            suspects: Arc::clone(&self.suspects),
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream_driver::{DeviceOrdinal, ResultCode, StreamHandle};

    use super::*;
    use crate::tracker::StreamId;

    fn stream(operations: &[(OperationKind, &'static str)], done: u64) -> Arc<StreamState> {
        let stream = StreamState::new(StreamId::of(1), StreamHandle::from_raw(16), 0);
        for (sequence, &(kind, label)) in (1..).zip(operations) {
            stream.shared.lock().recent.note(
                stream.ticket(Sequence::of(sequence)),
                kind,
                label,
                Location::caller(),
            );
        }
        stream.mark_done(Sequence::of(done));
        Arc::new(stream)
    }

    fn suspects(streams: &[Arc<StreamState>]) -> Vec<&'static str> {
        let cause = DriverError::new("cuStreamQuery", ResultCode::ILLEGAL_ADDRESS);
        let loss = Loss::notice(cause, DeviceOrdinal::from_raw(0), streams);
        loss.suspects.iter().map(|suspect| suspect.label).collect()
    }

    #[test]
    fn incomplete_kernels_are_suspects_before_other_operations() {
        let first = stream(
            &[
                (OperationKind::Kernel, "a"),
                (OperationKind::Fill, "b"),
                (OperationKind::Kernel, "c"),
                (OperationKind::Kernel, "d"),
            ],
            1,
        );
        let second = stream(
            &[(OperationKind::Fill, "e"), (OperationKind::Kernel, "f")],
            2,
        );
        let third = stream(&[(OperationKind::Fill, "g")], 0);
        assert_eq!(suspects(&[first, second, Arc::clone(&third)]), ["c"]);
        let done = stream(&[(OperationKind::Kernel, "h")], 1);
        assert_eq!(suspects(&[done, third]), ["g"]);
    }

    #[test]
    fn a_stream_remembers_its_last_32_kernels() {
        let many = stream(&[(OperationKind::Kernel, "k"); 1000], 0);
        let kernels = &many.shared.lock().recent.kernels;
        let first = kernels
            .first_behind(Sequence::START)
            .map(|kernel| kernel.ticket.get());
        assert_eq!(first, Some(1001 - KERNELS_MAX as u64));
        assert_eq!(
            kernels
                .first_behind(Sequence::of(999))
                .map(|kernel| kernel.ticket.get()),
            Some(1000)
        );
    }
}
