//! Operators: of two arrays, of an array and a value, and those that assign.

use std::ops::{
    Add, AddAssign, BitAnd, BitOr, BitXor, Div, DivAssign, Mul, MulAssign, Neg, Not, Rem, RemAssign, Sub,
    SubAssign,
};

use ndarray::{DimMax, Dimension};

use super::Array;
use crate::{
    element::{Element, Number},
    graph::Function,
};

/// An element of which the bits can be combined: `bool`, `u8`, `i32` and `i64`.
#[diagnostic::on_unimplemented(
    message = "this operation needs `bool` or integers, not `{Self}`",
    note = "comparisons such as `greater` give arrays of `bool`"
)]
pub trait Bits: Element {}

impl Bits for bool {}
impl Bits for u8 {}
impl Bits for i32 {}
impl Bits for i64 {}

macro_rules! binary {
    ($($operator:ident, $method:ident, $bound:ident, $function:ident;)*) => {$(
        binary!(@arrays $operator, $method, $bound, $function, Array<T, D>, Array<T, E>, |left, right| (&left, &right));
        binary!(@arrays $operator, $method, $bound, $function, &Array<T, D>, Array<T, E>, |left, right| (left, &right));
        binary!(@arrays $operator, $method, $bound, $function, Array<T, D>, &Array<T, E>, |left, right| (&left, right));
        binary!(@arrays $operator, $method, $bound, $function, &Array<T, D>, &Array<T, E>, |left, right| (left, right));

        impl<T: $bound, D> $operator<T> for Array<T, D> {
            type Output = Array<T, D>;

            #[track_caller]
            fn $method(self, value: T) -> Array<T, D> {
                self.with_scalar(Function::$function, value, false)
            }
        }

        impl<T: $bound, D> $operator<T> for &Array<T, D> {
            type Output = Array<T, D>;

            #[track_caller]
            fn $method(self, value: T) -> Array<T, D> {
                self.with_scalar(Function::$function, value, false)
            }
        }
    )*};
    (
        @arrays $operator:ident, $method:ident, $bound:ident, $function:ident, $left:ty, $right:ty,
        |$a:ident, $b:ident| $operands:expr
    ) => {
        impl<T: $bound, D, E> $operator<$right> for $left
        where
            D: Dimension + DimMax<E>,
            E: Dimension,
        {
            type Output = Array<T, <D as DimMax<E>>::Output>;

            #[track_caller]
            fn $method(self, other: $right) -> Self::Output {
                let ($a, $b) = (self, other);
                let (left, right) = $operands;
                left.with(Function::$function, right)
            }
        }
    };
}

binary! {
    Add, add, Number, Add;
    Sub, sub, Number, Subtract;
    Mul, mul, Number, Multiply;
    Div, div, Number, Divide;
    Rem, rem, Number, Remainder;
    BitAnd, bitand, Bits, And;
    BitOr, bitor, Bits, Or;
    BitXor, bitxor, Bits, ExclusiveOr;
}

/// A value in front of the operator.
macro_rules! scalar_first {
    ($($operator:ident, $method:ident, $function:ident, [$($type:ty),*];)*) => {$($(
        impl<D> $operator<Array<$type, D>> for $type {
            type Output = Array<$type, D>;

            #[track_caller]
            fn $method(self, array: Array<$type, D>) -> Array<$type, D> {
                array.with_scalar(Function::$function, self, true)
            }
        }

        impl<D> $operator<&Array<$type, D>> for $type {
            type Output = Array<$type, D>;

            #[track_caller]
            fn $method(self, array: &Array<$type, D>) -> Array<$type, D> {
                array.with_scalar(Function::$function, self, true)
            }
        }
    )*)*};
}

scalar_first! {
    Add, add, Add, [f32, f64, i32, i64, u8];
    Sub, sub, Subtract, [f32, f64, i32, i64, u8];
    Mul, mul, Multiply, [f32, f64, i32, i64, u8];
    Div, div, Divide, [f32, f64, i32, i64, u8];
    Rem, rem, Remainder, [f32, f64, i32, i64, u8];
    BitAnd, bitand, And, [bool, i32, i64, u8];
    BitOr, bitor, Or, [bool, i32, i64, u8];
    BitXor, bitxor, ExclusiveOr, [bool, i32, i64, u8];
}

macro_rules! unary {
    ($($operator:ident, $method:ident, $bound:ident, $function:ident;)*) => {$(
        impl<T: $bound, D> $operator for Array<T, D> {
            type Output = Array<T, D>;

            #[track_caller]
            fn $method(self) -> Array<T, D> {
                self.each(Function::$function)
            }
        }

        impl<T: $bound, D> $operator for &Array<T, D> {
            type Output = Array<T, D>;

            #[track_caller]
            fn $method(self) -> Array<T, D> {
                self.each(Function::$function)
            }
        }
    )*};
}

unary! {
    Neg, neg, Number, Negate;
    Not, not, Bits, Not;
}

/// Assignments: the array stands for new elements afterwards. The other operand is stretched to its shape.
macro_rules! assigning {
    ($($operator:ident, $method:ident, $function:ident;)*) => {$(
        impl<T: Number, D, E> $operator<&Array<T, E>> for Array<T, D>
        where
            D: Dimension + DimMax<E, Output = D>,
            E: Dimension,
        {
            #[track_caller]
            fn $method(&mut self, other: &Array<T, E>) {
                let other = other.broadcast_to(self);
                *self = self.with(Function::$function, &other);
            }
        }

        impl<T: Number, D, E> $operator<Array<T, E>> for Array<T, D>
        where
            D: Dimension + DimMax<E, Output = D>,
            E: Dimension,
        {
            #[track_caller]
            fn $method(&mut self, other: Array<T, E>) {
                $operator::$method(self, &other);
            }
        }

        impl<T: Number, D> $operator<T> for Array<T, D> {
            #[track_caller]
            fn $method(&mut self, value: T) {
                *self = self.with_scalar(Function::$function, value, false);
            }
        }
    )*};
}

assigning! {
    AddAssign, add_assign, Add;
    SubAssign, sub_assign, Subtract;
    MulAssign, mul_assign, Multiply;
    DivAssign, div_assign, Divide;
    RemAssign, rem_assign, Remainder;
}
