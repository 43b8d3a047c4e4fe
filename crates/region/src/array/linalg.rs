//! Products of vectors and matrices.

use ndarray::{Axis, DimMax, Dimension, Ix0, Ix1, Ix2, IxDyn, Slice};

use crate::{
    array::Array,
    element::{DType, Number},
    error::{Site, UsageErrorKind},
    expr::{Function, NodeRef, Op, Reduction, State},
    product::ProductPrecision,
    shape::{self, AxisMap, AxisSource, Shape},
};

/// A pair of dimensions that [`Array::dot`] multiplies.
///
/// ```
/// use millstream_region::RegionExt;
/// use ndarray::array;
/// let device = millstream::Device::simulated()?;
/// let (m, v) = (array![[1.0_f32, 2.0], [3.0, 4.0]], array![1.0_f32, 10.0]);
/// let products = device.region(|g| {
///     let (m, v) = (g.array(&m), g.array(&v));
///     (m.dot(&m), m.dot(&v), v.dot(&m), v.dot(&v))
/// })?;
/// let expected = (m.dot(&m), m.dot(&v), v.dot(&m), ndarray::arr0(v.dot(&v)));
/// assert_eq!(products.wait()?, expected);
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`dot` multiplies vectors and matrices, and one operand is neither",
    note = "`matmul` multiplies batches of matrices"
)]
pub trait Dot<E> {
    /// The dimension of the product.
    type Product: Dimension;
}

macro_rules! products {
    ($($left:ty, $right:ty => $product:ty;)*) => {$(
        impl Dot<$right> for $left {
            type Product = $product;
        }
    )*};
}

products! {
    Ix1, Ix1 => Ix0;
    Ix2, Ix1 => Ix1;
    Ix1, Ix2 => Ix1;
    Ix2, Ix2 => Ix2;
}

impl<T: Number, D: Dimension> Array<T, D> {
    /// Multiplies vectors or matrices, as `ndarray`'s `dot`.
    ///
    /// A product with a vector is a [`sum_axis`](Self::sum_axis) of products of single elements,
    /// and one with up to four products for each element adds them one after another, so that one
    /// kernel computes the factors, too. Others are matrix products, whose factors are in memory.
    ///
    /// # Accuracy
    ///
    /// Integers wrap around. A float differs from the exact sum of its `k` products `a·b` by at
    /// most `r·u·Σ|a·b|`, where `u` is half the distance from 1 to the next number, and `r` is at
    /// most `k`.
    ///
    /// The products of `f16` and `bf16` are added as `f32`, with its `u`, and the sum is rounded
    /// once. On a GPU with cuBLAS, tensor cores add them, which truncate where other additions
    /// round: `r` is then at most `3·k`.
    #[track_caller]
    pub fn dot<E: Dimension>(&self, other: &Array<T, E>) -> Array<T, D::Product>
    where
        D: Dot<E>,
    {
        self.dot_with(other, ProductPrecision::Full)
    }

