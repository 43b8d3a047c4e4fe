//! The copy threads: a thread pool that copies host memory for large transfers, shared by all
//! devices of the process.
//!
//! A [`Transfer`] is an ordered queue of copies. Each copy is split into subchunks. The owner of a
//! transfer takes subchunks of its own transfer, one at a time; the copy threads take one of each
//! transfer in turn, so that no transfer waits for the whole of another. They only move bytes: they
//! never call a driver, wait for a device or run user code, so they cannot fail, and the thread
//! that owns the transfer makes all driver calls. If the system cannot start threads, the owner
//! copies everything.
//!
//! One lock guards the state. It is held to take a subchunk and to mark it as copied, never during
//! a copy. Copy threads sleep on `work` while there is no subchunk, owners on `copied` while others
//! copy the last subchunks that they wait for. A thread that has taken a subchunk marks it as
//! copied before it does anything else, so a sleeping owner is woken.

#![allow(unsafe_code, reason = "copies memory that owners of transfers provide")]

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use millstream_driver::PerProcess;
use parking_lot::{Mutex, MutexGuard};

use super::host_copy::copy_bytes;
use crate::{disposal::log, page_locked::StagingOptions, sync::IdleCondvar};

/// The upper bound of the number of copy threads.
const COPY_THREADS_MAX: usize = 64;

#[derive(Clone, Copy)]
struct CopyRange {
    source: *const u8,
    target: *mut u8,
    bytes: usize,
}

// SAFETY: addresses are plain data; the contract of `Transfer::push` makes them valid on every
// thread.
unsafe impl Send for CopyRange {}

impl CopyRange {
    fn subchunk(self, start: usize, bytes_max: usize) -> Self {
        Self {
            source: self.source.wrapping_add(start),
            target: self.target.wrapping_add(start),
            bytes: bytes_max.min(self.bytes - start),
        }
    }
}

struct Job {
    copy: CopyRange,
    /// Bytes of the subchunks that were taken.
    taken_bytes: usize,
    /// Bytes that are not copied yet, including subchunks in progress.
    left_bytes: usize,
}

struct TransferQueue {
    id: u64,
    options: TransferOptions,
    /// The number of copy threads that copy for it now.
    helpers: usize,
    /// The number of the first of `jobs`.
    first: u64,
    /// The copies, without the finished ones at the front. Later finished ones stay, so that
    /// numbers are indices.
    jobs: VecDeque<Job>,
}

#[derive(Clone, Copy)]
struct TransferOptions {
    subchunk_bytes: usize,
    helpers_max: usize,
    non_temporal: bool,
}

/// A subchunk of a job, taken by a thread.
struct Subchunk {
    id: u64,
    job: u64,
    copy: CopyRange,
    non_temporal: bool,
}

impl Subchunk {
    fn copy(&self) {
        let CopyRange {
            source,
            target,
            bytes,
        } = self.copy;
        // SAFETY: the contract of `Transfer::push` holds until this subchunk is marked as copied.
        // No two subchunks of a job overlap.
        unsafe { copy_bytes(source, target, bytes, self.non_temporal) };
    }
}

impl TransferQueue {
    fn take(&mut self) -> Option<Subchunk> {
        let at = self
            .jobs
            .iter()
            .position(|job| job.taken_bytes < job.copy.bytes)?;
        let job = &mut self.jobs[at];
        let copy = job
            .copy
            .subchunk(job.taken_bytes, self.options.subchunk_bytes);
        job.taken_bytes += copy.bytes;
        Some(Subchunk {
            id: self.id,
            job: self.first + at as u64,
            copy,
            non_temporal: self.options.non_temporal,
        })
    }

    /// Marks a subchunk as copied. Returns whether that finished a job.
    fn put_back(&mut self, subchunk: &Subchunk) -> bool {
        let at = usize::try_from(subchunk.job - self.first).expect("a job stays until it is done");
        self.jobs[at].left_bytes -= subchunk.copy.bytes;
        let before = self.first;
        while self.jobs.front().is_some_and(|job| job.left_bytes == 0) {
            self.jobs.pop_front();
            self.first += 1;
        }
        self.first > before
    }
}

