//! Copies between devices without peer access, staged through page-locked host memory.
//!
//! The source's device copies to a block. The target's device waits for an event of that copy (rule
//! 26: streams may wait for events of other devices) and copies from the block. The leg that is not
//! on the caller's stream runs on a separate stream, which is ordered after the caller's earlier
//! work, or before its later work, so that the copy behaves like one operation of the caller's
//! stream.

use std::{panic::Location, sync::Arc};

use millstream_driver::Side2d;

use super::{copy_2d::copy_of_rows, staged_block::StagedBlock};
use crate::{
    Result, Stream,
    array::Span2d,
    context::{
        DeviceState, Operation, StreamState, follow,
        imports::{reach, unsettled_imports},
        retain_until_complete, submit, sync_point_after, wait_with_clock,
    },
    error::OperationKind,
    multi_device::Arrival,
    tracker::{AccessKind, Imports, Sequence},
};

/// One device's leg of the copy, on one of its streams.
struct Leg {
    device: Arc<DeviceState>,
    stream: Arc<StreamState>,
    /// Set if the stream was acquired for this copy only.
    is_acquired: bool,
}

impl Leg {
    /// Creates a leg on the caller's stream if it is on this device, otherwise on an acquired
    /// stream.
    fn on(device: &Arc<DeviceState>, callers: &Stream) -> Result<Self> {
        let is_acquired = !Arc::ptr_eq(device, callers.device_state());
        let stream = if is_acquired {
            device.acquire_stream(0)?
        } else {
            Arc::clone(callers.state())
        };
        Ok(Self {
            device: Arc::clone(device),
            stream,
            is_acquired,
        })
    }

    /// Orders later work of this leg after all work submitted to the other.
    fn follow(&self, other: &Self) -> Result<()> {
        follow((&self.device, &self.stream), (&other.device, &other.stream))
    }
}

impl Drop for Leg {
    fn drop(&mut self) {
        if self.is_acquired {
            self.device.retire_stream(Arc::clone(&self.stream));
        }
    }
}

impl Stream {
    /// Copies rows between two devices of one driver through the host. One of the devices is the
    /// stream's. Both spans have the same rows and row length, and are not empty.
    pub(super) fn copy_peer_staged(
        &self,
        from: &Span2d<'_>,
        to: &Span2d<'_>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let why = "it copies to another device: copy on an ordinary stream, around the replay";
        self.device_state()
            .refuse_recording(self.state(), "copy", why)?;
        let carried = unsettled_imports(
            OperationKind::DeviceToDevice,
            [
                &from.access(AccessKind::Read),
                &to.access(AccessKind::Write),
            ],
        )?;
        reach(&carried, [to.device().number()].into_iter());
        let source = Leg::on(from.device(), self)?;
        let target = Leg::on(to.device(), self)?;
        if source.is_acquired {
            source.follow(&target)?;
        }
        // Dropped before the legs, also after an error: some of the chunks may have been copied.
        let mut arriving = Arriving {
            source: &source,
            target: &target,
            to,
            carried,
            location,
            submitted: false,
        };
        for (from, to) in chunks(from, to, self.device_state().staging_options().chunk_bytes) {
            copy_chunk(&source, &from, &target, &to, location)?;
        }
        arriving.submitted = true;
        drop(arriving);
        if target.is_acquired {
            source.follow(&target)?;
        }
        Ok(())
    }
}

/// Cuts both spans into pieces of at most `chunk_bytes`: whole rows, or parts of one row.
fn chunks<'a>(
    from: &Span2d<'a>,
    to: &Span2d<'a>,
    chunk_bytes: usize,
) -> Vec<(Span2d<'a>, Span2d<'a>)> {
    let bytes_step = from.row_bytes.min(chunk_bytes);
    let rows_step = (chunk_bytes / from.row_bytes).max(1);
    let mut pieces = Vec::new();
    for row in (0..from.rows).step_by(rows_step) {
        let rows = row..row.saturating_add(rows_step).min(from.rows);
        for start in (0..from.row_bytes).step_by(bytes_step) {
            let bytes = start..(start + bytes_step).min(from.row_bytes);
            pieces.push((
                from.part(rows.clone(), bytes.clone()),
                to.part(rows.clone(), bytes),
            ));
        }
    }
    pieces
}

/// A copy in progress. Its drop notes that the target's contents come from another device.
struct Arriving<'a> {
    source: &'a Leg,
    target: &'a Leg,
    to: &'a Span2d<'a>,
    /// The imports of the source's contents.
    carried: Imports,
    location: &'static Location<'static>,
    /// True once all chunks are submitted.
    submitted: bool,
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        let Leg { device, stream, .. } = self.target;
        let sequence = stream.shared.lock().points.submitted();
        Arrival {
            kind: OperationKind::HostToDevice,
            label: "copy",
            location: self.location,
            devices: &[device, &self.source.device],
            stream,
            sequence,
            failure: None,
            submitted: self.submitted,
        }
        .note(
            std::mem::take(&mut self.carried),
            [&self.to.access(AccessKind::Write)],
        );
    }
}

/// A block of the target's device that the source's device may still write. If the source's device
/// is lost, its writes may end at any time while the target's device goes on; the block is then
/// leaked.
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
    from: &Span2d<'_>,
    target: &Leg,
    to: &Span2d<'_>,
    location: &'static Location<'static>,
) -> Result<()> {
    let block = BlockInFlight {
        source,
        staged: Some(StagedBlock::new(
            &target.device,
            &target.stream,
            from.bytes(),
        )?),
    };
    let host = Side2d::host(block.pointer(), from.row_bytes);
    let read = copy_of_rows(&source.device, from, from.side(), host);
    let mut reading = leg_operation(
        OperationKind::DeviceToHost,
        from,
        AccessKind::Read,
        location,
    );
    // SAFETY: the rows lie within their allocation, and the block is as large. It is kept until
    // both operations are done.
    let (sequence, ()) = unsafe { submit(&source.device, &source.stream, &mut reading, read) }?;
    let event = sync_point_after(&source.device, &source.stream, sequence)?;
    // The event is not recorded again while it is held here.
    wait_with_clock(
        &target.device,
        &target.stream,
        &source.device,
        event.event,
        &event.clock,
    )?;
    let write = copy_of_rows(&target.device, to, host, to.side());
    let mut writing = leg_operation(OperationKind::HostToDevice, to, AccessKind::Write, location);
    // SAFETY: the rows lie within their allocation, and the block is as large. The wait orders this
    // operation after the first.
    let (sequence, ()) = unsafe { submit(&target.device, &target.stream, &mut writing, write) }?;
    block.arrive(target, sequence);
    Ok(())
}

fn leg_operation<'a>(
    kind: OperationKind,
    span: &Span2d<'a>,
    access: AccessKind,
    location: &'static Location<'static>,
) -> Operation<'a> {
    Operation {
        kind,
        label: "copy",
        location,
        bytes: span.bytes() as u64,
        accesses: [span.access(access)].into(),
        host_waiter: None,
    }
}
