//! NVIDIA's Tools Extension (NVTX), loaded at run time: named ranges in Nsight's timelines.

#![allow(unsafe_code, reason = "calls NVTX, which trusts its caller")]

mod injection;

use std::{
    ffi::{CString, c_char, c_int},
    fmt,
};

use crate::libraries::{LibraryNotFound, LibrarySpec};

const NVTX: LibrarySpec = LibrarySpec {
    name: "NVTX",
    path_variable: "MILLSTREAM_NVTX",
    files: if cfg!(windows) {
        &[("nvToolsExt64_1.dll", "")]
    } else {
        &[("libnvtx3interop.so.1", ""), ("libnvToolsExt.so.1", "")]
    },
    wheel_folders: &["nvidia/nvtx/lib"],
};

type RangePush = unsafe extern "C" fn(*const c_char) -> c_int;
type RangePop = unsafe extern "C" fn() -> c_int;

/// NVTX, loaded for the rest of the process.
///
/// ```
/// use millstream_driver::nvtx::Nvtx;
///
/// if let Ok(nvtx) = Nvtx::load() {
///     nvtx.push("a range");
///     nvtx.pop();
/// }
/// ```
pub struct Nvtx {
    push: RangePush,
    pop: RangePop,
    origin: String,
}

impl Nvtx {
    /// Loads NVTX: the functions of the profiler that runs the program, which names its library in
    /// `NVTX_INJECTION64_PATH`; without one, the library at the path in `MILLSTREAM_NVTX`, or where
    /// [`libraries`](crate::libraries) searches, such as the wheel `nvidia-nvtx-cu12`.
    ///
    /// # Errors
    ///
    /// [`LibraryNotFound`] if no location has a library with its functions.
    pub fn load() -> Result<Self, LibraryNotFound> {
        if std::env::var_os(NVTX.path_variable).is_none() && injection::is_named() {
            let injection::Injected { push, pop, origin } = injection::attach()?;
            return Ok(Self { push, pop, origin });
        }
        // SAFETY: the initialisers of NVIDIA's libraries of this name require nothing of their
        // loader.
        let library = unsafe { NVTX.find() }?;
        // SAFETY: the function of this name has this type since NVTX 1.
        let push = unsafe { library.function::<RangePush>("nvtxRangePushA") };
        // SAFETY: the function of this name has this type since NVTX 1.
        let pop = unsafe { library.function::<RangePop>("nvtxRangePop") };
        match (push, pop) {
            (Some(push), Some(pop)) => {
                let origin = library.origin().to_owned();
                Ok(Self { push, pop, origin })
            }
            _ => Err(NVTX.lacking(library.origin(), "nvtxRangePushA and nvtxRangePop")),
        }
    }

    /// Begins a range on this thread. The name ends at its first zero byte.
    pub fn push(&self, name: &str) {
        let name = name.split('\0').next().unwrap_or_default();
        if let Ok(name) = CString::new(name) {
            // SAFETY: the text ends in a zero byte, and NVTX copies it.
            unsafe { (self.push)(name.as_ptr()) };
        }
    }

    /// Ends this thread's innermost range.
    pub fn pop(&self) {
        // SAFETY: without a range the call does nothing.
        unsafe { (self.pop)() };
    }
}

impl fmt::Debug for Nvtx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NVTX from {}", self.origin)
    }
}
