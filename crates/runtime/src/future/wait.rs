//! Waiting on the host until tickets are done.

use millstream_driver::Driver;

use crate::{
    Result, Stream,
    context::{
        DeviceState, StreamState, poll_backoff, poll_ticket, query_stream, record_sync_point,
    },
    sync::spin_loop,
    tracker::{Sequence, Ticket},
};

/// Waits until the stream's ticket `sequence` is done. Holds no lock meanwhile.
pub(crate) fn wait_ticket(
    device: &DeviceState,
    stream: &StreamState,
    sequence: Sequence,
) -> Result<()> {
    device.run_deferred();
    wait_until(&*device.driver, || poll_ticket(device, stream, sequence))
}

/// Whether all these operations are done. Never blocks.
pub(crate) fn all_done(device: &DeviceState, tickets: &[Ticket]) -> Result<bool> {
    for ticket in tickets {
        if let Some(stream) = device.stream(ticket.stream)
            && !poll_ticket(device, stream, ticket.sequence)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Waits until an operation that nobody was expected to wait for is done, but not for what comes
/// later.
pub(crate) fn wait_for_ticket(device: &DeviceState, ticket: Ticket) -> Result<()> {
    prepare_wait(device, ticket)?;
    match device.stream(ticket.stream) {
        Some(stream) => wait_ticket(device, stream, ticket.sequence),
        None => Ok(()),
    }
}

/// Sees to it that waiting for an operation that nobody was expected to wait for is not waiting for
/// what comes later.
pub(crate) fn prepare_wait(device: &DeviceState, ticket: Ticket) -> Result<()> {
    let Some(stream) = device.stream(ticket.stream) else {
        return Ok(());
    };
    let has_point = stream
        .shared
        .lock()
        .points
        .covering(ticket.sequence)
        .is_some();
    if !has_point && !query_stream(device, stream)? {
        record_sync_point(device, stream)?;
    }
    Ok(())
}

/// Asks again and again, with growing backoff, until the answer is yes.
pub(crate) fn wait_until(
    driver: &dyn Driver,
    mut is_done: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let started_ns = driver.now_ns();
    while !is_done()? {
        match poll_backoff(driver.now_ns().saturating_sub(started_ns)) {
            None => spin_loop(),
            Some(sleep) => driver.pause(sleep),
        }
    }
    Ok(())
}

impl Stream {
    /// Whether everything submitted to the stream so far is done. Never blocks.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub fn is_idle(&self) -> Result<bool> {
        query_stream(self.device_state(), self.state())
    }

    /// Blocks this thread until everything submitted to the stream so far is done. Never needed for
    /// a value to be right: for measuring, and for ending a program in order.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub fn synchronize(&self) -> Result<()> {
        let submitted = self.state().shared.lock().points.submitted();
        wait_ticket(self.device_state(), self.state(), submitted)
    }
}
