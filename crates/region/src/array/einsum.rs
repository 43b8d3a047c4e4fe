//! Sums of products along named axes: `einsum` and `tensordot`.
//!
//! Operands are combined from left to right. Of two, the axes are those that both have and the
//! result or a later operand has (a batch), those of one alone, and those that are summed. They are
//! matrices then, unless one has no axis of its own: that is a sum of products, which one kernel
//! computes together with the operands.

use ndarray::{Axis, Dimension, IxDyn};

use crate::{
    array::Array,
    element::Number,
    error::{Result, Site, UsageErrorKind},
    expr::{Function, Reduction},
    shape::{Axes, AxisMap, AxisSource, Shape},
};

/// Multiplies arrays and sums the products along axes that `subscripts` names, as NumPy's `einsum`:
/// a letter for each axis of each operand, and behind `->` those of the result, which are the
/// letters that occur once in alphabetical order if there is no `->`.
///
/// ```
/// use millstream_region::{RegionExt, einsum};
/// use ndarray::{Array0, Array2, array};
/// let device = millstream::Device::simulated()?;
/// let (x, y) = (array![[1, 2], [3, 4]], array![[1, 0], [2, 1]]);
/// let pending = device.region(|g| {
///     let (x, y) = (g.array(&x).into_dyn(), g.array(&y).into_dyn());
///     let product = einsum("ij,jk->ik", &[x.clone(), y.clone()])?;
///     Ok((product.into_dimensionality()?, einsum("ii", &[x])?.into_dimensionality()?))
/// })?;
/// let (product, trace): (Array2<i32>, Array0<i32>) = pending.wait()?;
/// assert_eq!((product, trace[()]), (x.dot(&y), 5));
/// # Ok::<(), millstream_region::Error>(())
/// ```
///
/// The accuracy is that of [`Array::dot`] for each two operands.
///
/// # Errors
///
/// If the subscripts are malformed, the lengths of one letter differ, an intermediate result has
/// more than 6 axes, or an operand has failed.
#[track_caller]
pub fn einsum<T: Number>(
    subscripts: &str,
    operands: &[Array<T, IxDyn>],
) -> Result<Array<T, IxDyn>> {
    let site = Site::of("einsum");
    let (labels, result) = parsed(subscripts, operands.len())
        .map_err(|detail| site.error(UsageErrorKind::argument(detail)))?;
    let terms = operands.iter().cloned().zip(labels);
    let terms = terms.map(|(array, labels)| Term { array, labels });
    summed(terms.collect(), &result, site)
}

impl<T: Number, D: Dimension> Array<T, D> {
    /// Multiplies two arrays and sums the products along pairs of axes, as NumPy's `tensordot`. The
    /// result has the other axes of this array, then those of the other.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let (x, y) = (array![[1, 2], [3, 4]], array![[1, 0], [2, 1]]);
    /// let product = device.region(|g| {
    ///     g.array(&x).tensordot(&g.array(&y), &[Axis(0)], &[Axis(1)])
    /// })?;
    /// assert_eq!(product.wait()?, x.t().dot(&y.t()).into_dyn());
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`einsum`], if an axis is missing or occurs twice, or if the numbers of axes differ.
    #[track_caller]
    pub fn tensordot<E: Dimension>(
        &self,
        other: &Array<T, E>,
        axes: &[Axis],
        of_other: &[Axis],
    ) -> Result<Array<T, IxDyn>> {
        let site = Site::of("tensordot");
        let own: Vec<u8> = (0..self.ndim() as u8).collect();
        let first = own.len() as u8;
        let mut others: Vec<u8> = (first..first + other.ndim() as u8).collect();
        let mut result = [&own[..], &others].concat();
        let fails = |detail| Err(site.error(UsageErrorKind::argument(detail)).into());
        if axes.len() != of_other.len() {
            return fails(format!(
                "{axes:?} of one array and {of_other:?} of the other are no pairs"
            ));
        }
        for (one, two) in axes.iter().zip(of_other) {
            let pair = (own.get(one.index()), others.get_mut(two.index()));
            match pair {
                (Some(&one), Some(two)) if result.contains(&one) && result.contains(two) => {
                    result.retain(|label| *label != one && *label != *two);
                    *two = one;
                }
                _ => {
                    return fails(format!(
                        "{one:?} or {two:?} is missing, or is in two pairs of axes"
                    ));
                }
            }
        }
        let arrays = [self.clone().into_dyn(), other.clone().into_dyn()];
        let terms = arrays.into_iter().zip([own, others]);
        let terms = terms.map(|(array, labels)| Term { array, labels });
        summed(terms.collect(), &result, site)
    }
}

