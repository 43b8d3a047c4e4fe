//! Assignments to an array and to parts of it. The handle stands for new elements afterwards; other handles keep theirs.

use std::{fmt, panic::Location};

use ndarray::{DimMax, Dimension, SliceArg};

use super::Array;
use crate::{
    element::{Element, Number, sealed::Sealed},
    error::Problem,
    graph::{Function, Op},
    shape::{AxisMap, Shape},
};

impl<T: Element, D: Dimension> Array<T, D> {
    /// Takes the elements of another array, stretched to this one's shape.
    #[track_caller]
    pub fn assign<E: Dimension>(&mut self, other: &Array<T, E>) {
        let assigned = other.broadcast_to(self);
        *self = assigned.within(self.session());
    }

    /// Takes one value everywhere.
    #[track_caller]
    pub fn fill(&mut self, value: T) {
        let location = Location::caller();
        let shape = self.node().shape.clone();
        *self = self
            .constant(value.scalar(), location)
            .stretched(&shape, "fill", location);
    }

    /// A part of this array, to assign to.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{array, s};
    ///
    /// let device = millstream::Device::simulated()?;
    /// let x = device.region(|g| {
    ///     let mut x = g.zeros::<i32, _>(5);
    ///     x.slice_mut(s![1..;2]).fill(7);
    ///     x.slice_mut(s![..2]).add_assign(&g.arange(1, 3, 1));
    ///     x
    /// })?;
    /// assert_eq!(x.wait()?, array![1, 9, 0, 7, 0]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn slice_mut<I: SliceArg<D>>(&mut self, info: I) -> Part<'_, T, D, I::OutDim> {
        match self.sliced(info.as_ref()) {
            Ok(sliced) => Part {
                shape: sliced.shape,
                map: sliced.map,
                array: self,
                kind: std::marker::PhantomData,
            },
            Err(problem) => {
                let shape = self.node().shape.clone();
                *self = self.mistake(T::DTYPE, &shape, "slice_mut", problem, Location::caller());
                Part {
                    shape: Shape::from_elem(0, info.out_ndim()),
                    map: AxisMap::new(),
                    array: self,
                    kind: std::marker::PhantomData,
                }
            }
        }
    }
}

/// A part of an array, to assign to: see [`Array::slice_mut`].
///
/// ```
/// use millstream_region::RegionExt;
/// use ndarray::{array, s};
///
/// let device = millstream::Device::simulated()?;
/// let x = device.region(|g| {
///     let mut x = g.ones::<f32, _>((2, 2));
///     x.slice_mut(s![0, ..]).mul_assign(&g.from_elem((), 3.0));
///     x
/// })?;
/// assert_eq!(x.wait()?, array![[3.0, 3.0], [1.0, 1.0]]);
/// # Ok::<(), millstream_region::Error>(())
/// ```
pub struct Part<'a, T, D, E> {
    array: &'a mut Array<T, D>,
    shape: Shape,
    map: AxisMap,
    kind: std::marker::PhantomData<E>,
}

impl<T: Element, D: Dimension, E: Dimension> Part<'_, T, D, E> {
    /// The elements as they are.
    #[track_caller]
    #[must_use]
    pub fn get(&self) -> Array<T, E> {
        self.array.view(
            self.shape.clone(),
            self.map.clone(),
            "slice_mut",
            Location::caller(),
        )
    }

    /// Takes the elements of an array, stretched to the part's shape.
    #[track_caller]
    pub fn assign<F: Dimension>(self, value: &Array<T, F>) {
        self.set(value, "assign", Location::caller());
    }

    /// Takes one value everywhere.
    #[track_caller]
    pub fn fill(self, value: T) {
        let location = Location::caller();
        let value = self.array.constant(value.scalar(), location);
        self.set(&value, "fill", location);
    }

    fn set<F>(self, value: &Array<T, F>, operation: &'static str, location: &'static Location<'static>) {
        let base = self.array.node().clone();
        let dtype = <T as Sealed>::DTYPE;
        if base.failure().is_some() {
            return;
        }
        if crate::shape::broadcast(value.shape(), &self.shape).as_ref() != Some(&self.shape) {
            let problem = Problem::Broadcast {
                shape: value.shape().into(),
                target: self.shape.as_slice().into(),
            };
            *self.array = self
                .array
                .mistake(dtype, &base.shape, operation, problem, location);
            return;
        }
        let value: Array<T, E> = value.stretched(&self.shape, operation, location);
        let shape = base.shape.clone();
        let op = Op::Update {
            base,
            map: self.map,
            value: value.node().clone(),
        };
        *self.array = self.array.plan(dtype, shape, op, operation, location);
    }
}

macro_rules! assigning {
    ($($method:ident, $function:ident, $what:literal;)*) => {
        impl<T: Number, D: Dimension, E: Dimension> Part<'_, T, D, E> {
            $(
                #[doc = $what]
                #[track_caller]
                pub fn $method<F>(self, other: &Array<T, F>)
                where
                    E: DimMax<F>,
                    F: Dimension,
                {
                    let value = self.get().with::<T, F>(Function::$function, other);
                    self.set(&value, stringify!($method), Location::caller());
                }
            )*
        }
    };
}

assigning! {
    add_assign, Add, "Adds the elements of an array, stretched to the part's shape.";
    sub_assign, Subtract, "Subtracts the elements of an array, stretched to the part's shape.";
    mul_assign, Multiply, "Multiplies by the elements of an array, stretched to the part's shape.";
    div_assign, Divide, "Divides by the elements of an array, stretched to the part's shape.";
}

impl<T, D, E> fmt::Debug for Part<'_, T, D, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Part({:?} of {:?})", self.shape, self.array)
    }
}
