//! The steps of a program: what is done with which of the arrays so far.

use ndarray::SliceInfoElem;

use crate::value::{Host, Kind};

/// The number of an array of the program.
pub(crate) type Slot = usize;

/// Functions of one element that stays of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Negate,
    Absolute,
    Signum,
    Square,
    Relu,
    /// Of floats alone, as all that follow.
    Root,
    Floor,
    Ceil,
    Trunc,
    RoundEven,
    Round,
    Reciprocal,
    Fraction,
    /// To whole numbers no further from 0 than 64, so that sums of them are exact.
    Coarse,
    /// To −1, 0 and 1, so that products of them are exact.
    Coarsest,
}

/// Functions of two elements of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Minimum,
    Maximum,
}

/// Functions of the bits of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bitwise {
    And,
    Or,
    ExclusiveOr,
    /// Of the first alone.
    Not,
    /// Of integers alone, as all that follow.
    ShiftLeft,
    ShiftRight,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
}

/// The same elements seen otherwise.
#[derive(Clone, Debug)]
pub(crate) enum View {
    Slice(Vec<SliceInfoElem>),
    Permute(Vec<usize>),
    Insert(usize),
    Index(usize, usize),
    Broadcast(Vec<usize>),
    Reshape(Vec<usize>),
    Invert(usize),
}

/// Ways to make one element of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduce {
    Sum,
    Product,
    Minimum,
    Maximum,
    ArgMinimum,
    ArgMaximum,
    Any,
    All,
}

/// What an assignment does with the elements that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assign {
    Set,
    /// Of numbers alone.
    Arithmetic(Binary),
    /// Of all but floats.
    Bits(Bitwise),
}

/// A step; its result is the next array.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Fresh(Host),
    Unary(Unary, Slot),
    Binary(Binary, Slot, Slot),
    /// With a value, which is on the left if that is said.
    WithValue(Binary, Slot, i8, bool),
    Bitwise(Bitwise, Slot, Slot),
    Compare(Compare, Slot, Slot),
    Select(Slot, Slot, Slot),
    /// From an array and a value, which is chosen where the first is true if that is said.
    SelectValue(Slot, Slot, i8, bool),
    /// From two values, as `i32`.
    SelectValues(Slot, i8, i8),
    /// Of an integer.
    Power(Slot, i32),
    Clamp(Slot, i8, i8),
    IsNan(Slot),
    Cast(Slot, Kind),
    View(Slot, View),
    /// Along these axes, which stay with length 1 if that is said.
    Reduce(Reduce, Slot, Vec<usize>, bool),
    Cumulate(Reduce, Slot, usize),
    Take(Slot, usize, Slot),
    TakeListed(Slot, usize, Vec<usize>),
    Gather(Slot, usize, Slot),
    /// Base, axis, indices, values, and whether they are added.
    Scatter(Slot, usize, Slot, Slot, bool),
    /// Base, part, values.
    Update(Assign, Slot, Vec<SliceInfoElem>, Slot),
    /// Base, part, value.
    UpdateValue(Binary, Slot, Vec<SliceInfoElem>, i8),
    Fill(Slot, Vec<SliceInfoElem>, i8),
    Concatenate(usize, Vec<Slot>),
    Stack(usize, Vec<Slot>),
    Multiply(Slot, Slot),
}
