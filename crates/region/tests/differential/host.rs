//! Execution of program steps on the host, with plain Rust and `ndarray`'s views.

use ndarray::ArrayViewD;

use crate::differential::{
    host_arranging::arranged,
    host_element::{CastFrom, Plain, Word},
    host_indexing::{gather, scatter},
    order::positions,
    prelude::*,
    step::{Arrange, Padding},
    value::{any, each_kind, each_type, one, two},
};

pub(crate) fn apply(step: &Step, slots: &[Host]) -> Host {
    if let Some(kind) = wider_operand(step, slots) {
        // The device combines the elements in a wider type, and rounds once.
        let wide: Vec<Host> = slots
            .iter()
            .map(|slot| match slot.kind().is_half() {
                true => cast(slot, Kind::F64),
                false => slot.clone(),
            })
            .collect();
        return cast(&apply(step, &wide), kind);
    }
    let at = |slot: &usize| &slots[*slot];
    match step {
        Step::Fresh(host) => host.clone(),
        Step::Unary(function, a) => {
            one!(Host, at(a), numbers, x => x.mapv(|v| v.unary(*function)))
        }
        Step::Binary(function, a, b) => {
            two!(Host, at(a), at(b), numbers, x, y => {
                zip(x, y, |v, w| v.binary(*function, w))
            })
        }
        Step::WithValue(function, a, value, is_left) => {
            one!(Host, at(a), numbers, x => x.mapv(|v| {
                let value = Number::from_small(*value);
                let (left, right) = if *is_left { (value, v) } else { (v, value) };
                Number::binary(left, *function, right)
            }))
        }
        Step::Bitwise(function, a, b) => {
            two!(Host, at(a), at(b), bits, x, y => {
                zip(x, y, |v, w| v.bitwise(*function, w))
            })
        }
        Step::Compare(comparison, a, b) => {
            macro_rules! compared {
                ([$($kind:ident)*]) => {
                    match (at(a), at(b)) {
                        $((Host::$kind(x), Host::$kind(y)) => {
                            zip(x, y, |v, w| comparison.holds(&v, &w))
                        })*
                        (a, b) => unreachable!("{:?} and {:?}", a.kind(), b.kind()),
                    }
                };
            }
            Host::Bool(each_kind!(all[compared]))
        }
        Step::Select(which, a, b) => {
            two!(Host, at(a), at(b), all, x, y => {
                let pairs = zip(x, y, |v, w| (v, w));
                zip(truth(at(which)), &pairs, |which, (v, w)| if which { v } else { w })
            })
        }
        Step::SelectValue(which, a, value, is_yes) => one!(Host, at(a), numbers, x => {
            zip(truth(at(which)), x, |which, v| {
                if which == *is_yes { Number::from_small(*value) } else { v }
            })
        }),
        Step::SelectValues(which, yes, no) => {
            Host::I32(truth(at(which)).mapv(|which| if which { *yes } else { *no }.into()))
        }
        Step::Power(a, exponent) => {
            one!(Host, at(a), numbers, x => x.mapv(|v| v.power(*exponent)))
        }
        Step::Clamp(a, least, greatest) => one!(Host, at(a), numbers, x => x.mapv(|v| {
            v.clamped(Number::from_small(*least), Number::from_small(*greatest))
        })),
        Step::IsNan(a) => Host::Bool(any!(Host, at(a), floats, x => x.mapv(|v| v.is_nan()))),
        Step::Cast(a, kind) => cast(at(a), *kind),
        Step::View(a, view) => one!(Host, at(a), all, x => self::view(x, view)),
        Step::Reduce(reduce, a, axes, keep) => reduced(*reduce, at(a), axes, *keep),
        Step::Cumulate(reduce, a, axis) => one!(Host, at(a), numbers, x => {
            let mut x = x.clone();
            x.accumulate_axis_inplace(Axis(*axis), |&before, v| *v = before.join(*reduce, *v));
            x
        }),
        Step::Order(ordered, a, axis) => {
            let length = at(a).shape()[*axis];
            let count = match ordered {
                Ordered::Sort | Ordered::Positions => length,
                Ordered::Greatest(k) | Ordered::GreatestPositions(k) => *k,
            };
            let descends = !matches!(ordered, Ordered::Sort | Ordered::Positions);
            let places = any!(Host, at(a), all, x => positions(x, Axis(*axis), count, descends));
            if matches!(ordered, Ordered::Positions | Ordered::GreatestPositions(_)) {
                return Host::I64(places);
            }
            let places = places.mapv(|place| place as usize);
            one!(Host, at(a), all, x => gather(x, *axis, &places))
        }
        Step::Take(a, axis, index) => {
            let indices: Vec<_> = indices(at(index)).into_iter().collect();
            one!(Host, at(a), all, x => x.select(Axis(*axis), &indices))
        }
        Step::TakeListed(a, axis, indices) => {
            one!(Host, at(a), all, x => x.select(Axis(*axis), indices))
        }
        Step::Gather(a, axis, index) => {
            let index = indices(at(index));
            one!(Host, at(a), all, x => gather(x, *axis, &index))
        }
        Step::Scatter(base, axis, index, values, adds) => {
            let index = indices(at(index));
            two!(Host, at(base), at(values), all, x, y => {
                scatter(x, *axis, &index, y, |v, w| if *adds { v.sum(w) } else { w })
            })
        }
        Step::Update(Assign::Set, base, part, values) => {
            two!(Host, at(base), at(values), all, x, y => updated(x, part, y, |_, w| w))
        }
        Step::Update(Assign::Arithmetic(function), base, part, values) => {
            two!(Host, at(base), at(values), numbers, x, y => {
                updated(x, part, y, |v, w| v.binary(*function, w))
            })
        }
        Step::Update(Assign::Bits(function), base, part, values) => {
            two!(Host, at(base), at(values), bits, x, y => {
                updated(x, part, y, |v, w| v.bitwise(*function, w))
            })
        }
        Step::UpdateValue(function, base, part, value) => one!(Host, at(base), numbers, x => {
            let value = ndarray::arr0(Number::from_small(*value)).into_dyn();
            updated(x, part, &value, |v, w| v.binary(*function, w))
        }),
        Step::Fill(base, part, value) => one!(Host, at(base), numbers, x => {
            let mut x = x.clone();
            x.slice_mut(&part[..]).fill(Number::from_small(*value));
            x
        }),
        Step::Concatenate(axis, parts) => joined(slots, parts, *axis, false),
        Step::Stack(axis, parts) => joined(slots, parts, *axis, true),
        Step::Multiply(a, b) => {
            two!(Host, at(a), at(b), numbers, x, y => product(x, y))
        }
        Step::Arrange(a, how @ Arrange::Pad(_, Padding::Constant(value))) => {
            one!(Host, at(a), numbers, x => arranged(x, how, Number::from_small(*value)))
        }
        Step::Arrange(a, how) => {
            one!(Host, at(a), all, x => arranged(x, how, Default::default()))
        }
        Step::Compress(a, mask, value) => one!(Host, at(a), numbers, x => {
            let pairs = x.iter().zip(truth(at(mask)));
            let selected = pairs.filter(|(_, is_selected)| **is_selected).map(|(v, _)| *v);
            let fill = std::iter::repeat(Number::from_small(*value));
            selected.chain(fill).take(x.len()).collect::<Array1<_>>().into_dyn()
        }),
    }
}

