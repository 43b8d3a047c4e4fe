//! Submission: the only module that enqueues work.
//!
//! Each operation goes through these steps: lock the stream's submit queue, reserve a ticket, plan
//! and publish, find a sync point for each dependency, enqueue the waits that no other implies,
//! make the operation's own driver calls, record a sync point behind it if other streams may need
//! one, and note it as submitted. The submit queue stays locked throughout, so that the order of
//! tickets equals the order in the driver's queue; access histories are locked only during
//! planning. [`crate::tracker`] explains why this is sufficient.

#![allow(unsafe_code, reason = "hands commands to the driver")]

mod commands;
mod commands_2d;
mod foreign;
mod group;
mod in_turn;
#[cfg(all(test, shuttle))]
pub(crate) mod interleavings;
mod lease;
mod node;
mod owner;
mod record;
mod refusals;
mod relocatable;
mod settle;
mod sync_points;

use millstream_driver::DriverError;
use millstream_ptx::Label;

pub use commands::DriverStream;
pub(crate) use commands::{
    Allocate, Command, CopyBox, CopyOnDevice, CopyPeer, CopyToDevice, CopyToHost, EndOfForeignWork,
    Fill, Free, Launch, Marker, Prefetch, StagedUpload,
};
pub(crate) use commands_2d::{CopyPeerRows, CopyRows};
pub(crate) use foreign::Foreign;
pub(crate) use group::{GroupOperation, enqueue_group};
pub(crate) use in_turn::{OverlappingCopy, RepeatedRows, repeat};
pub(super) use lease::{begin_lease, submit_locked_end};
pub(crate) use owner::{AtCaller, captured, follow_owner, make_owner_follow};
pub(super) use owner::{make_owner_wait, refuse_captured};
pub(crate) use refusals::refuse_unordered;
pub(crate) use relocatable::Relocatable;
pub(crate) use sync_points::{
    follow, order_after, record_at_tail, record_event, record_sync_point, record_with_clock,
    sync_point_after, wait_with_clock,
};

use record::record;
use settle::{after_submission, forget_done, note_submitted, record_behind_ticket};
use sync_points::{OtherDevices, find_sync_points, record_for_host_waiters, wait_for_point};

use super::{
    DeviceState, Operation, StreamState, SubmitQueue, imports,
    trace::{StartedOperation, TracedOperation},
};
use crate::{
    Result,
    disposal::log,
    spans,
    tracker::{Dependencies, Plan, Sequence, Ticket, plan_and_publish, restore_displaced},
};

/// Submits an operation to a stream. Returns its sequence number there and the driver's result.
///
/// Never waits for the device. It may wait for other threads that are submitting operations on
/// which this one depends.
///
/// # Errors
///
/// On any error, and on a panic of the driver, the ticket counts as submitted, and no later
/// operation loses a dependency. The ticket may still stand for work, because a failed call may
/// have enqueued something first. Everything that the command names therefore stays in use until
/// the ticket is complete.
///
/// # Safety
///
/// The contract of [`Command::enqueue`], except for the order: the operation's accesses name all
/// memory that the command accesses, and this memory stays allocated until it is freed in an order
/// after the operation, or after its ticket is complete.
#[inline(always)]
pub(crate) unsafe fn submit<C: Command>(
    device: &DeviceState,
    stream: &StreamState,
    operation: &mut Operation<'_>,
    command: C,
) -> Result<(Sequence, C::Output)> {
    if !device.admission.is_none() {
        let (label, location) = (operation.label, operation.location);
        // SAFETY: this function's contract.
        return unsafe { submit_examined(device, stream, operation, command) }
            .at_caller(label, location);
    }
    // SAFETY: this function's contract.
    unsafe { enqueue::<C, false>(device, stream, operation, command) }
}

