//! Return addresses, and the functions and lines that they belong to.

#![allow(unsafe_code, reason = "walks the stack of the calling thread")]

use std::ffi::c_void;

use super::Frame;
use crate::demangle;

/// Fills `addresses` with the return addresses of the calling thread, innermost first, and returns
/// their number.
pub(super) fn trace(addresses: &mut [usize]) -> usize {
    let mut count = 0;
    // SAFETY: the unwinders of Linux, macOS and Windows on 64 bits may walk several threads at a
    // time; the lock that is left out serves the symbolisation of old Windows versions.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            if let Some(place) = addresses.get_mut(count) {
                *place = frame.ip().addr();
                count += 1;
            }
            count < addresses.len()
        });
    }
    count
}

/// Folders whose code is a library's, not the program's.
const LIBRARIES: [&str; 11] = [
    // The C library.
    "/csu/",
    "/sysdeps/",
    "/rustc/",
    "/.cargo/registry/",
    "/.cargo/git/",
    "/rustlib/",
    "/usr/",
    // CUDA's headers.
    "/cuda_runtime.h",
    "/include/crt/",
    "/include/cccl/",
    "/cooperative_groups/",
];

/// Returns the return addresses without those of this library, which are the innermost ones, and
/// those of CUDA's runtime library, which may have called it.
pub(super) fn outside(addresses: &[usize]) -> &[usize] {
    let own = module(trace as *const () as usize);
    let is_inside = |it: &&usize| module(**it) == own || is_of_runtime_library(**it);
    &addresses[addresses.iter().take_while(is_inside).count()..]
}

/// Returns whether an address is in CUDA's runtime library, by the name of its file.
fn is_of_runtime_library(address: usize) -> bool {
    let name = file(address).unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or_default();
    name.starts_with("libcudart.so") || name == "libmillstream_libcudart.so"
}

/// Returns the function of CUDA's runtime library that a trace enters, if it enters one.
pub(super) fn runtime_function(addresses: &[usize]) -> Option<String> {
    let inside = addresses.len() - outside(addresses).len();
    let entry = *addresses[..inside].last()?;
    if !is_of_runtime_library(entry) {
        return None;
    }
    let name = frames(entry).pop()?.function;
    name.split("_pt").next().map(str::to_owned)
}

/// Returns the file of the library or the executable that called this library, if it is known.
#[cfg(unix)]
pub(crate) fn caller() -> Option<String> {
    let mut addresses = [0; 32];
    let count = trace(&mut addresses);
    let own = module(trace as *const () as usize);
    let mut outside = addresses[..count].iter().filter(|it| module(**it) != own);
    file(*outside.next()?)
}

/// Returns the file of the library or the executable of a function.
#[cfg(unix)]
fn file(address: usize) -> Option<String> {
    let name = dl_info(address)?.dli_fname;
    // SAFETY: the name ends with a zero, and stays as long as the module, which runs.
    let name = (!name.is_null()).then(|| unsafe { std::ffi::CStr::from_ptr(name) })?;
    Some(name.to_string_lossy().into_owned())
}

/// Returns the address at which the library or the executable of a function is loaded.
#[cfg(unix)]
fn module(address: usize) -> Option<usize> {
    Some(dl_info(address)?.dli_fbase.addr())
}

#[cfg(unix)]
fn dl_info(address: usize) -> Option<libc::Dl_info> {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    let pointer: *const c_void = std::ptr::with_exposed_provenance(address);
    // SAFETY: the function accepts any address, and fills the structure if it finds a module.
    unsafe {
        if libc::dladdr(pointer, found.as_mut_ptr()) == 0 {
            return None;
        }
    }
    // SAFETY: the call above filled the structure.
    Some(unsafe { found.assume_init() })
}

/// The library takes the place of the driver on Linux only.
#[cfg(not(unix))]
pub(crate) fn caller() -> Option<String> {
    None
}

/// The library takes the place of the driver on Linux only.
#[cfg(not(unix))]
fn file(_address: usize) -> Option<String> {
    None
}

/// The library takes the place of the driver on Linux only.
#[cfg(not(unix))]
fn module(address: usize) -> Option<usize> {
    Some(address)
}

/// Returns the functions at a return address, several if they were inlined.
pub(super) fn frames(address: usize) -> Vec<Frame> {
    let mut frames = Vec::new();
    let pointer: *mut c_void = std::ptr::with_exposed_provenance_mut(address);
    backtrace::resolve(pointer, |symbol| {
        let name = symbol.name().map_or_else(
            || format!("{address:#x}"),
            |name| demangle::name(&name.to_string()).into_owned(),
        );
        let file = symbol.filename().map(|file| file.display().to_string());
        let own = file
            .as_ref()
            .is_some_and(|file| !LIBRARIES.iter().any(|folder| file.contains(folder)));
        frames.push(Frame {
            function: name,
            file,
            line: symbol.lineno().unwrap_or(0),
            own,
        });
    });
    frames
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn the_caller_is_the_first_module_outside_of_this_one() {
        assert!(super::caller().is_some_and(|file| file.contains("libc.so")));
    }
}
