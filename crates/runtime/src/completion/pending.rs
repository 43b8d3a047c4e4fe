//! `Pending<T>`: a value that a submitted operation is going to bring.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::Arrival;
use crate::{
    Result,
    device::{DeviceState, StreamState},
};

/// Makes the value once the operation is done.
type Finish<T> = Box<dyn FnOnce() -> T + Send>;

/// The result of an operation that was submitted when this was made, not when it is polled.
///
/// Wait for it on this thread with [`wait`](Self::wait), or `.await` it on any executor. Waiting waits for this operation
/// alone, not for later work of its stream. Dropping it neither cancels the operation nor blocks.
///
/// ```
/// use millstream::Device;
///
/// let stream = Device::simulated()?.stream()?;
/// let buffer = stream.upload(&[1_u32, 2, 3])?;
/// assert_eq!(stream.download(&buffer)?.wait()?, [1, 2, 3]);
/// let later = pollster::block_on(async { stream.download(&buffer)?.await })?;
/// assert_eq!(later, [1, 2, 3]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[must_use = "the value is in here; wait for it, await it, or drop it on purpose"]
pub struct Pending<T> {
    arrival: Arrival,
    finish: Option<Finish<T>>,
    /// While this lives, later submissions leave a point behind the operation.
    _awaited: Arc<()>,
}

impl<T> Pending<T> {
    pub(crate) fn new(
        device: Arc<DeviceState>,
        stream: Arc<StreamState>,
        sequence: u64,
        awaited: Arc<()>,
        finish: impl FnOnce() -> T + Send + 'static,
    ) -> Self {
        let finish: Finish<T> = Box::new(finish);
        Self {
            arrival: Arrival::new(device, stream, sequence),
            finish: Some(finish),
            _awaited: awaited,
        }
    }

    /// Blocks this thread until the value is there.
    ///
    /// # Errors
    ///
    /// If the device is lost meanwhile, with the failure that was seen first.
    ///
    /// # Panics
    ///
    /// If the value was already taken, by [`try_take`](Self::try_take) or by polling.
    pub fn wait(mut self) -> Result<T> {
        self.arrival.wait()?;
        Ok(self.take())
    }

    /// The value, if it is there already. Never blocks.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// If the value was already taken.
    pub fn try_take(&mut self) -> Result<Option<T>> {
        Ok(if self.is_ready()? { Some(self.take()) } else { None })
    }

    /// Whether the value is there. Never blocks.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn is_ready(&self) -> Result<bool> {
        self.arrival.is_ready()
    }

    fn take(&mut self) -> T {
        let finish = self
            .finish
            .take()
            .expect("the value of a Pending can be taken once");
        finish()
    }
}

impl<T> Unpin for Pending<T> {}

impl<T> Future for Pending<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(Pin::new(&mut self.arrival).poll(context))?;
        Poll::Ready(Ok(self.take()))
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("ticket", &self.arrival.sequence())
            .finish_non_exhaustive()
    }
}