/// Submits an operation like [`submit`] to a device that has a reason to look at it: examines the
/// operands and refuses or records the operation if it has to.
///
/// # Safety
///
/// As for [`submit`].
#[cold]
#[inline(never)]
unsafe fn submit_examined<C: Command>(
    device: &DeviceState,
    stream: &StreamState,
    operation: &mut Operation<'_>,
    command: C,
) -> Result<(Sequence, C::Output)> {
    device.check_alive()?;
    if let Some(recorder) = device.recorder_of(stream) {
        return record(device, stream, &*recorder, operation, command);
    }
    // Ended after the submit queue is unlocked.
    let label = operation.label;
    let _span = device.admission.span(|| spans::enqueue(label));
    let imports = match device.admission.examines_operands() {
        true => Some(imports::examine(operation)?),
        false => None,
    };
    device.run_deferred();
    if device.admission.has_borrowers() {
        refuse_unordered(device, stream, operation)?;
    }
    // SAFETY: this function's contract.
    let output = unsafe { enqueue::<C, true>(device, stream, operation, command) }?;
    if let Some(imports) = imports {
        imports::note(operation.kind, &imports, operation.accesses.iter(), true);
    }
    Ok(output)
}

/// Enqueues an operation in the order of its stream. If `EXAMINED` is false, the device neither
/// traces operations nor has adopted streams; otherwise the caller has checked that the device
/// admits the operation, which runs between earlier and later work of the owner if the stream is
/// adopted.
///
/// # Safety
///
/// As for [`submit`].
#[inline(always)]
pub(crate) unsafe fn enqueue<C: Command, const EXAMINED: bool>(
    device: &DeviceState,
    stream: &StreamState,
    operation: &mut Operation<'_>,
    command: C,
) -> Result<(Sequence, C::Output)> {
    if EXAMINED && C::HAS_WORK {
        follow_owner(device, stream).at_caller(operation.label, operation.location)?;
    }
    let mut others = None;
    let mut submit_queue = stream.submit_queue.lock();
    let ticket = stream.ticket(submit_queue.next);
    submit_queue.next = submit_queue.next.next();
    let mut guard = SubmitGuard {
        device,
        stream,
        submit_queue: &mut submit_queue,
        operation,
        ticket,
        plan: Plan {
            dependencies: Dependencies::new(),
            records_event: false,
            lent: None,
        },
        settled: false,
    };
    guard.publish();
    guard.plan.records_event = guard.plan.records_event & C::HAS_WORK | C::ALWAYS_RECORDS;
    let mut waited_for = None;
    if guard.has_to_wait() {
        if EXAMINED && device.admission.traces() {
            waited_for = Some(Dependencies::new());
        }
        if let Err(error) = guard.wait(waited_for.as_mut(), &mut others) {
            let Operation {
                label, location, ..
            } = *guard.operation;
            return Err(error).at_caller(label, location);
        }
    }
    let traced = if EXAMINED {
        device.tracer().begin(device, stream)
    } else {
        None
    };
    let driver_stream = device.driver_stream(stream);
    let enqueued = if device.is_simulated {
        guard.plan.records_event |= device.waits_exactly();
        // SAFETY: the stream is alive, and the waits above establish the order.
        unsafe { enqueue_named(command, driver_stream, guard.operation) }
    } else {
        // SAFETY: the device keeps context and stream alive; the rest is this function's contract,
        // and the waits above establish the order.
        unsafe { command.enqueue(driver_stream) }
    };
    let output = device.checked(enqueued)?;
    guard.settle();
    if let Some(traced) = traced {
        guard.note(traced, waited_for.as_deref().unwrap_or_default());
    }
    if EXAMINED && C::HAS_WORK {
        drop(guard);
        drop(submit_queue);
        if let Err(error) = make_owner_wait(device, stream, ticket.sequence) {
            // The operation is enqueued, with the right result: only the owner's later work is not
            // behind it.
            log!(warn, %error, "the owner of a stream does not wait for an operation");
        }
    }
    Ok((ticket.sequence, output))
}

/// Enqueues a command under the operation's label, for reports of the simulated device's race
/// checker.
///
/// # Safety
///
/// As for [`Command::enqueue`].
#[cold]
#[inline(never)]
unsafe fn enqueue_named<C: Command>(
    command: C,
    driver_stream: DriverStream<'_>,
    operation: &Operation<'_>,
) -> Result<C::Output, DriverError> {
    let _name = Label::at(operation.label, operation.location);
    // SAFETY: by this function's contract.
    unsafe { command.enqueue(driver_stream) }
}

impl DeviceState {
    #[inline(always)]
    pub(crate) fn driver_stream(&self, stream: &StreamState) -> DriverStream<'_> {
        DriverStream {
            driver: &*self.driver,
            context: self.context,
            stream: stream.handle,
        }
    }
}

