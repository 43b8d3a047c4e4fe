//! Devices that are closing: one thread per process frees the resources of those whose work was
//! pending when their last handle was dropped.
//!
//! The thread ends when no device is left. A close also tries the devices that have waited longest,
//! so that devices whose work is complete do not accumulate however slowly the thread runs.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

use millstream_driver::{Driver, PerProcess};
use parking_lot::Mutex;

use super::teardown::Teardown;
use crate::{context::wait_backoff, disposal::log};

/// The number of waiting devices that a close tries. With more than one, their number falls.
const TRIED_PER_CLOSE: usize = 2;

static WAITING: PerProcess<Mutex<Waiting>> = PerProcess::new();

/// The devices that wait for the completion of their work, those that were tried last at the end.
#[derive(Default)]
struct Waiting {
    devices: VecDeque<Closing>,
    has_thread: bool,
}

/// A device that is closing.
struct Closing {
    teardown: Teardown,
    since_ns: u64,
}

impl Closing {
    /// Tries to close the device. Returns it if its work is still pending. A driver that panics
    /// leaks the device's resources.
    fn retry(self) -> Option<Self> {
        let since_ns = self.since_ns;
        let closed = catch_unwind(AssertUnwindSafe(|| self.teardown.close()));
        if closed.is_err() {
            log!(warn, "a panic while closing a device leaks its resources");
        }
        let teardown = closed.unwrap_or(None)?;
        Some(Self { teardown, since_ns })
    }
}

fn waiting() -> &'static Mutex<Waiting> {
    WAITING.get_or_init(Mutex::default)
}

/// Tries the device that was tried longest ago. If it still waits, returns the result of `pending`.
fn retry_first<T>(pending: impl FnOnce(&Closing) -> T) -> Option<T> {
    // Not locked while it is tried: the driver may take long.
    let first = waiting().lock().devices.pop_front()?;
    let first = first.retry()?;
    let result = pending(&first);
    waiting().lock().devices.push_back(first);
    Some(result)
}

/// Leaves a device with pending work to the thread. Never blocks.
pub(super) fn enqueue(teardown: Teardown) {
    for _ in 0..TRIED_PER_CLOSE {
        retry_first(|_| ());
    }
    let since_ns = teardown.driver.now_ns();
    let mut waiting = waiting().lock();
    let closing = Closing { teardown, since_ns };
    waiting.devices.push_back(closing);
    if waiting.has_thread {
        return;
    }
    let thread = thread::Builder::new().name(String::from("millstream-closing"));
    match thread.spawn(close_all) {
        Ok(_) => waiting.has_thread = true,
        Err(error) => log!(
            warn,
            %error,
            "cannot start a thread to close devices with pending work; later closes try them"
        ),
    }
}

/// Closes devices until none is left.
fn close_all() {
    let mut pauses = Vec::new();
    loop {
        let count = {
            let mut waiting = waiting().lock();
            waiting.has_thread = !waiting.devices.is_empty();
            waiting.devices.len()
        };
        if count == 0 {
            return;
        }
        for _ in 0..count {
            retry_first(|pending| note_pause(&mut pauses, pending));
        }
        for (driver, waited_ns) in pauses.drain(..) {
            match wait_backoff(waited_ns, driver.is_simulated()) {
                None => thread::yield_now(),
                Some(pause) => driver.pause(pause),
            }
        }
    }
}

/// Notes how long the device that closed last has waited, for each driver.
fn note_pause(pauses: &mut Vec<(Arc<dyn Driver>, u64)>, pending: &Closing) {
    let driver = &pending.teardown.driver;
    let waited_ns = driver.now_ns().saturating_sub(pending.since_ns);
    let is_same =
        |(known, _): &&mut (Arc<dyn Driver>, u64)| known.handle_space() == driver.handle_space();
    match pauses.iter_mut().find(is_same) {
        Some((_, least_ns)) => *least_ns = waited_ns.min(*least_ns),
        None => pauses.push((Arc::clone(driver), waited_ns)),
    }
}
