//! Assignments to arrays and mutable views. The handle then refers to new elements; other handles
//! keep theirs.

use std::fmt;

use ndarray::{Axis, Dimension, Ix0, Ix1, Ix2, RemoveAxis, SliceArg};

use crate::{
    array::{Array, Operand, views::SliceView},
    element::{Element, Number, sealed::Sealed},
    error::{Site, UsageErrorKind},
    expr::{Function, Op},
    shape::{AxisMap, AxisSource, Shape},
};

impl<T: Element, D: Dimension> Array<T, D> {
    /// Assigns the elements of another array, broadcast to this array's shape.
    #[track_caller]
    pub fn assign<E: Dimension>(&mut self, other: &Array<T, E>) {
        let assigned = other.broadcast_to(self, "assign");
        *self = assigned.in_session(self.session());
    }

    /// Assigns one value to all elements.
    #[track_caller]
    pub fn fill(&mut self, value: T) {
        *self = self.filled_like(value.scalar());
    }

    /// Returns a mutable view of a slice.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{array, s};
    /// let device = millstream::Device::simulated()?;
    /// let x = device.region(|g| {
    ///     let mut x = g.zeros::<i32, _>(5);
    ///     x.slice_mut(s![1..;2]).fill(7);
    ///     let mut front = x.slice_mut(s![..2]);
    ///     front += g.arange(1, 3, 1);
    ///     front *= 10;
    ///     x
    /// })?;
    /// assert_eq!(x.wait()?, array![10, 90, 0, 7, 0]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn slice_mut<I: SliceArg<D>>(&mut self, info: I) -> ArrayViewMut<'_, T, D, I::OutDim> {
        let sliced = self.sliced(info.as_ref());
        self.part(sliced, info.out_ndim(), Site::of("slice_mut"))
    }

    /// Returns a mutable view of the whole array.
    #[track_caller]
    pub fn view_mut(&mut self) -> ArrayViewMut<'_, T, D, D> {
        let whole = SliceView {
            shape: self.node().shape.clone(),
            map: (0..self.ndim()).map(AxisSource::same).collect(),
        };
        let rank = self.ndim();
        self.part(Ok(whole), rank, Site::of("view_mut"))
    }

    /// Returns a mutable view of one index of an axis.
    #[track_caller]
    pub fn index_axis_mut(&mut self, axis: Axis, index: usize) -> ArrayViewMut<'_, T, D, D::Smaller>
    where
        D: RemoveAxis,
    {
        self.part_at(axis, index, Site::of("index_axis_mut"))
    }

    fn part_at<E>(&mut self, axis: Axis, index: usize, site: Site) -> ArrayViewMut<'_, T, D, E> {
        let sliced = self.index_view(axis, index);
        let rank = self.ndim().saturating_sub(1);
        self.part(sliced, rank, site)
    }

    fn part<E>(
        &mut self,
        sliced: Result<SliceView, UsageErrorKind>,
        rank: usize,
        site: Site,
    ) -> ArrayViewMut<'_, T, D, E> {
        let SliceView { shape, map } = sliced.unwrap_or_else(|problem| {
            *self = self.failed(T::DTYPE, self.shape(), problem, site);
            SliceView {
                shape: Shape::from_elem(0, rank),
                map: AxisMap::new(),
            }
        });
        ArrayViewMut {
            array: self,
            shape,
            map,
            kind: std::marker::PhantomData,
        }
    }
}

impl<T: Element> Array<T, Ix2> {
    /// Returns a mutable view of one row of a matrix.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[1.0_f32, 2.0], [3.0, 4.0]];
    /// let changed = device.region(|g| {
    ///     let mut x = g.array(&x);
    ///     let mut row = x.row_mut(0);
    ///     row *= 10.0;
    ///     x.column_mut(1).fill(0.5);
    ///     x
    /// })?;
    /// assert_eq!(changed.wait()?, array![[10.0, 0.5], [3.0, 0.5]]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn row_mut(&mut self, index: usize) -> ArrayViewMut<'_, T, Ix2, Ix1> {
        self.part_at(Axis(0), index, Site::of("row_mut"))
    }

    /// Returns a mutable view of one column of a matrix.
    #[track_caller]
    pub fn column_mut(&mut self, index: usize) -> ArrayViewMut<'_, T, Ix2, Ix1> {
        self.part_at(Axis(1), index, Site::of("column_mut"))
    }
}

