//! Constructors of arrays.

use ndarray::{Dimension, IntoDimension, Ix1, Ix2};
use smallvec::smallvec;

use crate::{
    Region,
    array::Array,
    element::{Element, Float, Number},
    error::{Site, UsageErrorKind},
    expr::{Function, Op},
    maths::MathFunction,
    shape::Shape,
};

impl Region {
    /// Creates an array with one value for all elements.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let made = device.region(|g| {
    ///     (g.from_elem(2, 7_u8), g.ones::<f32, _>((1, 2)), g.arange(0, 6, 2))
    /// })?;
    /// assert_eq!(made.wait()?, (array![7, 7], array![[1.0, 1.0]], array![0, 2, 4]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn from_elem<T: Element, D: Dimension>(
        &self,
        shape: impl IntoDimension<Dim = D>,
        value: T,
    ) -> Array<T, D> {
        let shape = Shape::from_slice(shape.into_dimension().slice());
        self.filled(shape, value, Site::of("from_elem"))
    }

    /// Creates an array of zeros.
    #[track_caller]
    pub fn zeros<T: Number, D: Dimension>(
        &self,
        shape: impl IntoDimension<Dim = D>,
    ) -> Array<T, D> {
        self.from_elem(shape, T::ZERO)
    }

    /// Creates an array of ones.
    #[track_caller]
    pub fn ones<T: Number, D: Dimension>(&self, shape: impl IntoDimension<Dim = D>) -> Array<T, D> {
        self.from_elem(shape, T::ONE)
    }

    /// Creates the numbers from `start` up to, but excluding, `end`, at distances of `step`.
    ///
    /// The region fails with a [`UsageError`](crate::UsageError) if `step` is 0 or an argument is
    /// NaN.
    #[track_caller]
    pub fn arange<T: Number>(&self, start: T, end: T, step: T) -> Array<T, Ix1> {
        let site = Site::of("arange");
        let Some(count) = T::step_count(start, end, step) else {
            let usage_error = site.error(UsageErrorKind::argument(format!(
                "the number of steps of {step:?} from {start:?} to {end:?} is undefined"
            )));
            return Array::failed_with(self.session(), &[0], usage_error, site.line);
        };
        let numbers: Array<i64, Ix1> = self.iota(&[count], site);
        numbers.cast::<T>() * step + start
    }

    /// Creates `count` evenly spaced numbers from `start` to `end`, both included.
    #[track_caller]
    pub fn linspace<T: Float>(&self, start: T, end: T, count: usize) -> Array<T, Ix1> {
        let step = if count > 1 {
            end.minus(start).divided_by(T::from_count(count - 1))
        } else {
            T::ZERO
        };
        let numbers: Array<i64, Ix1> = self.iota(&[count], Site::of("linspace"));
        numbers.cast::<T>() * step + start
    }

    /// Creates an identity matrix.
    #[track_caller]
    pub fn eye<T: Number>(&self, size: usize) -> Array<T, Ix2> {
        let numbers: Array<i64, Ix1> = self.iota(&[size], Site::of("eye"));
        let rows = numbers.insert_axis(ndarray::Axis(1));
        rows.equal(&numbers).cast()
    }

    /// Creates uniformly distributed pseudorandom numbers from 0 to 1, excluding 1. The number at
    /// linear index `i` depends on `i` and `seed` alone: it is the same on every device and for
    /// every shape.
    ///
    /// ```
    /// use millstream_region::RegionExt;
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
    pub fn uniform<T: Float, D: Dimension>(
        &self,
        shape: impl IntoDimension<Dim = D>,
        seed: u64,
    ) -> Array<T, D> {
        self.random(shape, seed, MathFunction::Uniform)
    }

    /// Creates normally distributed pseudorandom numbers with mean 0 and standard deviation 1,
    /// otherwise as [`uniform`](Self::uniform).
    #[track_caller]
    pub fn normal<T: Float, D: Dimension>(
        &self,
        shape: impl IntoDimension<Dim = D>,
        seed: u64,
    ) -> Array<T, D> {
        self.random(shape, seed, MathFunction::Normal)
    }

    #[track_caller]
    fn random<T: Float, D: Dimension>(
        &self,
        shape: impl IntoDimension<Dim = D>,
        seed: u64,
        function: MathFunction,
    ) -> Array<T, D> {
        let shape = Shape::from_slice(shape.into_dimension().slice());
        let site = Site::of(function.name());
        let numbers: Array<i64, D> = self.iota(&shape, site);
        // The seed is passed by its bits; its value as a signed number does not matter.
        let seed: Array<i64, D> = self.filled(shape.clone(), seed as i64, site);
        let operands = smallvec![seed.node().clone(), numbers.node().clone()];
        let op = Op::Apply(Function::Maths(function), operands);
        numbers.plan(T::DTYPE, shape, op, site)
    }

    /// Creates an array of row-major linear indices.
    pub(super) fn iota<D>(&self, shape: &[usize], site: Site) -> Array<i64, D> {
        self.made(Shape::from_slice(shape), Op::Iota, site)
    }

    fn filled<T: Element, D>(&self, shape: Shape, value: T, site: Site) -> Array<T, D> {
        self.made(shape, Op::Constant(value.scalar()), site)
    }

    /// Creates an array of an operation without operands.
    fn made<T: Element, D>(&self, shape: Shape, op: Op, site: Site) -> Array<T, D> {
        let session = self.session();
        let node = session.plan(T::DTYPE, shape, op, site.operation, site.line);
        Array::of(session, node)
    }
}

impl<T: Number, D> Array<T, D> {
    /// Creates an array of zeros with this array's shape.
    #[track_caller]
    pub fn zeros_like(&self) -> Self {
        self.filled_like(T::ZERO.scalar())
    }

    /// Creates an array of ones with this array's shape.
    #[track_caller]
    pub fn ones_like(&self) -> Self {
        self.filled_like(T::ONE.scalar())
    }
}