/// A published ticket that is being submitted. If the guard is dropped before the ticket is
/// settled, the ticket settles as failed.
struct SubmitGuard<'a, 'op> {
    device: &'a DeviceState,
    stream: &'a StreamState,
    submit_queue: &'a mut SubmitQueue,
    operation: &'a mut Operation<'op>,
    ticket: Ticket,
    plan: Plan,
    settled: bool,
}

impl SubmitGuard<'_, '_> {
    #[inline(always)]
    fn publish(&mut self) {
        let (device, accesses) = (self.device, &mut self.operation.accesses);
        let is_done = |ticket| device.is_done(ticket);
        plan_and_publish(
            self.ticket,
            &self.submit_queue.clock,
            accesses,
            &is_done,
            &mut self.plan,
        );
    }

    /// Returns whether anything comes before the operation: waits, a sync point for a host waiter,
    /// or a refusal.
    #[inline]
    fn has_to_wait(&self) -> bool {
        !self.plan.dependencies.is_empty()
            || !self.submit_queue.host_waiters.is_empty()
            || self.plan.lent.is_some()
    }

    /// Enqueues the waits and the host waiters' sync point, and adds the tickets waited for to
    /// `waited_for`, if the timeline wants them.
    ///
    /// # Errors
    ///
    /// If the driver refuses a call, or an operand is lent to another library.
    #[inline(never)]
    fn wait(
        &mut self,
        mut waited_for: Option<&mut Dependencies>,
        others: &mut OtherDevices,
    ) -> Result<()> {
        let Self { device, stream, .. } = *self;
        refusals::refuse_lent(&self.plan, self.operation)?;
        let waits = find_sync_points(device, stream, &mut self.plan.dependencies, others)?;
        if !self.submit_queue.host_waiters.is_empty() {
            let next = self
                .operation
                .host_waiter
                .as_ref()
                .filter(|_| waits.is_empty());
            record_for_host_waiters(device, stream, self.submit_queue, next)?;
        }
        for point in &*waits {
            let waits = wait_for_point(device, stream, self.submit_queue, point, others)?;
            if let (true, Some(waited_for)) = (waits, &mut waited_for) {
                waited_for.push(point.ticket);
            }
        }
        Ok(())
    }

    /// Completes the operation's entry in the timeline.
    #[cold]
    fn note(&self, traced: StartedOperation, waited_for: &[Ticket]) {
        let Operation {
            kind,
            label,
            location,
            bytes,
            ..
        } = *self.operation;
        traced.end(
            self.device,
            self.stream,
            TracedOperation {
                kind,
                label,
                location,
                bytes,
                ticket: self.ticket,
                waits: waited_for.to_vec(),
            },
        );
    }

    /// Settles the enqueued operation: records a sync point behind it if other streams may need
    /// one, and notes the ticket as submitted.
    #[inline(always)]
    fn settle(&mut self) {
        let Self { device, stream, .. } = *self;
        // A failure loses nothing: the next stream that needs a sync point records it late.
        let mut failure = None;
        let point = if self.plan.records_event {
            let recorded = record_behind_ticket(device, stream, self.submit_queue, self.ticket);
            recorded.map_err(|error| failure = Some(error)).ok()
        } else {
            None
        };
        let submit_queue = &mut *self.submit_queue;
        forget_done(device, submit_queue);
        if let Some(host_waiter) = self.operation.host_waiter.take() {
            submit_queue.add_host_waiter(host_waiter);
        }
        self.settled = true;
        let Operation {
            kind,
            label,
            location,
            ..
        } = *self.operation;
        let has_many_points = note_submitted(
            stream,
            submit_queue,
            self.ticket,
            point,
            (kind, label, location),
        );
        after_submission(device, stream, has_many_points, failure);
    }

    #[cold]
    fn fail(&mut self) {
        let device = self.device;
        restore_displaced(&mut self.operation.accesses, &self.plan.dependencies);
        let displaced = std::mem::take(&mut self.plan.dependencies);
        self.stream
            .shared
            .lock()
            .points
            .fail(self.ticket.sequence, displaced, &|ticket| {
                device.is_done(ticket)
            });
        self.stream.submitted.notify_all();
    }
}

impl Drop for SubmitGuard<'_, '_> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.settled {
            self.fail();
        }
    }
}
