//! The library functions that array operations use.

use std::sync::OnceLock;

use crate::{
    element::DType,
    maths::library::{PtxItem, library},
};

macro_rules! functions {
    ($($(#[$doc:meta])* $function:ident $name:literal,)*) => {
        /// A function of the maths library.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum MathFunction {
            $($(#[$doc])* $function,)*
        }

        impl MathFunction {
            /// All functions, in the order of their discriminants.
            pub(crate) const ALL: &[Self] = &[$(Self::$function),*];

            /// Returns the name in the library, without prefix and type.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$function => $name,)*
                }
            }
        }
    };
}

functions! {
    Exp "exp",
    Exp2 "exp2",
    /// The exponential of the operand, minus 1.
    ExpM1 "exp_m1",
    Ln "ln",
    /// The natural logarithm of 1 plus the operand.
    Ln1p "ln_1p",
    Log2 "log2",
    Log10 "log10",
    CubeRoot "cbrt",
    Sin "sin",
    Cos "cos",
    Tan "tan",
    Asin "asin",
    Acos "acos",
    Atan "atan",
    Sinh "sinh",
    Cosh "cosh",
    Tanh "tanh",
    Asinh "asinh",
    Acosh "acosh",
    Atanh "atanh",
    Erf "erf",
    Erfc "erfc",
    Sigmoid "sigmoid",
    /// The nearest integral value, ties away from 0.
    Round "round",
    /// The first operand to the power of the second.
    Pow "powf",
    /// The first operand to the power of the second, which is an `i32`.
    PowInteger "powi",
    Atan2 "atan2",
    Hypot "hypot",
    /// A uniformly distributed random number; the operands, of type `i64`, are the seed and the
    /// linear index of the element.
    Uniform "uniform",
    /// A normally distributed random number, with the operands of `Uniform`.
    Normal "normal",
}

impl MathFunction {
    /// Returns the number of instructions for an element, without those of rarely taken branches in
    /// functions of their own. Most elements of 16 bits are computed as `f32`.
    pub(crate) fn instructions(self, dtype: DType) -> usize {
        /// The numbers of each function, of 16 bits, `f32` and `f64`, once they were asked for.
        static NUMBERS: [[OnceLock<usize>; 3]; MathFunction::ALL.len()] =
            [const { [const { OnceLock::new() }; 3] }; MathFunction::ALL.len()];
        let (number, kind) = match dtype {
            _ if dtype.is_half() && self.has_own_half() => (0, "half"),
            DType::F64 => (2, "f64"),
            _ => (1, "f32"),
        };
        *NUMBERS[self as usize][number].get_or_init(|| {
            let item = library().items.get(&*format!("ms_{}_{kind}", self.name()));
            item.map_or(0, PtxItem::instructions)
        })
    }

    /// Returns whether the library has a function for results that are rounded to 16 bits.
    pub(crate) fn has_own_half(self) -> bool {
        matches!(self, Self::Erf | Self::Tanh)
    }

    /// Returns whether the operands are a seed and a linear index, of type `i64` for every result
    /// type.
    pub(crate) fn is_random(self) -> bool {
        matches!(self, Self::Uniform | Self::Normal)
    }
}

#[cfg(test)]
mod tests {
    use crate::maths::{function::MathFunction, library::library};

    #[test]
    fn the_library_has_every_function_for_both_types() {
        for function in MathFunction::ALL {
            for kind in ["f32", "f64"] {
                let name = format!("ms_{}_{kind}", function.name());
                assert!(library().items.contains_key(&*name), "{name}");
            }
            let of_half = format!("ms_{}_half", function.name());
            let is_there = library().items.contains_key(&*of_half);
            assert_eq!(is_there, function.has_own_half(), "{of_half}");
        }
    }
}
