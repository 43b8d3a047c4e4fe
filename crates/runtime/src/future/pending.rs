//! `Pending<T>`: a value that a submitted operation is going to bring.

use std::{
    fmt,
    future::Future,
    ops::RangeInclusive,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::completion::Completion;
use crate::{
    Result,
    context::{DeviceState, StreamState},
    tracker::Sequence,
};

/// What becomes a value as its operations are done.
pub(crate) trait PendingValue<T>: Send {
    /// Called when the ticket that was waited for is done: does what can be done then, without
    /// waiting for the device. Gives the place of the ticket that comes next, if there is one.
    fn step(&mut self) -> Result<Option<Sequence>>;

    /// The value, after the last step.
    fn finish(self: Box<Self>) -> T;
}

/// What is made at the end.
impl<T, F: FnOnce() -> T + Send> PendingValue<T> for F {
    fn step(&mut self) -> Result<Option<Sequence>> {
        Ok(None)
    }

    fn finish(self: Box<Self>) -> T {
        (*self)()
    }
}

/// The result of an operation that was submitted when this was made, not when it is polled.
///
/// Wait for it on this thread with [`wait`](Self::wait), or `.await` it on any executor: the first
/// poll may take some 20 µs, for a value that comes within them is there sooner than a thread could
/// be woken. Waiting waits for this operation alone, not for later work of its stream. Dropping it
/// neither cancels the operation nor blocks.
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
    /// `None` if the value does not wait for an operation.
    waiting: Option<Waiting>,
    value: Option<Box<dyn PendingValue<T>>>,
}

/// The operations that a value waits for.
struct Waiting {
    /// Of the ticket that is waited for now.
    completion: Completion,
    /// The last ticket.
    last: Sequence,
    /// While this lives, later submissions leave a sync point behind the operation.
    _alive: Arc<()>,
}

impl<T> Pending<T> {
    /// A value that can be made at once.
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

    /// A value that is made in steps, as the tickets from the first to the last of these are done.
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
        loop {
            if let Some(waiting) = &self.waiting {
                waiting.completion.wait()?;
            }
            if !self.step()? {
                return Ok(self.take());
            }
        }
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
        if !self.is_ready()? {
            return Ok(None);
        }
        while self.step()? {}
        Ok(Some(self.take()))
    }

    /// Whether the value is there. Never blocks.
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

    /// The ticket that was waited for is done. Says whether there is another to wait for.
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

/// What a panic says when a value is asked for once more.
const TAKEN: &str = "the value of a Pending can be taken once";

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
