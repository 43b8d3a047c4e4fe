//! The steps of a program.

use crate::differential::prelude::*;

/// The index of an array of the program.
pub(crate) type Slot = usize;

/// Defines functions, and a list of them in this order.
macro_rules! functions {
    ($(
        $(#[$doc:meta])*
        $name:ident { $($(#[$about:meta])* $function:ident,)* }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$about])* $function,)*
        }

        impl $name {
            pub(crate) const ALL: &[Self] = &[$(Self::$function,)*];
        }
    )*};
}

functions! {
    /// Functions of one element that keep its type: the first five for all numbers, the next eight
    /// for floats.
    Unary {
        Negate, Absolute, Signum, Square, Relu,
        /// The square root, for floats alone, as all functions that follow.
        Root,
        Floor, Ceil, Trunc, RoundEven, Round, Reciprocal, Fraction,
        /// Rounding to integers of magnitude at most 64, so that their sums are exact.
        Coarse,
        /// Rounding to −1, 0 and 1, so that their products are exact.
        Coarsest,
    }

    /// Functions of two elements of one type.
    Binary { Add, Subtract, Multiply, Divide, Remainder, Minimum, Maximum, }

    /// Functions of the bits of two elements.
    Bitwise {
        And, Or, ExclusiveOr,
        /// The complement, of the first operand alone.
        Not,
        /// The left shift, for integers alone, as the right shift.
        ShiftLeft,
        ShiftRight,
    }

    /// Comparisons of two elements: the first two for booleans, too.
    Compare { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, }

    /// Reductions along axes: the first four of numbers keep their type, the next two give
    /// positions, and the last two are of booleans.
    Reduce { Sum, Product, Minimum, Maximum, ArgMinimum, ArgMaximum, Any, All, }
}

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

/// The places of elements in a rearranged array.
#[derive(Clone, Debug)]
pub(crate) enum Arrange {
    Roll(isize, usize),
    Pad(Vec<(usize, usize)>, Padding),
    Tile(Vec<usize>),
    Repeat(usize, usize),
    /// The triangle above or, if the flag is set, below a diagonal.
    Triangle(isize, bool),
    Windows(Vec<usize>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Padding {
    Constant(i8),
    Edge,
    Reflect,
    Wrap,
}

/// Functions of the current elements and the assigned ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assign {
    Set,
    /// An arithmetic function, for numeric types.
    Arithmetic(Binary),
    /// A bitwise function, for types other than floats.
    Bits(Bitwise),
}

/// Operations of order: the last two with a number of elements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ordered {
    Sort,
    Positions,
    Greatest(usize),
    GreatestPositions(usize),
}

/// A step of a program; its result is the next array.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Fresh(Host),
    Unary(Unary, Slot),
    Binary(Binary, Slot, Slot),
    /// A function of an array and a value, which is the left operand if the flag is set.
    WithValue(Binary, Slot, i8, bool),
    Bitwise(Bitwise, Slot, Slot),
    Compare(Compare, Slot, Slot),
    Select(Slot, Slot, Slot),
    /// The selection between an array and a value, which is selected where the mask equals the
    /// flag.
    SelectValue(Slot, Slot, i8, bool),
    /// The selection between two values of type `i32`.
    SelectValues(Slot, i8, i8),
    /// An integer power of an integer array.
    Power(Slot, i32),
    Clamp(Slot, i8, i8),
    IsNan(Slot),
    Cast(Slot, Kind),
    View(Slot, View),
    /// A reduction along these axes, which keep length 1 if the flag is set.
    Reduce(Reduce, Slot, Vec<usize>, bool),
    Cumulate(Reduce, Slot, usize),
    /// An operation of order along an axis.
    Order(Ordered, Slot, usize),
    Take(Slot, usize, Slot),
    TakeListed(Slot, usize, Vec<usize>),
    Gather(Slot, usize, Slot),
    /// A scatter: base, axis, indices, values, and a flag for addition.
    Scatter(Slot, usize, Slot, Slot, bool),
    /// An update of a slice: base, slice, values.
    Update(Assign, Slot, Vec<SliceInfoElem>, Slot),
    /// An update of a slice by one value: base, slice, value.
    UpdateValue(Binary, Slot, Vec<SliceInfoElem>, i8),
    Fill(Slot, Vec<SliceInfoElem>, i8),
    Concatenate(usize, Vec<Slot>),
    Stack(usize, Vec<Slot>),
    Multiply(Slot, Slot),
    Arrange(Slot, Arrange),
    /// The elements that a mask selects, then one value: elements, mask, value.
    Compress(Slot, Slot, i8),
}
