//! Element-wise mathematical functions and casts.

use std::panic::Location;

use smallvec::smallvec;

use crate::{
    array::{Array, compare::Operand},
    element::{DType, Element, Float, Number, Scalar},
    expr::{Comparison, Function, NodeRef, Rounding},
    maths::MathFunction,
};
use half::{bf16, f16};

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident, $function:expr;)*) => {
        $(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Self {
                self.unary($function)
            }
        )*
    };
}

/// Functions of the maths library; `docs/maths.md` states their maximum errors.
impl<T: Float, D> Array<T, D> {
    functions! {
        /// Computes the exponential of each element.
        exp, Function::Maths(MathFunction::Exp);
        /// Computes 2 to the power of each element.
        exp2, Function::Maths(MathFunction::Exp2);
        /// Computes the exponential of each element minus 1, accurately near 0.
        exp_m1, Function::Maths(MathFunction::ExpM1);
        /// Computes the natural logarithm of each element.
        ln, Function::Maths(MathFunction::Ln);
        /// Computes the natural logarithm of 1 plus each element, accurately near 0.
        ln_1p, Function::Maths(MathFunction::Ln1p);
        /// Computes the logarithm of each element to base 2.
        log2, Function::Maths(MathFunction::Log2);
        /// Computes the logarithm of each element to base 10.
        log10, Function::Maths(MathFunction::Log10);
        /// Computes the correctly rounded square root of each element.
        sqrt, Function::SquareRoot;
        /// Computes the cube root of each element.
        cbrt, Function::Maths(MathFunction::CubeRoot);
        /// Computes the sine of each element, an angle in radians.
        sin, Function::Maths(MathFunction::Sin);
        /// Computes the cosine of each element, an angle in radians.
        cos, Function::Maths(MathFunction::Cos);
        /// Computes the tangent of each element, an angle in radians.
        tan, Function::Maths(MathFunction::Tan);
        /// Computes the arcsine of each element, in radians.
        asin, Function::Maths(MathFunction::Asin);
        /// Computes the arccosine of each element, in radians.
        acos, Function::Maths(MathFunction::Acos);
        /// Computes the arctangent of each element, in radians.
        atan, Function::Maths(MathFunction::Atan);
        /// Computes the hyperbolic sine of each element.
        sinh, Function::Maths(MathFunction::Sinh);
        /// Computes the hyperbolic cosine of each element.
        cosh, Function::Maths(MathFunction::Cosh);
        /// Computes the hyperbolic tangent of each element.
        tanh, Function::Maths(MathFunction::Tanh);
        /// Computes the inverse hyperbolic sine of each element.
        asinh, Function::Maths(MathFunction::Asinh);
        /// Computes the inverse hyperbolic cosine of each element.
        acosh, Function::Maths(MathFunction::Acosh);
        /// Computes the inverse hyperbolic tangent of each element.
        atanh, Function::Maths(MathFunction::Atanh);
        /// Computes the error function of each element.
        erf, Function::Maths(MathFunction::Erf);
        /// Computes the complementary error function of each element.
        erfc, Function::Maths(MathFunction::Erfc);
        /// Computes the logistic function of each element, 1 / (1 + e⁻ˣ).
        sigmoid, Function::Maths(MathFunction::Sigmoid);
        /// Rounds each element down to an integral value.
        floor, Function::Round(Rounding::Down);
        /// Rounds each element up to an integral value.
        ceil, Function::Round(Rounding::Up);
        /// Rounds each element towards 0 to an integral value.
        trunc, Function::Round(Rounding::TowardsZero);
        /// Rounds each element to the nearest integral value, ties away from 0.
        round, Function::Maths(MathFunction::Round);
        /// Rounds each element to the nearest integral value, ties to even.
        round_ties_even, Function::Round(Rounding::NearestEven);
    }

    /// Computes the fractional part of each element.
    #[track_caller]
    pub fn fract(&self) -> Self {
        let whole = self.trunc();
        self.same_shape(Function::Subtract, &whole)
    }

    /// Computes the reciprocal of each element.
    #[track_caller]
    pub fn recip(&self) -> Self {
        self.binary_scalar(Function::Divide, T::ONE, true)
    }

    /// Tests which elements are NaN.
    #[track_caller]
    pub fn is_nan(&self) -> Array<bool, D> {
        self.same_shape(Function::Compare(Comparison::NotEqual), self)
    }

    /// Tests which elements are infinite.
    #[track_caller]
    pub fn is_infinite(&self) -> Array<bool, D> {
        self.beside_infinity(Comparison::Equal)
    }

    /// Tests which elements are finite.
    #[track_caller]
    pub fn is_finite(&self) -> Array<bool, D> {
        self.beside_infinity(Comparison::Less)
    }

    /// Converts radians to degrees.
    #[track_caller]
    pub fn to_degrees(&self) -> Self {
        self.multiplied(1.0_f32.to_degrees(), 1.0_f64.to_degrees())
    }

