//! Element-wise functions.

use crate::{element::DType, maths::MathFunction};

macro_rules! functions {
    ($($(#[$doc:meta])* $function:ident $(($detail:ident: $type:ident))? $name:literal,)*) => {
        /// An element-wise function, applied to the elements at one index of each operand.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Function {
            $($(#[$doc])* $function $(($type))?,)*
        }

        /// The functions without their details.
        enum Number {
            $($function,)*
        }

        impl Function {
            /// Returns the word for this function in the names of kernels.
            pub(crate) fn name(self) -> &'static str {
                if let Self::Maths(function) = self {
                    return function.name();
                }
                match self {
                    $(Self::$function { .. } => $name,)*
                }
            }

            /// Returns a number that no other function has, of at most 16 bits.
            #[inline]
            pub(crate) fn code(self) -> u64 {
                let (number, detail) = match self {
                    $(Self::$function $(($detail))? => {
                        (Number::$function, functions!(@detail $($detail)?))
                    })*
                };
                detail << 8 | number as u64
            }

            /// Returns all functions.
            #[cfg(test)]
            pub(crate) fn all() -> Vec<Self> {
                [$(functions!(@all $function $($type)?)),*].concat()
            }
        }
    };
    (@detail) => { 0 };
    (@detail $detail:ident) => { $detail as u64 };
    (@all $function:ident) => { vec![Self::$function] };
    (@all $function:ident $type:ident) => {
        $type::ALL.iter().copied().map(Self::$function).collect()
    };
}

functions! {
    /// The sum; integers wrap around.
    Add "add",
    /// The difference; integers wrap around.
    Subtract "sub",
    /// The product; integers wrap around.
    Multiply "mul",
    /// The quotient. An integer quotient is rounded towards 0, and is 0 if the divisor is 0.
    Divide "div",
    /// The remainder of a division, with the sign of the dividend; for integers, 0 if the divisor
    /// is 0.
    Remainder "rem",
    /// The minimum, or NaN if an operand is NaN; −0 is less than +0.
    Minimum "min",
    /// The maximum, or NaN if an operand is NaN; −0 is less than +0.
    Maximum "max",
    /// The conjunction of booleans or of the bits of integers.
    And "and",
    /// The disjunction of booleans or of the bits of integers.
    Or "or",
    /// The exclusive disjunction of booleans or of the bits of integers.
    ExclusiveOr "xor",
    /// The negation of a boolean or of the bits of an integer.
    Not "not",
    /// The left shift of an integer by the second operand modulo the number of bits.
    ShiftLeft "shl",
    /// The arithmetic right shift of an integer by the second operand modulo the number of bits.
    ShiftRight "shr",
    /// The negation; integers wrap around.
    Negate "neg",
    /// The absolute value; integers wrap around.
    Absolute "abs",
    /// The sign: −1, 0 or 1 for integers; 1 with the sign of the element, or NaN, for floats.
    Signum "signum",
    /// The correctly rounded square root.
    SquareRoot "sqrt",
    /// The rounding to an integral value.
    Round(rounding: Rounding) "round",
    /// The comparison, which gives a boolean.
    Compare(comparison: Comparison) "compare",
    /// The selection of the second operand where the first is true, and of the third elsewhere.
    Select "select",
    /// The conversion to another type, as Rust's `as`; a number becomes `true` if it is not 0.
    Cast(dtype: DType) "cast",
    /// A function of the maths library.
    Maths(function: MathFunction) "maths",
}

/// The ways of rounding to an integral value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rounding {
    Down,
    Up,
    TowardsZero,
    /// Rounding to the nearest value, ties to even.
    NearestEven,
}

/// The comparisons; all except `NotEqual` are false if an operand is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

#[cfg(test)]
impl Rounding {
    const ALL: [Self; 4] = [Self::Down, Self::Up, Self::TowardsZero, Self::NearestEven];
}

#[cfg(test)]
impl Comparison {
    const ALL: [Self; 6] = {
        use Comparison::*;
        [Less, LessOrEqual, Greater, GreaterOrEqual, Equal, NotEqual]
    };
}

impl Function {
    /// Returns whether computing the function twice costs more than storing its result.
    pub(crate) fn is_costly(self) -> bool {
        matches!(
            self,
            Function::Maths(_) | Function::Divide | Function::Remainder | Function::SquareRoot
        )
    }
}
