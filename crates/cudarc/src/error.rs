//! Errors of hand-overs to and from cudarc.

/// The result of a hand-over.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The failure of a hand-over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Millstream refused the operation, or its device failed. A stream or an array of another
    /// context, and a default stream, are such errors.
    #[error(transparent)]
    Millstream(#[from] millstream::Error),
    /// A call of cudarc failed.
    #[error("a call of cudarc failed: {0:?}")]
    Cudarc(#[from] cudarc::driver::DriverError),
    /// A context of cudarc is not the primary context of its device, which Millstream uses.
    #[error(
        "cudarc's context {context:#x} of device {ordinal} is not the device's primary context: \
         create it with `CudaContext::new`"
    )]
    OtherContext {
        /// The context's handle.
        context: usize,
        /// The ordinal of its device.
        ordinal: usize,
    },
    /// The array did not come from a slice of cudarc with this type of elements.
    #[error("the array did not come from a `CudaSlice` of this type; lend it instead")]
    NotASlice,
}

impl<S> From<millstream::Rejected<S>> for Error {
    fn from(rejected: millstream::Rejected<S>) -> Self {
        Self::Millstream(rejected.error)
    }
}
