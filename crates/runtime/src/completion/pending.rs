//! `Pending<T>`: a value that a submitted operation is going to bring.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    poll_ticket,
    reactor::{Wish, register},
    wait::SLEEP_NS_MIN,
    wait_ticket,
};
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
    device: Arc<DeviceState>,
    stream: Arc<StreamState>,
    sequence: u64,
    finish: Option<Finish<T>>,
    waker: Option<Arc<Mutex<Option<Waker>>>>,
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
            device,
            stream,
            sequence,
            finish: Some(finish),
            waker: None,
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
        wait_ticket(&self.device, &self.stream, self.sequence)?;
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
        poll_ticket(&self.device, &self.stream, self.sequence)
    }

    fn take(&mut self) -> T {
        let finish = self
            .finish
            .take()
            .expect("the value of a Pending can be taken once");
        finish()
    }

    /// Sees to it that the reactor wakes this waker, the last of those given.
    fn wake_later(&mut self, waker: &Waker) {
        if let Some(slot) = &self.waker {
            let mut slot = slot.lock();
            if let Some(known) = slot.as_mut() {
                known.clone_from(waker);
                return;
            }
        }
        let slot = Arc::new(Mutex::new(Some(waker.clone())));
        self.waker = Some(Arc::clone(&slot));
        let registered = register(Wish {
            device: Arc::clone(&self.device),
            stream: Arc::clone(&self.stream),
            sequence: self.sequence,
            waker: slot,
        });
        if registered.is_err() {
            // Nobody else would ever wake it, so it is polled again and again: slow, but not for ever.
            self.waker = None;
            self.device.driver.pause(Duration::from_nanos(SLEEP_NS_MIN));
            waker.wake_by_ref();
        }
    }
}

impl<T> Unpin for Pending<T> {}

impl<T> Future for Pending<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.is_ready() {
            Err(error) => return Poll::Ready(Err(error)),
            Ok(true) => return Poll::Ready(Ok(self.take())),
            Ok(false) => {}
        }
        self.wake_later(context.waker());
        Poll::Pending
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if let Some(slot) = &self.waker {
            // Dropped outside the lock: a waker's destructor is the executor's code.
            let waker = slot.lock().take();
            drop(waker);
        }
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("ticket", &self.sequence)
            .finish_non_exhaustive()
    }
}
