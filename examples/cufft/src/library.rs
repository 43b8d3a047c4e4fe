//! The part of cuFFT's C interface that the example calls.

#![allow(unsafe_code, reason = "loads cuFFT and calls its functions")]

use std::ffi::{c_int, c_void};

use libloading::Library;
use millstream::interop::ForeignCall;

/// The names under which the library is found, newest first.
const NAMES: [&str; 4] = [
    "libcufft.so.12",
    "libcufft.so.11",
    "libcufft.so",
    "cufft64_11.dll",
];
/// `CUFFT_R2C`: from real numbers to complex ones, of single precision.
const REAL_TO_COMPLEX: c_int = 0x2a;

/// A plan of cuFFT.
type Handle = c_int;

/// A call of cuFFT that failed.
#[derive(Debug)]
pub(crate) struct CufftError {
    call: &'static str,
    code: c_int,
}

impl std::fmt::Display for CufftError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: error {}", self.call, self.code)
    }
}

impl std::error::Error for CufftError {}

fn check(call: &'static str, code: c_int) -> Result<(), CufftError> {
    match code {
        0 => Ok(()),
        code => Err(CufftError { call, code }),
    }
}

/// Loads cuFFT, or returns the names that were tried.
pub(crate) fn load() -> Result<Library, String> {
    // SAFETY: cuFFT's initialisers have no requirements.
    let found = NAMES
        .iter()
        .find_map(|name| unsafe { Library::new(*name) }.ok());
    found.ok_or_else(|| NAMES.join(", "))
}

/// A transform of one length, without memory of its own.
pub(crate) struct Plan<'l> {
    library: &'l Library,
    handle: Handle,
    /// The bytes that a transform needs besides its input and output.
    pub(crate) work_bytes: usize,
}

macro_rules! call {
    ($library:expr, $name:ident($($argument:expr),*): $($parameter:ty),*) => {{
        const NAME: &str = stringify!($name);
        // SAFETY: the function of this name has these parameters in every version of cuFFT.
        let function = unsafe {
            $library.get::<unsafe extern "C" fn($($parameter),*) -> c_int>(NAME.as_bytes())
        };
        match function {
            // SAFETY: the caller passes a plan that exists, and addresses that are valid.
            Ok(function) => check(NAME, unsafe { function($($argument),*) }),
            Err(_) => Err(CufftError { call: NAME, code: -1 }),
        }
    }};
}

impl<'l> Plan<'l> {
    /// Plans a transform of this many real numbers. The device's context is current.
    pub(crate) fn new(library: &'l Library, len: usize) -> Result<Self, CufftError> {
        let mut handle: Handle = 0;
        call!(library, cufftCreate(&raw mut handle): *mut Handle)?;
        let mut plan = Self {
            library,
            handle,
            work_bytes: 0,
        };
        // The caller passes the memory, as an operand, so that two transforms cannot share it.
        call!(library, cufftSetAutoAllocation(handle, 0): Handle, c_int)?;
        let bytes = &raw mut plan.work_bytes;
        let len = len as c_int;
        call!(
            library,
            cufftMakePlan1d(handle, len, REAL_TO_COMPLEX, 1, bytes):
                Handle, c_int, c_int, c_int, *mut usize
        )?;
        Ok(plan)
    }

    /// Enqueues a transform. The call's operands are the input, the output and the workspace.
    pub(crate) fn enqueue(&self, call: ForeignCall<'_>) -> Result<(), CufftError> {
        let (library, plan) = (self.library, self.handle);
        let [input, output, work] =
            [0, 1, 2].map(|operand| call.address(operand).as_raw() as *mut c_void);
        let stream = call.stream().as_raw() as *mut c_void;
        call!(library, cufftSetStream(plan, stream): Handle, *mut c_void)?;
        call!(library, cufftSetWorkArea(plan, work): Handle, *mut c_void)?;
        call!(
            library,
            cufftExecR2C(plan, input, output): Handle, *mut c_void, *mut c_void
        )
    }
}

impl Drop for Plan<'_> {
    fn drop(&mut self) {
        // A failure leaks the plan.
        let _ = call!(self.library, cufftDestroy(self.handle): Handle);
    }
}
