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
//! The table is generated from NVIDIA's headers by `cargo xtask cuda-table`. It gives the number of
//! parameters of each symbol, so that tests can compare it with an implementation.
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
mod table;

#[cfg(test)]
mod tests;

pub use ptx::newest_ptx;
pub use table::NEWEST_CUDA;

/// A function of the driver API with all its versions.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// The base name: that of the first version.
    pub name: &'static str,
    /// The versions that use the legacy default stream, from the oldest to the newest; at least
    /// one.
    pub legacy: &'static [Version],
    /// The versions that use the default stream of the calling thread, from the oldest to the
    /// newest; none for functions that do not use the default stream.
    pub per_thread: &'static [Version],
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

macro_rules! functions {
    ($($first:literal $name:ident($first_parameters:literal)
        $($since:literal $symbol:ident($parameters:literal))*
        $(per_thread $thread_since:literal $thread_symbol:ident($thread_parameters:literal))*;
    )*) => {
        /// All functions, in the order of their names.
        pub static FUNCTIONS: &[Function] = &[$(Function {
            name: stringify!($name),
            legacy: &[Version {
                since: $first,
                symbol: stringify!($name),
                parameters: $first_parameters,
            }, $(Version {
                since: $since,
                symbol: stringify!($symbol),
                parameters: $parameters,
            }),*],
            per_thread: &[$(Version {
                since: $thread_since,
                symbol: stringify!($thread_symbol),
                parameters: $thread_parameters,
            }),*],
        }),*];
    };
}

table::driver_functions!(functions);

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
        DefaultStream::PerThread if !function.per_thread.is_empty() => function.per_thread,
        _ => function.legacy,
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
        .flat_map(|function| function.legacy.iter().chain(function.per_thread))
}