    /// Converts degrees to radians.
    #[track_caller]
    pub fn to_radians(&self) -> Self {
        self.multiplied(1.0_f32.to_radians(), 1.0_f64.to_radians())
    }

    /// Computes the logarithm of each element to a given base, as the quotient of natural
    /// logarithms.
    #[track_caller]
    pub fn log(&self, base: T) -> Self {
        let of_base = match base.scalar() {
            Scalar::F16(base) => Scalar::F16(f16::from_f32(f32::from(base).ln())),
            Scalar::Bf16(base) => Scalar::Bf16(bf16::from_f32(f32::from(base).ln())),
            Scalar::F32(base) => Scalar::F32(base.ln()),
            Scalar::F64(base) => Scalar::F64(base.ln()),
            other => other,
        };
        let of_base = self.filled_like(of_base);
        self.ln().same_shape(Function::Divide, &of_base)
    }

    /// Compares the absolute value of each element with infinity.
    #[track_caller]
    fn beside_infinity(&self, comparison: Comparison) -> Array<bool, D> {
        let magnitude = self.abs();
        let infinity = self.filled_like(float_scalar::<T>(f32::INFINITY, f64::INFINITY));
        magnitude.same_shape(Function::Compare(comparison), &infinity)
    }

    /// Multiplies each element by a constant, given for both types.
    #[track_caller]
    fn multiplied(&self, narrow: f32, wide: f64) -> Self {
        let factor = self.filled_like(float_scalar::<T>(narrow, wide));
        self.same_shape(Function::Multiply, &factor)
    }

    /// Raises each element to the power of another, or of a value. For the values -2, -3/2, -1,
    /// -1/2, 1/2, 2 and 3, the powers of `f32` and `f64` are quotients, products and square roots,
    /// which are as accurate (docs/maths.md).
    #[track_caller]
    pub fn powf<O: Operand<T, D>>(&self, exponent: O) -> Array<T, O::Dim> {
        let value = exponent.value().filter(|_| T::DTYPE.is_wide_float());
        match value.and_then(|value| self.usual_power(value)) {
            Some(power) => Array::of(self.session(), power.node().clone()),
            None => exponent.apply(self, Function::Maths(MathFunction::Pow)),
        }
    }

    /// Returns the power for some exponents, with the special values of all others: a zero has the
    /// powers of +0 unless the exponent is odd, and −∞ those of +∞.
    #[track_caller]
    fn usual_power(&self, exponent: T) -> Option<Self> {
        let scalar = |x: f64| float_scalar::<T>(x as f32, x);
        let is = |x: f64| exponent.scalar().bits() == scalar(x).bits();
        let of = |x: f64| self.filled_like(scalar(x));
        let inverse = |x: &Self| of(1.0).same_shape::<T>(Function::Divide, x);
        let product = |one: &Self, two: &Self| one.same_shape(Function::Multiply, two);
        let positive = || self.same_shape::<T>(Function::Add, &of(0.0));
        let unless_infinite = |power: Self, of_infinity: f64| {
            let negative = of(f64::NEG_INFINITY);
            let is_infinite: Array<bool, D> =
                self.same_shape(Function::Compare(Comparison::Equal), &negative);
            let of_infinity = of(of_infinity);
            let nodes = [is_infinite.node(), of_infinity.node(), power.node()];
            self.apply_here(
                Function::Select,
                nodes.into_iter().map(NodeRef::clone).collect(),
            )
        };
        Some(match () {
            () if is(2.0) => product(self, self),
            () if is(3.0) => product(&product(self, self), self),
            () if is(-1.0) => inverse(self),
            () if is(-2.0) => {
                let inverse = inverse(self);
                product(&inverse, &inverse)
            }
            () if is(0.5) => unless_infinite(positive().sqrt(), f64::INFINITY),
            () if is(-0.5) => unless_infinite(inverse(&positive().sqrt()), 0.0),
            () if is(-1.5) => {
                let inverse = inverse(&positive());
                product(&inverse, &inverse.sqrt())
            }
            () => return None,
        })
    }

    /// Computes the angle in radians of each point whose ordinate is in this array and whose
    /// abscissa is in the other.
    #[track_caller]
    pub fn atan2<O: Operand<T, D>>(&self, other: O) -> Array<T, O::Dim> {
        other.apply(self, Function::Maths(MathFunction::Atan2))
    }

    /// Computes the hypotenuse of each right triangle with these legs.
    #[track_caller]
    pub fn hypot<O: Operand<T, D>>(&self, other: O) -> Array<T, O::Dim> {
        other.apply(self, Function::Maths(MathFunction::Hypot))
    }
}

/// Returns the one of two numbers that has the element type.
fn float_scalar<T: Float>(narrow: f32, wide: f64) -> Scalar {
    match T::DTYPE {
        DType::F16 => Scalar::F16(f16::from_f32(narrow)),
        DType::Bf16 => Scalar::Bf16(bf16::from_f32(narrow)),
        DType::F32 => Scalar::F32(narrow),
        _ => Scalar::F64(wide),
    }
}

