//! Arithmetic, bitwise and shift operators, and their assigning forms.

use std::{
    borrow::Borrow,
    ops::{
        Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Div,
        DivAssign, Mul, MulAssign, Neg, Not, Rem, RemAssign, Shl, ShlAssign, Shr, ShrAssign, Sub,
        SubAssign,
    },
};

use half::{bf16, f16};
use ndarray::{ArrayBase, DimMax, Dimension, RawData};

use crate::{
    array::{Array, ArrayViewMut, Operand},
    element::{Element, Float, Number},
    expr::Function,
};

/// An element type with bitwise operators: `bool` or an integer.
#[diagnostic::on_unimplemented(
    message = "this operation needs `bool` or integers, not `{Self}`",
    note = "comparisons such as `greater` give arrays of `bool`"
)]
pub trait BitwiseElement: Element {}

impl BitwiseElement for bool {}

/// An integer element type: `i8` to `i64` or `u8` to `u64`.
///
/// Shift counts are taken modulo the number of bits, as in Rust's `wrapping_shl` and
/// `wrapping_shr`; a right shift keeps the sign.
///
/// ```
/// use millstream_region::RegionExt;
/// use ndarray::array;
/// let device = millstream::Device::simulated()?;
/// let (x, counts) = (array![5, -8], array![1, 33]);
/// let shifted = device.region(|g| {
///     let (x, counts) = (g.array(&x), g.array(&counts));
///     let mut half = x.clone();
///     half >>= 1;
///     (half, &x << &counts, 1 << counts)
/// })?;
/// assert_eq!(shifted.wait()?, (array![2, -4], array![10, -16], array![2, 2]));
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "this operation needs integers, not `{Self}`",
    note = "`cast::<i32>()` converts the array"
)]
pub trait Integer: Number + BitwiseElement {}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl BitwiseElement for $type {}
        impl Integer for $type {}
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

/// A trait without implementations, whose diagnostic explains that a host array cannot be an
/// operand: it would be copied at each use.
#[diagnostic::on_unimplemented(
    message = "a host array cannot be an operand of an array on a device",
    label = "a host array",
    note = "make it a parameter of the region function, or copy it to the device with \
            `g.array(&host)`; `g` is the region, which a region function has as its first \
            parameter, `g: &Region`",
    note = "constructors create arrays on the device: `g.zeros(shape)`, `g.ones(shape)`, \
            `g.from_elem(shape, value)`"
)]
pub trait HostOperand {}

/// Equality of two element types, which the solver can use to infer one from the other.
pub struct ElementTypes;

/// The requirement that two arrays have the same element type.
#[diagnostic::on_unimplemented(
    message = "an array of `{T}` cannot be combined with an array of `{U}`",
    label = "an array of `{U}`",
    note = "convert one of them: `cast::<{T}>()` on this one, or `cast::<{U}>()` on the other"
)]
pub trait SameElement<T, U> {
    /// The element type, which is unknown to the compiler if the two differ, so that it reports
    /// their difference alone.
    type Element;

    /// Returns the array itself.
    #[doc(hidden)]
    fn same<E>(array: &Array<U, E>) -> &Array<T, E>;

    /// Returns the array itself.
    #[doc(hidden)]
    fn result<E>(array: Array<T, E>) -> Array<Self::Element, E>;
}

impl<T> SameElement<T, T> for ElementTypes {
    type Element = T;

    fn same<E>(array: &Array<T, E>) -> &Array<T, E> {
        array
    }

    fn result<E>(array: Array<T, E>) -> Array<T, E> {
        array
    }
}

/// A trait without implementations, whose diagnostic explains that `x * 2` needs a number of the
/// element type.
#[diagnostic::on_unimplemented(
    message = "an array of `{T}` cannot be combined with an integer",
    label = "an integer",
    note = "write a number of the element type: `2.0` instead of `2`, `n as {T}` for a variable, \
            and `f16::from_f32(2.0)` for floats of 16 bits"
)]
pub trait IntegerBesideFloats<T> {}

