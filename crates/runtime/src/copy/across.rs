//! Copies from one device to another, by way of page-locked memory of the host.
//!
//! The source's device copies to a block, the target's device copies from it and waits for an event of the first
//! (rule 26). The leg that is not on the caller's stream runs on a stream of its own, which is put behind the caller's
//! stream, or in front of its later work, so that all of it looks like an operation of the caller's stream.

use std::{panic::Location, sync::Arc};

use smallvec::smallvec;

use super::{PIECE_BYTES, staged::Staged};
use crate::{
    Result, Stream,
    completion::keep_until_done,
    device::{DeviceState, PooledEvent, StreamState, wait_for_source},
    memory::Span,
    submit::{Operation, ToDevice, ToHost, WithEvent, mark, submit, wait_for_mark},
    timeline::Kind,
    tracker::{AccessKind, Clock},
};

/// One device's part of the copy, on one of its streams.
struct Leg {
    device: Arc<DeviceState>,
    stream: Arc<StreamState>,
    /// Whether the stream was taken for this copy alone.
    taken: bool,
}

impl Leg {
    /// The caller's stream if it is on this device, or else one of the device's own.
    fn on(device: &Arc<DeviceState>, callers: &Stream) -> Result<Self> {
        let taken = !Arc::ptr_eq(device, callers.device_state());
        let stream = if taken {
            device.acquire_stream(0)?
        } else {
            Arc::clone(callers.state())
        };
        Ok(Self {
            device: Arc::clone(device),
            stream,
            taken,
        })
    }

    /// An event to record on this leg's stream.
    fn event(&self) -> Result<Lent<'_>> {
        let device = &*self.device;
        let event = device.checked(device.events.take(&*device.driver, device.context))?;
        Ok(Lent { device, event })
    }

    /// Puts later work of this leg behind all that is submitted to the other.
    fn follow(&self, other: &Self) -> Result<()> {
        let lent = other.event()?;
        mark(&other.device, &other.stream, *lent.event)?;
        // The other's tickets mean nothing to this device, so its clock does not take them in.
        wait_for_mark(&self.device, &self.stream, *lent.event, &Clock::default())
    }
}

impl Drop for Leg {
    fn drop(&mut self) {
        if self.taken {
            self.device.retire_stream(Arc::clone(&self.stream));
        }
    }
}

/// An event of a device's pool, given back when this is dropped: a wait that was enqueued keeps what it waits for
/// (rule 23).
struct Lent<'a> {
    device: &'a DeviceState,
    event: PooledEvent,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.device.events.give(Arc::clone(&self.event));
    }
}

impl Stream {
    /// Copies between two devices of one driver, of which this stream's is one. Both spans are equally long.
    pub(super) fn copy_across(
        &self,
        from: &Span<'_>,
        to: &Span<'_>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        from.allocation.device.check_alive()?;
        to.allocation.device.check_alive()?;
        if from.bytes.is_empty() {
            return Ok(());
        }
        let source = Leg::on(&from.allocation.device, self)?;
        let target = Leg::on(&to.allocation.device, self)?;
        if source.taken {
            source.follow(&target)?;
        }
        let pieces = from.pieces(PIECE_BYTES).zip(to.pieces(PIECE_BYTES));
        for (from, to) in pieces {
            let copied = copy_piece(&source, &from, &target, &to, location);
            // After a failure too: the target's part may have been enqueued.
            let submitted = source.stream.points.lock().submitted();
            wait_for_source(&target.device, &source.device, &source.stream, submitted);
            copied?;
        }
        if target.taken {
            source.follow(&target)?;
        }
        Ok(())
    }
}

/// A block of the target's device that the source's may still write. Should that one be lost, nobody can tell when it
/// stops, and the target's device may go on: the block is given up then.
struct AtRisk {
    source: Arc<DeviceState>,
    staged: Option<Staged>,
}

impl Drop for AtRisk {
    fn drop(&mut self) {
        if let Some(staged) = self.staged.take()
            && self.source.lost().is_some()
        {
            staged.give_up();
        }
    }
}

fn copy_piece(
    source: &Leg,
    from: &Span<'_>,
    target: &Leg,
    to: &Span<'_>,
    location: &'static Location<'static>,
) -> Result<()> {
    let bytes = from.bytes.len();
    let mut staged = Staged::new(&target.device, &target.stream, bytes)?;
    let lent = source.event()?;
    let read = WithEvent::RecordBehind(
        *lent.event,
        ToHost {
            target: staged.pointer(),
            source: from.pointer(),
            bytes,
        },
    );
    let reading = leg_operation(Kind::DeviceToHost, from, AccessKind::Read, location);
    // SAFETY: the span lies within its allocation, and the block is as large. It is kept until the operations that use
    // it are done, below.
    let outcome = unsafe { submit(&source.device, &source.stream, reading, read) };
    let submitted = source.stream.points.lock().submitted();
    let write = outcome.map(|_| {
        WithEvent::WaitBefore(
            *lent.event,
            ToDevice {
                target: to.pointer(),
                source: staged.pointer(),
                bytes,
            },
        )
    });
    let outcome = write.and_then(|write| {
        let writing = leg_operation(Kind::HostToDevice, to, AccessKind::Write, location);
        // SAFETY: as above.
        unsafe { submit(&target.device, &target.stream, writing, write) }
    });
    match outcome {
        // Behind the event, and so behind the first operation too.
        Ok((sequence, ())) => {
            staged.used_by(target.stream.ticket(sequence));
            Ok(())
        }
        Err(error) => {
            // Some of it may have been enqueued all the same, on either stream.
            let at_risk = AtRisk {
                source: Arc::clone(&source.device),
                staged: Some(staged),
            };
            keep_until_done(&source.device, &source.stream, submitted, at_risk);
            Err(error)
        }
    }
}

fn leg_operation<'a>(
    kind: Kind,
    span: &Span<'a>,
    access: AccessKind,
    location: &'static Location<'static>,
) -> Operation<'a> {
    Operation {
        kind,
        label: "copy",
        location,
        bytes: span.bytes.len() as u64,
        accesses: smallvec![span.access(access)],
        awaited: None,
    }
}
