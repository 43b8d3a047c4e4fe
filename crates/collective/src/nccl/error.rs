//! NCCL errors: result codes, failed calls, and failures to load the library.

use std::{fmt, sync::Arc};

use millstream_driver::{__result_codes as result_codes, libraries::LibraryNotFound};

result_codes! {
    /// NCCL's numeric result (`ncclResult_t`).
    ///
    /// ```
    /// use millstream_collective::nccl::NcclCode;
    /// assert_eq!(NcclCode::REMOTE_ERROR.to_string(), "ncclRemoteError (6)");
    /// assert_eq!(NcclCode::from_raw(99).to_string(), "ncclResult_t 99");
    /// ```
    pub struct NcclCode("ncclResult_t") of "NCCL" {
        /// No error.
        SUCCESS = 0, "ncclSuccess";
        /// A call of CUDA failed.
        UNHANDLED_CUDA_ERROR = 1, "ncclUnhandledCudaError";
        /// A call of the operating system failed.
        SYSTEM_ERROR = 2, "ncclSystemError";
        /// An internal check failed.
        INTERNAL_ERROR = 3, "ncclInternalError";
        /// An argument is not valid.
        INVALID_ARGUMENT = 4, "ncclInvalidArgument";
        /// The call is not valid in this place.
        INVALID_USAGE = 5, "ncclInvalidUsage";
        /// Another rank failed, or its connection was lost.
        REMOTE_ERROR = 6, "ncclRemoteError";
        /// A call on a non-blocking communicator is not complete yet.
        IN_PROGRESS = 7, "ncclInProgress";
    }
}

/// A call of NCCL that failed.
///
/// ```
/// use millstream_collective::nccl::{NcclCode, NcclError};
/// let error = NcclError::new("ncclAllReduce", NcclCode::REMOTE_ERROR, "rank 3 is gone");
/// assert_eq!(error.to_string(), "ncclAllReduce failed: ncclRemoteError (6): rank 3 is gone");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed: {code}{}{text}", if text.is_empty() { "" } else { ": " })]
pub struct NcclError {
    call: &'static str,
    code: NcclCode,
    text: Arc<str>,
}

impl NcclError {
    /// Creates the error of the function `call`, with NCCL's description, which may be empty.
    #[must_use]
    pub fn new(call: &'static str, code: NcclCode, text: impl Into<Arc<str>>) -> Self {
        Self {
            call,
            code,
            text: text.into(),
        }
    }

    /// Returns the `nccl*` name of the function that failed.
    #[must_use]
    pub fn call(&self) -> &'static str {
        self.call
    }

    /// Returns the numeric result.
    #[must_use]
    pub fn code(&self) -> NcclCode {
        self.code
    }

    /// Returns NCCL's description, or an empty text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The reason why NCCL cannot be used.
///
/// ```
/// use millstream_collective::nccl::NcclLoadError;
/// let error = NcclLoadError::TooOld { version: 21_605, origin: "libnccl.so.2".into() };
/// assert_eq!(
///     error.to_string(),
///     "NCCL 2.16.5 from libnccl.so.2 is too old: Millstream needs 2.18 or later"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NcclLoadError {
    /// No location has the library.
    #[error(transparent)]
    NotFound(#[from] LibraryNotFound),
    /// The library lacks a required function.
    #[error("NCCL from {origin} has no function `{symbol}`: Millstream needs NCCL 2.18 or later")]
    SymbolMissing {
        /// The function's name in the library.
        symbol: &'static str,
        /// The location from which the library was loaded.
        origin: Arc<str>,
    },
    /// The library is older than [`OLDEST_NCCL_VERSION`](super::OLDEST_NCCL_VERSION).
    #[error(
        "NCCL {} from {origin} is too old: Millstream needs 2.18 or later",
        VersionText(*version)
    )]
    TooOld {
        /// The library's version.
        version: i32,
        /// The location from which the library was loaded.
        origin: Arc<str>,
    },
    /// The library cannot tell its version.
    #[error(transparent)]
    Call(#[from] NcclError),
}

/// A version of NCCL, displayed as `2.18.3`.
struct VersionText(i32);

impl fmt::Display for VersionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(version) = self;
        write!(
            f,
            "{}.{}.{}",
            version / 10_000,
            version / 100 % 100,
            version % 100
        )
    }
}
