//! Functions of each element.

use std::panic::Location;

use super::{Array, compare::Operand};
use crate::{
    element::{DType, Element, Float, Number, Scalar},
    graph::{Comparison, Function, Op, Rounding},
    maths::MathFunction,
};

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident, $function:expr;)*) => {
        $(
            $(#[$doc])*
            #[track_caller]
            #[must_use]
            pub fn $name(&self) -> Self {
                self.unary($function)
            }
        )*
    };
}

/// Functions of the maths library: at most as far off as the page on accuracy says.
impl<T: Float, D> Array<T, D> {
    functions! {
        /// e to the power of each element.
        exp, Function::Maths(MathFunction::Exp);
        /// 2 to the power of each element.
        exp2, Function::Maths(MathFunction::Exp2);
        /// e to the power of each element, less 1, exact near 0.
        exp_m1, Function::Maths(MathFunction::ExpM1);
        /// The natural logarithm.
        ln, Function::Maths(MathFunction::Ln);
        /// The natural logarithm of each element plus 1, exact near 0.
        ln_1p, Function::Maths(MathFunction::Ln1p);
        /// The logarithm to base 2.
        log2, Function::Maths(MathFunction::Log2);
        /// The logarithm to base 10.
        log10, Function::Maths(MathFunction::Log10);
        /// The square root, rounded correctly.
        sqrt, Function::SquareRoot;
        /// The cube root.
        cbrt, Function::Maths(MathFunction::CubeRoot);
        /// The sine of an angle in radians.
        sin, Function::Maths(MathFunction::Sin);
        /// The cosine of an angle in radians.
        cos, Function::Maths(MathFunction::Cos);
        /// The tangent of an angle in radians.
        tan, Function::Maths(MathFunction::Tan);
        /// The angle in radians whose sine this is.
        asin, Function::Maths(MathFunction::Asin);
        /// The angle in radians whose cosine this is.
        acos, Function::Maths(MathFunction::Acos);
        /// The angle in radians whose tangent this is.
        atan, Function::Maths(MathFunction::Atan);
        /// The hyperbolic sine.
        sinh, Function::Maths(MathFunction::Sinh);
        /// The hyperbolic cosine.
        cosh, Function::Maths(MathFunction::Cosh);
        /// The hyperbolic tangent.
        tanh, Function::Maths(MathFunction::Tanh);
        /// The inverse of the hyperbolic sine.
        asinh, Function::Maths(MathFunction::Asinh);
        /// The inverse of the hyperbolic cosine.
        acosh, Function::Maths(MathFunction::Acosh);
        /// The inverse of the hyperbolic tangent.
        atanh, Function::Maths(MathFunction::Atanh);
        /// The error function.
        erf, Function::Maths(MathFunction::Erf);
        /// 1 less the error function.
        erfc, Function::Maths(MathFunction::Erfc);
        /// The logistic function, 1 / (1 + e⁻ˣ).
        sigmoid, Function::Maths(MathFunction::Sigmoid);
        /// The greatest whole number that is not greater.
        floor, Function::Round(Rounding::Down);
        /// The least whole number that is not less.
        ceil, Function::Round(Rounding::Up);
        /// The whole number without the fraction.
        trunc, Function::Round(Rounding::TowardsZero);
        /// The nearest whole number, away from 0 where two are equally near.
        round, Function::Maths(MathFunction::Round);
        /// The nearest whole number, the even one where two are equally near.
        round_ties_even, Function::Round(Rounding::NearestEven);
    }

    /// What is left of each element without its whole number.
    #[track_caller]
    #[must_use]
    pub fn fract(&self) -> Self {
        let whole = self.trunc();
        self.same_shape(Function::Subtract, &whole)
    }

    /// 1 divided by each element.
    #[track_caller]
    #[must_use]
    pub fn recip(&self) -> Self {
        self.binary_scalar(Function::Divide, T::ONE, true)
    }

    /// Where an element is NaN.
    #[track_caller]
    #[must_use]
    pub fn is_nan(&self) -> Array<bool, D> {
        self.same_shape(Function::Compare(Comparison::NotEqual), self)
    }