macro_rules! binary {
    (numbers: $($operator:ident, $method:ident, $function:ident;)*) => {
        binary! { $($operator, $method, Number, $function;)* }
        $(
            binary!(@integer $operator, $method, Array<T, D>);
            binary!(@integer $operator, $method, &Array<T, D>);
        )*
    };
    (@integer $operator:ident, $method:ident, $left:ty) => {
        impl<T: Float, D> $operator<i32> for $left
        where
            i32: IntegerBesideFloats<T>,
        {
            type Output = Array<T, D>;

            fn $method(self, _value: i32) -> Self::Output {
                unreachable!("the trait has no implementations")
            }
        }
    };
    ($($operator:ident, $method:ident, $bound:ident, $function:ident;)*) => {$(
        binary!(@host $operator, $method, $bound, Array<T, D>, ArrayBase<S, E>);
        binary!(@host $operator, $method, $bound, Array<T, D>, &ArrayBase<S, E>);
        binary!(@host $operator, $method, $bound, &Array<T, D>, ArrayBase<S, E>);
        binary!(@host $operator, $method, $bound, &Array<T, D>, &ArrayBase<S, E>);
        binary!(@arrays $operator, $method, $bound, $function, Array<T, D>, Array<U, E>);
        binary!(@arrays $operator, $method, $bound, $function, &Array<T, D>, Array<U, E>);
        binary!(@arrays $operator, $method, $bound, $function, Array<T, D>, &Array<U, E>);
        binary!(@arrays $operator, $method, $bound, $function, &Array<T, D>, &Array<U, E>);
        binary!(@value $operator, $method, $bound, $function, Array<T, D>);
        binary!(@value $operator, $method, $bound, $function, &Array<T, D>);
    )*};
    (@host $operator:ident, $method:ident, $bound:ident, $left:ty, $right:ty) => {
        impl<T: $bound, D, S: RawData, E> $operator<$right> for $left
        where
            ArrayBase<S, E>: HostOperand,
        {
            type Output = Array<T, D>;

            fn $method(self, _other: $right) -> Self::Output {
                unreachable!("the trait has no implementations")
            }
        }
    };
    (@value $operator:ident, $method:ident, $bound:ident, $function:ident, $left:ty) => {
        impl<T: $bound, D> $operator<T> for $left {
            type Output = Array<T, D>;

            #[track_caller]
            fn $method(self, value: T) -> Array<T, D> {
                self.binary_scalar(Function::$function, value, false)
            }
        }
    };
    (
        @arrays $operator:ident, $method:ident, $bound:ident, $function:ident, $left:ty, $right:ty
    ) => {
        impl<T: $bound, U, D, E> $operator<$right> for $left
        where
            ElementTypes: SameElement<T, U>,
            D: Dimension + DimMax<E>,
            E: Dimension,
        {
            type Output = Array<
                <ElementTypes as SameElement<T, U>>::Element,
                <D as DimMax<E>>::Output,
            >;

            #[track_caller]
            fn $method(self, other: $right) -> Self::Output {
                let other = ElementTypes::same(other.borrow());
                ElementTypes::result(self.binary(Function::$function, other))
            }
        }
    };
}

binary! {
    numbers:
    Add, add, Add;
    Sub, sub, Subtract;
    Mul, mul, Multiply;
    Div, div, Divide;
    Rem, rem, Remainder;
}

binary! {
    BitAnd, bitand, BitwiseElement, And;
    BitOr, bitor, BitwiseElement, Or;
    BitXor, bitxor, BitwiseElement, ExclusiveOr;
    Shl, shl, Integer, ShiftLeft;
    Shr, shr, Integer, ShiftRight;
}

/// Implements operators whose left operand is a scalar.
macro_rules! scalar_first {
    (@each $operator:ident, $method:ident, $function:ident, [$($type:ty),*]) => {$(
        scalar_first!(@one $operator, $method, $function, $type, Array<$type, D>);
        scalar_first!(@one $operator, $method, $function, $type, &Array<$type, D>);
    )*};
    (@one $operator:ident, $method:ident, $function:ident, $type:ty, $array:ty) => {
        impl<D> $operator<$array> for $type {
            type Output = Array<$type, D>;

            #[track_caller]
            fn $method(self, array: $array) -> Array<$type, D> {
                array.binary_scalar(Function::$function, self, true)
            }
        }
    };
    (@integers $operator:ident, $method:ident, $function:ident) => {
        scalar_first!(
            @each $operator, $method, $function, [i8, i16, i32, i64, u8, u16, u32, u64]
        );
    };
    (@numbers $operator:ident, $method:ident, $function:ident) => {
        scalar_first!(@each $operator, $method, $function, [f16, bf16, f32, f64]);
        scalar_first!(@integers $operator, $method, $function);
    };
    (@bits $operator:ident, $method:ident, $function:ident) => {
        scalar_first!(@each $operator, $method, $function, [bool]);
        scalar_first!(@integers $operator, $method, $function);
    };
    ($($operator:ident, $method:ident, $function:ident, $types:ident;)*) => {
        $(scalar_first!(@$types $operator, $method, $function);)*
    };
}