/// A label for each axis of an array.
type Labels = Vec<u8>;

/// An array with labels.
#[derive(Clone)]
struct Term<T> {
    array: Array<T, IxDyn>,
    labels: Labels,
}

impl<T: Number> Term<T> {
    /// Returns a view with these axes: the own axes of a label, of which there may be several, are
    /// its diagonal.
    fn view(&self, labels: &[u8], length: &dyn Fn(u8) -> usize, site: Site) -> Array<T, IxDyn> {
        let place = |own| labels.iter().position(|label| label == own);
        let source = |own| AxisSource::same(place(own).expect("the view has every axis"));
        let map: AxisMap = self.labels.iter().map(source).collect();
        let shape = labels.iter().map(|&label| length(label)).collect();
        self.array.view_through(shape, map, site)
    }
}

/// Returns the labels of the operands and of the result, or the mistake in the subscripts.
fn parsed(subscripts: &str, operands: usize) -> Result<(Vec<Labels>, Labels), String> {
    let bytes: Vec<u8> = subscripts.bytes().filter(|byte| *byte != b' ').collect();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (given, result) = match text.split_once("->") {
        Some((given, result)) => (given, Some(result.as_bytes().to_vec())),
        None => (&text[..], None),
    };
    let terms = given.split(',').map(|term| term.as_bytes().to_vec());
    let labels: Vec<Labels> = terms.collect();
    if labels.len() != operands {
        let terms = labels.len();
        return Err(format!(
            "{subscripts:?} has {terms} terms for {operands} operands"
        ));
    }
    let all = labels.concat();
    let mut letters = all.iter().chain(result.iter().flatten());
    if let Some(&other) = letters.find(|letter| !letter.is_ascii_alphabetic()) {
        let other = char::from(other);
        return Err(format!(
            "{subscripts:?} contains {other:?}: axes are named by letters"
        ));
    }
    let count = |label: &u8| all.iter().filter(|other| *other == label).count();
    let result = result.unwrap_or_else(|| (0..128).filter(|label| count(label) == 1).collect());
    let is_known =
        |label: &u8| count(label) > 0 && result.iter().filter(|other| *other == label).count() == 1;
    if let Some(label) = result.iter().find(|label| !is_known(label)) {
        let label = char::from(*label);
        return Err(format!(
            "{label:?} of the result of {subscripts:?} is in no operand, or there twice"
        ));
    }
    Ok((labels, result))
}

/// Multiplies the terms and sums along all axes that the result does not have.
#[track_caller]
fn summed<T: Number>(terms: Vec<Term<T>>, result: &[u8], site: Site) -> Result<Array<T, IxDyn>> {
    let mut lengths: Vec<(u8, usize)> = Vec::new();
    for Term { array, labels } in &terms {
        if let Some(failure) = array.node().failure() {
            return Err(failure);
        }
        if array.ndim() != labels.len() {
            let (shape, axes) = (array.shape().into(), labels.len());
            return Err(site.error(UsageErrorKind::AxisCount { shape, axes }).into());
        }
        for (&label, &length) in labels.iter().zip(array.shape()) {
            match lengths.iter().find(|(other, _)| *other == label) {
                Some((_, other)) if *other != length => {
                    let shapes = UsageErrorKind::shapes(terms[0].array.shape(), array.shape());
                    return Err(site.error(shapes).into());
                }
                _ => lengths.push((label, length)),
            }
        }
    }
    let length = |label: u8| {
        let known = lengths.iter().find(|(other, _)| *other == label);
        known.expect("every label is that of an axis").1
    };
    let mut terms = terms.into_iter();
    let mut product = terms.next().expect("the subscripts have a term");
    while let Some(other) = terms.next() {
        let later = terms.as_slice().iter().flat_map(|term| &term.labels);
        let needed: Vec<u8> = result.iter().chain(later).copied().collect();
        product = product_of(&product, &other, &needed, &length, site);
    }
    let product = sum_of(&product, result, &length, site);
    let product = product.view(result, &length, site);
    product.node().failure().map_or(Ok(product), Err)
}

