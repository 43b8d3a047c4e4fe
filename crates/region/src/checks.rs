//! Bounds checks of indices, which the device makes while it runs and the host reads later.
//!
//! Indices in device memory are known only when a kernel reads them. A kernel replaces an index
//! that is out of bounds by 0, so that it touches only its operands, and raises a flag word in
//! device memory to the code of the check. The flag is downloaded with a region's results and
//! examined before them, together with the flags of all earlier sessions that the results depend
//! on.

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

/// The bounds checks of one session.
#[derive(Default)]
pub(crate) struct IndexChecks {
    /// The flag word in device memory; `None` until a kernel needs it.
    flag: Option<Arc<Mutex<Buffer<u32>>>>,
    /// The device of the flag word.
    device: Option<Device>,
    /// The error of each code, from code 1 on.
    errors: Vec<UsageError>,
}

impl IndexChecks {
    /// Returns the flag word that kernels raise, which the first call uploads as 0.
    pub(crate) fn flag(&mut self, stream: &Stream) -> Result<Arc<Mutex<Buffer<u32>>>> {
        if let Some(flag) = &self.flag {
            return Ok(Arc::clone(flag));
        }
        let flag = Arc::new(Mutex::new(stream.upload(&[0_u32])?));
        self.flag = Some(Arc::clone(&flag));
        self.device = Some(stream.device());
        Ok(flag)
    }

    /// Returns the code of a check of indices along an axis in an operation at this line. Checks of
    /// the same line, axis and length share a code, so that a long loop needs no more codes than
    /// its body.
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

    /// Returns the error whose code the flag word holds, or `Ok` if the flag is 0.
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

    /// Returns whether a kernel of the session makes checks.
    pub(crate) fn is_used(&self) -> bool {
        self.flag.is_some()
    }
}

/// The sessions whose bounds checks some elements depend on.
#[derive(Clone, Default)]
pub(crate) struct DeferredChecks(SmallVec<[Arc<Mutex<IndexChecks>>; 1]>);

impl DeferredChecks {
    /// Adds the checks of a session.
    pub(crate) fn add(&mut self, checks: &Arc<Mutex<IndexChecks>>) {
        if !self.0.iter().any(|existing| Arc::ptr_eq(existing, checks)) {
            self.0.push(Arc::clone(checks));
        }
    }

    /// Adds the checks that other elements depend on.
    pub(crate) fn join(&mut self, other: &Self) {
        other.0.iter().for_each(|checks| self.add(checks));
    }

    /// Enqueues downloads of the flags, behind all work enqueued so far.
    pub(crate) fn result(&self, streams: &mut Streams, device: &Device) -> Result<CheckResult> {
        let mut words = SmallVec::new();
        for checks in &self.0 {
            let locked = checks.lock();
            if let Some(flag) = &locked.flag {
                // Elements that a collective has brought from other devices depend on flags there.
                let stream = match &locked.device {
                    Some(other) if other != device => other.stream()?,
                    _ => streams.first(device)?,
                };
                words.push(FlagDownload {
                    pending: stream.download(&*flag.lock())?,
                    checks: Arc::clone(checks),
                });
            }
        }
        Ok(CheckResult { words })
    }
}

/// Flags of bounds checks that are being downloaded.
pub(crate) struct CheckResult {
    words: SmallVec<[FlagDownload; 1]>,
}

/// The pending download of one session's flag.
struct FlagDownload {
    pending: Pending<Vec<u32>>,
    /// The checks that translate the flag into an error.
    checks: Arc<Mutex<IndexChecks>>,
}

impl CheckResult {
    /// Blocks this thread until the flags are downloaded, and returns the error of the first that
    /// is raised.
    pub(crate) fn wait(&mut self) -> Result<()> {
        for word in self.words.drain(..) {
            let found = word.pending.wait()?;
            word.checks.lock().error_for(&found)?;
        }
        Ok(())
    }

    /// Polls the downloads, for futures; otherwise as [`wait`](Self::wait).
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        while let Some(word) = self.words.last_mut() {
            let found = ready!(Pin::new(&mut word.pending).poll(context))?;
            word.checks.lock().error_for(&found)?;
            self.words.pop();
        }
        Poll::Ready(Ok(()))
    }
}
