//! NVRTC's functions, found in the library at run time.
//!
//! Declarations are those of `nvrtc.h` of CUDA 12.0, which CUDA 13 has not changed.

#![allow(unsafe_code, reason = "finds NVRTC's functions and calls them")]

use std::{
    ffi::{CStr, CString, c_char, c_int},
    fmt,
    path::{Path, PathBuf},
    ptr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{Compiled, Installation, NvrtcCode, NvrtcError, NvrtcLoadError, Program};
use crate::{libraries::NvidiaLibrary, library_functions};

/// The beginning of the name of the library that NVRTC loads for its built-in headers.
const BUILTINS: &str = if cfg!(windows) {
    "nvrtc-builtins64"
} else {
    "libnvrtc-builtins.so"
};

/// `nvrtcProgram`.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct ProgramHandle(usize);

library_functions! {
    nvrtcVersion: fn(*mut c_int, *mut c_int) -> NvrtcCode;
    nvrtcGetNumSupportedArchs: fn(*mut c_int) -> NvrtcCode;
    nvrtcGetSupportedArchs: fn(*mut c_int) -> NvrtcCode;
    nvrtcCreateProgram: fn(
        *mut ProgramHandle, *const c_char, *const c_char, c_int, *const *const c_char,
        *const *const c_char
    ) -> NvrtcCode;
    nvrtcDestroyProgram: fn(*mut ProgramHandle) -> NvrtcCode;
    nvrtcAddNameExpression: fn(ProgramHandle, *const c_char) -> NvrtcCode;
    nvrtcCompileProgram: fn(ProgramHandle, c_int, *const *const c_char) -> NvrtcCode;
    nvrtcGetLoweredName: fn(ProgramHandle, *const c_char, *mut *const c_char) -> NvrtcCode;
    nvrtcGetPTXSize: fn(ProgramHandle, *mut usize) -> NvrtcCode;
    nvrtcGetPTX: fn(ProgramHandle, *mut c_char) -> NvrtcCode;
    nvrtcGetCUBINSize: fn(ProgramHandle, *mut usize) -> NvrtcCode;
    nvrtcGetCUBIN: fn(ProgramHandle, *mut c_char) -> NvrtcCode;
    nvrtcGetProgramLogSize: fn(ProgramHandle, *mut usize) -> NvrtcCode;
    nvrtcGetProgramLog: fn(ProgramHandle, *mut c_char) -> NvrtcCode;
}

/// The number of compilations of this process.
static COMPILATIONS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of calls of [`Nvrtc::compile`] in this process, for tests of caches.
#[must_use]
pub fn compilations() -> u64 {
    COMPILATIONS.load(Ordering::Relaxed)
}

static LOADED: Mutex<Option<Arc<Nvrtc>>> = Mutex::new(None);

/// NVRTC, loaded for the rest of the process.
///
/// ```
/// use millstream_driver::nvrtc::{self, Program};
///
/// if let Ok(nvrtc) = nvrtc::load() {
///     let options = ["--gpu-architecture=compute_75".to_owned()];
///     let source = "extern \"C\" __global__ void one(int* x) { *x = 1; }";
///     let program = Program { name: "one.cu", source, options: &options, ..Program::default() };
///     assert!(nvrtc.compile(&program)?.ptx.contains(".entry one("));
/// }
/// # Ok::<(), nvrtc::NvrtcError>(())
/// ```
pub struct Nvrtc {
    functions: Functions,
    version: (i32, i32),
    origin: String,
    installation: Installation,
}

/// Loads NVRTC, or returns the library that an earlier call has loaded.
///
/// ```
/// if let Err(missing) = millstream_driver::nvrtc::load() {
///     assert!(missing.to_string().contains("MILLSTREAM_NVRTC"));
/// }
/// ```
///
/// # Errors
///
/// [`NvrtcLoadError`] if no location has the library, or if it is too old.
pub fn load() -> Result<Arc<Nvrtc>, NvrtcLoadError> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(library) = &*loaded {
        return Ok(Arc::clone(library));
    }
    let library = Arc::new(find()?);
    *loaded = Some(Arc::clone(&library));
    Ok(library)
}

fn find() -> Result<Nvrtc, NvrtcLoadError> {
    // SAFETY: the initialisers of NVIDIA's libraries of this name require nothing of their loader.
    let found = unsafe { NvidiaLibrary::NVRTC.spec().find() }?;
    let origin = found.origin().to_owned();
    let missing = |symbol| NvrtcLoadError::SymbolMissing {
        symbol,
        origin: origin.clone(),
    };
    let functions = Functions::find(&found).map_err(missing)?;
    // SAFETY: as for NVRTC itself, whose part this library is.
    unsafe { found.load_beside(BUILTINS) };
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the results go to locals.
    let code = unsafe { (functions.nvrtcVersion)(&mut major, &mut minor) };
    if code != NvrtcCode::SUCCESS {
        return Err(missing("nvrtcVersion that works"));
    }
    let file = found.file().map(Path::to_path_buf);
    Ok(Nvrtc {
        version: (major, minor),
        origin,
        installation: Installation::of(file.or_else(|| file_of(&functions)), BUILTINS),
        functions,
    })
}

