//! Bounds checks of indices, which the device makes while it runs and the host reads later.
//!
//! A kernel replaces an index that is out of bounds by 0, so that it touches only its operands, and
//! raises a flag word in device memory to the code of the check plus the index. Of several the
//! greatest stays, so that every run reports the same. The flag is downloaded with a region's
//! results and examined before them, together with the flags of all earlier sessions that
//! the results depend on.
//!
//! The memory of results that stay on the device remembers which launches they depend on
//! ([`DeferredChecks`]), and so does everything computed from them, until an element is downloaded.
//! A loop that never downloads one would remember more and more sessions, so beyond [`UNREAD_MAX`]
//! their flags are downloaded meanwhile, and sessions that have passed are forgotten.

use std::{
    future::Future,
    panic::Location,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use millstream::{Buffer, Device, Pending, Stream};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::{
    error::{INDEX_BITS, INDEX_MIN, Result, UsageError, UsageErrorKind},
    streams::Streams,
};

/// The number of sessions from which on the flags of those before are downloaded.
const UNREAD_MAX: usize = 16;
/// The number of sessions from which on a call waits for these downloads.
const READING_MAX: usize = 64;

/// The greatest number of a check, above the index in the flag word.
const NUMBER_MAX: u64 = (1 << (u64::BITS - INDEX_BITS)) - 1;

#[derive(Default)]
pub(crate) struct IndexChecks {
    /// The flag word in device memory; `None` until a kernel needs it.
    flag: Option<Arc<Mutex<Buffer<u64>>>>,
    /// The checks by number, from 1 on: line, axis and length.
    numbered: Vec<(&'static Location<'static>, usize, usize)>,
    /// The number of launches that make checks.
    launches: u64,
    /// The number of launches before the first whose check has not yet succeeded.
    passed: u64,
    /// True once the flag was read as raised.
    is_raised: bool,
    /// The download of the flag, and the number of launches before it. Once the flag is 0, these
    /// checks are forgotten.
    reading: Option<(Pending<Vec<u64>>, u64)>,
}

impl IndexChecks {
    /// Returns the flag word that kernels raise, for one launch. The first call sets it to 0.
    pub(crate) fn flag(&mut self, stream: &Stream) -> Result<Arc<Mutex<Buffer<u64>>>> {
        let flag = match &self.flag {
            Some(flag) => flag,
            None => self.flag.insert(Arc::new(Mutex::new(stream.zeros(1)?))),
        };
        self.launches += 1;
        Ok(Arc::clone(flag))
    }

    pub(crate) fn existing_flag(&self) -> Option<Arc<Mutex<Buffer<u64>>>> {
        self.flag.clone()
    }

    /// Returns the code of a check of indices along an axis in an operation at this line, which is
    /// the flag word for index 0. Checks of the same line, axis and length share a code, so that a
    /// long loop needs no more codes than its body.
    pub(crate) fn code(
        &mut self,
        location: &'static Location<'static>,
        axis: usize,
        length: usize,
    ) -> u64 {
        let check = (location, axis, length);
        let existing = self.numbered.iter().position(|other| *other == check);
        let at = existing.unwrap_or_else(|| {
            self.numbered.push(check);
            self.numbered.len() - 1
        });
        let number = (at as u64 + 1).min(NUMBER_MAX);
        (number << INDEX_BITS) + INDEX_MIN.unsigned_abs()
    }

    /// Returns the error of the flag word, or `Ok` if the flag is 0.
    fn error_for(&self, word: &[u64]) -> Result<()> {
        let word = word.first().copied().unwrap_or(0);
        let Some(at) = (word >> INDEX_BITS).checked_sub(1) else {
            return Ok(());
        };
        let index = (word & ((1 << INDEX_BITS) - 1)) as i64 + INDEX_MIN;
        let numbered = self.numbered.get(at as usize);
        numbered.map_or(Ok(()), |&(location, axis, length)| {
            let problem = UsageErrorKind::Index {
                index: Some(index),
                axis,
                length,
            };
            Err(UsageError::new("index", problem, location).into())
        })
    }

    /// Enqueues a download of the flag, behind all work enqueued so far.
    fn read(&self, streams: &mut Streams, device: &Device) -> Result<Option<Pending<Vec<u64>>>> {
        let Some(flag) = &self.flag else {
            return Ok(None);
        };
        // Elements that a collective has brought from other devices depend on flags there.
        let other = flag.lock().device();
        let stream = match other == *device {
            true => streams.first(device)?,
            false => other.stream()?,
        };
        let flag = flag.lock();
        Ok(Some(stream.download(&*flag)?))
    }

    /// Notes the result of a download that was enqueued after `launches` launches.
    fn note(&mut self, word: &[u64], launches: u64) {
        if word == [0] {
            self.passed = self.passed.max(launches);
        } else {
            self.is_raised = true;
        }
    }

    /// Notes the result of the download in progress, if it is complete or `waits`.
    fn note_read(&mut self, waits: bool) -> Result<()> {
        let Some((mut pending, launches)) = self.reading.take() else {
            return Ok(());
        };
        let taken = if waits { None } else { pending.try_take()? };
        match taken {
            Some(word) => self.note(&word, launches),
            None if waits => self.note(&pending.wait()?, launches),
            None => self.reading = Some((pending, launches)),
        }
        Ok(())
    }
}

/// The bounds checks that some elements depend on: sessions, each with the number of its launches
/// up to the one that the elements come from.
#[derive(Clone, Default)]
pub(crate) struct DeferredChecks(SmallVec<[DeferredCheck; 1]>);

#[derive(Clone)]
struct DeferredCheck {
    checks: Arc<Mutex<IndexChecks>>,
    launches: u64,
}

impl DeferredCheck {
    /// Notes a flag that was downloaded, and returns its error if it is raised.
    fn examine(&self, word: &[u64]) -> Result<()> {
        let mut checks = self.checks.lock();
        checks.note(word, self.launches);
        checks.error_for(word)
    }
}

impl DeferredChecks {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds the checks that a session has made so far.
    pub(crate) fn add(&mut self, checks: &Arc<Mutex<IndexChecks>>) {
        let launches = checks.lock().launches;
        self.insert(checks, launches);
    }

    /// Adds the checks that other elements depend on.
    pub(crate) fn join(&mut self, other: &Self) {
        for check in &other.0 {
            self.insert(&check.checks, check.launches);
        }
    }

    /// Adds the checks of a session's first launches, unless they have all passed.
    fn insert(&mut self, checks: &Arc<Mutex<IndexChecks>>, launches: u64) {
        if launches <= checks.lock().passed {
            return;
        }
        let mut entries = self.0.iter_mut();
        match entries.find(|entry| Arc::ptr_eq(&entry.checks, checks)) {
            Some(entry) => entry.launches = entry.launches.max(launches),
            None => self.0.push(DeferredCheck {
                checks: Arc::clone(checks),
                launches,
            }),
        }
    }

    /// Begins to download the flags if there are many sessions, and forgets those that have passed.
    pub(crate) fn bound(&mut self, streams: &mut Streams, device: &Device) -> Result<()> {
        if self.0.len() < UNREAD_MAX {
            return Ok(());
        }
        let waits = self.0.len() >= READING_MAX;
        for check in &self.0 {
            let mut checks = check.checks.lock();
            if checks.reading.is_none() {
                let launches = checks.launches;
                checks.reading = (checks.read(streams, device)?).map(|word| (word, launches));
            }
            checks.note_read(waits)?;
        }
        self.0
            .retain(|check| check.launches > check.checks.lock().passed);
        // One error is enough.
        if let Some(raised) = (self.0.iter()).position(|check| check.checks.lock().is_raised) {
            self.0.swap(0, raised);
            self.0.truncate(1);
        }
        Ok(())
    }

    /// Enqueues downloads of the flags, behind all work enqueued so far.
    pub(crate) fn result(&self, streams: &mut Streams, device: &Device) -> Result<CheckResult> {
        let mut words = SmallVec::new();
        for DeferredCheck { checks, .. } in &self.0 {
            let locked = checks.lock();
            if let Some(pending) = locked.read(streams, device)? {
                let (checks, launches) = (Arc::clone(checks), locked.launches);
                words.push((pending, DeferredCheck { checks, launches }));
            }
        }
        Ok(CheckResult { words })
    }
}

/// Flags of bounds checks that are being downloaded.
#[derive(Default)]
pub(crate) struct CheckResult {
    /// The downloads, each with the session and the number of its launches before.
    words: SmallVec<[(Pending<Vec<u64>>, DeferredCheck); 1]>,
}

impl CheckResult {
    /// Blocks this thread until the flags are downloaded, and returns the error of the first that
    /// is raised.
    pub(crate) fn wait(&mut self) -> Result<()> {
        for (pending, check) in self.words.drain(..) {
            check.examine(&pending.wait()?)?;
        }
        Ok(())
    }

    /// Polls the downloads, for futures; otherwise as [`wait`](Self::wait).
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        while let Some((pending, check)) = self.words.last_mut() {
            check.examine(&ready!(Pin::new(pending).poll(context))?)?;
            self.words.pop();
        }
        Poll::Ready(Ok(()))
    }
}
