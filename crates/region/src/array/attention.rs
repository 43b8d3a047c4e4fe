//! Attention.

use ndarray::{Axis, Dimension, IxDyn};

use crate::{
    Region,
    array::Array,
    element::{Element, Float, Scalar},
    error::{Site, UsageErrorKind},
    expr::{Attention, Comparison, Function, NodeRef, Op},
    plan::TileSizes,
    shape::{self, Shape},
};

/// The keys that take part in [`attention_masked`](Array::attention_masked), and numbers that are
/// added to their scores.
///
/// ```
/// use millstream_region::{AttentionMask, RegionExt};
/// use ndarray::array;
/// let device = millstream::Device::simulated()?;
/// let (q, v) = (array![[1.0_f32], [2.0]], array![[4.0_f32], [6.0]]);
/// // The first query takes the second key alone, the second query takes both.
/// let added = array![[f32::NEG_INFINITY, 0.0], [0.0, 0.0]];
/// let (later, earlier) = device
///     .region(|g| {
///         let (q, k, v) = (g.array(&q), g.zeros((2, 1)), g.array(&v));
///         let added = AttentionMask::added(&g.array(&added));
///         (
///             q.attention_masked(&k, &v, 1.0, &added),
///             q.attention_masked(&k, &v, 1.0, &AttentionMask::causal()),
///         )
///     })?
///     .wait()?;
/// assert_eq!((later, earlier), (array![[6.0], [5.0]], array![[4.0], [5.0]]));
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct AttentionMask<T> {
    added: Option<Array<T, IxDyn>>,
    is_causal: bool,
}

impl<T: Float> AttentionMask<T> {
    /// A mask with numbers that are added to the scaled scores: 0 for a key that takes part, and
    /// −∞ for one that does not. Its shape broadcasts to the batch axes, the number of queries and
    /// the number of keys.
    pub fn added<D: Dimension>(numbers: &Array<T, D>) -> Self {
        Self {
            added: Some(numbers.clone().into_dyn()),
            is_causal: false,
        }
    }

    /// A mask with which query `i` takes the keys `0` to `i`, also where there are more keys or
    /// fewer than queries.
    pub fn causal() -> Self {
        Self {
            added: None,
            is_causal: true,
        }
    }

    /// Returns this mask, with which query `i` also takes no keys behind `i`.
    pub fn and_causal(self) -> Self {
        Self {
            is_causal: true,
            ..self
        }
    }
}

/// The operands of attention with the same shape of a batch.
struct Operands<T, D> {
    queries: Array<T, D>,
    keys: Array<T, D>,
    values: Array<T, D>,
    added: Option<Array<T, D>>,
    is_causal: bool,
    site: Site,
}

impl<T: Float, D: Dimension> Array<T, D> {
    /// Computes attention, `softmax(q·kᵀ·scale)·v`: for each query in `self`, the mean of the
    /// values, weighted by the exponentials of the scaled products of the query and the keys.
    ///
    /// Each row of the last two axes is a query, a key, or the value of the key with the same
    /// index. The other axes are batch axes, which broadcast. The usual scale is the reciprocal of
    /// the square root of the number of elements of a key.
    ///
    /// Keys and values of at most 256 elements of `f32`, or 128 of `f64`, are computed by one
    /// kernel, which stores no scores. Longer ones are computed by matrix products and a softmax,
    /// which store the scores. Kernels of their own convert `f16` and `bf16` to `f32`, and the
    /// result is rounded once.
    ///
    /// Without keys the result is 0. It is NaN where all scores of a query are −∞, and where one
    /// is NaN or +∞. A value that is not finite makes the results of all queries to which its key
    /// belongs infinite or NaN, and may do so for queries that a mask excludes.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let q = array![[0.0_f32, 0.0], [1000.0, 0.0]];
    /// let k = array![[1.0_f32, 0.0], [0.0, 1.0]];
    /// let v = array![[10.0_f32], [20.0]];
    /// let found = device.region(|g| g.array(&q).attention(&g.array(&k), &g.array(&v), 0.5))?;
    /// // The first query takes both values alike, the second the first value alone.
    /// assert_eq!(found.wait()?, array![[15.0], [10.0]]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Accuracy
    ///
    /// Let `u` be half the distance from 1 to the next number, `w` the exact weights, whose sum is
    /// 1, `e` the number of elements of a key, `n` the number of keys, and `S` the greatest
    /// `|scale|·Σ|q·k| + |mask|` of the query. A result differs from the exact one by at most
    /// `((4·e + 24)·S + 3·n + 32)·u·Σ|w·v|`, up to terms in `u²`, where exponentials do not
    /// underflow. The result has the same bits on every run and, from the kernel, on every device.
    ///
    /// # Errors
    ///
    /// The region fails if the shapes do not fit.
    #[track_caller]
    pub fn attention(&self, keys: &Self, values: &Self, scale: T) -> Self {
        let mask = AttentionMask {
            added: None,
            is_causal: false,
        };
        self.attention_masked(keys, values, scale, &mask)
    }

    /// Computes attention with a mask, `softmax(q·kᵀ·scale + mask)·v`, as
    /// [`attention`](Self::attention) does without.
    ///
    /// # Errors
    ///
    /// The region fails if the shapes do not fit.
    #[track_caller]
    pub fn attention_masked(
        &self,
        keys: &Self,
        values: &Self,
        scale: T,
        mask: &AttentionMask<T>,
    ) -> Self {
        let site = Site::of("attention");
        let (shape, operands) = match self.attention_operands(keys, values, mask, site) {
            Ok(fitting) => fitting,
            Err(problem) => return self.failed(T::DTYPE, self.shape(), problem, site),
        };
        let scale = scale.scalar();
        let narrow = match scale {
            Scalar::F16(scale) => scale.to_f32(),
            Scalar::Bf16(scale) => scale.to_f32(),
            _ => return operands.attend(shape, scale),
        };
        let wide: Operands<f32, D> = operands.cast();
        wide.attend(shape, Scalar::F32(narrow)).cast()
    }