/// Returns the file from which the system's loader has loaded the library.
#[cfg(unix)]
fn file_of(functions: &Functions) -> Option<PathBuf> {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    let mut found = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    let address = functions.nvrtcVersion as *const libc::c_void;
    // SAFETY: the result goes to a local.
    if unsafe { libc::dladdr(address, &mut found) } == 0 {
        return None;
    }
    // SAFETY: the call has found a text of the loader's, and the library stays loaded.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    let file = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    file.is_absolute().then_some(file)
}

#[cfg(not(unix))]
fn file_of(_: &Functions) -> Option<PathBuf> {
    None
}

/// Returns the installation that [`load`] will load, or has loaded. `None` if that cannot be known
/// before loading it.
#[must_use]
pub fn installation() -> Option<Installation> {
    let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    match &*loaded {
        Some(library) => Some(library.installation.clone()),
        None => Some(Installation::of(
            Some(NvidiaLibrary::NVRTC.spec().first_file()?),
            BUILTINS,
        )),
    }
}

/// A program of NVRTC, destroyed on drop.
struct Owned<'a> {
    nvrtc: &'a Nvrtc,
    handle: ProgramHandle,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is alive, and not used again. A failure leaks it.
        let _ = unsafe { (self.nvrtc.functions.nvrtcDestroyProgram)(&mut self.handle) };
    }
}

/// Calls one function of an [`Nvrtc`] under its own name, in an `unsafe` block.
macro_rules! call {
    ($nvrtc:expr, $function:ident($($argument:expr),* $(,)?)) => {
        check(stringify!($function), ($nvrtc.functions.$function)($($argument),*))
    };
}

/// Turns the result of `call` into an error without a log.
fn check(call: &'static str, code: NvrtcCode) -> Result<(), NvrtcError> {
    match code {
        NvrtcCode::SUCCESS => Ok(()),
        code => Err(NvrtcError {
            call,
            code,
            log: String::new(),
        }),
    }
}

fn c_string(what: &str, text: &str) -> Result<CString, NvrtcError> {
    CString::new(text).map_err(|error| NvrtcError {
        call: "nvrtcCreateProgram",
        code: NvrtcCode::INVALID_INPUT,
        log: format!(
            "{what} has a zero byte at offset {}, where C's strings end",
            error.nul_position()
        ),
    })
}

fn c_strings<'a>(
    what: &str,
    texts: impl IntoIterator<Item = &'a String>,
) -> Result<Vec<CString>, NvrtcError> {
    let texts = texts.into_iter();
    texts.map(|text| c_string(what, text)).collect()
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).collect()
}

/// The functions for the size of a result, and for the result itself.
type GetSize = unsafe extern "C" fn(ProgramHandle, *mut usize) -> NvrtcCode;
type GetBytes = unsafe extern "C" fn(ProgramHandle, *mut c_char) -> NvrtcCode;