    /// Multiplies vectors or matrices like [`dot`](Self::dot), in a precision that may be less than
    /// that of the elements.
    ///
    /// # Accuracy
    ///
    /// That of the [`ProductPrecision`].
    #[track_caller]
    pub fn dot_with<E: Dimension>(
        &self,
        other: &Array<T, E>,
        precision: ProductPrecision,
    ) -> Array<T, D::Product>
    where
        D: Dot<E>,
    {
        if is_multiplied_as_i32(T::DTYPE) {
            return self.cast::<i32>().dot(&other.cast::<i32>()).cast();
        }
        let site = Site::of("dot");
        // A vector is a row as the left operand, and a column as the right one.
        let (mut left, mut right) = (self.node().shape.clone(), other.node().shape.clone());
        let mut product = Shape::new();
        match left.len() {
            1 => left.insert(0, 1),
            _ => product.push(left[0]),
        }
        match right.len() {
            1 => right.push(1),
            _ => product.push(right[1]),
        }
        if left[1] != right[0] {
            let problem = UsageErrorKind::shapes(self.shape(), other.shape());
            return self.failed(T::DTYPE, &product, problem, site);
        }
        let is_vector = self.ndim() == 1 || other.ndim() == 1;
        let (whole, inner) = (Shape::from_slice(&[left[0], right[1]]), left[1]);
        let is_sum =
            precision == ProductPrecision::Full && (is_vector || (1..=FEW).contains(&inner));
        if is_sum && T::DTYPE.is_half() {
            return self.cast::<f32>().dot(&other.cast::<f32>()).cast();
        }
        if is_sum && is_vector {
            return self.sum_of_products(other, site);
        }
        let left: Array<T, Ix2> = self.as_matrix(left, 0, site);
        let right: Array<T, Ix2> = other.as_matrix(right, 1, site);
        if is_sum {
            return left.sum_of_few(&right).reshaped(product, site);
        }
        let op = matrix_product(&left, &right, precision);
        let matrix: Array<T, Ix2> = left.plan(T::DTYPE, whole, op, site);
        matrix.reshaped(product, site)
    }

    /// Multiplies a vector by a vector or a matrix, as the sum along an axis of the products of
    /// single elements: that is one kernel, which computes the factors, too. The elements of a
    /// matrix that is a transposed view are multiplied in the order in which they are in memory.
    fn sum_of_products<E, F>(&self, other: &Array<T, E>, site: Site) -> Array<T, F> {
        let is_left = self.ndim() == 2;
        let (matrix, vector) = match is_left {
            true => (self.node(), other.node()),
            false => (other.node(), self.node()),
        };
        // The axis of the matrix along which the products are added.
        let axis = usize::from(is_left);
        let mut along = axis;
        let mut whole = matrix.shape.clone();
        let mut map: AxisMap = (0..whole.len()).map(AxisSource::same).collect();
        if is_transposed(matrix) {
            along = 1 - axis;
            whole.reverse();
            map.reverse();
        }
        let of = |node: &NodeRef| Array::<T, IxDyn>::of(self.session(), node.clone());
        let matrix: Array<T, IxDyn> = of(matrix).view_through(whole.clone(), map, site);
        let of_vector = [AxisSource::same(along)].into_iter().collect();
        let vector: Array<T, IxDyn> = of(vector).view_through(whole, of_vector, site);
        let products: Array<T, IxDyn> = matrix.binary(Function::Multiply, &vector);
        products.reduced(Reduction::Sum, [along].into_iter().collect(), site)
    }

    /// Returns a vector with an additional axis, or a matrix as it is.
    fn as_matrix(&self, shape: Shape, inserted: usize, site: Site) -> Array<T, Ix2> {
        let ahead = |axis: usize| usize::from(self.ndim() == 1 && axis >= inserted);
        let own = |axis: usize| AxisSource::same(axis + ahead(axis));
        self.view_through(shape, (0..self.ndim()).map(own).collect(), site)
    }

    /// Multiplies matrices: the last two axes are those of the matrices, and the others are batch
    /// axes, which broadcast.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let (batch, m) = (array![[[1, 2]], [[3, 4]]], array![[1, 0], [0, 2]]);
    /// let products = device.region(|g| g.array(&batch).matmul(&g.array(&m)))?.wait()?;
    /// assert_eq!(products, array![[[1, 4]], [[3, 8]]]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Accuracy
    ///
    /// The accuracy of [`dot`](Self::dot).
    #[track_caller]
    pub fn matmul<E>(&self, other: &Array<T, E>) -> Array<T, <D as DimMax<E>>::Output>
    where
        D: DimMax<E>,
        E: Dimension,
    {
        self.matmul_with(other, ProductPrecision::Full)
    }