#[derive(Default)]
struct CopyThreadsState {
    /// The transfers, in the order in which copy threads help them.
    queues: VecDeque<TransferQueue>,
    threads: usize,
    /// The number of sleeping copy threads.
    asleep: usize,
}

impl CopyThreadsState {
    fn queue(&mut self, id: u64) -> Option<&mut TransferQueue> {
        self.queues.iter_mut().find(|queue| queue.id == id)
    }

    /// Takes a subchunk for a copy thread and moves on to the next transfer.
    fn take_round_robin(&mut self) -> Option<Subchunk> {
        let may_help = |queue: &TransferQueue| queue.helpers < queue.options.helpers_max;
        let has_work = |queue: &TransferQueue| {
            queue
                .jobs
                .iter()
                .any(|job| job.taken_bytes < job.copy.bytes)
        };
        let at = self
            .queues
            .iter()
            .position(|queue| may_help(queue) && has_work(queue))?;
        let mut queue = self.queues.remove(at)?;
        let subchunk = queue.take();
        queue.helpers += 1;
        self.queues.push_back(queue);
        subchunk
    }
}

struct CopyThreads {
    state: Mutex<CopyThreadsState>,
    work: IdleCondvar,
    copied: IdleCondvar,
}

fn copy_threads() -> &'static CopyThreads {
    static COPY_THREADS: PerProcess<CopyThreads> = PerProcess::new();
    COPY_THREADS.get_or_init(|| CopyThreads {
        state: Mutex::default(),
        work: IdleCondvar::new(),
        copied: IdleCondvar::new(),
    })
}

impl CopyThreads {
    /// Runs the loop of a copy thread, which never ends.
    fn run(&self) {
        let mut state = self.state.lock();
        loop {
            match state.take_round_robin() {
                Some(subchunk) => {
                    drop(state);
                    subchunk.copy();
                    state = self.state.lock();
                    if let Some(queue) = state.queue(subchunk.id) {
                        queue.helpers -= 1;
                    }
                    self.put_back(&mut state, &subchunk);
                }
                None => {
                    state.asleep += 1;
                    self.work.wait(&mut state);
                    state.asleep -= 1;
                }
            }
        }
    }

    fn put_back(&self, state: &mut CopyThreadsState, subchunk: &Subchunk) {
        if let Some(queue) = state.queue(subchunk.id)
            && queue.put_back(subchunk)
        {
            self.copied.notify_all();
        }
    }

    /// Starts threads until there are `threads`, or as many as the system allows.
    fn grow(&'static self, state: &mut MutexGuard<'_, CopyThreadsState>, threads: usize) {
        while state.threads < threads.min(COPY_THREADS_MAX) {
            let name = format!("millstream-copy-{}", state.threads);
            if let Err(error) = thread::Builder::new().name(name).spawn(|| self.run()) {
                log!(debug, %error, "cannot start a copy thread; using the existing ones");
                return;
            }
            state.threads += 1;
        }
    }
}

/// A queue of host copies that the copy threads help with. Dropping it waits until all of them are
/// finished, which never waits for a device.
pub(super) struct Transfer {
    id: u64,
    options: TransferOptions,
    alone_bytes: usize,
    /// Set once a copy was queued.
    is_used: AtomicBool,
}

