//! What is done element by element.

use crate::{element::DType, maths::MathFunction};

/// A function of the elements at one index of each operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    /// The sum; integers wrap around.
    Add,
    /// The difference; integers wrap around.
    Subtract,
    /// The product; integers wrap around.
    Multiply,
    /// The quotient. That of integers is rounded towards 0, and is 0 where the divisor is.
    Divide,
    /// What division leaves over, with the sign of the dividend; of integers 0 where the divisor
    /// is.
    Remainder,
    /// The lesser, or a NaN if there is one; −0 is less than +0.
    Minimum,
    /// The greater, or a NaN if there is one; −0 is less than +0.
    Maximum,
    /// Of booleans or the bits of integers.
    And,
    /// Of booleans or the bits of integers.
    Or,
    /// Of booleans or the bits of integers.
    ExclusiveOr,
    /// Of booleans or the bits of integers.
    Not,
    /// The bits of an integer moved up, as often as the second operand says modulo the number of
    /// bits.
    ShiftLeft,
    /// The bits of an integer moved down likewise; the sign stays.
    ShiftRight,
    /// With the sign turned; integers wrap around.
    Negate,
    /// Without the sign; integers wrap around.
    Absolute,
    /// −1, 0 or 1 for integers; for floats 1 with the sign of the element, or NaN.
    Signum,
    /// The square root, rounded correctly.
    SquareRoot,
    /// To a whole number.
    Round(Rounding),
    /// A boolean.
    Compare(Comparison),
    /// The second operand where the first is true, and the third elsewhere.
    Select,
    /// To another type, as Rust's `as` does it; to a boolean, whether it is not 0.
    Cast(DType),
    /// A function of the maths library.
    Maths(MathFunction),
}

/// Ways to round to a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rounding {
    Down,
    Up,
    TowardsZero,
    /// To the nearest, and to the even one of two that are equally near.
    NearestEven,
}

/// Ways to compare; all but `NotEqual` are false if an operand is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl Function {
    /// A word for kernels' names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Function::Add => "add",
            Function::Subtract => "sub",
            Function::Multiply => "mul",
            Function::Divide => "div",
            Function::Remainder => "rem",
            Function::Minimum => "min",
            Function::Maximum => "max",
            Function::And => "and",
            Function::Or => "or",
            Function::ExclusiveOr => "xor",
            Function::Not => "not",
            Function::ShiftLeft => "shl",
            Function::ShiftRight => "shr",
            Function::Negate => "neg",
            Function::Absolute => "abs",
            Function::Signum => "signum",
            Function::SquareRoot => "sqrt",
            Function::Round(_) => "round",
            Function::Compare(_) => "compare",
            Function::Select => "select",
            Function::Cast(_) => "cast",
            Function::Maths(function) => function.name(),
        }
    }

    /// Whether it costs so much that it should not be done twice.
    pub(crate) fn is_costly(self) -> bool {
        matches!(
            self,
            Function::Maths(_) | Function::Divide | Function::Remainder | Function::SquareRoot
        )
    }
}
