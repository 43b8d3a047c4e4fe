//! The versions of the driver's functions, and the search for one as `cuGetProcAddress` does it.
//!
//! A function of the driver API has a base name, as `cuMemcpyHtoD`, and a version for each change
//! of its signature or meaning: a symbol, as `cuMemcpyHtoD_v2`, and the CUDA version that
//! introduced it. Functions that use the default stream have a second series of versions, for
//! programs whose threads have a default stream each (`cuMemcpyHtoD_v2_ptds`). The symbols that a
//! header's macros choose are not always the newest: in CUDA 13.0's header, `cuCtxSynchronize` is
//! the first version, and `cuCtxSynchronize_v2`, with another signature, is found only with the
//! CUDA version that introduced it.
//!
//! `table.txt` is generated from NVIDIA's headers by `cargo xtask cuda-table`. It gives the number
//! of parameters of each symbol, so that tests can compare it with an implementation.
//!
//! # Functions that refuse
//!
//! A symbol without an implementation can be exported as `extern "C" fn() -> i32`, although its
//! callers pass arguments. In the C calling conventions of `x86_64` (System V) and `aarch64`
//! (AAPCS64), the caller passes arguments in registers and on its own part of the stack and removes
//! them itself, and the place of an `int` result does not depend on the parameters. A function that
//! reads no argument therefore returns correctly to a caller that passes any. This holds for calls
//! from another library, which reach the symbol by its address; within one Rust program, a call
//! through a pointer of another signature would be undefined behaviour.

mod ptx;

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

pub use ptx::newest_ptx;

/// The CUDA version of the headers that `table.txt` is generated from.
pub const NEWEST_CUDA: i32 = 13_050;

/// A line for each symbol: the function, the symbol, the CUDA version that introduced it, and the
/// number of its parameters; comments start with `#`.
const TABLE: &str = include_str!("table.txt");

/// A function of the driver API with all its versions.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// The base name: that of the first version.
    pub name: &'static str,
    /// The versions that use the legacy default stream, from the oldest to the newest; at least
    /// one.
    pub legacy: Vec<Version>,
    /// The versions that use the default stream of the calling thread, from the oldest to the
    /// newest; none for functions that do not use the default stream.
    pub per_thread: Vec<Version>,
}

/// A version of a function.
#[derive(Debug, PartialEq, Eq)]
pub struct Version {
    /// The CUDA version that introduced it: 1000 times the major plus 10 times the minor version.
    pub since: i32,
    /// The exported symbol.
    pub symbol: &'static str,
    /// The number of parameters.
    pub parameters: usize,
}

/// The default stream that a program wants to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultStream {
    /// One default stream for all threads of the context.
    Legacy,
    /// One default stream for each thread.
    PerThread,
}

impl DefaultStream {
    /// Decodes the flags of `cuGetProcAddress`: 0 and 1 mean legacy, and 2 means per thread.
    /// Returns `None` for other flags, which the call refuses with `CUDA_ERROR_INVALID_VALUE`.
    #[must_use]
    pub fn from_flags(flags: u64) -> Option<Self> {
        match flags {
            0 | 1 => Some(Self::Legacy),
            2 => Some(Self::PerThread),
            _ => None,
        }
    }
}

/// The result of a search for a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The version that fits the asked CUDA version.
    Found(&'static Version),
    /// The driver has the function, but every version is newer than the asked CUDA version
    /// (`CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT`).
    VersionNotSufficient,
    /// The driver has no function of this base name (`CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`).
    NotFound,
    /// The asked CUDA version is newer than the driver (`CUDA_ERROR_INVALID_VALUE`).
    NewerThanDriver,
}

/// All functions, in the order of their names.
pub static FUNCTIONS: LazyLock<Vec<Function>> = LazyLock::new(|| {
    let mut functions: Vec<Function> = Vec::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (name, symbol) = (word(), word());
        let since = word().parse().unwrap_or_default();
        let parameters = word().parse().unwrap_or_default();
        if functions.last().is_none_or(|last| last.name != name) {
            functions.push(Function {
                name,
                legacy: Vec::new(),
                per_thread: Vec::new(),
            });
        }
        let Some(function) = functions.last_mut() else {
            continue;
        };
        let per_thread = symbol.ends_with("_ptds") || symbol.ends_with("_ptsz");
        let versions = if per_thread {
            &mut function.per_thread
        } else {
            &mut function.legacy
        };
        versions.push(Version {
            since,
            symbol,
            parameters,
        });
    }
    functions
});

/// Finds the version of the function `name` that a driver of CUDA version `driver` gives to a
/// program made for the CUDA version `asked`: the newest that is not newer than `asked`.
///
/// `name` must be a base name, without the suffix of a version. With per-thread default streams,
/// only the per-thread versions of a function are searched, unless it has none.
#[must_use]
pub fn find(name: &str, asked: i32, driver: i32, stream: DefaultStream) -> Lookup {
    if asked > driver {
        return Lookup::NewerThanDriver;
    }
    let Ok(index) = FUNCTIONS.binary_search_by_key(&name, |function| function.name) else {
        return Lookup::NotFound;
    };
    let function = &FUNCTIONS[index];
    let versions = match stream {
        DefaultStream::PerThread if !function.per_thread.is_empty() => &function.per_thread,
        _ => &function.legacy,
    };
    match versions.iter().rfind(|version| version.since <= asked) {
        Some(version) => Lookup::Found(version),
        None if versions[0].since <= driver => Lookup::VersionNotSufficient,
        None => Lookup::NotFound,
    }
}

/// Returns all exported symbols: the versions of all functions.
pub fn symbols() -> impl Iterator<Item = &'static Version> {
    FUNCTIONS
        .iter()
        .flat_map(|function| function.legacy.iter().chain(&function.per_thread))
}