impl Transfer {
    /// Creates a transfer without copies, which takes no lock before its first copy.
    pub(super) fn new(staging_options: &StagingOptions, non_temporal: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            options: TransferOptions {
                subchunk_bytes: staging_options.subchunk_bytes,
                helpers_max: staging_options.threads - 1,
                non_temporal,
            },
            alone_bytes: staging_options.alone_bytes,
            is_used: AtomicBool::new(false),
        }
    }

    /// Copies small ranges at once and queues large ones. Returns `None` if the range was copied.
    ///
    /// # Safety
    ///
    /// As [`push`](Self::push).
    pub(super) unsafe fn copy(
        &self,
        source: *const u8,
        target: *mut u8,
        bytes: usize,
    ) -> Option<u64> {
        if bytes > self.alone_bytes && self.options.helpers_max > 0 {
            // SAFETY: by this function's contract.
            return Some(unsafe { self.push(source, target, bytes) });
        }
        let non_temporal = self.options.non_temporal && bytes > self.alone_bytes;
        // SAFETY: by this function's contract.
        unsafe { copy_bytes(source, target, bytes, non_temporal) };
        None
    }

    /// Queues a copy and returns its number, from 0.
    ///
    /// # Safety
    ///
    /// Until the copy is finished, `source` is valid for reads and `target` for writes of `bytes`
    /// bytes, the two do not overlap, and no other code writes the source or accesses the target.
    pub(super) unsafe fn push(&self, source: *const u8, target: *mut u8, bytes: usize) -> u64 {
        assert!(bytes > 0, "a copy of nothing would never be over");
        self.is_used.store(true, Ordering::Relaxed);
        let copy_threads = copy_threads();
        let mut state = copy_threads.state.lock();
        copy_threads.grow(&mut state, self.options.helpers_max);
        let job = Job {
            copy: CopyRange {
                source,
                target,
                bytes,
            },
            taken_bytes: 0,
            left_bytes: bytes,
        };
        let asleep = state.asleep;
        if state.queue(self.id).is_none() {
            state.queues.push_back(TransferQueue {
                id: self.id,
                options: self.options,
                helpers: 0,
                first: 0,
                jobs: VecDeque::new(),
            });
        }
        let queue = state.queue(self.id).expect("it was entered");
        queue.jobs.push_back(job);
        let number = queue.first + queue.jobs.len() as u64 - 1;
        drop(state);
        let subchunks = bytes.div_ceil(self.options.subchunk_bytes);
        for _ in 0..subchunks.min(asleep).min(self.options.helpers_max) {
            copy_threads.work.notify_one();
        }
        number
    }

    /// Returns whether the copies up to this one are finished.
    pub(super) fn is_done(&self, number: u64) -> bool {
        let mut state = copy_threads().state.lock();
        state
            .queue(self.id)
            .is_none_or(|queue| queue.first > number)
    }

    /// Copies one subchunk of the queued copies. Returns `false` if all have been taken.
    pub(super) fn help(&self) -> bool {
        let copy_threads = copy_threads();
        let subchunk = copy_threads
            .state
            .lock()
            .queue(self.id)
            .and_then(TransferQueue::take);
        let Some(subchunk) = subchunk else {
            return false;
        };
        subchunk.copy();
        copy_threads.put_back(&mut copy_threads.state.lock(), &subchunk);
        true
    }

    /// Copies subchunks, and waits for those that others copy, until the copies up to this one are
    /// finished.
    pub(super) fn finish(&self, number: u64) {
        loop {
            if self.is_done(number) {
                return;
            }
            if self.help() {
                continue;
            }
            let copy_threads = copy_threads();
            let mut state = copy_threads.state.lock();
            if state
                .queue(self.id)
                .is_some_and(|queue| queue.first <= number)
            {
                copy_threads.copied.wait(&mut state);
            }
        }
    }

    /// Calls [`finish`](Self::finish) for all queued copies.
    pub(super) fn finish_all(&self) {
        let last = {
            let mut state = copy_threads().state.lock();
            state
                .queue(self.id)
                .map(|queue| queue.first + queue.jobs.len() as u64)
        };
        // Without a job, no copy was ever queued.
        if let Some(number) = last.and_then(|end| end.checked_sub(1)) {
            self.finish(number);
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if !*self.is_used.get_mut() {
            return;
        }
        self.finish_all();
        copy_threads()
            .state
            .lock()
            .queues
            .retain(|queue| queue.id != self.id);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
