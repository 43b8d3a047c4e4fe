//! Waiting for one ticket, as a future: what [`Pending`](super::Pending) and the guards of host
//! memory are made of.

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

use super::{spin::PATIENCE, wait_ticket};
use crate::{
    Result,
    context::{
        Action, DeviceState, Registration, SLEEP_NS_MIN, StreamState, poll_ticket, register,
    },
    tracker::{Sequence, Ticket},
};

/// The end of one operation. Nothing is paid for it before it is polled; dropping it costs a lock.
pub(crate) struct Arrival {
    device: Arc<DeviceState>,
    stream: Arc<StreamState>,
    sequence: Sequence,
    waker: Option<Arc<Mutex<Option<Waker>>>>,
}

impl Arrival {
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

    /// Goes on to the end of a later operation.
    pub(crate) fn turn_to(&mut self, sequence: Sequence) {
        self.forget_waker();
        self.sequence = sequence;
    }

    /// Whether the operation is done. Never blocks.
    pub(crate) fn is_ready(&self) -> Result<bool> {
        self.is_over(self.sequence)
    }

    /// Whether this operation of the same stream is done. Never blocks.
    pub(crate) fn is_over(&self, sequence: Sequence) -> Result<bool> {
        poll_ticket(&self.device, &self.stream, sequence)
    }

    /// Blocks this thread until it is.
    pub(crate) fn wait(&self) -> Result<()> {
        wait_ticket(&self.device, &self.stream, self.sequence)
    }

    /// Takes back the wish to be woken, if there is one.
    fn forget_waker(&mut self) {
        if let Some(slot) = self.waker.take() {
            // Dropped outside the lock: a waker's destructor is the executor's code.
            let waker = slot.lock().take();
            drop(waker);
        }
    }

    /// Sees to it that the reactor wakes this waker, the last of those given.
    ///
    /// A waker's methods and its destructor are the executor's code: they run here, on the thread
    /// that polls, and without the slot's lock, which the reactor takes for every future.
    fn wake_later(&mut self, waker: &Waker) {
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
            // Without a reactor it is polled again and again: slow, but not for ever.
            self.forget_waker();
            self.device.driver.pause(Duration::from_nanos(SLEEP_NS_MIN));
            waker.wake_by_ref();
        }
    }
}

impl Future for Arrival {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match self.is_ready() {
            Err(error) => return Poll::Ready(Err(error)),
            Ok(true) => return Poll::Ready(Ok(())),
            Ok(false) => {}
        }
        // On the simulated device no time passes by asking.
        if self.waker.is_none() && !self.device.is_simulated && PATIENCE.spin(|| self.is_ready())? {
            return Poll::Ready(Ok(()));
        }
        self.wake_later(context.waker());
        Poll::Pending
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.forget_waker();
    }
}

/// The ends of several operations, of any streams of the device.
pub(crate) fn arrivals(
    device: &Arc<DeviceState>,
    tickets: impl IntoIterator<Item = Ticket>,
) -> SmallVec<[Arrival; 4]> {
    let of = |ticket: Ticket| {
        let stream = device.stream(ticket.stream)?;
        Some(Arrival::new(
            Arc::clone(device),
            Arc::clone(stream),
            ticket.sequence,
        ))
    };
    tickets.into_iter().filter_map(of).collect()
}
