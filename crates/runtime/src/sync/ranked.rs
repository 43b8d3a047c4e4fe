//! Locks with a rank: a thread waits for one only while all that it holds have smaller ranks.
//!
//! Debug builds check it at each lock, and panic with the names of both locks. A lock that is only
//! tried is not checked, because the thread gives up instead of waiting, but counts as held.
//! Release builds have plain locks.

use std::{
    cell::Cell,
    ops::{Deref, DerefMut},
};

use parking_lot::{Mutex, MutexGuard};

/// Declares the ranks in their order, from the lock that is taken first.
macro_rules! ranks {
    ($($(#[doc = $doc:literal])+ $rank:ident,)+) => {
        #[expect(clippy::upper_case_acronyms, non_camel_case_types, reason = "counts the ranks")]
        enum Order { $($rank),+ }
        $($(#[doc = $doc])+ pub(crate) const $rank: u8 = Order::$rank as u8;)+
        /// The names of the ranks.
        const NAMES: &[&str] = &[$(stringify!($rank)),+];
    };
}

ranks! {
    /// The open devices of the process. Held while a device is opened.
    OPEN_DEVICES,
    /// The adopted streams of a device. Held while a companion is created.
    ADOPTED_STREAMS,
    /// The stream of a device for frees. Held while it is created, once.
    STREAM_FOR_FREES,
    /// One device of the process leaves its context.
    LEAVING,
    /// The device states that share a context. Held across frees that need an idle device.
    MEMBERS,
    /// One group of operations is submitted.
    GROUPS,
    /// The submit queue of a stream. Held across the driver calls of the stream.
    SUBMIT_QUEUE,
    /// The executable graph. Held across the calls that change and launch it.
    EXECUTABLE_GRAPH,
    /// The number of a device's streams. Held while a stream is created, and across frees that need
    /// an idle device.
    STREAM_COUNT,
    /// The state of a recording.
    RECORDING,
    /// The loops of a recording.
    RECORDED_LOOPS,
    /// The memory budget of a device, with its cache.
    BUDGET,
    /// An access history. Several are locked in the order of their numbers.
    ACCESS_HISTORY,
    /// The keeper of an adopted stream. Held across queries and records of that stream.
    KEEPER,
    /// The shared state of a stream.
    STREAM_STATE,
    /// The pool of a device's events.
    EVENT_POOL,
    /// The reasons for all devices to examine operands.
    UNSETTLED,
}

/// Returns whether a thread may hold several locks of this rank.
fn permits_several(rank: u8) -> bool {
    match rank {
        ACCESS_HISTORY => true,
        SUBMIT_QUEUE => is_held(GROUPS),
        STREAM_COUNT => is_held(MEMBERS),
        _ => false,
    }
}

thread_local! {
    /// The number of locks of each rank that this thread holds.
    static HELD: [Cell<u32>; NAMES.len()] = const { [const { Cell::new(0) }; NAMES.len()] };
}

fn is_held(rank: u8) -> bool {
    HELD.with(|held| held[usize::from(rank)].get() > 0)
}

#[derive(Debug, Default)]
pub(crate) struct Ranked<const RANK: u8, T>(Mutex<T>);

impl<const RANK: u8, T> Ranked<RANK, T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Returns the value, which no thread holds.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    /// Waits for the lock.
    ///
    /// # Panics
    ///
    /// In debug builds, if the thread holds a lock of this rank or a later one.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub(crate) fn lock(&self) -> RankedGuard<'_, RANK, T> {
        if CHECKED {
            let smallest = RANK + u8::from(permits_several(RANK));
            if let Some(held) = (smallest..=UNSETTLED).find(|&rank| is_held(rank)) {
                let [wanted, held] = [RANK, held].map(|rank| NAMES[usize::from(rank)]);
                panic!("{wanted} is locked while {held} is held, which comes later in the order");
            }
        }
        RankedGuard::new(self.0.lock())
    }

    /// Takes the lock if no thread holds it.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<RankedGuard<'_, RANK, T>> {
        self.0.try_lock().map(RankedGuard::new)
    }
}

/// Whether ranks are checked. Under shuttle, all threads of a test run on one of the system.
const CHECKED: bool = cfg!(all(debug_assertions, not(shuttle)));

/// A ranked lock that this thread holds.
#[derive(Debug)]
pub(crate) struct RankedGuard<'a, const RANK: u8, T> {
    guard: MutexGuard<'a, T>,
    _held: Held<RANK>,
}

impl<'a, const RANK: u8, T> RankedGuard<'a, RANK, T> {
    #[inline]
    fn new(guard: MutexGuard<'a, T>) -> Self {
        if CHECKED {
            HELD.with(|held| held[usize::from(RANK)].update(|count| count + 1));
        }
        Self { guard, _held: Held }
    }

    pub(crate) fn for_condition(&mut self) -> &mut MutexGuard<'a, T> {
        &mut self.guard
    }
}

impl<const RANK: u8, T> Deref for RankedGuard<'_, RANK, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<const RANK: u8, T> DerefMut for RankedGuard<'_, RANK, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// Counts a lock as held until it is dropped.
#[derive(Debug)]
struct Held<const RANK: u8>;

#[cfg(all(debug_assertions, not(shuttle)))]
impl<const RANK: u8> Drop for Held<RANK> {
    fn drop(&mut self) {
        HELD.with(|held| held[usize::from(RANK)].update(|count| count - 1));
    }
}

#[cfg(all(test, debug_assertions, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn locks_are_taken_in_the_order_of_their_ranks() {
        let queue = Ranked::<SUBMIT_QUEUE, _>::new(1);
        let (budget, histories) = (Ranked::<BUDGET, _>::new(2), [3, 4].map(Ranked::new));
        let [first, second]: &[Ranked<ACCESS_HISTORY, _>; 2] = &histories;
        let held = (queue.lock(), budget.lock(), first.lock(), second.lock());
        assert_eq!((*held.0, *held.1, *held.2, *held.3), (1, 2, 3, 4));
        drop(held);
        drop((budget.lock(), queue.try_lock().expect("the lock is free")));
        let _queue = queue.lock();
    }

    #[test]
    #[should_panic(expected = "SUBMIT_QUEUE is locked while BUDGET is held")]
    fn a_lock_of_a_smaller_rank_is_not_waited_for() {
        let (queue, budget) = (
            Ranked::<SUBMIT_QUEUE, _>::new(1),
            Ranked::<BUDGET, _>::new(2),
        );
        let _budget = budget.lock();
        let _queue = queue.lock();
    }

    #[test]
    #[should_panic(expected = "SUBMIT_QUEUE is locked while SUBMIT_QUEUE is held")]
    fn a_second_lock_of_one_rank_is_not_waited_for() {
        let queues = [1, 2].map(Ranked::<SUBMIT_QUEUE, _>::new);
        let _first = queues[0].try_lock();
        let _second = queues[1].lock();
    }
}
