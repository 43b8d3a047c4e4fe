//! Execution of program steps on the device.

use millstream_region::{ArrayViewMut, Number, Operand, PadMode, stack};

use crate::differential::{
    host_element::Number as Small,
    prelude::*,
    step::{Arrange, Padding},
    value::{Dev, any, each_kind, each_type, one, two},
};

/// Evaluates an expression with an array of indices of either type.
macro_rules! with_indices {
    ($array:expr, $index:ident => $body:expr) => {
        match $array {
            Dev::I32($index) => $body,
            Dev::I64($index) => $body,
            other => unreachable!("{other:?} is not an index"),
        }
    };
}

pub(crate) fn apply(step: &Step, g: &Region, slots: &[Dev]) -> Dev {
    let at = |slot: &usize| &slots[*slot];
    match step {
        Step::Fresh(host) => host.on_device(g),
        Step::Unary(function, a) if at(a).kind().is_float() => {
            one!(Dev, at(a), floats, x => float_unary(*function, x))
        }
        Step::Unary(function, a) => one!(Dev, at(a), integers, x => unary(*function, x)),
        Step::Binary(function, a, b) => {
            two!(Dev, at(a), at(b), numbers, x, y => match function {
                Binary::Add => x + y,
                Binary::Subtract => x - y,
                Binary::Multiply => x * y,
                Binary::Divide => x / y,
                Binary::Remainder => x % y,
                Binary::Minimum => x.minimum(y),
                Binary::Maximum => x.maximum(y),
            })
        }
        Step::WithValue(function, a, value, is_left) => {
            one!(Dev, at(a), numbers, x => {
                let value = small(x, *value);
                match (function, is_left) {
                    (Binary::Add, false) => x + value,
                    (Binary::Add, true) => value + x,
                    (Binary::Subtract, false) => x - value,
                    (Binary::Subtract, true) => value - x,
                    (Binary::Multiply, false) => x * value,
                    (Binary::Multiply, true) => value * x,
                    (Binary::Divide, false) => x / value,
                    (Binary::Divide, true) => value / x,
                    (Binary::Remainder, false) => x % value,
                    (Binary::Remainder, true) => value % x,
                    (Binary::Minimum, _) => x.minimum(value),
                    (Binary::Maximum, _) => x.maximum(value),
                }
            })
        }
        Step::Bitwise(function @ (Bitwise::ShiftLeft | Bitwise::ShiftRight), a, b) => {
            two!(Dev, at(a), at(b), integers, x, y => match function {
                Bitwise::ShiftLeft => x << y,
                _ => x >> y,
            })
        }
        Step::Bitwise(function, a, b) => {
            two!(Dev, at(a), at(b), bits, x, y => match function {
                Bitwise::And => x & y,
                Bitwise::Or => x | y,
                Bitwise::ExclusiveOr => x ^ y,
                _ => !x,
            })
        }
        Step::Compare(comparison, a, b) => compare(*comparison, at(a), at(b)),
        Step::Select(which, a, b) => {
            let which = truth(at(which));
            two!(Dev, at(a), at(b), all, x, y => which.where_cond(x, y))
        }
        Step::SelectValue(which, a, value, is_yes) => one!(Dev, at(a), numbers, x => {
            let (which, value) = (truth(at(which)), small(x, *value));
            if *is_yes { which.where_cond(value, x) } else { which.where_cond(x, value) }
        }),
        Step::SelectValues(which, yes, no) => {
            Dev::I32(truth(at(which)).where_cond(i32::from(*yes), i32::from(*no)))
        }
        Step::Power(a, exponent) => one!(Dev, at(a), numbers, x => x.powi(*exponent)),
        Step::Clamp(a, least, greatest) => one!(Dev, at(a), numbers, x => {
            x.clamp(small(x, *least), small(x, *greatest))
        }),
        Step::IsNan(a) => Dev::Bool(any!(Dev, at(a), floats, x => x.is_nan())),
        Step::Cast(a, kind) => cast(at(a), *kind),
        Step::View(a, how) => one!(Dev, at(a), all, x => view(x, how)),
        Step::Reduce(reduce, a, axes, keep) => reduced(*reduce, at(a), axes, *keep),
        Step::Cumulate(reduce, a, axis) => one!(Dev, at(a), numbers, x => match reduce {
            Reduce::Sum => x.cumsum(Axis(*axis)),
            Reduce::Product => x.cumprod(Axis(*axis)),
            Reduce::Minimum => x.cummin(Axis(*axis)),
            _ => x.cummax(Axis(*axis)),
        }),
        Step::Order(Ordered::Sort, a, axis) => {
            one!(Dev, at(a), all, x => x.sort_axis(Axis(*axis)))
        }
        Step::Order(Ordered::Positions, a, axis) => {
            Dev::I64(any!(Dev, at(a), all, x => x.argsort_axis(Axis(*axis))))
        }
        Step::Order(Ordered::Greatest(k), a, axis) => {
            one!(Dev, at(a), all, x => x.topk(*k, Axis(*axis)).0)
        }
        Step::Order(Ordered::GreatestPositions(k), a, axis) => {
            Dev::I64(any!(Dev, at(a), all, x => x.topk(*k, Axis(*axis)).1))
        }
        Step::Take(a, axis, index) => {
            one!(Dev, at(a), all, x => {
                with_indices!(at(index), index => x.select(Axis(*axis), &line(index)))
            })
        }
        Step::TakeListed(a, axis, indices) => {
            one!(Dev, at(a), all, x => x.select(Axis(*axis), indices))
        }
        Step::Gather(a, axis, index) => {
            one!(Dev, at(a), all, x => {
                with_indices!(at(index), index => x.gather(Axis(*axis), index))
            })
        }
        Step::Scatter(base, axis, index, values, false) => {
            two!(Dev, at(base), at(values), all, x, y => {
                with_indices!(at(index), index => x.scatter(Axis(*axis), index, y))
            })
        }
        Step::Scatter(base, axis, index, values, true) => {
            two!(Dev, at(base), at(values), numbers, x, y => {
                with_indices!(at(index), index => x.scatter_add(Axis(*axis), index, y))
            })
        }
        Step::Update(Assign::Set, base, part, values) => {
            two!(Dev, at(base), at(values), all, x, y => updated(x, part, |slice| slice.assign(y)))
        }
        Step::Update(Assign::Arithmetic(function), base, part, values) => {
            two!(Dev, at(base), at(values), numbers, x, y => {
                updated(x, part, |slice| arithmetic(slice, *function, y))
            })
        }
        Step::UpdateValue(function, base, part, value) => {
            one!(Dev, at(base), numbers, x => {
                let value = small(x, *value);
                updated(x, part, |slice| arithmetic(slice, *function, value))
            })
        }
        Step::Update(
            Assign::Bits(function @ (Bitwise::ShiftLeft | Bitwise::ShiftRight)),
            base,
            part,
            values,
        ) => {
            two!(Dev, at(base), at(values), integers, x, y => updated(x, part, |slice| {
                match function {
                    Bitwise::ShiftLeft => *slice <<= y,
                    _ => *slice >>= y,
                }
            }))
        }
        Step::Update(Assign::Bits(function), base, part, values) => {
            two!(Dev, at(base), at(values), bits, x, y => updated(x, part, |slice| {
                match function {
                    Bitwise::And => *slice &= y,
                    Bitwise::Or => *slice |= y,
                    Bitwise::ExclusiveOr => *slice ^= y,
                    _ => {
                        let inverted = !slice.get();
                        slice.assign(&inverted);
                    }
                }
            }))
        }
        Step::Fill(base, part, value) => one!(Dev, at(base), numbers, x => {
            updated(x, part, |slice| slice.fill(small(x, *value)))
        }),
        Step::Concatenate(axis, parts) => joined(slots, parts, *axis, false),
        Step::Stack(axis, parts) => joined(slots, parts, *axis, true),
        Step::Arrange(a, Arrange::Pad(widths, Padding::Constant(value))) => {
            one!(Dev, at(a), numbers, x => x.pad(widths, PadMode::Constant(small(x, *value))))
        }
        Step::Arrange(a, Arrange::Triangle(k, is_lower)) => one!(Dev, at(a), numbers, x => {
            if *is_lower { x.tril(*k) } else { x.triu(*k) }
        }),
        Step::Arrange(a, how) => one!(Dev, at(a), all, x => arranged(x, how)),
        Step::Compress(a, mask, value) => one!(Dev, at(a), numbers, x => {
            x.compress(truth(at(mask))).to_array(small(x, *value)).into_dyn()
        }),
        // The sign of a zero result is unspecified, because the first product may be added to a
        // zero.
        Step::Multiply(a, b) => {
            two!(Dev, at(a), at(b), numbers, x, y => x.matmul(y) + small(x, 0))
        }
    }
}

