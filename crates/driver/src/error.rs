//! Driver errors: the call that failed, its numeric result, and details.

use std::{fmt, num::NonZeroUsize, sync::Arc};

use crate::GraphNodeHandle;

/// A driver's numeric result (`CUresult`). A driver may return numbers beyond the constants
/// declared here.
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

            /// Returns the name in CUDA's headers, without `CUDA_ERROR_`, if this module declares a
            /// constant for the number.
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
    /// There is not enough memory.
    OUT_OF_MEMORY = 2;
    /// The driver is not initialised.
    NOT_INITIALIZED = 3;
    /// The driver is shutting down.
    DEINITIALIZED = 4;
    /// There is no device that CUDA can use.
    NO_DEVICE = 100;
    /// There is no device of that ordinal.
    INVALID_DEVICE = 101;
    /// The module image is not valid.
    INVALID_IMAGE = 200;
    /// The context is not valid.
    INVALID_CONTEXT = 201;
    /// The image has no code for the device's architecture.
    NO_BINARY_FOR_GPU = 209;
    /// An uncorrectable memory error. The context is lost.
    ECC_UNCORRECTABLE = 214;
    /// The device cannot access the other device's memory.
    PEER_ACCESS_UNSUPPORTED = 217;
    /// The PTX did not compile.
    INVALID_PTX = 218;
    /// An uncorrectable error of the link between devices. The context is lost.
    NVLINK_UNCORRECTABLE = 220;
    /// The PTX version is newer than the driver supports.
    UNSUPPORTED_PTX_VERSION = 222;
    /// The device contained an error, such as one in an access to a peer's memory. The context is
    /// lost.
    CONTAINED = 226;
    /// A library symbol is missing.
    SHARED_OBJECT_SYMBOL_NOT_FOUND = 302;
    /// The handle is not valid.
    INVALID_HANDLE = 400;
    /// The object is not in a state in which the call is allowed.
    ILLEGAL_STATE = 401;
    /// The answer would leave out a part of what was asked for.
    LOSSY_QUERY = 402;
    /// A named symbol was not found.
    NOT_FOUND = 500;
    /// The work is not yet complete. Queries turn this into
    /// [`Completion::Pending`](crate::Completion::Pending).
    NOT_READY = 600;
    /// A kernel accessed an address that is not mapped. The context is lost.
    ILLEGAL_ADDRESS = 700;
    /// The launch needs more threads, shared memory or registers than the device has.
    LAUNCH_OUT_OF_RESOURCES = 701;
    /// A kernel ran for too long. The context is lost.
    LAUNCH_TIMEOUT = 702;
    /// Peer access from the context to the other one is already enabled (rule 39).
    PEER_ACCESS_ALREADY_ENABLED = 704;
    /// Peer access from the context to the other one is not enabled.
    PEER_ACCESS_NOT_ENABLED = 705;
    /// The primary context was already destroyed.
    CONTEXT_IS_DESTROYED = 709;
    /// A device-side assertion failed. The context is lost.
    ASSERT = 710;
    /// The device has no resources for access to a further peer.
    TOO_MANY_PEERS = 711;
    /// The host memory is already registered.
    HOST_MEMORY_ALREADY_REGISTERED = 712;
    /// The host memory is not registered.
    HOST_MEMORY_NOT_REGISTERED = 713;
    /// The device's stack is broken. The context is lost.
    HARDWARE_STACK_ERROR = 714;
    /// A kernel executed an instruction that the device does not support. The context is lost.
    ILLEGAL_INSTRUCTION = 715;
    /// A kernel made a misaligned access. The context is lost.
    MISALIGNED_ADDRESS = 716;
    /// A kernel made an access in the wrong address space. The context is lost.
    INVALID_ADDRESS_SPACE = 717;
    /// A kernel's program counter left the program. The context is lost.
    INVALID_PC = 718;
    /// A kernel failed. The context is lost.
    LAUNCH_FAILED = 719;
    /// The device cannot hold all blocks of a cooperative launch at the same time.
    COOPERATIVE_LAUNCH_TOO_LARGE = 720;
    /// A kernel ended without freeing tensor memory. The context is lost.
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
    /// The call would merge two independent captures.
    STREAM_CAPTURE_MERGE = 902;
    /// The capture did not begin in this stream.
    STREAM_CAPTURE_UNMATCHED = 903;
    /// The capture has a branch that was not joined with the stream it began in (rule 41).
    STREAM_CAPTURE_UNJOINED = 904;
    /// The call would make the capture depend on work outside it (rule 41).
    STREAM_CAPTURE_ISOLATION = 905;
    /// The call would make the legacy default stream depend on a capture (rule 42).
    STREAM_CAPTURE_IMPLICIT = 906;
    /// The event was last recorded in a capturing stream (rule 42).
    CAPTURED_EVENT = 907;
    /// The capture was begun by another thread, and not in relaxed mode (rule 40).
    STREAM_CAPTURE_WRONG_THREAD = 908;
    /// The executable graph cannot be updated to the graph given, because they differ too much.
    GRAPH_EXEC_UPDATE_FAILURE = 910;
    /// A device outside CUDA, which work waited for, failed. The context is lost.
    EXTERNAL_DEVICE = 911;
    /// An unknown internal error.
    UNKNOWN = 999;
}