    /// Where an element is infinite.
    #[track_caller]
    #[must_use]
    pub fn is_infinite(&self) -> Array<bool, D> {
        self.abs()
            .compare_constant(Comparison::Equal, f32::INFINITY, f64::INFINITY)
    }

    /// Where an element is neither infinite nor NaN.
    #[track_caller]
    #[must_use]
    pub fn is_finite(&self) -> Array<bool, D> {
        self.abs()
            .compare_constant(Comparison::Less, f32::INFINITY, f64::INFINITY)
    }

    /// Angles in radians as degrees.
    #[track_caller]
    #[must_use]
    pub fn to_degrees(&self) -> Self {
        self.multiply_constant(1.0_f32.to_degrees(), 1.0_f64.to_degrees())
    }

    /// Angles in degrees as radians.
    #[track_caller]
    #[must_use]
    pub fn to_radians(&self) -> Self {
        self.multiply_constant(1.0_f32.to_radians(), 1.0_f64.to_radians())
    }

    /// The logarithm to another base: the quotient of the natural ones.
    #[track_caller]
    #[must_use]
    pub fn log(&self, base: T) -> Self {
        let of_base = match base.scalar() {
            Scalar::F32(base) => Scalar::F32(base.ln()),
            Scalar::F64(base) => Scalar::F64(base.ln()),
            other => other,
        };
        let of_base = self.filled_like(of_base);
        self.ln().same_shape(Function::Divide, &of_base)
    }

    /// Compared with a number that is given for both types.
    #[track_caller]
    fn compare_constant(&self, comparison: Comparison, narrow: f32, wide: f64) -> Array<bool, D> {
        let other = self.filled_like(float_scalar::<T>(narrow, wide));
        self.same_shape(Function::Compare(comparison), &other)
    }

    /// Multiplied by a number that is given for both types.
    #[track_caller]
    fn multiply_constant(&self, narrow: f32, wide: f64) -> Self {
        let factor = self.filled_like(float_scalar::<T>(narrow, wide));
        self.same_shape(Function::Multiply, &factor)
    }

    /// A value in this array's shape.
    #[track_caller]
    fn filled_like(&self, value: Scalar) -> Self {
        let location = Location::caller();
        let shape = &self.node().shape;
        self.constant(value, location)
            .broadcast_view(shape, "constant", location)
    }

    /// Each element to the power of another, or of a value.
    #[track_caller]
    #[must_use]
    pub fn powf<O: Operand<T, D>>(&self, exponent: O) -> Array<T, O::Dim> {
        exponent.apply(self, Function::Maths(MathFunction::Pow))
    }

    /// The angle in radians of the point whose ordinates are these and whose abscissae are the
    /// others.
    #[track_caller]
    #[must_use]
    pub fn atan2<O: Operand<T, D>>(&self, other: O) -> Array<T, O::Dim> {
        other.apply(self, Function::Maths(MathFunction::Atan2))
    }

    /// The hypotenuse of the right triangle with these legs.
    #[track_caller]
    #[must_use]
    pub fn hypot<O: Operand<T, D>>(&self, other: O) -> Array<T, O::Dim> {
        other.apply(self, Function::Maths(MathFunction::Hypot))
    }
}

/// The one of two numbers that has this type.
fn float_scalar<T: Float>(narrow: f32, wide: f64) -> Scalar {
    match T::DTYPE {
        DType::F32 => Scalar::F32(narrow),
        _ => Scalar::F64(wide),
    }
}

impl<T: Number, D> Array<T, D> {
    functions! {
        /// Each element without its sign; integers wrap around.
        abs, Function::Absolute;
        /// For integers −1, 0 or 1; for floats 1 with the sign of the element, or NaN.
        signum, Function::Signum;
    }

