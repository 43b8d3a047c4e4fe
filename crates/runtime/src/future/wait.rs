//! Blocking waits for tickets.

use std::time::Duration;

use crate::{
    Result, Stream,
    context::{
        DeviceState, StreamState, poll_ticket, query_stream, record_sync_point, wait_until_timeout,
    },
    spans,
    tracker::{Sequence, Ticket},
};

const NO_WORK: &str =
    "a recording stream has no work: wait on an ordinary stream, behind the replay";

/// Blocks until the stream's ticket `sequence` is complete. Holds no lock while it waits.
pub(crate) fn wait_ticket(
    device: &DeviceState,
    stream: &StreamState,
    sequence: Sequence,
) -> Result<()> {
    wait_ticket_timeout(device, stream, sequence, Duration::MAX).map(drop)
}

/// Does the same as [`wait_ticket`], for at most `timeout`. Returns whether the ticket is complete.
pub(super) fn wait_ticket_timeout(
    device: &DeviceState,
    stream: &StreamState,
    sequence: Sequence,
    timeout: Duration,
) -> Result<bool> {
    let _span = device.admission.span(spans::wait);
    device.run_deferred();
    wait_until_timeout(&*device.driver, timeout, || {
        poll_ticket(device, stream, sequence)
    })
}

/// Returns whether all these operations are complete. Never blocks.
pub(crate) fn all_done(device: &DeviceState, tickets: &[Ticket]) -> Result<bool> {
    for ticket in tickets {
        let polled = device.with_stream(ticket.stream, |device, stream| {
            poll_ticket(device, stream, ticket.sequence)
        });
        if !polled.unwrap_or(Ok(true))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Blocks until an operation without a registered host waiter is complete. Work that is submitted
/// to its stream during the wait is not waited for.
pub(crate) fn wait_for_ticket(device: &DeviceState, ticket: Ticket) -> Result<()> {
    prepare_wait(device, ticket)?;
    let waited = device.with_stream(ticket.stream, |device, stream| {
        wait_ticket(device, stream, ticket.sequence)
    });
    waited.unwrap_or(Ok(()))
}

/// Records a sync point behind an operation without a registered host waiter, unless there is one
/// or the stream is idle, so that a wait for it does not include work submitted from now on.
pub(crate) fn prepare_wait(device: &DeviceState, ticket: Ticket) -> Result<()> {
    let prepared = device.with_stream(ticket.stream, |device, stream| {
        let has_point = stream.covering(ticket.sequence).is_some();
        if !has_point && !query_stream(device, stream)? {
            record_sync_point(device, stream)?;
        }
        Ok(())
    });
    prepared.unwrap_or(Ok(()))
}

impl Stream {
    /// Returns whether everything submitted to the stream so far is complete. Never blocks.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    #[doc(alias("cuStreamQuery", "cudaStreamQuery", "query"))]
    pub fn is_idle(&self) -> Result<bool> {
        self.device_state()
            .refuse_recording(self.state(), "is_idle", NO_WORK)?;
        query_stream(self.device_state(), self.state())
    }

    /// Blocks this thread until everything submitted to the stream so far is complete. Results are
    /// correct without it; it serves measurements and an orderly end of a program.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    #[doc(alias(
        "cuStreamSynchronize",
        "cudaStreamSynchronize",
        "cudaDeviceSynchronize"
    ))]
    pub fn synchronize(&self) -> Result<()> {
        self.device_state()
            .refuse_recording(self.state(), "synchronize", NO_WORK)?;
        let submitted = self.state().shared.lock().points.submitted();
        wait_ticket(self.device_state(), self.state(), submitted)
    }
}