impl ResultCode {
    /// Wraps a driver's numeric result.
    #[must_use]
    pub const fn from_raw(raw: i32) -> Self {
        Self(raw)
    }

    /// Returns the driver's numeric result.
    #[must_use]
    pub const fn as_raw(self) -> i32 {
        self.0
    }

    /// Returns whether this result means that a capture does not allow the call (rules 40 to 44).
    ///
    /// ```
    /// use millstream_driver::ResultCode;
    /// assert!(ResultCode::CAPTURED_EVENT.is_of_capture());
    /// ```
    #[must_use]
    pub fn is_of_capture(self) -> bool {
        let of_capture = Self::STREAM_CAPTURE_UNSUPPORTED.0..=Self::STREAM_CAPTURE_WRONG_THREAD.0;
        of_capture.contains(&self.0)
    }

    /// Returns whether this result means that the context is lost, so that every later call in it
    /// fails.
    ///
    /// NVIDIA documents most of these results as final: any further work returns the same error, or
    /// the process has to be restarted. They are 700, 702, 710, 714 to 719 and 721 (a kernel
    /// failed), 226 (a contained error), 810 (terminated by the multi-process service) and 911 (a
    /// device outside CUDA failed). After 4 and 709 the context no longer exists. 214 and 220 are
    /// uncorrectable errors of memory and links: NVIDIA says only that they were found while work
    /// ran, so any data of the context may be corrupt. [`UNKNOWN`](Self::UNKNOWN) is excluded,
    /// because it may be the failure of one call only.
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
/// let error = DriverError::new("cuMemAlloc", ResultCode::OUT_OF_MEMORY).with_detail("1 GiB");
/// assert_eq!(error.to_string(), "cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (2): 1 GiB");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{call} failed: {code}{}",
    detail.as_deref().map(|text| format!(": {text}")).unwrap_or_default()
)]
pub struct DriverError {
    call: &'static str,
    code: ResultCode,
    graph_node: Option<NonZeroUsize>,
    detail: Option<Arc<str>>,
}

impl DriverError {
    /// Creates the error of the driver function `call`, without details.
    #[must_use]
    pub fn new(call: &'static str, code: ResultCode) -> Self {
        Self {
            call,
            code,
            graph_node: None,
            detail: None,
        }
    }

    /// Adds the graph node at which the call failed; a null handle stands for none.
    #[must_use]
    pub fn with_graph_node(mut self, node: GraphNodeHandle) -> Self {
        self.graph_node = NonZeroUsize::new(node.as_raw());
        self
    }

    /// Adds details to the error: a compiler's log, the paths tried, the access that faulted.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Arc<str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Returns the `cu*` name of the driver function that failed.
    #[must_use]
    pub fn call(&self) -> &'static str {
        self.call
    }

    /// Returns the numeric result.
    #[must_use]
    pub fn code(&self) -> ResultCode {
        self.code
    }

    /// Returns the graph node at which instantiation or an update failed, if the driver named one.
    #[must_use]
    pub fn graph_node(&self) -> Option<GraphNodeHandle> {
        self.graph_node
            .map(|raw| GraphNodeHandle::from_raw(raw.get()))
    }

    /// Returns the details, if any.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_documented_results_lose_the_context() {
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
