//! The functions with their references on the host and the maximum errors that CUDA documents.

/// A function with its implementations on the host in double and single precision.
pub(crate) struct Function<D, S> {
    pub(crate) name: &'static str,
    pub(crate) single: &'static str,
    pub(crate) double: &'static str,
    pub(crate) reference: D,
    pub(crate) host_single: S,
    /// The maximum distances from the correctly rounded value in single and double precision, in
    /// units of the last place.
    pub(crate) limits: (u64, u64),
}

pub(crate) type One = Function<fn(f64) -> f64, fn(f32) -> f32>;
pub(crate) type Two = Function<fn(f64, f64) -> f64, fn(f32, f32) -> f32>;

macro_rules! table {
    ($kind:ident: $(
        $name:ident $reference:expr, $host_single:expr, $single:literal, $double:literal;
    )*) => {
        &[$($kind {
            name: stringify!($name),
            single: concat!("ms_", stringify!($name), "_f32"),
            double: concat!("ms_", stringify!($name), "_f64"),
            reference: $reference,
            host_single: $host_single,
            limits: ($single, $double),
        }),*]
    };
}

/// The functions of one operand. Their limits are the maximum errors of the standard functions in
/// the CUDA C++ Programming Guide, release 13, "Mathematical Functions". CUDA has no sigmoid; the
/// library computes it by an exponential with errors of at most 2 and 1, a sum and a quotient.
pub(crate) const ONE: &[One] = table! { One:
    exp f64::exp, f32::exp, 2, 1;
    exp2 f64::exp2, f32::exp2, 2, 1;
    exp_m1 f64::exp_m1, f32::exp_m1, 1, 1;
    ln f64::ln, f32::ln, 1, 1;
    ln_1p f64::ln_1p, f32::ln_1p, 1, 1;
    log2 f64::log2, f32::log2, 1, 1;
    log10 f64::log10, f32::log10, 2, 1;
    cbrt f64::cbrt, f32::cbrt, 1, 1;
    sin f64::sin, f32::sin, 2, 2;
    cos f64::cos, f32::cos, 2, 2;
    tan f64::tan, f32::tan, 4, 2;
    asin f64::asin, f32::asin, 2, 2;
    acos f64::acos, f32::acos, 2, 2;
    atan f64::atan, f32::atan, 2, 2;
    sinh f64::sinh, f32::sinh, 3, 2;
    cosh f64::cosh, f32::cosh, 2, 1;
    tanh f64::tanh, f32::tanh, 2, 1;
    asinh libm::asinh, libm::asinhf, 3, 3;
    acosh acosh, |x| acosh(x.into()) as f32, 4, 3;
    atanh f64::atanh, f32::atanh, 3, 2;
    erf libm::erf, libm::erff, 2, 2;
    erfc libm::erfc, libm::erfcf, 4, 5;
    sigmoid sigmoid, |x| sigmoid(x.into()) as f32, 2, 2;
    round f64::round, f32::round, 0, 0;
};

pub(crate) const TWO: &[Two] = table! { Two:
    powf f64::powf, f32::powf, 4, 2;
    atan2 f64::atan2, f32::atan2, 3, 2;
    hypot f64::hypot, f32::hypot, 3, 2;
    rem |x, y| x % y, |x, y| x % y, 0, 0;
};

/// Computes the inverse hyperbolic cosine. That of the standard library is infinite for the largest
/// numbers, as its `asinh` is, and that of `libm` is finite for some numbers below −1.
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

fn sigmoid(x: f64) -> f64 {
    let power = (-x.abs()).exp();
    let numerator = if x < 0.0 { power } else { 1.0 };
    numerator / (1.0 + power)
}
