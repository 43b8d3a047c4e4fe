//! The macros that declare exported functions: those with a body, those that pass their arguments
//! on to a function of the driver, and those that are refused.

/// Returns whether a symbol is the form for programs that are compiled for per-thread default
/// streams.
macro_rules! is_per_thread {
    () => {
        false
    };
    (per_thread) => {
        true
    };
}

/// Exports one symbol.
macro_rules! export {
    ($need:ident $symbol:ident [$($mode:ident)?]
     ($call:ident $(, $argument:ident: $ty:ty)*) $body:tt) => {
        #[allow(unsafe_code, reason = "exports a function under its name in CUDA's runtime API")]
        #[allow(
            non_snake_case,
            clippy::too_many_arguments,
            reason = "the name and the parameters of CUDA's function"
        )]
        #[unsafe(no_mangle)]
        extern "C" fn $symbol($($argument: $ty),*) -> i32 {
            let per_thread = $crate::export::is_per_thread!($($mode)?);
            $crate::call::run(per_thread, $crate::call::Need::$need, |$call| $body)
        }
    };
}

/// Declares and exports functions. A row has the documentation, the need, the symbols, the
/// [`Call`](crate::call::Call) and the parameters.
macro_rules! exports {
    ($($(#[doc = $doc:literal])* $need:ident [$($symbol:ident $($mode:ident)?),+ $(,)?]
       $arguments:tt $body:tt)*) => {
        $($($crate::export::export! { $need $symbol [$($mode)?] $arguments $body })+)*
    };
}

/// Exports functions whose arguments are passed on to a function of the driver, with further ones
/// behind a `+`.
macro_rules! forwarded {
    ($($need:ident $symbol:ident $($per_thread:ident)? =
       $target:ident($($argument:ident: $ty:ty),*) $(+ $extra:literal)*;)*) => {
        $($crate::export::exports! {
            $need [$symbol $(, $per_thread per_thread)?] (_call $(, $argument: $ty)*) {
                $crate::driver::cu!($target
                    $(, $crate::call::Passed::pass($argument, _call)?)* $(, $extra)*)
            }
        })*
    };
}

/// Exports functions that are refused. An export without parameters can stand in for any function.
macro_rules! refused {
    ($($symbol:ident)*) => {
        $($crate::export::exports! {
            Nothing [$symbol] (_call) {
                static SAID: std::sync::Once = std::sync::Once::new();
                SAID.call_once(|| {
                    let name = stringify!($symbol);
                    $crate::texts::say(
                        &format!("{name} is not supported by the simulated device"));
                });
                Err($crate::codes::NOT_SUPPORTED)
            }
        })*
    };
}

pub(crate) use {export, exports, forwarded, is_per_thread, refused};
