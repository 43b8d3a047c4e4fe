//! Element-wise functions.

use crate::{element::DType, maths::MathFunction};

/// An element-wise function, applied to the elements at one index of each operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    /// The sum; integers wrap around.
    Add,
    /// The difference; integers wrap around.
    Subtract,
    /// The product; integers wrap around.
    Multiply,
    /// The quotient. An integer quotient is rounded towards 0, and is 0 if the divisor is 0.
    Divide,
    /// The remainder of a division, with the sign of the dividend; for integers, 0 if the divisor
    /// is 0.
    Remainder,
    /// The minimum, or NaN if an operand is NaN; −0 is less than +0.
    Minimum,
    /// The maximum, or NaN if an operand is NaN; −0 is less than +0.
    Maximum,
    /// The conjunction of booleans or of the bits of integers.
    And,
    /// The disjunction of booleans or of the bits of integers.
    Or,
    /// The exclusive disjunction of booleans or of the bits of integers.
    ExclusiveOr,
    /// The negation of a boolean or of the bits of an integer.
    Not,
    /// The left shift of an integer by the second operand modulo the number of bits.
    ShiftLeft,
    /// The arithmetic right shift of an integer by the second operand modulo the number of bits.
    ShiftRight,
    /// The negation; integers wrap around.
    Negate,
    /// The absolute value; integers wrap around.
    Absolute,
    /// The sign: −1, 0 or 1 for integers; 1 with the sign of the element, or NaN, for floats.
    Signum,
    /// The correctly rounded square root.
    SquareRoot,
    /// The rounding to an integral value.
    Round(Rounding),
    /// The comparison, which gives a boolean.
    Compare(Comparison),
    /// The selection of the second operand where the first is true, and of the third elsewhere.
    Select,
    /// The conversion to another type, as Rust's `as`; a number becomes `true` if it is not 0.
    Cast(DType),
    /// A function of the maths library.
    Maths(MathFunction),
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

impl Function {
    /// Returns the word for this function in the names of kernels.
    pub(crate) fn name(self) -> &'static str {
        self.table().2
    }

    /// Returns a number that no other function has, of at most 16 bits.
    pub(crate) fn code(self) -> u64 {
        let (number, detail, _) = self.table();
        detail << 8 | number
    }

    /// Returns the number, the detail and the name.
    #[inline]
    fn table(self) -> (u64, u64, &'static str) {
        match self {
            Function::Add => (0, 0, "add"),
            Function::Subtract => (1, 0, "sub"),
            Function::Multiply => (2, 0, "mul"),
            Function::Divide => (3, 0, "div"),
            Function::Remainder => (4, 0, "rem"),
            Function::Minimum => (5, 0, "min"),
            Function::Maximum => (6, 0, "max"),
            Function::And => (7, 0, "and"),
            Function::Or => (8, 0, "or"),
            Function::ExclusiveOr => (9, 0, "xor"),
            Function::Not => (10, 0, "not"),
            Function::ShiftLeft => (11, 0, "shl"),
            Function::ShiftRight => (12, 0, "shr"),
            Function::Negate => (13, 0, "neg"),
            Function::Absolute => (14, 0, "abs"),
            Function::Signum => (15, 0, "signum"),
            Function::SquareRoot => (16, 0, "sqrt"),
            Function::Round(rounding) => (17, rounding as u64, "round"),
            Function::Compare(comparison) => (18, comparison as u64, "compare"),
            Function::Select => (19, 0, "select"),
            Function::Cast(dtype) => (20, dtype as u64, "cast"),
            Function::Maths(function) => (21, function as u64, function.name()),
        }
    }

    /// Returns all functions.
    #[cfg(test)]
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        use {Comparison as By, DType as To, Rounding as Way};
        let simple = [
            Self::Add,
            Self::Subtract,
            Self::Multiply,
            Self::Divide,
            Self::Remainder,
            Self::Minimum,
            Self::Maximum,
            Self::And,
            Self::Or,
            Self::ExclusiveOr,
            Self::Not,
            Self::ShiftLeft,
            Self::ShiftRight,
            Self::Negate,
            Self::Absolute,
            Self::Signum,
            Self::SquareRoot,
            Self::Select,
        ];
        let rounding = [Way::Down, Way::Up, Way::TowardsZero, Way::NearestEven];
        let comparisons = [
            By::Less,
            By::LessOrEqual,
            By::Greater,
            By::GreaterOrEqual,
            By::Equal,
            By::NotEqual,
        ];
        let types = [
            To::F16,
            To::Bf16,
            To::F32,
            To::F64,
            To::I8,
            To::I16,
            To::I32,
            To::I64,
        ];
        let unsigned = [To::U8, To::U16, To::U32, To::U64, To::Bool];
        (simple.into_iter())
            .chain(rounding.map(Self::Round))
            .chain(comparisons.map(Self::Compare))
            .chain(types.map(Self::Cast))
            .chain(unsigned.map(Self::Cast))
            .chain(MathFunction::ALL.iter().copied().map(Self::Maths))
    }

    /// Returns whether computing the function twice costs more than storing its result.
    pub(crate) fn is_costly(self) -> bool {
        matches!(
            self,
            Function::Maths(_) | Function::Divide | Function::Remainder | Function::SquareRoot
        )
    }
}