/// Returns the type of the operand if it has floats of 16 bits, of which the step combines several.
fn wider_operand(step: &Step, slots: &[Host]) -> Option<Kind> {
    let operand = match step {
        Step::Reduce(reduce, a, ..) | Step::Cumulate(reduce, a, _)
            if matches!(reduce, Reduce::Sum | Reduce::Product) =>
        {
            a
        }
        Step::Scatter(base, _, _, _, true) => base,
        Step::Multiply(a, _) => a,
        _ => return None,
    };
    let kind = slots[*operand].kind();
    kind.is_half().then_some(kind)
}

fn truth(host: &Host) -> &ArrayD<bool> {
    match host {
        Host::Bool(which) => which,
        other => unreachable!("{:?} is not a mask", other.kind()),
    }
}

/// Returns an array with a slice updated by a function of its elements and others.
fn updated<T: Copy>(
    x: &ArrayD<T>,
    part: &[SliceInfoElem],
    y: &ArrayD<T>,
    function: impl Fn(T, T) -> T,
) -> ArrayD<T> {
    let mut x = x.clone();
    let mut part = x.slice_mut(part);
    let y = spread(y, part.shape());
    part.zip_mut_with(&y, |v, &w| *v = function(*v, w));
    x
}

fn spread<'x, T>(x: &'x ArrayD<T>, shape: &[usize]) -> ArrayViewD<'x, T> {
    x.broadcast(shape)
        .expect("the generator chooses shapes that broadcast")
}

