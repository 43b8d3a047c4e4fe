//! Constructors of arrays.

use std::panic::Location;

use ndarray::{Dimension, IntoDimension, Ix1, Ix2};

use crate::{
    Region,
    array::Array,
    element::{DType, Element, Float, Number, Scalar},
    error::UsageErrorKind,
    expr::{Function, Op, Session},
    maths::MathFunction,
    shape::Shape,
};

impl Region {
    /// Creates an array with one value for all elements.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    ///
    /// let device = millstream::Device::simulated()?;
    /// let made = device.region(|g| {
    ///     (g.from_elem(2, 7_u8), g.ones::<f32, _>((1, 2)), g.arange(0, 6, 2))
    /// })?;
    /// assert_eq!(made.wait()?, (array![7, 7], array![[1.0, 1.0]], array![0, 2, 4]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn from_elem<T: Element, D: Dimension>(
        &self,
        shape: impl IntoDimension<Dim = D>,
        value: T,
    ) -> Array<T, D> {
        let shape = Shape::from_slice(shape.into_dimension().slice());
        self.session()
            .filled(shape, value, "from_elem", Location::caller())
    }

    /// Creates an array of zeros.
    #[track_caller]
    #[must_use]
    pub fn zeros<T: Number, D: Dimension>(
        &self,
        shape: impl IntoDimension<Dim = D>,
    ) -> Array<T, D> {
        self.from_elem(shape, T::ZERO)
    }

    /// Creates an array of ones.
    #[track_caller]
    #[must_use]
    pub fn ones<T: Number, D: Dimension>(&self, shape: impl IntoDimension<Dim = D>) -> Array<T, D> {
        self.from_elem(shape, T::ONE)
    }

    /// Creates the numbers from `start` up to, but excluding, `end`, at distances of `step`.
    ///
    /// The region fails with a [`UsageError`](crate::UsageError) if `step` is 0 or an argument is
    /// NaN.
    #[track_caller]
    #[must_use]
    pub fn arange<T: Number>(&self, start: T, end: T, step: T) -> Array<T, Ix1> {
        let location = Location::caller();
        let Some(count) = T::step_count(start, end, step) else {
            let detail =
                format!("the number of steps of {step:?} from {start:?} to {end:?} is undefined");
            let usage_error =
                crate::UsageError::new("arange", UsageErrorKind::Argument { detail }, location);
            return Array::of(
                self.session(),
                self.session().fail(T::DTYPE, &[0], usage_error, location),
            );
        };
        let numbers: Array<i64, Ix1> = self.iota(Shape::from_slice(&[count]), "arange", location);
        numbers.cast::<T>() * step + start
    }

    /// Creates `count` evenly spaced numbers from `start` to `end`, both included.
    #[track_caller]
    #[must_use]
    pub fn linspace<T: Float>(&self, start: T, end: T, count: usize) -> Array<T, Ix1> {
        let step = if count > 1 {
            end.minus(start).divided_by(T::from_count(count - 1))
        } else {
            T::ZERO
        };
        let numbers: Array<i64, Ix1> =
            self.iota(Shape::from_slice(&[count]), "linspace", Location::caller());
        numbers.cast::<T>() * step + start
    }

    /// Creates an identity matrix.
    #[track_caller]
    #[must_use]
    pub fn eye<T: Number>(&self, size: usize) -> Array<T, Ix2> {
        let numbers: Array<i64, Ix1> =
            self.iota(Shape::from_slice(&[size]), "eye", Location::caller());
        let rows = numbers.insert_axis(ndarray::Axis(1));
        rows.equal(&numbers).cast()
    }

    /// Creates uniformly distributed pseudorandom numbers from 0 to 1, excluding 1. The number at
    /// linear index `i` depends on `i` and `seed` alone: it is the same on every device and for
    /// every shape.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    ///
    /// let device = millstream::Device::simulated()?;
    /// let numbers = device.region(|g| {
    ///     (g.uniform::<f32, _>(3, 42), g.uniform::<f32, _>((2, 2), 42))
    /// })?;
    /// let (short, long) = numbers.wait()?;
    /// assert!(short.iter().zip(&long).all(|(one, other)| one == other));
    /// assert!(long.iter().all(|number| (0.0..1.0).contains(number)));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn uniform<T: Float, D: Dimension>(
        &self,
        shape: impl IntoDimension<Dim = D>,
        seed: u64,
    ) -> Array<T, D> {
        self.random(shape, seed, MathFunction::Uniform, Location::caller())
    }

    /// Creates normally distributed pseudorandom numbers with mean 0 and standard deviation 1,
    /// otherwise as [`uniform`](Self::uniform).
    #[track_caller]
    #[must_use]
    pub fn normal<T: Float, D: Dimension>(
        &self,
        shape: impl IntoDimension<Dim = D>,
        seed: u64,
    ) -> Array<T, D> {
        self.random(shape, seed, MathFunction::Normal, Location::caller())
    }

    fn random<T: Float, D: Dimension>(
        &self,
        shape: impl IntoDimension<Dim = D>,
        seed: u64,
        function: MathFunction,
        location: &'static Location<'static>,
    ) -> Array<T, D> {
        let shape = Shape::from_slice(shape.into_dimension().slice());
        let operation = function.name();
        let numbers: Array<i64, D> = self.iota(shape.clone(), operation, location);
        // The seed is passed by its bits; its value as a signed number does not matter.
        let seed: Array<i64, D> =
            self.session()
                .filled(shape.clone(), seed as i64, operation, location);
        let operands = [seed.node(), numbers.node()].into_iter().cloned().collect();
        let op = Op::Apply(Function::Maths(function), operands);
        numbers.plan(T::DTYPE, shape, op, operation, location)
    }

    /// Creates an array of row-major linear indices.
    fn iota<D>(
        &self,
        shape: Shape,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Array<i64, D> {
        let session = self.session();
        Array::of(
            session,
            session.plan(DType::I64, shape, Op::Iota, operation, location),
        )
    }
}

impl Session {
    /// Creates an array with one value for all elements.
    fn filled<T: Element, D>(
        self: &std::sync::Arc<Self>,
        shape: Shape,
        value: T,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Array<T, D> {
        let value: Scalar = value.scalar();
        Array::of(
            self,
            self.plan(T::DTYPE, shape, Op::Constant(value), operation, location),
        )
    }
}

impl<T: Number, D> Array<T, D> {
    /// Creates an array of zeros with this array's shape.
    #[track_caller]
    #[must_use]
    pub fn zeros_like(&self) -> Self {
        let shape = self.node().shape.clone();
        self.session()
            .filled(shape, T::ZERO, "zeros_like", Location::caller())
    }

    /// Creates an array of ones with this array's shape.
    #[track_caller]
    #[must_use]
    pub fn ones_like(&self) -> Self {
        let shape = self.node().shape.clone();
        self.session()
            .filled(shape, T::ONE, "ones_like", Location::caller())
    }
}