impl<T: Number, D> Array<T, D> {
    functions! {
        /// Computes the absolute value of each element; integers wrap around.
        abs, Function::Absolute;
        /// Computes the sign of each element: −1, 0 or 1 for integers; 1 with the sign of the
        /// element, or NaN, for floats.
        signum, Function::Signum;
    }

    /// Raises each element to an integer power.
    ///
    /// Integers wrap around. A negative power of an integer is the quotient of 1 and its positive
    /// power, rounded towards 0: 1 or −1 if the positive power is 1 or −1, and 0 otherwise.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let (x, n) = (array![2.0_f32, -0.5], array![3, -1]);
    /// let powers = device.region(|g| {
    ///     let (x, n) = (g.array(&x), g.array(&n));
    ///     (x.powi(-2), n.powi(4), n.powi(-3))
    /// })?;
    /// assert_eq!(powers.wait()?, (array![0.25, 4.0], array![81, 1], array![0, -1]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn powi(&self, exponent: i32) -> Self {
        if T::DTYPE.is_float() {
            let exponent = self.filled_like(Scalar::I32(exponent));
            return self.same_shape(Function::Maths(MathFunction::PowInteger), &exponent);
        }
        let power = self.integer_power(exponent.unsigned_abs());
        if exponent < 0 {
            return power.binary_scalar(Function::Divide, T::ONE, true);
        }
        power
    }

    /// Computes the power by repeated squaring.
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

    /// Squares each element.
    #[track_caller]
    pub fn pow2(&self) -> Self {
        self.same_shape(Function::Multiply, self)
    }

    /// Computes the rectifier, the maximum of each element and 0; NaN stays NaN, and −0 becomes +0.
    #[track_caller]
    pub fn relu(&self) -> Self {
        self.binary_scalar(Function::Maximum, T::ZERO, false)
    }
}

impl<T: Element, D> Array<T, D> {
    /// Converts the elements to another type with the results of Rust's `as`: a float becomes an
    /// integer by truncation, saturates, and is 0 if it is NaN; a number becomes the nearest float,
    /// ties to even. A `bool` is 0 or 1, and a number becomes `true` if it is not 0.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = array![-1.5_f32, 2.5, 300.0, f32::NAN];
    /// let bytes = device.region(|g| g.array(&x).cast::<u8>())?.wait()?;
    /// assert_eq!(bytes, x.mapv(|x| x as u8));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn cast<U: Element>(&self) -> Array<U, D> {
        if T::DTYPE == U::DTYPE {
            return Array::of(self.session(), self.node().clone());
        }
        self.unary(Function::Cast(U::DTYPE))
    }

    /// Applies a function to the array. The function is called once, with the whole array instead
    /// of each element, so that a body written for `ndarray` reads the same.
    ///
    /// This works for operators and for the methods of this type. A host function such as
    /// `f32::exp` does not take an array, and `if` cannot test elements; the equivalents for whole
    /// arrays are `v.exp()`, [`maximum`](Self::maximum) for `max`, and
    /// [`where_cond`](Array::where_cond).
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = array![1.0_f32, -2.0];
    /// let mapped = device.region(|g| {
    ///     let x = g.array(&x);
    ///     let selected = x.mapv(|v| v.less(0.0).where_cond(10.0, v));
    ///     (x.mapv(|v| v * v + 1.0), x.mapv(|v| v.maximum(0.0)), selected)
    /// })?;
    /// assert_eq!(mapped.wait()?, (array![2.0, 5.0], array![1.0, 0.0], array![1.0, 10.0]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn mapv<U, E>(&self, function: impl FnOnce(&Self) -> Array<U, E>) -> Array<U, E> {
        function(self)
    }

    /// Applies a function to the array, as [`mapv`](Self::mapv).
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = array![1.0_f32, -2.0];
    /// let mapped = device.region(|g| g.array(&x).map(|v| v * v + 1.0))?;
    /// assert_eq!(mapped.wait()?, x.map(|v| v * v + 1.0));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn map<U, E>(&self, function: impl FnOnce(&Self) -> Array<U, E>) -> Array<U, E> {
        function(self)
    }

    /// Replaces the elements by a function of the array, which is called as that of
    /// [`mapv`](Self::mapv).
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = array![1.0_f32, -2.0];
    /// let mapped = device.region(|g| {
    ///     let mut x = g.array(&x);
    ///     x.mapv_inplace(|v| v.maximum(0.0) + 1.0);
    ///     x
    /// })?;
    /// assert_eq!(mapped.wait()?, array![2.0, 1.0]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn mapv_inplace(&mut self, function: impl FnOnce(&Self) -> Self) {
        *self = function(self);
    }

    #[track_caller]
    pub(super) fn filled_like(&self, value: Scalar) -> Self {
        self.constant(value, &self.node().shape, Location::caller())
    }

    /// Applies an element-wise function to two arrays of equal shapes.
    #[track_caller]
    pub(super) fn same_shape<U: Element>(&self, function: Function, other: &Self) -> Array<U, D> {
        self.apply_here(
            function,
            smallvec![self.node().clone(), other.node().clone()],
        )
    }
}