/// Multiplies two terms and sums along the axes that are not needed any more.
#[track_caller]
fn product_of<T: Number>(
    left: &Term<T>,
    right: &Term<T>,
    needed: &[u8],
    length: &dyn Fn(u8) -> usize,
    site: Site,
) -> Term<T> {
    let left = sum_of(left, &[needed, &right.labels].concat(), length, site);
    let right = sum_of(right, &[needed, &left.labels].concat(), length, site);
    let of = |term: &Term<T>, holds: &dyn Fn(&u8) -> bool| -> Vec<u8> {
        term.labels.iter().copied().filter(holds).collect()
    };
    let is_shared = |label: &u8| right.labels.contains(label);
    let batch = of(&left, &|label| is_shared(label) && needed.contains(label));
    let inner = of(&left, &|label| is_shared(label) && !needed.contains(label));
    let rows = of(&left, &|label| !is_shared(label));
    let columns = of(&right, &|label| !left.labels.contains(label));
    let labels = [&batch[..], &rows, &columns].concat();
    let shape = |labels: &[u8]| labels.iter().map(|&label| length(label)).collect::<Shape>();
    let array = if rows.is_empty() || columns.is_empty() || inner.is_empty() {
        let all = [&labels[..], &inner].concat();
        let summed = (labels.len()..all.len()).collect();
        let [left, right] = [&left, &right].map(|term| term.view(&all, length, site));
        if inner.is_empty() {
            left.same_shape(Function::Multiply, &right)
        } else if T::DTYPE.is_half() {
            let (left, right) = (left.cast::<f32>(), right.cast::<f32>());
            let products: Array<f32, IxDyn> = left.same_shape(Function::Multiply, &right);
            let sums: Array<f32, IxDyn> = products.reduced(Reduction::Sum, summed, site);
            sums.cast()
        } else {
            let products: Array<T, IxDyn> = left.same_shape(Function::Multiply, &right);
            products.reduced(Reduction::Sum, summed, site)
        }
    } else {
        let matrices = |term: &Term<T>, one: &[u8], two: &[u8]| {
            let view = term.view(&[&batch[..], one, two].concat(), length, site);
            let lengths = [&batch[..], one, two].map(|labels| shape(labels).iter().product());
            view.reshaped::<IxDyn>(Shape::from_slice(&lengths), site)
        };
        let product = matrices(&left, &rows, &inner).matmul(&matrices(&right, &inner, &columns));
        product.reshaped(shape(&labels), site)
    };
    Term { array, labels }
}

/// Sums along the axes of a term that are not needed. Each label then has one axis.
fn sum_of<T: Number>(
    term: &Term<T>,
    needed: &[u8],
    length: &dyn Fn(u8) -> usize,
    site: Site,
) -> Term<T> {
    let mut labels = term.labels.clone();
    let mut seen = [false; 256];
    labels.retain(|label| !std::mem::replace(&mut seen[usize::from(*label)], true));
    let summed = (0..labels.len()).filter(|&axis| !needed.contains(&labels[axis]));
    let axes: Axes = summed.collect();
    let array = term.view(&labels, length, site);
    let array = match axes.is_empty() {
        true => array,
        false => array.reduced(Reduction::Sum, axes, site),
    };
    labels.retain(|label| needed.contains(label));
    Term { array, labels }
}
