//! Copies between devices, staged through page-locked host memory.
//!
//! The source's device copies to a block. The target's device waits for an event of that copy (rule
//! 26: streams may wait for events of other devices) and copies from the block. The leg that is not
//! on the caller's stream runs on a separate stream, which is ordered after the caller's earlier
//! work, or before its later work, so that the copy behaves like one operation of the caller's
//! stream.

use std::{panic::Location, sync::Arc};

use super::staged_block::StagedBlock;
use crate::{
    Result, Stream,
    context::{
        AfterEvent, CopyToDevice, CopyToHost, DeviceState, Operation, PooledEvent, StreamState,
        depend_on_device, record_with_clock, retain_until_complete, submit, sync_point_after,
        wait_with_clock,
    },
    error::OperationKind,
    memory::Span,
    tracker::{AccessKind, Sequence, VectorClock},
};

/// One device's leg of the copy, on one of its streams.
struct Leg {
    device: Arc<DeviceState>,
    stream: Arc<StreamState>,
    /// Set if the stream was acquired for this copy only.
    taken: bool,
}

impl Leg {
    /// Creates a leg on the caller's stream if it is on this device, otherwise on an acquired
    /// stream.
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

    /// Takes an event to record on this leg's stream.
    fn event(&self) -> Result<PooledEventGuard<'_>> {
        let device = &*self.device;
        // It carries no ticket, because it is not a sync point of a stream.
        let (nothing, before) = (self.stream.ticket(Sequence::START), VectorClock::default());
        let taken = device
            .events
            .take(&*device.driver, device.context, nothing, &before);
        let event = device.checked(taken)?;
        Ok(PooledEventGuard { device, event })
    }

    /// Orders later work of this leg after all work submitted to the other.
    fn follow(&self, other: &Self) -> Result<()> {
        let lent = other.event()?;
        record_with_clock(&other.device, &other.stream, lent.event.event)?;
        // Tickets of the other device are unknown to this one, so its clock does not join them.
        wait_with_clock(
            &self.device,
            &self.stream,
            lent.event.event,
            &VectorClock::default(),
        )
    }
}

impl Drop for Leg {
    fn drop(&mut self) {
        if self.taken {
            self.device.retire_stream(Arc::clone(&self.stream));
        }
    }
}

/// An event of a device's pool, returned on drop: a wait that was enqueued keeps waiting for the
/// record that it saw (rule 23).
struct PooledEventGuard<'a> {
    device: &'a DeviceState,
    event: PooledEvent,
}

impl Drop for PooledEventGuard<'_> {
    fn drop(&mut self) {
        self.device.events.give(Arc::clone(&self.event));
    }
}

impl Stream {
    /// Copies between two devices of one driver, one of them the stream's device. Both spans have
    /// the same length.
    pub(super) fn copy_peer(
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
        let chunk_bytes = self.device_state().staging_options().chunk_bytes;
        let chunks = from.chunks(chunk_bytes).zip(to.chunks(chunk_bytes));
        for (from, to) in chunks {
            copy_chunk(&source, &from, &target, &to, location)?;
        }
        if target.taken {
            source.follow(&target)?;
        }
        Ok(())
    }
}

/// A block of the target's device that the source's device may still write. If the source's device
/// is lost, the end of its writes is unknown and the target's device may continue: the block is
/// leaked then.
struct QuarantinedBlock {
    source: Arc<DeviceState>,
    staged: Option<StagedBlock>,
}

impl Drop for QuarantinedBlock {
    fn drop(&mut self) {
        if let Some(staged) = self.staged.take()
            && self.source.lost().is_some()
        {
            staged.give_up();
        }
    }
}

/// A block in flight from one device to the other. If an error or a panic drops it before both
/// operations are submitted, the block is kept until the source's stream cannot write it any more.
struct BlockInFlight<'a> {
    source: &'a Leg,
    staged: Option<StagedBlock>,
}

impl BlockInFlight<'_> {
    fn pointer(&self) -> *mut u8 {
        self.staged
            .as_ref()
            .map_or(std::ptr::null_mut(), StagedBlock::pointer)
    }

    /// Notes that both operations are submitted, the target's ordered after the source's.
    fn arrive(mut self, target: &Leg, sequence: Sequence) {
        if let Some(mut staged) = self.staged.take() {
            staged.used_by(target.stream.ticket(sequence));
        }
    }
}

impl Drop for BlockInFlight<'_> {
    fn drop(&mut self) {
        if self.staged.is_some() {
            let Leg { device, stream, .. } = self.source;
            let submitted = stream.shared.lock().points.submitted();
            let at_risk = QuarantinedBlock {
                source: Arc::clone(device),
                staged: self.staged.take(),
            };
            retain_until_complete(device, stream, submitted, at_risk);
        }
    }
}

fn copy_chunk(
    source: &Leg,
    from: &Span<'_>,
    target: &Leg,
    to: &Span<'_>,
    location: &'static Location<'static>,
) -> Result<()> {
    let bytes = from.bytes.len();
    let block = BlockInFlight {
        source,
        staged: Some(StagedBlock::new(&target.device, &target.stream, bytes)?),
    };
    let read = CopyToHost {
        target: block.pointer(),
        source: from.pointer(),
        bytes,
    };
    let reading = leg_operation(
        OperationKind::DeviceToHost,
        from,
        AccessKind::Read,
        location,
    );
    // SAFETY: the span lies within its allocation, and the block is as large. It is kept until both
    // operations are done.
    let (sequence, ()) = unsafe { submit(&source.device, &source.stream, reading, read) }?;
    // The target's device depends on this operation when it checks whether its data came from a
    // device that is not lost.
    let event = sync_point_after(&source.device, &source.stream, sequence)?;
    depend_on_device(&target.device, &source.device, &source.stream, sequence);
    let write = AfterEvent {
        event: event.event,
        command: CopyToDevice {
            target: to.pointer(),
            source: block.pointer(),
            bytes,
        },
    };
    let writing = leg_operation(OperationKind::HostToDevice, to, AccessKind::Write, location);
    // SAFETY: as above. The event is not recorded again while it is held here.
    let (sequence, ()) = unsafe { submit(&target.device, &target.stream, writing, write) }?;
    block.arrive(target, sequence);
    Ok(())
}

fn leg_operation<'a>(
    kind: OperationKind,
    span: &Span<'a>,
    access: AccessKind,
    location: &'static Location<'static>,
) -> Operation<'a> {
    Operation {
        kind,
        label: "copy",
        location,
        bytes: span.bytes.len() as u64,
        accesses: [span.access(access)].into(),
        host_waiter: None,
    }
}
