//! `Pending<T>`: the future result of a submitted operation.

use std::{
    fmt,
    future::Future,
    ops::RangeInclusive,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use super::completion::Completion;
use crate::{
    Result,
    context::{DeviceState, StreamState},
    tracker::Sequence,
};

/// A value that is completed in steps as its operations complete.
pub(crate) trait PendingValue<T>: Send {
    /// Performs the host work that is possible once the awaited ticket is complete, without waiting
    /// for the device. Returns the sequence number of the next ticket to wait for, if there is one.
    fn step(&mut self) -> Result<Option<Sequence>>;

    /// Returns the value, after the last step.
    fn finish(self: Box<Self>) -> T;
}

/// A value without steps: the closure computes it at the end.
impl<T, F: FnOnce() -> T + Send> PendingValue<T> for F {
    fn step(&mut self) -> Result<Option<Sequence>> {
        Ok(None)
    }

    fn finish(self: Box<Self>) -> T {
        (*self)()
    }
}

/// The future result of an operation. The operation is already submitted; polling only waits for
/// it.
///
/// Block this thread with [`wait`](Self::wait), or `.await` it on any executor. The first poll may
/// spin for some 20 µs, because a result that arrives within this time is available sooner than a
/// thread could be woken. Waiting covers this operation alone, not later work of its stream.
/// Dropping it neither cancels the operation nor blocks.
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
#[must_use = "the result is lost unless it is waited for or awaited"]
pub struct Pending<T> {
    /// The operations to wait for; `None` if the value is available at once.
    waiting: Option<Waiting>,
    value: Option<Box<dyn PendingValue<T>>>,
}

struct Waiting {
    /// The completion of the ticket that is currently waited for.
    completion: Completion,
    /// The last ticket to wait for.
    last: Sequence,
    /// The liveness token of the operation's [`HostWaiter`](crate::context::HostWaiter). While it
    /// lives, later submissions leave a sync point behind the operation.
    _alive: Arc<()>,
}

impl<T> Pending<T> {
    pub(crate) fn ready(finish: impl FnOnce() -> T + Send + 'static) -> Self {
        Self {
            waiting: None,
            value: Some(Box::new(finish)),
        }
    }

    pub(crate) fn new(
        device: Arc<DeviceState>,
        stream: Arc<StreamState>,
        sequence: Sequence,
        alive: Arc<()>,
        finish: impl FnOnce() -> T + Send + 'static,
    ) -> Self {
        Self::in_steps(device, stream, sequence..=sequence, alive, finish)
    }

    /// Creates a value that is completed in steps, as the tickets of the range complete.
    pub(crate) fn in_steps(
        device: Arc<DeviceState>,
        stream: Arc<StreamState>,
        tickets: RangeInclusive<Sequence>,
        alive: Arc<()>,
        value: impl PendingValue<T> + 'static,
    ) -> Self {
        let waiting = Waiting {
            completion: Completion::new(device, stream, *tickets.start()),
            last: *tickets.end(),
            _alive: alive,
        };
        Self {
            waiting: Some(waiting),
            value: Some(Box::new(value)),
        }
    }

    /// Blocks this thread until the value is available, and returns it.
    ///
    /// # Errors
    ///
    /// If the device is lost meanwhile: the error holds the first failure.
    ///
    /// # Panics
    ///
    /// If the value was already taken, by [`try_take`](Self::try_take) or by polling.
    pub fn wait(mut self) -> Result<T> {
        let value = self.wait_timeout(Duration::MAX)?;
        Ok(value.expect("this timeout does not expire"))
    }

    /// Blocks this thread for at most `timeout`, and returns the value if it is available by then.
    /// A value that is not stays pending: wait again, or `.await` it.
    ///
    /// The time is that of the driver: on the simulated device its virtual clock. The host work of
    /// a large download, which copies the chunks that have arrived, is not interrupted.
    ///
    /// ```
    /// use std::time::Duration;
    /// use millstream::{Device, sim::{Gpu, SimConfig}};
    ///
    /// let gpu = Gpu::new(SimConfig::new());
    /// let stream = Device::open_simulated(&gpu, 0)?.stream()?;
    /// let buffer = stream.upload(&[1_u8, 2])?;
    /// let hold = gpu.hold(stream.as_raw()); // the simulated device stops the stream here
    /// let mut pending = stream.download(&buffer)?;
    /// assert_eq!(pending.wait_timeout(Duration::from_millis(1))?, None);
    /// hold.release();
    /// assert_eq!(pending.wait_timeout(Duration::MAX)?, Some(vec![1, 2]));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// If the value was already taken.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<T>> {
        let started_ns = self
            .waiting
            .as_ref()
            .map_or(0, |waiting| waiting.completion.now_ns());
        loop {
            if let Some(waiting) = &self.waiting {
                let since_ns = waiting.completion.now_ns().saturating_sub(started_ns);
                let left = timeout.saturating_sub(Duration::from_nanos(since_ns));
                if !waiting.completion.wait_timeout(left)? {
                    return Ok(None);
                }
            }
            if !self.step()? {
                return Ok(Some(self.take()));
            }
        }
    }

    /// Returns the value if it is available. Never blocks.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// If the value was already taken.
    pub fn try_take(&mut self) -> Result<Option<T>> {
        if !self.is_ready()? {
            return Ok(None);
        }
        while self.step()? {}
        Ok(Some(self.take()))
    }

    /// Returns whether the value is available. Never blocks.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn is_ready(&self) -> Result<bool> {
        match &self.waiting {
            Some(Waiting {
                completion, last, ..
            }) => completion.is_done(*last),
            None => Ok(true),
        }
    }

    /// Performs the step after the awaited ticket. Returns whether there is another ticket to wait
    /// for.
    fn step(&mut self) -> Result<bool> {
        let next = self.value.as_mut().expect(TAKEN).step()?;
        if let (Some(sequence), Some(waiting)) = (next, &mut self.waiting) {
            waiting.completion.advance_to(sequence);
        }
        Ok(next.is_some())
    }

    fn take(&mut self) -> T {
        self.value.take().expect(TAKEN).finish()
    }
}

/// The panic message for taking the value a second time.
const TAKEN: &str = "the value of this `Pending` was already taken";

impl<T> Unpin for Pending<T> {}

impl<T> Future for Pending<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                ready!(Pin::new(&mut waiting.completion).poll(context))?;
            }
            if !self.step()? {
                return Poll::Ready(Ok(self.take()));
            }
        }
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pending = f.debug_struct("Pending");
        if let Some(waiting) = &self.waiting {
            pending.field("ticket", &waiting.last.get());
        }
        pending.finish_non_exhaustive()
    }
}
