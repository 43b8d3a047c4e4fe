//! What a driver call can answer when it fails: the call, its numeric result, and what more is
//! known.

use std::{fmt, sync::Arc};

/// A driver's numeric result (`CUresult`). Any number may come back, also ones that this list does
/// not name.
///
/// ```
/// use millstream_driver::ResultCode;
/// assert_eq!(ResultCode::OUT_OF_MEMORY.to_string(), "CUDA_ERROR_OUT_OF_MEMORY (2)");
/// assert_eq!(ResultCode::from_raw(12345).to_string(), "CUresult 12345");
/// assert!(ResultCode::ILLEGAL_ADDRESS.is_sticky());
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResultCode(i32);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        impl ResultCode {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// The name in CUDA's headers, without `CUDA_ERROR_`, when the number is one of this
            /// list.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// No error.
    SUCCESS = 0;
    /// An argument is out of its range.
    INVALID_VALUE = 1;
    /// Not enough memory.
    OUT_OF_MEMORY = 2;
    /// The driver is not initialised.
    NOT_INITIALIZED = 3;
    /// The driver is shutting down.
    DEINITIALIZED = 4;
    /// No device that CUDA can use.
    NO_DEVICE = 100;
    /// There is no device of that ordinal.
    INVALID_DEVICE = 101;
    /// A module image that is not valid.
    INVALID_IMAGE = 200;
    /// The context is not valid.
    INVALID_CONTEXT = 201;
    /// The device has no code for its architecture in the image.
    NO_BINARY_FOR_GPU = 209;
    /// An uncorrectable memory error. The context is lost.
    ECC_UNCORRECTABLE = 214;
    /// PTX that did not compile.
    INVALID_PTX = 218;
    /// An uncorrectable error of the link between devices. The context is lost.
    NVLINK_UNCORRECTABLE = 220;
    /// PTX newer than the driver.
    UNSUPPORTED_PTX_VERSION = 222;
    /// A failure that the device contained, as of an access to a peer's memory. The context is
    /// lost.
    CONTAINED = 226;
    /// A library symbol is missing.
    SHARED_OBJECT_SYMBOL_NOT_FOUND = 302;
    /// The handle is not valid.
    INVALID_HANDLE = 400;
    /// A named symbol was not found.
    NOT_FOUND = 500;
    /// The work is not yet complete. Queries turn this into
    /// [`Completion::Pending`](crate::Completion::Pending).
    NOT_READY = 600;
    /// A kernel touched an address that is not mapped. The context is lost.
    ILLEGAL_ADDRESS = 700;
    /// The launch asked for more than the device has (threads, shared memory, registers).
    LAUNCH_OUT_OF_RESOURCES = 701;
    /// A kernel ran for too long. The context is lost.
    LAUNCH_TIMEOUT = 702;
    /// The primary context was already destroyed.
    CONTEXT_IS_DESTROYED = 709;
    /// A device-side assertion failed. The context is lost.
    ASSERT = 710;
    /// The host memory is already registered.
    HOST_MEMORY_ALREADY_REGISTERED = 712;
    /// The host memory is not registered.
    HOST_MEMORY_NOT_REGISTERED = 713;
    /// The device's stack is broken. The context is lost.
    HARDWARE_STACK_ERROR = 714;
    /// An instruction that the device does not know. The context is lost.
    ILLEGAL_INSTRUCTION = 715;
    /// A misaligned access. The context is lost.
    MISALIGNED_ADDRESS = 716;
    /// An access in the wrong address space. The context is lost.
    INVALID_ADDRESS_SPACE = 717;
    /// A program counter outside the program. The context is lost.
    INVALID_PC = 718;
    /// A kernel failed. The context is lost.
    LAUNCH_FAILED = 719;
    /// A kernel ended without giving back tensor memory. The context is lost.
    TENSOR_MEMORY_LEAK = 721;
    /// The operation is not permitted.
    NOT_PERMITTED = 800;
    /// The operation is not supported.
    NOT_SUPPORTED = 801;
    /// The multi-process service ended this process's use of the device. The context is lost.
    MPS_CLIENT_TERMINATED = 810;
    /// The operation is not allowed while a stream captures.
    STREAM_CAPTURE_UNSUPPORTED = 900;
    /// A previous error made the capture invalid.
    STREAM_CAPTURE_INVALIDATED = 901;
    /// A device outside CUDA, which work waited for, failed. The context is lost.
    EXTERNAL_DEVICE = 911;
    /// An unknown internal error.
    UNKNOWN = 999;
}