scalar_first! {
    Add, add, Add, numbers;
    Sub, sub, Subtract, numbers;
    Mul, mul, Multiply, numbers;
    Div, div, Divide, numbers;
    Rem, rem, Remainder, numbers;
    BitAnd, bitand, And, bits;
    BitOr, bitor, Or, bits;
    BitXor, bitxor, ExclusiveOr, bits;
    Shl, shl, ShiftLeft, integers;
    Shr, shr, ShiftRight, integers;
}

macro_rules! unary {
    ($($operator:ident, $method:ident, $bound:ident, $function:ident, $array:ty;)*) => {$(
        impl<T: $bound, D> $operator for $array {
            type Output = Array<T, D>;

            #[track_caller]
            fn $method(self) -> Array<T, D> {
                self.unary(Function::$function)
            }
        }
    )*};
}

unary! {
    Neg, neg, Number, Negate, Array<T, D>;
    Neg, neg, Number, Negate, &Array<T, D>;
    Not, not, BitwiseElement, Not, Array<T, D>;
    Not, not, BitwiseElement, Not, &Array<T, D>;
}

/// Implements assigning operators, after which the handle or the view refers to new elements. The
/// other operand is broadcast to its shape.
macro_rules! assigning {
    (numbers: $($operator:ident, $method:ident, $function:ident;)*) => {
        assigning! { $($operator, $method, Number, $function;)* }
        $(
            impl<T: Float, D> $operator<i32> for Array<T, D>
            where
                i32: IntegerBesideFloats<T>,
            {
                fn $method(&mut self, _value: i32) {
                    unreachable!("the trait has no implementations")
                }
            }
        )*
    };
    ($($operator:ident, $method:ident, $bound:ident, $function:ident;)*) => {$(
        assigning!(@array $operator, $method, $bound, $function, Array<U, E>);
        assigning!(@array $operator, $method, $bound, $function, &Array<U, E>);
        assigning!(@host $operator, $method, $bound, ArrayBase<S, E>);
        assigning!(@host $operator, $method, $bound, &ArrayBase<S, E>);

        impl<T: $bound, D> $operator<T> for Array<T, D> {
            #[track_caller]
            fn $method(&mut self, value: T) {
                *self = self.binary_scalar(Function::$function, value, false);
            }
        }

        impl<T: $bound, D, E, O> $operator<O> for ArrayViewMut<'_, T, D, E>
        where
            D: Dimension,
            E: Dimension,
            O: Operand<T, E>,
        {
            #[track_caller]
            fn $method(&mut self, other: O) {
                self.update(Function::$function, other, stringify!($method));
            }
        }
    )*};
    (@array $operator:ident, $method:ident, $bound:ident, $function:ident, $right:ty) => {
        impl<T: $bound, U, D, E> $operator<$right> for Array<T, D>
        where
            ElementTypes: SameElement<T, U>,
            D: Dimension + DimMax<E, Output = D>,
            E: Dimension,
        {
            #[track_caller]
            fn $method(&mut self, other: $right) {
                let other = ElementTypes::same::<E>(other.borrow());
                let other = other.broadcast_to(self, stringify!($method));
                *self = self.binary(Function::$function, &other);
            }
        }
    };
    (@host $operator:ident, $method:ident, $bound:ident, $right:ty) => {
        impl<T: $bound, D, S: RawData, E> $operator<$right> for Array<T, D>
        where
            ArrayBase<S, E>: HostOperand,
        {
            fn $method(&mut self, _other: $right) {
                unreachable!("the trait has no implementations")
            }
        }
    };
}

assigning! {
    numbers:
    AddAssign, add_assign, Add;
    SubAssign, sub_assign, Subtract;
    MulAssign, mul_assign, Multiply;
    DivAssign, div_assign, Divide;
    RemAssign, rem_assign, Remainder;
}

assigning! {
    BitAndAssign, bitand_assign, BitwiseElement, And;
    BitOrAssign, bitor_assign, BitwiseElement, Or;
    BitXorAssign, bitxor_assign, BitwiseElement, ExclusiveOr;
    ShlAssign, shl_assign, Integer, ShiftLeft;
    ShrAssign, shr_assign, Integer, ShiftRight;
}