/// A mutable view of an array, from [`Array::slice_mut`] or [`Array::row_mut`] for example.
///
/// The assigning operators (`+=`, `&=`, `<<=`, …) take an array, which is broadcast to the view's
/// shape, or a value for all elements. Four of them are also methods, which can be called on a
/// temporary view.
///
/// ```
/// use millstream_region::RegionExt;
/// use ndarray::{array, s};
/// let device = millstream::Device::simulated()?;
/// let x = device.region(|g| {
///     let mut x = g.ones::<f32, _>((2, 2));
///     x.slice_mut(s![0, ..]).mul_assign(3.0);
///     let mut column = x.column_mut(1);
///     column += &g.arange(1.0, 3.0, 1.0);
///     x
/// })?;
/// assert_eq!(x.wait()?, array![[3.0, 4.0], [1.0, 3.0]]);
/// # Ok::<(), millstream_region::Error>(())
/// ```
pub struct ArrayViewMut<'a, T, D, E> {
    array: &'a mut Array<T, D>,
    shape: Shape,
    map: AxisMap,
    kind: std::marker::PhantomData<E>,
}

impl<T: Element, D: Dimension, E: Dimension> ArrayViewMut<'_, T, D, E> {
    /// Returns the current elements.
    #[track_caller]
    pub fn get(&self) -> Array<T, E> {
        let (shape, map) = (self.shape.clone(), self.map.clone());
        self.array.view_through(shape, map, Site::of("slice_mut"))
    }

    /// Assigns the elements of an array, broadcast to the view's shape.
    #[track_caller]
    pub fn assign<F: Dimension>(&mut self, value: &Array<T, F>) {
        self.set(value, Site::of("assign"));
    }

    /// Assigns one value to all elements.
    #[track_caller]
    pub fn fill(&mut self, value: T) {
        let site = Site::of("fill");
        let value: Array<T, Ix0> = self.array.constant(value.scalar(), &[], site.line);
        self.set(&value, site);
    }

    /// Assigns the result of a function of the current elements and another operand.
    #[track_caller]
    pub(super) fn update(
        &mut self,
        function: Function,
        other: impl Operand<T, E>,
        operation: &'static str,
    ) {
        let value = other.apply::<T>(&self.get(), function);
        self.set(&value, Site::of(operation));
    }

    fn set<F>(&mut self, value: &Array<T, F>, site: Site) {
        let base = self.array.node().clone();
        let dtype = <T as Sealed>::DTYPE;
        if base.failure().is_some() {
            return;
        }
        if let Err(problem) = value.check_broadcast(&self.shape) {
            *self.array = self.array.failed(dtype, &base.shape, problem, site);
            return;
        }
        let value: Array<T, E> = value.broadcast_view(&self.shape, site);
        let shape = base.shape.clone();
        let op = Op::Update {
            base,
            map: self.map.clone(),
            value: value.node().clone(),
        };
        *self.array = self.array.plan(dtype, shape, op, site);
    }
}

macro_rules! assigning {
    ($($method:ident, $function:ident, $what:literal;)*) => {
        impl<T: Number, D: Dimension, E: Dimension> ArrayViewMut<'_, T, D, E> {
            $(
                #[doc = $what]
                #[track_caller]
                pub fn $method(&mut self, other: impl Operand<T, E>) {
                    self.update(Function::$function, other, stringify!($method));
                }
            )*
        }
    };
}

assigning! {
    add_assign, Add, "Adds an array, stretched to the part's shape, or a value.";
    sub_assign, Subtract, "Subtracts an array, stretched to the part's shape, or a value.";
    mul_assign, Multiply, "Multiplies by an array, stretched to the part's shape, or by a value.";
    div_assign, Divide, "Divides by an array, stretched to the part's shape, or by a value.";
}

impl<T, D, E> fmt::Debug for ArrayViewMut<'_, T, D, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArrayViewMut({:?} of {:?})", self.shape, self.array)
    }
}
