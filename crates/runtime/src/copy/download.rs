//! Downloads: through page-locked memory, to what the host asks for once the copy is done.

#![allow(unsafe_code, reason = "submits copies to blocks that it holds")]

use std::{panic::Location, sync::Arc};

use bytemuck::Pod;
use smallvec::smallvec;

use super::staged::Staged;
use crate::{
    Pending, ReadOperand, Result, Stream,
    device::Awaited,
    submit::{Operation, ToHost, submit},
    timeline::Kind,
    tracker::AccessKind,
};

impl Stream {
    /// The elements of `source`, once all that comes before this is done. Later work of the stream is not waited for.
    ///
    /// # Errors
    ///
    /// If the source is on another device, page-locked memory cannot be had, or the device is lost.
    #[track_caller]
    pub fn download<T: Pod>(&self, source: impl ReadOperand<T>) -> Result<Pending<Vec<T>>> {
        let alive = Arc::new(());
        let awaited = Awaited {
            alive: Arc::downgrade(&alive),
            chained: false,
        };
        let (device, stream) = (Arc::clone(self.device_state()), Arc::clone(self.state()));
        let len = source.len();
        Ok(match self.stage(&source, awaited, Location::caller())? {
            None => Pending::new(device, stream, 0, alive, Vec::new),
            Some((sequence, staged)) => {
                Pending::new(device, stream, sequence, alive, move || staged.take(len))
            }
        })
    }

    /// Submits the copy of an array to a block and gives its ticket's number with the block; nothing for no elements.
    pub(crate) fn stage<T: Pod>(
        &self,
        source: &impl ReadOperand<T>,
        awaited: Awaited,
        location: &'static Location<'static>,
    ) -> Result<Option<(u64, Staged)>> {
        let place = source.place();
        let span = &place.0;
        let device = self.device_state();
        self.same_device("download", 0, &span.allocation.device)?;
        let bytes = span.bytes.len();
        if bytes == 0 {
            device.check_alive()?;
            return Ok(None);
        }
        let mut staged = Staged::new(device, self.state(), bytes)?;
        let command = ToHost {
            target: staged.pointer(),
            source: span.pointer(),
            bytes,
        };
        let operation = Operation {
            kind: Kind::DeviceToHost,
            label: "download",
            location,
            bytes: bytes as u64,
            accesses: smallvec![span.access(AccessKind::Read)],
            awaited: Some(awaited),
        };
        // SAFETY: the span lies within its allocation, the block has at least `bytes`, and `staged` gives it back to the
        // pool with this operation's ticket, so that nobody uses it before the copy is done.
        let (sequence, ()) = unsafe { submit(device, self.state(), operation, command) }?;
        staged.used_by(self.state().ticket(sequence));
        Ok(Some((sequence, staged)))
    }
}