impl Nvrtc {
    /// Returns the version, major and minor.
    #[must_use]
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Returns the location from which the library was loaded.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the installation of the library.
    #[must_use]
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// Returns the numbers of the architectures for which the library compiles, such as 90 for
    /// `sm_90`, in ascending order.
    ///
    /// # Errors
    ///
    /// If NVRTC fails.
    pub fn architectures(&self) -> Result<Vec<i32>, NvrtcError> {
        let mut count = 0;
        // SAFETY: the result goes to a local.
        unsafe { call!(self, nvrtcGetNumSupportedArchs(&mut count)) }?;
        let mut numbers = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the list has as many elements as the library has architectures.
        unsafe { call!(self, nvrtcGetSupportedArchs(numbers.as_mut_ptr())) }?;
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Compiles a program.
    ///
    /// # Errors
    ///
    /// [`NvrtcError`] with the compiler's messages if the source has errors, or an option or a name
    /// expression is not valid.
    pub fn compile(&self, program: &Program<'_>) -> Result<Compiled, NvrtcError> {
        COMPILATIONS.fetch_add(1, Ordering::Relaxed);
        let owned = self.create(program)?;
        let expressions = c_strings("a name expression", program.name_expressions)?;
        for expression in &expressions {
            // SAFETY: the program is alive, and the text ends in a zero byte.
            unsafe {
                call!(
                    self,
                    nvrtcAddNameExpression(owned.handle, expression.as_ptr())
                )
            }?;
        }
        let options = c_strings("an option", program.options)?;
        let options = pointers(&options);
        // SAFETY: the program is alive, and the list has the stated length.
        let compiled = unsafe {
            call!(
                self,
                nvrtcCompileProgram(owned.handle, count(options.len()), options.as_ptr())
            )
        };
        let log = self.text(
            &owned,
            self.functions.nvrtcGetProgramLogSize,
            self.functions.nvrtcGetProgramLog,
        );
        let log = log.unwrap_or_default();
        if let Err(error) = compiled {
            return Err(NvrtcError { log, ..error });
        }
        let lowered_names = expressions
            .iter()
            .map(|expression| self.lowered_name(&owned, expression, &log));
        Ok(Compiled {
            lowered_names: lowered_names.collect::<Result<_, _>>()?,
            ptx: self.text(
                &owned,
                self.functions.nvrtcGetPTXSize,
                self.functions.nvrtcGetPTX,
            )?,
            cubin: if program.cubin {
                Some(self.bytes(
                    &owned,
                    self.functions.nvrtcGetCUBINSize,
                    self.functions.nvrtcGetCUBIN,
                )?)
            } else {
                None
            },
            log,
        })
    }

    fn create(&self, program: &Program<'_>) -> Result<Owned<'_>, NvrtcError> {
        let source = c_string("the source", program.source)?;
        let name = c_string("the name of the source", program.name)?;
        let names = c_strings(
            "the name of a header",
            program.headers.iter().map(|(n, _)| n),
        )?;
        let texts = c_strings("a header", program.headers.iter().map(|(_, text)| text))?;
        let mut handle = ProgramHandle(0);
        // SAFETY: all texts end in a zero byte, both lists have the stated length, and NVRTC copies
        // them.
        unsafe {
            call!(
                self,
                nvrtcCreateProgram(
                    &mut handle,
                    source.as_ptr(),
                    name.as_ptr(),
                    count(names.len()),
                    pointers(&texts).as_ptr(),
                    pointers(&names).as_ptr(),
                )
            )
        }?;
        Ok(Owned {
            nvrtc: self,
            handle,
        })
    }

    /// Returns the name in the PTX of a compiled program for a name expression.
    fn lowered_name(
        &self,
        program: &Owned<'_>,
        expression: &CStr,
        log: &str,
    ) -> Result<String, NvrtcError> {
        let mut name = ptr::null();
        // SAFETY: the program is alive and compiled, the text ends in a zero byte, and the result
        // goes to a local.
        let found = unsafe {
            call!(
                self,
                nvrtcGetLoweredName(program.handle, expression.as_ptr(), &mut name)
            )
        };
        match found {
            // SAFETY: the text ends in a zero byte, and is copied while the program is alive.
            Ok(()) if !name.is_null() => Ok(unsafe { CStr::from_ptr(name) }
                .to_string_lossy()
                .into_owned()),
            Ok(()) => Ok(String::new()),
            Err(error) => Err(NvrtcError {
                log: format!("`{}` {log}", expression.to_string_lossy()),
                ..error
            }),
        }
    }

    /// Returns a text of a program, without the zero byte at its end.
    fn text(
        &self,
        program: &Owned<'_>,
        size: GetSize,
        contents: GetBytes,
    ) -> Result<String, NvrtcError> {
        let mut bytes = self.bytes(program, size, contents)?;
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns a result of a program.
    fn bytes(
        &self,
        program: &Owned<'_>,
        size: GetSize,
        contents: GetBytes,
    ) -> Result<Vec<u8>, NvrtcError> {
        let mut len = 0;
        // SAFETY: the program is alive, and the size goes to a local.
        check("nvrtcGet…Size", unsafe { size(program.handle, &mut len) })?;
        let mut bytes = vec![0_u8; len];
        // SAFETY: the program is alive, and the buffer has the size that it has just told.
        check("nvrtcGet…", unsafe {
            contents(program.handle, bytes.as_mut_ptr().cast())
        })?;
        Ok(bytes)
    }
}

/// Converts a length to NVRTC's type. No list of this crate's callers is longer.
fn count(len: usize) -> c_int {
    c_int::try_from(len).unwrap_or(c_int::MAX)
}

impl fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            version: (major, minor),
            origin,
            ..
        } = self;
        write!(f, "NVRTC {major}.{minor} from {origin}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_a_zero_byte_is_an_error_that_names_it() {
        let error = c_string("the source", "int x;\0int y;").expect_err("it would be cut short");
        assert_eq!(error.code, NvrtcCode::INVALID_INPUT);
        assert_eq!(
            error.to_string(),
            "nvrtcCreateProgram failed: NVRTC_ERROR_INVALID_INPUT (3): the source has a zero byte \
             at offset 6, where C's strings end"
        );
    }
}