    /// Each element to the power of a whole number.
    ///
    /// Integers wrap around. To a negative power, an integer gives the quotient of 1 and its
    /// positive power, rounded towards 0: 1 or −1 where it is one of those, and 0 elsewhere.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    ///
    /// let device = millstream::Device::simulated()?;
    /// let (x, n) = (array![2.0_f32, -0.5], array![3, -1]);
    /// let powers = device.region(|g| (g.array(&x).powi(-2), g.array(&n).powi(4), g.array(&n).powi(-3)))?;
    /// assert_eq!(powers.wait()?, (array![0.25, 4.0], array![81, 1], array![0, -1]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn powi(&self, exponent: i32) -> Self {
        if matches!(T::DTYPE, DType::F32 | DType::F64) {
            let location = Location::caller();
            let value = self.constant(Scalar::I32(exponent), location);
            let exponent: Self = value.broadcast_view(&self.node().shape, "powi", location);
            return self.same_shape(Function::Maths(MathFunction::PowInteger), &exponent);
        }
        let power = self.integer_power(exponent.unsigned_abs());
        if exponent < 0 {
            return power.binary_scalar(Function::Divide, T::ONE, true);
        }
        power
    }

    /// The product of as many of each element, by squares.
    #[track_caller]
    fn integer_power(&self, exponent: u32) -> Self {
        let (mut power, mut square): (Option<Self>, _) = (None, self.clone());
        for bit in 0..u32::BITS - exponent.leading_zeros() {
            if bit > 0 {
                square = square.pow2();
            }
            if exponent & (1 << bit) != 0 {
                power = Some(match power {
                    Some(power) => power.same_shape(Function::Multiply, &square),
                    None => square.clone(),
                });
            }
        }
        power.unwrap_or_else(|| self.ones_like())
    }

    /// Each element times itself.
    #[track_caller]
    #[must_use]
    pub fn pow2(&self) -> Self {
        self.same_shape(Function::Multiply, self)
    }

    /// Each element, or 0 where it is less; NaN stays NaN, and −0 becomes +0.
    #[track_caller]
    #[must_use]
    pub fn relu(&self) -> Self {
        self.binary_scalar(Function::Maximum, T::ZERO, false)
    }
}

impl<T: Element, D> Array<T, D> {
    /// The elements as another type, as `as` does it in Rust: towards 0, to the nearest that there
    /// is, NaN to 0. A `bool` is 0 or 1; whatever is not 0 is `true`.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    ///
    /// let device = millstream::Device::simulated()?;
    /// let x = array![-1.5_f32, 2.5, 300.0, f32::NAN];
    /// let bytes = device.region(|g| g.array(&x).cast::<u8>())?.wait()?;
    /// assert_eq!(bytes, x.mapv(|x| x as u8));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn cast<U: Element>(&self) -> Array<U, D> {
        if T::DTYPE == U::DTYPE {
            return Array::of(self.session(), self.node().clone());
        }
        self.unary(Function::Cast(U::DTYPE))
    }

    /// What `function` makes of the array. It is called once, with the whole array, and not for
    /// each element: so a body that was written for `ndarray` reads the same.
    ///
    /// That holds for operators and for functions of one element. A function of the host
    /// (`f32::exp`) cannot be called with an array, nor can `if` look at elements: `v.exp()`,
    /// [`maximum`](Self::maximum) for `max`, and [`where_cond`](Array::where_cond) say the same of whole
    /// arrays.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    ///
    /// let device = millstream::Device::simulated()?;
    /// let x = array![1.0_f32, -2.0];
    /// let mapped = device.region(|g| {
    ///     let x = g.array(&x);
    ///     (x.mapv(|v| v * v + 1.0), x.mapv(|v| v.maximum(0.0)), x.mapv(|v| v.less(0.0).where_cond(10.0, v)))
    /// })?;
    /// assert_eq!(mapped.wait()?, (array![2.0, 5.0], array![1.0, 0.0], array![1.0, 10.0]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn mapv<U, E>(&self, function: impl FnOnce(&Self) -> Array<U, E>) -> Array<U, E> {
        function(self)
    }

    /// A function of the elements of two arrays of one shape.
    #[track_caller]
    pub(super) fn same_shape<U: Element>(&self, function: Function, other: &Self) -> Array<U, D> {
        let operands = [self.node(), other.node()].into_iter().cloned().collect();
        let op = Op::Apply(function, operands);
        self.plan(
            U::DTYPE,
            self.node().shape.clone(),
            op,
            function.name(),
            Location::caller(),
        )
    }
}