impl ResultCode {
    /// Wraps a driver's number.
    #[must_use]
    pub const fn from_raw(raw: i32) -> Self {
        Self(raw)
    }

    /// The driver's number.
    #[must_use]
    pub const fn as_raw(self) -> i32 {
        self.0
    }

    /// Whether the context is lost for good after this result: every later call in it fails as
    /// well.
    ///
    /// Those are the results of which NVIDIA says that any further work will return the same error,
    /// or that the process has to be started again: 700, 702, 710, 714 to 719 and 721 (a kernel
    /// failed), 226 (a failure that was contained), 810 (ended by the multi-process service), 911
    /// (a device outside CUDA failed). Then those after which there is no context to go on with, 4
    /// and 709. And 214 and 220, uncorrectable errors of memory and links, of which NVIDIA says
    /// only that they were found while work ran: which work they spoilt is not known, so nothing
    /// that the context holds can be relied on. [`UNKNOWN`](Self::UNKNOWN) is not one of them: it
    /// may be the failure of one call.
    #[must_use]
    pub fn is_sticky(self) -> bool {
        matches!(
            self,
            Self::DEINITIALIZED
                | Self::ECC_UNCORRECTABLE
                | Self::NVLINK_UNCORRECTABLE
                | Self::CONTAINED
                | Self::ILLEGAL_ADDRESS
                | Self::LAUNCH_TIMEOUT
                | Self::CONTEXT_IS_DESTROYED
                | Self::ASSERT
                | Self::HARDWARE_STACK_ERROR
                | Self::ILLEGAL_INSTRUCTION
                | Self::MISALIGNED_ADDRESS
                | Self::INVALID_ADDRESS_SPACE
                | Self::INVALID_PC
                | Self::LAUNCH_FAILED
                | Self::TENSOR_MEMORY_LEAK
                | Self::MPS_CLIENT_TERMINATED
                | Self::EXTERNAL_DEVICE
        )
    }
}

impl fmt::Display for ResultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some("SUCCESS") => f.write_str("CUDA_SUCCESS (0)"),
            Some(name) => write!(f, "CUDA_ERROR_{name} ({})", self.0),
            None => write!(f, "CUresult {}", self.0),
        }
    }
}

impl fmt::Debug for ResultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A driver call that failed.
///
/// ```
/// use millstream_driver::{DriverError, ResultCode};
/// let error = DriverError::new("cuMemAllocAsync", ResultCode::OUT_OF_MEMORY).with_detail("asked for 1 GiB");
/// assert_eq!(error.to_string(), "cuMemAllocAsync failed: CUDA_ERROR_OUT_OF_MEMORY (2): asked for 1 GiB");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed: {code}{}", detail.as_deref().map(|text| format!(": {text}")).unwrap_or_default())]
pub struct DriverError {
    call: &'static str,
    code: ResultCode,
    detail: Option<Arc<str>>,
}

impl DriverError {
    /// A failure of the driver function `call`.
    #[must_use]
    pub fn new(call: &'static str, code: ResultCode) -> Self {
        Self {
            call,
            code,
            detail: None,
        }
    }

    /// The same failure with what more is known: a compiler's log, the places tried, the access
    /// that faulted.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Arc<str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The driver function that failed, by its `cu*` name.
    #[must_use]
    pub fn call(&self) -> &'static str {
        self.call
    }

    /// The numeric result.
    #[must_use]
    pub fn code(&self) -> ResultCode {
        self.code
    }

    /// What more is known.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_that_lose_the_context_are_these() {
        let sticky: Vec<i32> = (0..1100)
            .filter(|&raw| ResultCode::from_raw(raw).is_sticky())
            .collect();
        assert_eq!(
            sticky,
            [
                4, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911
            ]
        );
    }
}
