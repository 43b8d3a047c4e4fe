//! `Completion`: a future for one ticket, on which [`Pending`](super::Pending) and the guards of
//! host memory are built.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{adaptive_spin::ADAPTIVE_SPIN, wait::wait_ticket_timeout};
use crate::{
    Result,
    context::{
        Action, DeviceState, DeviceStream, Registration, SLEEP_NS_MIN, StreamState, poll_ticket,
        register,
    },
    tracker::{Sequence, Ticket},
};

/// The completion of one operation. It costs nothing before it is polled; dropping it takes a lock
/// if a waker is registered.
pub(crate) struct Completion {
    device: Arc<DeviceState>,
    stream: Arc<StreamState>,
    sequence: Sequence,
    waker: Option<Arc<Mutex<Option<Waker>>>>,
}

impl Completion {
    pub(crate) fn new(
        device: Arc<DeviceState>,
        stream: Arc<StreamState>,
        sequence: Sequence,
    ) -> Self {
        Self {
            device,
            stream,
            sequence,
            waker: None,
        }
    }

    /// Waits for a later operation of the same stream from now on.
    pub(crate) fn advance_to(&mut self, sequence: Sequence) {
        self.unregister_waker();
        self.sequence = sequence;
    }

    /// Returns whether the operation is complete. Never blocks.
    pub(crate) fn is_ready(&self) -> Result<bool> {
        self.is_done(self.sequence)
    }

    /// Returns whether the given operation of the same stream is complete. Never blocks.
    pub(crate) fn is_done(&self, sequence: Sequence) -> Result<bool> {
        poll_ticket(&self.device, &self.stream, sequence)
    }

    /// Blocks this thread until the operation is complete, for at most `timeout`. Returns whether
    /// it is.
    pub(crate) fn wait_timeout(&self, timeout: Duration) -> Result<bool> {
        wait_ticket_timeout(&self.device, &self.stream, self.sequence, timeout)
    }

    /// Returns the time of the driver's clock.
    pub(crate) fn now_ns(&self) -> u64 {
        self.device.driver.now_ns()
    }

    fn unregister_waker(&mut self) {
        if let Some(slot) = self.waker.take() {
            // Dropped after the lock is released: a waker's destructor is the executor's code.
            let waker = slot.lock().take();
            drop(waker);
        }
    }

    /// Registers a waker with the reactor, replacing an earlier one.
    ///
    /// A waker's methods and its destructor are the executor's code: they run here, on the polling
    /// thread, without the slot's lock, which the reactor takes for every future.
    fn register_waker(&mut self, waker: &Waker) {
        let is_known = |slot: &Arc<Mutex<Option<Waker>>>| {
            let known = slot.lock();
            known.as_ref().is_some_and(|known| known.will_wake(waker))
        };
        if self.waker.as_ref().is_some_and(is_known) {
            return;
        }
        let mut new = waker.clone();
        if let Some(slot) = &self.waker {
            let mut known = slot.lock();
            if let Some(known) = known.as_mut() {
                mem::swap(known, &mut new);
            }
            let is_registered = known.is_some();
            drop(known);
            if is_registered {
                // The displaced waker.
                drop(new);
                return;
            }
        }
        let slot = Arc::new(Mutex::new(Some(new)));
        self.waker = Some(Arc::clone(&slot));
        let registered = register(Registration {
            device: Arc::clone(&self.device),
            stream: Arc::clone(&self.stream),
            sequence: self.sequence,
            action: Action::Wake(slot),
        });
        if registered.is_err() {
            // Without a reactor the future wakes itself after a short pause: slow, but it makes
            // progress.
            self.unregister_waker();
            self.device.driver.pause(Duration::from_nanos(SLEEP_NS_MIN));
            waker.wake_by_ref();
        }
    }
}

impl Future for Completion {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match self.is_ready() {
            Err(error) => return Poll::Ready(Err(error)),
            Ok(true) => return Poll::Ready(Ok(())),
            Ok(false) => {}
        }
        // On the simulated device polling does not advance the virtual clock, so spinning would be
        // useless.
        if self.waker.is_none()
            && !self.device.is_simulated
            && ADAPTIVE_SPIN.spin(|| self.is_ready())?
        {
            return Poll::Ready(Ok(()));
        }
        self.register_waker(context.waker());
        Poll::Pending
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.unregister_waker();
    }
}

/// Returns completions of several operations, on any streams of the device or of others.
pub(crate) fn completions(
    device: &Arc<DeviceState>,
    tickets: impl IntoIterator<Item = Ticket>,
) -> SmallVec<[Completion; 4]> {
    let of = |ticket: Ticket| {
        let DeviceStream { device, stream } = device.find(ticket.stream)?;
        Some(Completion::new(
            Arc::clone(&device),
            stream,
            ticket.sequence,
        ))
    };
    tickets.into_iter().filter_map(of).collect()
}