/// Broadcasts two arrays to one shape and applies a function to each pair of elements.
fn zip<A: Copy, B: Copy, C>(
    a: &ArrayD<A>,
    b: &ArrayD<B>,
    function: impl Fn(A, B) -> C,
) -> ArrayD<C> {
    let shape =
        broadcast(a.shape(), b.shape()).expect("the generator chooses shapes that broadcast");
    let (a, b) = (spread(a, &shape), spread(b, &shape));
    let elements = a.iter().zip(&b).map(|(&a, &b)| function(a, b)).collect();
    ArrayD::from_shape_vec(shape, elements).expect("the elements fill the shape")
}

/// Returns the shape to which two shapes broadcast.
pub(crate) fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let at = |shape: &[usize], axis: usize| {
        let own = (axis + shape.len()).checked_sub(rank);
        own.map_or(1, |own| shape[own])
    };
    let both = |axis| match (at(a, axis), at(b, axis)) {
        (a, b) if a == b => Some(a),
        (1, other) | (other, 1) => Some(other),
        _ => None,
    };
    (0..rank).map(both).collect()
}

fn cast(host: &Host, kind: Kind) -> Host {
    macro_rules! to {
        ($($kind:ident $type:ty),*) => {
            match kind {
                $(Kind::$kind => {
                    Host::$kind(any!(Host, host, all, x => x.mapv(<$type>::cast_from)))
                })*
            }
        };
    }
    each_type!([to])
}

fn view<T: Copy>(x: &ArrayD<T>, view: &View) -> ArrayD<T> {
    match view {
        View::Slice(part) => x.slice(&part[..]).to_owned(),
        View::Permute(order) => x.view().permuted_axes(IxDyn(order)).to_owned(),
        View::Insert(axis) => x.clone().insert_axis(Axis(*axis)),
        View::Index(axis, index) => x.index_axis(Axis(*axis), *index).to_owned(),
        View::Broadcast(shape) => spread(x, shape).to_owned(),
        View::Reshape(shape) => reshaped(x, shape),
        View::Invert(axis) => x
            .slice_axis(Axis(*axis), Slice::new(0, None, -1))
            .to_owned(),
    }
}

fn reshaped<T: Copy>(x: &ArrayD<T>, shape: &[usize]) -> ArrayD<T> {
    ArrayD::from_shape_vec(shape, x.iter().copied().collect()).expect("the elements fill the shape")
}

/// Reduces along axes, with a function of the elements of each result.
fn rows<T: Copy, U>(
    x: &ArrayD<T>,
    axes: &[usize],
    keep: bool,
    function: impl Fn(&[T]) -> U,
) -> ArrayD<U> {
    let kept: Vec<_> = (0..x.ndim()).filter(|axis| !axes.contains(axis)).collect();
    let order: Vec<_> = kept.iter().chain(axes).copied().collect();
    let permuted = x.view().permuted_axes(IxDyn(&order));
    let elements: Vec<T> = permuted.iter().copied().collect();
    let each: usize = axes.iter().map(|&axis| x.shape()[axis]).product();
    let of_kept: Vec<_> = kept.iter().map(|&axis| x.shape()[axis]).collect();
    let results: usize = of_kept.iter().product();
    let result = (0..results).map(|row| function(&elements[row * each..][..each]));
    let mut shape = if keep { x.shape().to_vec() } else { of_kept };
    if keep {
        axes.iter().for_each(|&axis| shape[axis] = 1);
    }
    ArrayD::from_shape_vec(shape, result.collect()).expect("the result has one element per row")
}

