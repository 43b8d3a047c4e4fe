//! What the device finds wrong while it runs: indices that are none of their axis.
//!
//! A kernel that reads indices uses 0 in place of one that is none, so that it touches nothing but
//! its operands, and raises a word to the number of the check. Whoever waits for a region's results
//! looks at that word first, and at those of earlier regions and of calculations outside of regions
//! whose elements the results depend on.

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
    error::{Result, UsageError, UsageErrorKind},
    streams::Streams,
};

/// The checks of one session.
#[derive(Default)]
pub(crate) struct IndexChecks {
    /// The word, once a kernel needs it.
    flag: Option<Arc<Mutex<Buffer<u32>>>>,
    /// What each number means, from 1 on.
    errors: Vec<UsageError>,
}

impl IndexChecks {
    /// The word that kernels raise.
    pub(crate) fn flag(&mut self, stream: &Stream) -> Result<Arc<Mutex<Buffer<u32>>>> {
        if let Some(flag) = &self.flag {
            return Ok(Arc::clone(flag));
        }
        let flag = Arc::new(Mutex::new(stream.upload(&[0_u32])?));
        self.flag = Some(Arc::clone(&flag));
        Ok(flag)
    }

    /// A number for indices along an axis, in an operation at this line: one for each line, axis
    /// and length, so that a long loop needs no more than its body.
    pub(crate) fn number(
        &mut self,
        location: &'static Location<'static>,
        axis: usize,
        length: usize,
    ) -> u32 {
        let error = UsageError::new("index", UsageErrorKind::Index { axis, length }, location);
        let existing = self.errors.iter().position(|other| *other == error);
        let index = existing.unwrap_or_else(|| {
            self.errors.push(error);
            self.errors.len() - 1
        });
        u32::try_from(index + 1).expect("there are fewer checks than nodes in memory")
    }

    /// The mistake that a word stands for, if any.
    fn error_for(&self, word: &[u32]) -> Result<()> {
        let number = word.first().map_or(0, |&word| word as usize);
        match number
            .checked_sub(1)
            .and_then(|index| self.errors.get(index))
        {
            Some(error) => Err(error.clone().into()),
            None => Ok(()),
        }
    }

    /// Whether there is anything to check.
    pub(crate) fn is_used(&self) -> bool {
        self.flag.is_some()
    }
}

/// The checks that some elements depend on, by session.
#[derive(Default)]
pub(crate) struct DeferredChecks(SmallVec<[Arc<Mutex<IndexChecks>>; 1]>);

impl DeferredChecks {
    /// Those of a session besides.
    pub(crate) fn add(&mut self, checks: &Arc<Mutex<IndexChecks>>) {
        if !self.0.iter().any(|existing| Arc::ptr_eq(existing, checks)) {
            self.0.push(Arc::clone(checks));
        }
    }

    /// Those of other elements besides.
    pub(crate) fn join(&mut self, other: &Self) {
        other.0.iter().for_each(|checks| self.add(checks));
    }

    /// What was found, once all that is enqueued is done.
    pub(crate) fn result(&self, streams: &mut Streams, device: &Device) -> Result<CheckResult> {
        let mut words = SmallVec::new();
        for checks in &self.0 {
            if let Some(flag) = &checks.lock().flag {
                words.push(FlagDownload {
                    pending: streams.first(device)?.download(&*flag.lock())?,
                    checks: Arc::clone(checks),
                });
            }
        }
        Ok(CheckResult { words })
    }
}

/// What checks have found, once it is here.
pub(crate) struct CheckResult {
    words: SmallVec<[FlagDownload; 1]>,
}

/// A word on its way.
struct FlagDownload {
    pending: Pending<Vec<u32>>,
    /// Who knows what its number means.
    checks: Arc<Mutex<IndexChecks>>,
}

impl CheckResult {
    /// Blocks this thread until it is known, and gives what was wrong as an error.
    pub(crate) fn wait(&mut self) -> Result<()> {
        for word in self.words.drain(..) {
            let found = word.pending.wait()?;
            word.checks.lock().error_for(&found)?;
        }
        Ok(())
    }

    /// As [`wait`](Self::wait), for futures.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        while let Some(word) = self.words.last_mut() {
            let found = ready!(Pin::new(&mut word.pending).poll(context))?;
            word.checks.lock().error_for(&found)?;
            self.words.pop();
        }
        Poll::Ready(Ok(()))
    }
}