    /// Returns the shape of the result and the operands with all batch axes.
    fn attention_operands(
        &self,
        keys: &Self,
        values: &Self,
        mask: &AttentionMask<T>,
        site: Site,
    ) -> Result<(Shape, Operands<T, D>), UsageErrorKind> {
        /// Splits a shape into those of the batch and of a matrix.
        fn split(shape: &[usize]) -> Option<(&[usize], [usize; 2])> {
            let (batch, matrix) = shape.split_at_checked(shape.len().checked_sub(2)?)?;
            Some((batch, [matrix[0], matrix[1]]))
        }
        let shapes = (split(self.shape()), split(keys.shape()));
        let (Some((of_queries, [queries, size])), Some((of_keys, [count, key_size]))) = shapes
        else {
            return Err(UsageErrorKind::shapes(self.shape(), keys.shape()));
        };
        let batch = shape::broadcast(of_queries, of_keys).filter(|_| size == key_size);
        let Some(batch) = batch else {
            return Err(UsageErrorKind::shapes(self.shape(), keys.shape()));
        };
        let batch = split(values.shape())
            .filter(|(_, [values, _])| *values == count)
            .and_then(|(of_values, [_, size])| Some((shape::broadcast(&batch, of_values)?, size)));
        let Some((batch, value_size)) = batch else {
            return Err(UsageErrorKind::shapes(keys.shape(), values.shape()));
        };
        let with = |rows: usize, columns: usize| -> Shape {
            batch.iter().copied().chain([rows, columns]).collect()
        };
        let scores = with(queries, count);
        let added = mask.added.as_ref();
        if let Some(added) = added.filter(|added| added.check_broadcast(&scores).is_err()) {
            return Err(UsageErrorKind::shapes(&scores, added.shape()));
        }
        let operands = Operands {
            added: added.map(|added| added.broadcast_view(&scores, site)),
            queries: self.broadcast_view(&with(queries, size), site),
            keys: keys.broadcast_view(&with(count, size), site),
            values: values.broadcast_view(&with(count, value_size), site),
            is_causal: mask.is_causal,
            site,
        };
        Ok((with(queries, value_size), operands))
    }
}

impl<T: Float, D: Dimension> Operands<T, D> {
    /// Returns the operands converted to another type.
    fn cast<U: Element>(&self) -> Operands<U, D> {
        Operands {
            queries: self.queries.cast(),
            keys: self.keys.cast(),
            values: self.values.cast(),
            added: self.added.as_ref().map(Array::cast),
            is_causal: self.is_causal,
            site: self.site,
        }
    }

    /// Records attention of floats of 32 or 64 bits, as one operation if there is a kernel for it.
    fn attend(&self, shape: Shape, scale: Scalar) -> Array<T, D> {
        let rank = shape.len();
        let (batch, last) = shape.split_at(rank - 2);
        let batches = shape::element_count(batch).unwrap_or(usize::MAX);
        let (key_count, key_size) = (self.keys.shape()[rank - 2], self.keys.shape()[rank - 1]);
        let lengths = (batches, last[0], key_count);
        if key_count == 0 || !TileSizes::serve(T::DTYPE, lengths, (key_size, last[1])) {
            return self.composed(scale);
        }
        let node = |array: &Array<T, D>| NodeRef::clone(array.node());
        let attention = Attention {
            queries: node(&self.queries),
            keys: node(&self.keys),
            values: node(&self.values),
            mask: self.added.as_ref().map(node),
            scale,
            is_causal: self.is_causal,
        };
        let op = Op::Attention(Box::new(attention));
        self.queries.plan(T::DTYPE, shape, op, self.site)
    }

    /// Records attention as matrix products and a softmax.
    #[track_caller]
    fn composed(&self, scale: Scalar) -> Array<T, D> {
        let rank = self.queries.ndim();
        let keys = self.keys.swapped_axes(rank - 2, rank - 1);
        let products = self.queries.matmul(&keys);
        if products.is_empty() {
            // Without keys, the sum of the values is 0.
            return products.matmul(&self.values);
        }
        let scale = products.constant(scale, products.shape(), self.site.line);
        let mut scores: Array<T, D> = products.same_shape(Function::Multiply, &scale);
        if let Some(added) = &self.added {
            scores = scores.same_shape(Function::Add, added);
        }
        if self.is_causal {
            scores = self.without_later_keys(&scores);
        }
        let last = &[Axis(rank - 1)];
        let powers = (&scores - &scores.max_keepdims(last)).exp();
        (&powers / &powers.sum_keepdims(last)).matmul(&self.values)
    }

    /// Replaces the scores of keys behind the position of the query by −∞.
    fn without_later_keys(&self, scores: &Array<T, D>) -> Array<T, D> {
        let (region, shape) = (Region::of(scores.session()), &scores.node().shape);
        let matrix = &shape[shape.len() - 2..];
        let numbers: Array<i64, IxDyn> = region.iota(matrix, self.site);
        let (query, key) = (&numbers / matrix[1] as i64, &numbers % matrix[1] as i64);
        let is_later: Array<bool, IxDyn> =
            key.same_shape(Function::Compare(Comparison::Greater), &query);
        let is_later: Array<bool, D> = is_later.broadcast_view(shape, self.site);
        let least = T::from_whole(-1).divided_by(T::ZERO).scalar();
        let least: Array<T, D> = scores.constant(least, shape, self.site.line);
        is_later.selected(&least, scores, self.site)
    }
}