fn reduced(reduce: Reduce, host: &Host, axes: &[usize], keep: bool) -> Host {
    match (reduce, host) {
        (Reduce::Any, Host::Bool(x)) => Host::Bool(rows(x, axes, keep, |row| row.contains(&true))),
        (Reduce::All, Host::Bool(x)) => {
            Host::Bool(rows(x, axes, keep, |row| !row.contains(&false)))
        }
        (Reduce::Sum, Host::Bool(x)) => Host::I64(rows(x, axes, keep, |row| {
            row.iter().filter(|&&is_true| is_true).count() as i64
        })),
        (Reduce::ArgMinimum | Reduce::ArgMaximum, _) => {
            Host::I64(any!(Host, host, numbers, x => rows(x, axes, keep, |row| first(reduce, row))))
        }
        _ => one!(Host, host, numbers, x => rows(x, axes, keep, |row| {
            let start = match reduce {
                Reduce::Sum => Number::from_small(0),
                Reduce::Product => Number::from_small(1),
                _ => row[0],
            };
            row.iter().fold(start, |before, &v| before.join(reduce, v))
        })),
    }
}

/// Returns the position of the first extremum; NaN precedes all numbers, and −0 is less than +0.
fn first<T: Number>(reduce: Reduce, row: &[T]) -> i64 {
    let beats = |a: T, b: T| {
        if a.is_no_number() || b.is_no_number() {
            return a.is_no_number() && !b.is_no_number();
        }
        if a == b && a.is_negative_zero() != b.is_negative_zero() {
            return a.is_negative_zero() == (reduce == Reduce::ArgMinimum);
        }
        (a < b) == (reduce == Reduce::ArgMinimum) && a != b
    };
    let better = |best: usize, at: usize| if beats(row[at], row[best]) { at } else { best };
    (1..row.len()).fold(0, better) as i64
}

fn indices(host: &Host) -> ArrayD<usize> {
    match host {
        Host::I32(x) => x.mapv(|v| v as usize),
        Host::I64(x) => x.mapv(|v| v as usize),
        other => unreachable!("{:?} is not an index", other.kind()),
    }
}

/// Concatenates arrays, or stacks them along a new axis.
fn joined(slots: &[Host], parts: &[usize], axis: usize, stacks: bool) -> Host {
    macro_rules! of {
        ([$($kind:ident)*]) => {
            match &slots[parts[0]] {
                $(Host::$kind(_) => {
                    let views: Vec<_> = parts.iter().map(|&part| match &slots[part] {
                        Host::$kind(x) => x.view(),
                        other => unreachable!("{:?} among arrays of another type", other.kind()),
                    }).collect();
                    let joined = if stacks {
                        ndarray::stack(Axis(axis), &views)
                    } else {
                        ndarray::concatenate(Axis(axis), &views)
                    };
                    Host::$kind(joined.expect("the generator chooses compatible shapes"))
                })*
            }
        };
    }
    each_kind!(all[of])
}

/// Computes matrix products over the last two axes.
fn product<T: Number>(a: &ArrayD<T>, b: &ArrayD<T>) -> ArrayD<T> {
    let (m, n) = (a.ndim() - 2, b.ndim() - 2);
    let batch = broadcast(&a.shape()[..m], &b.shape()[..n])
        .expect("the generator chooses compatible shapes");
    let (rows, inner, columns) = (a.shape()[m], a.shape()[m + 1], b.shape()[n + 1]);
    let with = |rows, columns| [&batch[..], &[rows, columns]].concat();
    let (a, b) = (
        spread(a, &with(rows, inner)),
        spread(b, &with(inner, columns)),
    );
    ArrayD::from_shape_fn(with(rows, columns), |position| {
        let rank = batch.len();
        let (mut left, mut right) = (position.clone(), position);
        (0..inner).fold(T::from_small(0), |sum, at| {
            left[rank + 1] = at;
            right[rank] = at;
            sum.sum(a[&left].times(b[&right]))
        })
    })
}

pub(crate) fn whole(rank: usize) -> Vec<SliceInfoElem> {
    vec![Slice::new(0, None, 1).into(); rank]
}