fn arranged<T: millstream_region::Element>(x: &Array<T, IxDyn>, how: &Arrange) -> Array<T, IxDyn> {
    match how {
        Arrange::Roll(shift, axis) => x.roll(*shift, Axis(*axis)),
        Arrange::Pad(widths, padding) => x.pad(
            widths,
            match padding {
                Padding::Edge => PadMode::Edge,
                Padding::Reflect => PadMode::Reflect,
                _ => PadMode::Wrap,
            },
        ),
        Arrange::Tile(repeats) => x.tile(IxDyn(repeats)),
        Arrange::Repeat(repeats, axis) => x.repeat(*repeats, Axis(*axis)),
        Arrange::Windows(window) => x.windows(IxDyn(window)),
        Arrange::Triangle(..) => unreachable!("triangles are of numbers"),
    }
}

fn truth(array: &Dev) -> &Array<bool, IxDyn> {
    match array {
        Dev::Bool(which) => which,
        other => unreachable!("{other:?} is not a mask"),
    }
}

/// Returns an array with a changed slice.
fn updated<T: millstream_region::Element>(
    x: &Array<T, IxDyn>,
    part: &[SliceInfoElem],
    change: impl FnOnce(&mut ArrayViewMut<'_, T, IxDyn, IxDyn>),
) -> Array<T, IxDyn> {
    let mut x = x.clone();
    change(&mut x.slice_mut(part));
    x
}

/// Updates a mutable view by an array or a value.
fn arithmetic<T: Number, O: Operand<T, IxDyn, Dim = IxDyn>>(
    part: &mut ArrayViewMut<'_, T, IxDyn, IxDyn>,
    function: Binary,
    other: O,
) {
    match function {
        Binary::Add => *part += other,
        Binary::Subtract => *part -= other,
        Binary::Multiply => *part *= other,
        Binary::Divide => *part /= other,
        Binary::Remainder => *part %= other,
        Binary::Minimum => {
            let least = part.get().minimum(other);
            part.assign(&least);
        }
        Binary::Maximum => {
            let greatest = part.get().maximum(other);
            part.assign(&greatest);
        }
    }
}

fn small<T: Small>(_of: &Array<T, IxDyn>, value: i8) -> T {
    T::from_small(value)
}

fn unary<T: Number>(function: Unary, x: &Array<T, IxDyn>) -> Array<T, IxDyn> {
    match function {
        Unary::Negate => -x,
        Unary::Absolute => x.abs(),
        Unary::Signum => x.signum(),
        Unary::Square => x.pow2(),
        Unary::Relu => x.relu(),
        Unary::Coarse | Unary::Coarsest => x.clone(),
        _ => unreachable!("{function:?} is for floats"),
    }
}

fn float_unary<T: Float + Small>(function: Unary, x: &Array<T, IxDyn>) -> Array<T, IxDyn> {
    let coarse = |bound: i8| {
        let (least, greatest) = (T::from_small(-bound), T::from_small(bound));
        x.clamp(least, greatest).round_ties_even() + T::from_small(0)
    };
    match function {
        Unary::Root => x.sqrt(),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Trunc => x.trunc(),
        Unary::RoundEven => x.round_ties_even(),
        Unary::Round => x.round(),
        Unary::Reciprocal => x.recip(),
        Unary::Fraction => x.fract(),
        Unary::Coarse => coarse(64),
        Unary::Coarsest => coarse(1),
        _ => unary(function, x),
    }
}

fn compare(comparison: Compare, a: &Dev, b: &Dev) -> Dev {
    macro_rules! by {
        ($x:expr, $y:expr) => {
            match comparison {
                Compare::Less => $x.less($y),
                Compare::LessEqual => $x.less_equal($y),
                Compare::Greater => $x.greater($y),
                Compare::GreaterEqual => $x.greater_equal($y),
                Compare::Equal => $x.equal($y),
                Compare::NotEqual => $x.not_equal($y),
            }
        };
    }
    if let (Dev::Bool(x), Dev::Bool(y)) = (a, b) {
        return Dev::Bool(match comparison {
            Compare::Equal => x.equal(y),
            _ => x.not_equal(y),
        });
    }
    macro_rules! by_kind {
        ([$($kind:ident)*]) => {
            match (a, b) {
                $((Dev::$kind(x), Dev::$kind(y)) => by!(x, y),)*
                other => unreachable!("{other:?}"),
            }
        };
    }
    Dev::Bool(each_kind!(numbers[by_kind]))
}

fn cast(x: &Dev, kind: Kind) -> Dev {
    macro_rules! to {
        ($($kind:ident $type:ty),*) => {
            match kind {
                $(Kind::$kind => Dev::$kind(any!(Dev, x, all, x => x.cast::<$type>())),)*
            }
        };
    }
    each_type!([to])
}

fn view<T: millstream_region::Element>(x: &Array<T, IxDyn>, view: &View) -> Array<T, IxDyn> {
    match view {
        View::Slice(part) => x.slice(&part[..]),
        View::Permute(order) => x.permuted_axes(IxDyn(order)),
        View::Insert(axis) => x.insert_axis(Axis(*axis)),
        View::Index(axis, index) => x.index_axis(Axis(*axis), *index),
        View::Broadcast(shape) => x.broadcast(IxDyn(shape)),
        View::Reshape(shape) => x.into_shape_with_order(IxDyn(shape)),
        View::Invert(axis) => x.inverted_axis(Axis(*axis)),
    }
}

fn reduced(reduce: Reduce, x: &Dev, axes: &[usize], keep: bool) -> Dev {
    macro_rules! by {
        ($x:expr, $whole:ident, $along:ident, $keeping:ident) => {
            match axes {
                _ if keep => $x.$keeping(&axes_of(axes)),
                &[axis] => $x.$along(Axis(axis)),
                _ => $x.$whole().broadcast(IxDyn(&[])),
            }
        };
    }
    if let Dev::Bool(x) = x {
        return match reduce {
            Reduce::Sum => Dev::I64(by!(x, sum, sum_axis, sum_keepdims)),
            Reduce::Any => Dev::Bool(by!(x, any, any_axis, any_keepdims)),
            _ => Dev::Bool(by!(x, all, all_axis, all_keepdims)),
        };
    }
    match reduce {
        Reduce::ArgMinimum | Reduce::ArgMaximum => Dev::I64(any!(Dev, x, numbers, x => {
            match reduce {
                Reduce::ArgMinimum => by!(x, argmin, argmin_axis, argmin_keepdims),
                _ => by!(x, argmax, argmax_axis, argmax_keepdims),
            }
        })),
        _ => one!(Dev, x, numbers, x => match reduce {
            Reduce::Sum => by!(x, sum, sum_axis, sum_keepdims),
            Reduce::Product => by!(x, product, product_axis, product_keepdims),
            Reduce::Minimum => by!(x, min, min_axis, min_keepdims),
            _ => by!(x, max, max_axis, max_keepdims),
        }),
    }
}

fn axes_of(axes: &[usize]) -> Vec<Axis> {
    axes.iter().copied().map(Axis).collect()
}

/// Converts an array with one axis to a static dimension.
fn line<T: millstream_region::Element>(x: &Array<T, IxDyn>) -> Array<T, Ix1> {
    x.into_shape_with_order(x.len())
}

fn joined(slots: &[Dev], parts: &[usize], axis: usize, stacks: bool) -> Dev {
    macro_rules! of {
        ([$($kind:ident)*]) => {
            match &slots[parts[0]] {
                $(Dev::$kind(_) => {
                    let arrays: Vec<_> = parts.iter().map(|&part| match &slots[part] {
                        Dev::$kind(x) => x,
                        other => unreachable!("{other:?} among arrays of another type"),
                    }).collect();
                    let joined = if stacks {
                        stack(Axis(axis), &arrays)
                    } else {
                        concatenate(Axis(axis), &arrays)
                    };
                    Dev::$kind(joined.expect("the generator chooses compatible shapes"))
                })*
            }
        };
    }
    each_kind!(all[of])
}
