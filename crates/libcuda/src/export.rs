//! The macro that declares implemented functions: their symbols, their signature and their body.
//!
//! From the declarations come the exported symbols. `versions` knows which of them
//! `cuGetProcAddress` returns for a name and a version, and `refused.rs` exports all others. A
//! symbol marked `per_thread` is the form for programs that are compiled for per-thread default
//! streams: a null stream, or none, means the calling thread's default stream there.

/// An exported symbol.
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "tests compare the lists with the headers")
)]
pub(crate) struct Symbol {
    pub(crate) name: &'static str,
    /// The number of parameters, if it is implemented.
    pub(crate) parameters: usize,
    /// True if a null stream means the calling thread's default stream.
    pub(crate) per_thread: bool,
    pub(crate) address: fn() -> usize,
}

/// Returns whether a symbol is marked `per_thread`.
macro_rules! is_per_thread {
    () => {
        false
    };
    (per_thread) => {
        true
    };
}

/// Returns the number of parameters.
macro_rules! count {
    (($call:ident $(, $argument:ident: $ty:ty)*)) => {{
        let names: &[&str] = &[$(stringify!($argument)),*];
        names.len()
    }};
}

/// Declares the function of a row, unless its name is `_`.
macro_rules! function {
    ([$(#[$doc:meta])*] _ $arguments:tt $body:tt) => {};
    ([$(#[$doc:meta])*] $name:ident ($call:ident $(, $argument:ident: $ty:ty)*) $body:tt) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments, reason = "the parameters of CUDA's function")]
        pub(crate) fn $name($call: &$crate::call::Call $(, $argument: $ty)*)
        -> $crate::codes::Answer $body
    };
}

/// Exports one symbol.
macro_rules! export {
    ($symbol:ident [$($mode:ident)?] _
     ($call:ident $(, $argument:ident: $ty:ty)*) $body:tt) => {
        #[allow(unsafe_code, reason = "exports a function under its name in CUDA's driver API")]
        #[allow(
            non_snake_case,
            clippy::too_many_arguments,
            reason = "the name and the parameters of CUDA's function"
        )]
        #[unsafe(no_mangle)]
        extern "C" fn $symbol($($argument: $ty),*) -> i32 {
            let per_thread = $crate::export::is_per_thread!($($mode)?);
            $crate::call::run(stringify!($symbol), per_thread, |$call| $body)
        }
    };
    ($symbol:ident [$($mode:ident)?] $name:ident
     ($call:ident $(, $argument:ident: $ty:ty)*) $body:tt) => {
        $crate::export::export! {
            $symbol [$($mode)?] _ (call $(, $argument: $ty)*) { self::$name(call $(, $argument)*) }
        }
    };
}

/// Declares and exports functions. A row has the documentation, the symbols, the name by which
/// other functions call it, `_` for none, the [`Call`](crate::call::Call) and the parameters.
macro_rules! exports {
    ($($(#[$doc:meta])* [$($symbol:ident $($mode:ident)?),+ $(,)?]
       fn $name:tt $arguments:tt $body:tt)*) => {
        $($crate::export::function! { [$(#[$doc])*] $name $arguments $body })*
        $($($crate::export::export! { $symbol [$($mode)?] $name $arguments $body })+)*

        /// Every symbol that is exported here.
        pub(crate) static SYMBOLS: &[$crate::export::Symbol] = &[$($($crate::export::Symbol {
            name: stringify!($symbol),
            parameters: $crate::export::count!($arguments),
            per_thread: $crate::export::is_per_thread!($($mode)?),
            address: || $symbol as *const () as usize,
        }),+),*];
    };
}

pub(crate) use {count, export, exports, function, is_per_thread};
