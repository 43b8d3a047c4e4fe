//! `Rejected`: an error that returns the source of a failed operation.

use std::fmt;

use crate::Error;

/// An error together with the value that the failed operation had taken over, so that the value is
/// not lost.
///
/// `?` converts it to the [`Error`] alone.
///
/// ```
/// use millstream::Device;
///
/// let stream = Device::simulated()?.stream()?;
/// let bytes = stream.upload(&[1_u8, 2, 3])?;
/// let Err(rejected) = bytes.cast::<u16>() else {
///     unreachable!("three bytes are not a whole number of u16")
/// };
/// let bytes = rejected.source;
/// assert_eq!(stream.download(&bytes)?.wait()?, [1, 2, 3]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[non_exhaustive]
pub struct Rejected<S> {
    /// The reason for the failure.
    pub error: Error,
    /// The value that was passed to the operation.
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

// Implemented by hand, so that `S` needs no `Debug`; the source is not shown.
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
