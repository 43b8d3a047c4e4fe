//! Operations on packed arrays element by element: operators, comparisons and functions.

use std::{
    borrow::Borrow,
    ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub},
};

use ndarray::{Dimension, Ix0};
use smallvec::smallvec;

use crate::{
    array::{Array, BitwiseElement, Integer, packed::Packed},
    element::{Element, Float, Number},
    error::Site,
    expr::{Comparison, Function, NodeRef, Op},
};

/// The other operand of an operation on [`Packed`] elements: one value, on the host or on the
/// device, or elements packed by the same mask.
///
/// ```
/// use millstream_region::RegionExt;
/// use ndarray::array;
/// let device = millstream::Device::simulated()?;
/// let (x, y) = (array![1, -2, 3], array![10, 20, 30]);
/// let sums = device.region(|g| {
///     let (x, y) = (g.array(&x), g.array(&y));
///     let mask = x.greater(0);
///     let (x, y) = (x.compress(&mask), y.compress(&mask));
///     &x * 2 + y - x.min()
/// })?;
/// assert_eq!(sums.wait()?, array![11, 35]);
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the other operand of packed elements of `{T}`",
    note = "the other operand is a value, a device array without axes, or elements packed by the \
            same mask; `to_array` gives an array for every other operation"
)]
pub trait PackedOperand<T, D>: private::Sealed {
    /// Returns the node of the operand, with the shape of `left`.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn operand_node(self, left: &Packed<T, D>, site: Site) -> NodeRef;
}

mod private {
    pub trait Sealed {}
    impl<T: crate::element::sealed::Sealed> Sealed for T {}
    impl<T> Sealed for super::Array<T, super::Ix0> {}
    impl<T> Sealed for &super::Array<T, super::Ix0> {}
    impl<T, D> Sealed for super::Packed<T, D> {}
    impl<T, D> Sealed for &super::Packed<T, D> {}
}

impl<T: Element, D> PackedOperand<T, D> for T {
    #[allow(private_interfaces)]
    fn operand_node(self, left: &Packed<T, D>, site: Site) -> NodeRef {
        let elements = &left.elements;
        elements.constant_node(self.scalar(), elements.shape(), site.line)
    }
}

macro_rules! operands {
    ($($single:ty, $packed:ty;)*) => {$(
        impl<T: Element, D: Dimension> PackedOperand<T, D> for $single {
            #[allow(private_interfaces)]
            fn operand_node(self, left: &Packed<T, D>, site: Site) -> NodeRef {
                self.broadcast_node(&left.elements.node().shape, site)
            }
        }

        impl<T: Element, D: Dimension> PackedOperand<T, D> for $packed {
            #[allow(private_interfaces)]
            fn operand_node(self, left: &Packed<T, D>, site: Site) -> NodeRef {
                let other: &Packed<T, D> = self.borrow();
                let elements = match left.check_alike(other) {
                    Ok(()) => other.elements.clone(),
                    Err(problem) => left.failed(problem, site).elements,
                };
                elements.node().clone()
            }
        }
    )*};
}

operands! {
    Array<T, Ix0>, Packed<T, D>;
    &Array<T, Ix0>, &Packed<T, D>;
}

impl<T: Element, D: Dimension> Packed<T, D> {
    fn with<U: Element>(
        &self,
        other: impl PackedOperand<T, D>,
        function: Function,
        site: Site,
    ) -> Packed<U, D> {
        let nodes = smallvec![self.elements.node().clone(), other.operand_node(self, site)];
        let shape = self.elements.node().shape.clone();
        let op = Op::Apply(function, nodes);
        Packed::of(self.elements.plan(U::DTYPE, shape, op, site), self.len())
    }
}

macro_rules! operators {
    ($($operator:ident, $method:ident, $bound:ident, $function:ident;)*) => {$(
        operators!(@one $operator, $method, $bound, $function, Packed<T, D>);
        operators!(@one $operator, $method, $bound, $function, &Packed<T, D>);
    )*};
    (@one $operator:ident, $method:ident, $bound:ident, $function:ident, $left:ty) => {
        impl<T: $bound, D: Dimension, O: PackedOperand<T, D>> $operator<O> for $left {
            type Output = Packed<T, D>;

            #[track_caller]
            fn $method(self, other: O) -> Packed<T, D> {
                let site = Site::of(stringify!($method));
                Packed::with(self.borrow(), other, Function::$function, site)
            }
        }
    };
    (unary: $($operator:ident, $method:ident, $bound:ident;)*) => {$(
        impl<T: $bound, D: Dimension> $operator for Packed<T, D> {
            type Output = Self;

            #[track_caller]
            fn $method(self) -> Self {
                Packed::of(self.elements.$method(), self.length)
            }
        }

        impl<T: $bound, D: Dimension> $operator for &Packed<T, D> {
            type Output = Packed<T, D>;

            #[track_caller]
            fn $method(self) -> Packed<T, D> {
                self.clone().$method()
            }
        }
    )*};
}

operators! {
    Add, add, Number, Add;
    Sub, sub, Number, Subtract;
    Mul, mul, Number, Multiply;
    Div, div, Number, Divide;
    Rem, rem, Number, Remainder;
    BitAnd, bitand, BitwiseElement, And;
    BitOr, bitor, BitwiseElement, Or;
    BitXor, bitxor, BitwiseElement, ExclusiveOr;
    Shl, shl, Integer, ShiftLeft;
    Shr, shr, Integer, ShiftRight;
}

operators! {
    unary:
    Neg, neg, Number;
    Not, not, BitwiseElement;
}

macro_rules! binary {
    ($($name:ident, $bound:ident, $function:expr => $result:ty;)*) => {$(
        impl<T: $bound, D: Dimension> Packed<T, D> {
            #[doc = concat!("Applies [`Array::", stringify!($name), "`] to each element.")]
            #[track_caller]
            pub fn $name(&self, other: impl PackedOperand<T, D>) -> Packed<$result, D> {
                self.with(other, $function, Site::of(stringify!($name)))
            }
        }
    )*};
}

binary! {
    less, Number, Function::Compare(Comparison::Less) => bool;
    less_equal, Number, Function::Compare(Comparison::LessOrEqual) => bool;
    greater, Number, Function::Compare(Comparison::Greater) => bool;
    greater_equal, Number, Function::Compare(Comparison::GreaterOrEqual) => bool;
    equal, Element, Function::Compare(Comparison::Equal) => bool;
    not_equal, Element, Function::Compare(Comparison::NotEqual) => bool;
    minimum, Number, Function::Minimum => T;
    maximum, Number, Function::Maximum => T;
}

macro_rules! unary {
    ($($bound:ident: $($name:ident)*;)*) => {$(
        impl<T: $bound, D: Dimension> Packed<T, D> {$(
            #[doc = concat!("Applies [`Array::", stringify!($name), "`] to each element.")]
            #[track_caller]
            pub fn $name(&self) -> Self {
                Packed::of(self.elements.$name(), self.len())
            }
        )*}
    )*};
}

unary! {
    Number: abs signum pow2 relu;
    Float: exp exp2 exp_m1 ln ln_1p log2 log10 sqrt cbrt sin cos tan asin acos atan sinh cosh tanh
        asinh acosh atanh erf erfc sigmoid floor ceil trunc round round_ties_even fract recip;
}