    /// Multiplies matrices like [`matmul`](Self::matmul), in a precision that may be less than that
    /// of the elements.
    ///
    /// # Accuracy
    ///
    /// That of the [`ProductPrecision`].
    #[track_caller]
    pub fn matmul_with<E>(
        &self,
        other: &Array<T, E>,
        precision: ProductPrecision,
    ) -> Array<T, <D as DimMax<E>>::Output>
    where
        D: DimMax<E>,
        E: Dimension,
    {
        if is_multiplied_as_i32(T::DTYPE) {
            return self.cast::<i32>().matmul(&other.cast::<i32>()).cast();
        }
        let site = Site::of("matmul");
        let (left, right) = (self.node().shape.clone(), other.node().shape.clone());
        let (m, n) = (left.len().wrapping_sub(2), right.len().wrapping_sub(2));
        let batch = match (left.get(..m), right.get(..n)) {
            (Some(of_left), Some(of_right)) if left[m + 1] == right[n] => {
                shape::broadcast(of_left, of_right)
            }
            _ => None,
        };
        let Some(batch) = batch else {
            return self.failed_pair(T::DTYPE, other, site);
        };
        let with = |rows: usize, columns: usize| -> Shape {
            batch.iter().copied().chain([rows, columns]).collect()
        };
        let (rows, inner, columns) = (left[m], left[m + 1], right[n + 1]);
        let left: Array<T, D> = self.broadcast_view(&with(rows, inner), site);
        let right: Array<T, E> = other.broadcast_view(&with(inner, columns), site);
        let op = matrix_product(&left, &right, precision);
        self.plan(T::DTYPE, with(rows, columns), op, site)
    }
}

fn matrix_product<T: Number, D: Dimension, E: Dimension>(
    left: &Array<T, D>,
    right: &Array<T, E>,
    precision: ProductPrecision,
) -> Op {
    let [left, right] = [left.node(), right.node()].map(NodeRef::clone);
    Op::MatrixProduct(left, right, precision.of_elements(T::DTYPE))
}

/// Returns whether a matrix is a view along whose first axis the elements of its source are
/// neighbours.
fn is_transposed(matrix: &NodeRef) -> bool {
    let State::Planned(op) = matrix.state() else {
        return false;
    };
    let Op::View(source, map) = &*op else {
        return false;
    };
    let last = shape::last_axis(&source.shape);
    matrix.shape.len() == 2 && last.is_some_and(|axis| map[axis].axis == Some(0))
}

/// Returns whether products of this type are those of `i32`, cast back: integers of 16 bits wrap
/// around in both.
fn is_multiplied_as_i32(dtype: DType) -> bool {
    matches!(dtype, DType::I16 | DType::U16)
}

/// The maximum number of products of an element of a matrix product that a thread computes and
/// adds one after another, in the kernel of whatever needs the element.
const FEW: usize = 4;

impl<T: Number> Array<T, Ix2> {
    /// Multiplies matrices, as the sum of the outer products of a few columns and rows.
    fn sum_of_few(&self, other: &Self) -> Self {
        let products = (0..self.ncols()).map(|at| {
            let one = Slice::from(at..at + 1);
            let (column, row) = (
                self.slice_axis(Axis(1), one),
                other.slice_axis(Axis(0), one),
            );
            column.binary::<T, Ix2>(Function::Multiply, &row)
        });
        let sum = products.reduce(|sum, product| sum.binary(Function::Add, &product));
        sum.expect("there are products")
    }
}

impl<T: Number> Array<T, Ix2> {
    /// Returns the sum of the main diagonal.
    #[track_caller]
    pub fn trace(&self) -> Array<T, Ix0> {
        self.diag().sum()
    }
}

impl<T: Number> Array<T, Ix1> {
    /// Computes the outer product of two vectors.
    #[track_caller]
    pub fn outer(&self, other: &Array<T, Ix1>) -> Array<T, Ix2> {
        self.insert_axis(ndarray::Axis(1)) * other
    }
}
