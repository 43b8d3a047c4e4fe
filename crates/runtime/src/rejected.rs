//! `Rejected`: an error together with what was handed over.

use std::fmt;

use crate::Error;

/// Why something did not happen, with what was handed over for it: nothing is lost.
///
/// With `?` it becomes the [`Error`] alone.
///
/// ```
/// use millstream::Device;
///
/// let stream = Device::simulated()?.stream()?;
/// let bytes = stream.upload(&[1_u8, 2, 3])?;
/// let Err(rejected) = bytes.cast::<u16>() else { unreachable!("three bytes are no whole number of pairs") };
/// let bytes = rejected.source;
/// assert_eq!(stream.download(&bytes)?.wait()?, [1, 2, 3]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[non_exhaustive]
pub struct Rejected<S> {
    /// Why.
    pub error: Error,
    /// What was handed over.
    pub source: S,
}

impl<S> Rejected<S> {
    pub(crate) fn new(error: impl Into<Error>, source: S) -> Self {
        Self {
            error: error.into(),
            source,
        }
    }
}

// By hand, for whatever was handed over: of that, nothing is shown.
impl<S> fmt::Debug for Rejected<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<S> fmt::Display for Rejected<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<S> std::error::Error for Rejected<S> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl<S> From<Rejected<S>> for Error {
    fn from(rejected: Rejected<S>) -> Self {
        rejected.error
    }
}
