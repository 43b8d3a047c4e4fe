//! Devices that are closing: one thread per process frees the resources of those whose work was
//! pending when their last handle was dropped.
//!
//! The thread also closes devices whose last reference was dropped by a thread that may hold locks.
//! It ends when no device is left. A close also tries the devices that have waited longest,
//! so that devices whose work is complete do not accumulate however slowly the thread runs.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use millstream_driver::{Driver, PerProcess};
use parking_lot::Mutex;

use super::teardown::Teardown;
use crate::{
    context::{DeviceState, wait_backoff},
    disposal::{contain, log},
    sync::thread,
};

/// The number of waiting devices that a close tries. With more than one, their number falls.
const TRIED_PER_CLOSE: usize = 2;

/// The pause after a panic of a driver, whose own [`pause`](Driver::pause) may be what panics.
const PAUSE_AFTER_PANIC: Duration = Duration::from_millis(1);

static WAITING: PerProcess<Mutex<Waiting>> = PerProcess::new();

/// The devices that wait for the completion of their work, those that were tried last at the end.
#[derive(Default)]
struct Waiting {
    devices: VecDeque<Closing>,
    /// The devices of which nothing is closed yet.
    unclosed: Vec<DeviceState>,
    has_thread: bool,
    /// The number of times that the thread has tried all devices.
    passes: u64,
}

/// Contains a panic of a driver that frees a device's resources, which are then leaked.
fn free<R>(body: impl FnOnce() -> R) -> Option<R> {
    let freed = contain(body);
    if freed.is_none() {
        log!(warn, "a panic while closing a device leaks its resources");
    }
    freed
}

struct Closing {
    teardown: Teardown,
    /// The time of the first try.
    since_ns: Option<u64>,
}

impl Closing {
    /// Tries to close the device. If its work is still pending, returns it, with the time for which
    /// it has waited.
    fn retry(self) -> Option<(Self, u64)> {
        let teardown = free(|| self.teardown.close())??;
        let now_ns = contain(|| teardown.driver.now_ns()).unwrap_or_default();
        let since_ns = self.since_ns.unwrap_or(now_ns);
        let pending = Self {
            teardown,
            since_ns: Some(since_ns),
        };
        Some((pending, now_ns.saturating_sub(since_ns)))
    }
}

fn waiting() -> &'static Mutex<Waiting> {
    WAITING.get_or_init(Mutex::default)
}

/// Returns how often the thread has tried all devices that are closing, or `None` if it has ended.
#[cfg(feature = "sim")]
pub(crate) fn passes() -> Option<u64> {
    let waiting = waiting().lock();
    waiting.has_thread.then_some(waiting.passes)
}

/// Tries the device that was tried longest ago. If it still waits, returns its driver, and the time
/// for which it has waited.
fn retry_first() -> Option<(Arc<dyn Driver>, u64)> {
    // Not locked while it is tried: the driver may take long.
    let first = waiting().lock().devices.pop_front()?;
    let (first, waited_ns) = first.retry()?;
    let driver = Arc::clone(&first.teardown.driver);
    waiting().lock().devices.push_back(first);
    Some((driver, waited_ns))
}

/// Closes a device, or leaves it to the thread if its work is pending. Never blocks.
pub(super) fn close(teardown: Teardown) {
    let since_ns = None;
    let Some((closing, _)) = (Closing { teardown, since_ns }).retry() else {
        return;
    };
    for _ in 0..TRIED_PER_CLOSE {
        retry_first();
    }
    let mut waiting = waiting().lock();
    waiting.devices.push_back(closing);
    ensure_thread(&mut waiting);
}

/// Leaves a device to the thread. Takes no lock that another operation holds.
pub(super) fn close_later(device: DeviceState) {
    let mut waiting = waiting().lock();
    waiting.unclosed.push(device);
    ensure_thread(&mut waiting);
}

fn ensure_thread(waiting: &mut Waiting) {
    if waiting.has_thread {
        return;
    }
    let thread = thread::Builder::new().name(String::from("millstream-closing"));
    match thread.spawn(run) {
        Ok(_) => waiting.has_thread = true,
        Err(error) => log!(
            warn,
            %error,
            "cannot start a thread to close devices with pending work; later closes try them"
        ),
    }
}

/// Closes devices until none is left, also after panics of drivers.
fn run() {
    while contain(close_all).is_none() {
        log!(error, "a driver panicked while a device was closing");
        thread::sleep(PAUSE_AFTER_PANIC);
    }
}

/// Closes devices until none is left.
fn close_all() {
    let mut pauses = Vec::new();
    loop {
        let (count, unclosed) = {
            let mut waiting = waiting().lock();
            waiting.passes += 1;
            let unclosed = std::mem::take(&mut waiting.unclosed);
            let count = waiting.devices.len();
            waiting.has_thread = count > 0 || !unclosed.is_empty();
            if !waiting.has_thread {
                return;
            }
            (count, unclosed)
        };
        for device in unclosed {
            free(|| drop(device));
        }
        for _ in 0..count {
            if let Some((driver, waited_ns)) = retry_first() {
                note_pause(&mut pauses, driver, waited_ns);
            }
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
fn note_pause(pauses: &mut Vec<(Arc<dyn Driver>, u64)>, driver: Arc<dyn Driver>, waited_ns: u64) {
    let is_same =
        |(known, _): &&mut (Arc<dyn Driver>, u64)| known.handle_space() == driver.handle_space();
    match pauses.iter_mut().find(is_same) {
        Some((_, least_ns)) => *least_ns = waited_ns.min(*least_ns),
        None => pauses.push((driver, waited_ns)),
    }
}
