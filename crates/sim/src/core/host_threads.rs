//! The threads of the host that may still act: make a driver call, or write memory that kernels
//! read.
//!
//! No thread can be asked what it will do. A thread that is blocked in a call of a simulated driver
//! does nothing until that call ends; one that has paused for long between its queries counts as
//! blocked. Of the others these count: all of the process, if its main thread has called the
//! driver. Otherwise, as in a test harness, the threads that have called it, and those of the
//! calling thread's name that have called no other: threads inherit the name of the one that
//! starts them. A thread that waits without a time limit for another one of the process does not
//! count, nor do the simulator's and the library's own. Threads are listed in `/proc`; without it,
//! those that have called the driver count.

use std::{
    cell::Cell,
    collections::BTreeSet,
    fs,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

const TASKS: &str = "/proc/self/task";
/// The time after which a thread that pauses counts as blocked. A wait with a time limit may end
/// before.
const PAUSED_MAX: Duration = Duration::from_secs(10);
/// The beginnings of the names of threads that belong to the simulator or to the library.
const OWN_NAMES: [&str; 2] = ["sim-", "millstream"];

/// The number of the system call `futex`, and its operations that wait.
const FUTEX: &str = if cfg!(target_arch = "x86_64") {
    "202"
} else {
    "98"
};
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAIT_BITSET: u64 = 9;

/// The threads of the process that are blocked or pause, in calls of any simulated driver.
static IDLE: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
/// The threads that have called any simulated driver.
static CALLERS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

thread_local! {
    /// The number of the thread; 0 until it is known.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    static CALLER: Caller = Caller(number());
    /// The time for which the thread has only paused and queried.
    static PAUSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// A thread that has called a driver. Numbers are used again after the end of a thread.
struct Caller(u32);

impl Drop for Caller {
    fn drop(&mut self) {
        CALLERS.lock().remove(&self.0);
        IDLE.lock().remove(&self.0);
    }
}

/// Returns the number of the calling thread, which is the kernel's where that is known.
pub(crate) fn number() -> u32 {
    static UNNAMED: AtomicU32 = AtomicU32::new(u32::MAX);
    if NUMBER.get() == 0 {
        let link = fs::read_link("/proc/thread-self").ok();
        let number = link.and_then(|link| link.file_name()?.to_str()?.parse().ok());
        NUMBER.set(number.unwrap_or_else(|| UNNAMED.fetch_sub(1, Relaxed)));
    }
    NUMBER.get()
}

/// Marks the calling thread as blocked while the value lives.
pub(crate) struct Blocked(bool);

impl Blocked {
    pub(crate) fn new() -> Self {
        Self(IDLE.lock().insert(number()))
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if self.0 {
            IDLE.lock().remove(&number());
        }
    }
}

/// Notes a pause of the calling thread. Returns whether it counts as blocked: it has paused for
/// [`PAUSED_MAX`], and made no other calls than queries.
pub(crate) fn pauses(duration: Duration) -> bool {
    let paused = PAUSED.get().saturating_add(duration);
    PAUSED.set(paused);
    let blocked = paused >= PAUSED_MAX;
    if blocked {
        IDLE.lock().insert(number());
    }
    blocked
}

/// Notes that the calling thread calls a driver with these `callers`. A query is no action of a
/// thread that pauses.
pub(crate) fn calls(callers: &mut BTreeSet<u32>, is_query: bool) {
    if callers.insert(number()) {
        // At the end of a thread the value may be gone.
        let _ = CALLER.try_with(|caller| CALLERS.lock().insert(caller.0));
    }
    if !is_query && PAUSED.replace(Duration::ZERO) >= PAUSED_MAX {
        IDLE.lock().remove(&number());
    }
}

/// Returns whether a thread other than the calling one may act, given those that have called the
/// driver.
pub(crate) fn others_may_act(callers: &BTreeSet<u32>) -> bool {
    let name = |thread: u32| fs::read_to_string(format!("{TASKS}/{thread}/comm"));
    let idle = IDLE.lock().clone();
    let others = CALLERS.lock().clone();
    let acts = |thread: &u32| *thread != number() && !idle.contains(thread);
    let Some(threads) = threads() else {
        return callers.iter().any(acts);
    };
    let all = callers.contains(&std::process::id());
    let here = name(number()).unwrap_or_default();
    threads.into_iter().filter(acts).any(|thread| {
        // A thread without a name has just ended.
        name(thread).is_ok_and(|name| {
            let is_here = name == here && !others.contains(&thread);
            let counts = all || callers.contains(&thread) || is_here;
            counts && !OWN_NAMES.iter().any(|own| name.starts_with(own)) && !waits_for_ever(thread)
        })
    })
}

/// Returns the threads of the process; `None` if they cannot be listed.
fn threads() -> Option<BTreeSet<u32>> {
    let list = || -> Option<BTreeSet<u32>> {
        let listed = fs::read_dir(TASKS).ok()?;
        let threads = listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        Some(threads.collect())
    };
    // A list breaks off at a thread that ends meanwhile.
    let mut all = list()?;
    for _ in 0..3 {
        all.extend(list()?);
    }
    Some(all)
}

/// Returns whether a thread waits without a time limit for another thread of the process, for
/// example for its end.
fn waits_for_ever(thread: u32) -> bool {
    let Ok(call) = fs::read_to_string(format!("{TASKS}/{thread}/syscall")) else {
        return false;
    };
    let mut words = call.split_whitespace();
    let mut number = || {
        let word = words.next()?;
        u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
    };
    // The number of the call is decimal.
    let futex = call.split_whitespace().next() == Some(FUTEX);
    let arguments = [(); 5].map(|()| number());
    let [_, _, Some(operation), _, Some(0)] = arguments else {
        return false;
    };
    futex && [FUTEX_WAIT, FUTEX_WAIT_BITSET].contains(&(operation & 0x7f))
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use super::*;

    #[test]
    fn a_thread_counts_unless_it_is_blocked_or_waits_for_another_for_ever() {
        let run = || {
            let callers = BTreeSet::from([number()]);
            assert!(!others_may_act(&callers));
            let (go, gone) = mpsc::channel::<()>();
            let (at, is_at) = mpsc::channel();
            let other = thread::spawn(move || {
                let minute = Duration::from_secs(60);
                at.send(()).unwrap();
                gone.recv_timeout(minute).unwrap();
                let blocked = Blocked::new();
                at.send(()).unwrap();
                gone.recv_timeout(minute).unwrap();
                drop(blocked);
                at.send(()).unwrap();
                gone.recv().unwrap();
            });
            is_at.recv().unwrap();
            assert!(others_may_act(&callers));
            go.send(()).unwrap();
            is_at.recv().unwrap();
            assert!(!others_may_act(&callers));
            go.send(()).unwrap();
            is_at.recv().unwrap();
            // It waits for this thread without a time limit.
            while others_may_act(&callers) {
                thread::yield_now();
            }
            go.send(()).unwrap();
            other.join().unwrap();
        };
        // Of this name there are no threads but those that it starts.
        let named = thread::Builder::new().name("counts".into());
        named.spawn(run).unwrap().join().unwrap();
    }
}
