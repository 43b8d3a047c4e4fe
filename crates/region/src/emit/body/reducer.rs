//! Reducers: the accumulators of reductions and scans, and the instructions that combine them.
//!
//! A sum of `f32` is accumulated as `f64`, so that only the last rounding matters. A sum of `f64`
//! is accumulated with the rounding errors of all additions (Knuth's TwoSum), which are added at
//! the end. Elements of `f16` and `bf16` are reduced as `f32`, and their sums accumulated as `f32`.
//!
//! Minima and maxima are those of PTX, for which −0 is less than +0, so that the result does not
//! depend on the order of the tree. The position of a minimum or maximum is found by comparing sort
//! keys: integers in the order of the floats.
//!
//! A new reduction states its components in [`Reducer::state_types`], the accumulator of an
//! element in [`Reducer::lift`] and its end in [`Reducer::finish`], which have cases for others.

use smallvec::{SmallVec, smallvec};

use crate::{
    element::DType,
    emit::body::{
        cast::cast,
        deviations,
        elementwise::{literals, min_or_max, ordered_type},
        kernel::{KernelBody, Reg, RegClass, line, test, value},
        warp::{WARP, WarpTotals},
    },
    expr::Reduction,
};

pub(crate) type Accumulator = SmallVec<[Reg; 2]>;

/// A reduction of elements of one type.
#[derive(Clone, Copy)]
pub(crate) struct Reducer {
    reduction: Reduction,
    /// The type of the elements in memory.
    stored: DType,
    /// The type as which they are reduced.
    element: DType,
}

impl Reducer {
    pub(crate) fn new(reduction: Reduction, stored: DType) -> Self {
        let element = if stored.is_half() { DType::F32 } else { stored };
        Self {
            reduction,
            stored,
            element,
        }
    }

    /// Returns the types of an accumulator's components.
    pub(crate) fn state_types(self) -> SmallVec<[DType; 2]> {
        let is_wide_float = self.stored.is_wide_float();
        match self.reduction {
            Reduction::SquaredDeviations => smallvec![DType::F64; deviations::COMPONENTS],
            Reduction::Sum | Reduction::Squares if self.element == DType::F64 => {
                smallvec![DType::F64, DType::F64]
            }
            Reduction::Squares => smallvec![DType::F64],
            Reduction::Sum | Reduction::Product if is_wide_float => smallvec![DType::F64],
            Reduction::ArgMinimum | Reduction::ArgMaximum => {
                smallvec![self.key_type(), DType::I64]
            }
            Reduction::Any | Reduction::All => smallvec![DType::I32],
            Reduction::Sum | Reduction::Product | Reduction::Minimum | Reduction::Maximum => {
                let is_narrow = self.element.is_narrow_integer();
                smallvec![if is_narrow { DType::I32 } else { self.element }]
            }
        }
    }

    /// Returns whether the result does not depend on the order of the elements.
    pub(crate) fn is_of_any_order(self) -> bool {
        match self.reduction {
            Reduction::Sum | Reduction::Product => !self.element.is_float(),
            Reduction::Squares | Reduction::SquaredDeviations => false,
            Reduction::Minimum
            | Reduction::Maximum
            | Reduction::ArgMinimum
            | Reduction::ArgMaximum
            | Reduction::Any
            | Reduction::All => true,
        }
    }

    fn key_type(self) -> DType {
        match self.element {
            DType::F64 | DType::I64 => DType::I64,
            unsigned @ (DType::U32 | DType::U64) => unsigned,
            _ => DType::I32,
        }
    }

    pub(crate) fn identity(self, body: &mut KernelBody) -> Accumulator {
        let state_types = self.state_types();
        let [zero, one, least, greatest] = literals(state_types[0]);
        let first = match self.reduction {
            Reduction::Sum | Reduction::Squares | Reduction::SquaredDeviations | Reduction::Any => {
                zero
            }
            Reduction::Product | Reduction::All => one,
            Reduction::Minimum | Reduction::ArgMinimum => greatest,
            Reduction::Maximum | Reduction::ArgMaximum => least,
        };
        let mut accumulator = Accumulator::new();
        for (slot, &dtype) in state_types.iter().enumerate() {
            let value = match slot {
                0 => first,
                _ if dtype == DType::I64 => "9223372036854775807",
                _ => zero_literal(dtype),
            };
            let reg = body.reg(RegClass::of(dtype));
            line!(body; "mov.{} {reg}, {value};", RegClass::of(dtype).move_type());
            accumulator.push(reg);
        }
        accumulator
    }

    /// Returns whether combining many elements at once takes less than one by one.
    pub(crate) fn prefers_many(self) -> bool {
        self.reduction == Reduction::SquaredDeviations
    }

    /// Combines elements that come after all elements of the accumulator, one by one or, where that
    /// takes less, together; each with its linear index.
    pub(crate) fn combine_elements(
        self,
        body: &mut KernelBody,
        accumulator: &Accumulator,
        elements: impl ExactSizeIterator<Item = (Reg, Reg)>,
    ) {
        if self.prefers_many() {
            let wide = |(value, _)| cast(body, self.element, DType::F64, value);
            let elements: SmallVec<[Reg; 16]> = elements.map(wide).collect();
            let few = deviations::of_elements(body, &elements);
            return deviations::combine(body, accumulator, &few);
        }
        for (value, number) in elements {
            let other = self.lift(body, value, |_| number);
            self.combine_later(body, accumulator, &other);
        }
    }

    /// Returns the accumulator of one element, whose linear index is given by `number`.
    pub(crate) fn lift(
        self,
        body: &mut KernelBody,
        element: Reg,
        number: impl FnOnce(&mut KernelBody) -> Reg,
    ) -> Accumulator {
        let state_types = self.state_types();
        let element = cast(body, self.stored, self.element, element);
        if self.prefers_many() {
            let wide = cast(body, self.element, DType::F64, element);
            return deviations::of_elements(body, &[wide]);
        }
        let first = match (self.reduction, self.element) {
            (_, DType::Bool) => body.as_word(element),
            (Reduction::ArgMinimum | Reduction::ArgMaximum, DType::F32 | DType::F64) => {
                self.sort_key(body, element)
            }
            (Reduction::Squares, _) => {
                let wide = cast(body, self.element, DType::F64, element);
                value!(body, F64; "mul.rn.f64 {wide}, {wide}")
            }
            _ => cast(body, self.element, state_types[0], element),
        };
        match state_types.get(1) {
            None => smallvec![first],
            Some(DType::I64) => {
                let number = number(body);
                smallvec![first, body.index_as_i64(number)]
            }
            Some(_) => {
                let lost = value!(body, F64; "mov.f64 0d0000000000000000");
                smallvec![first, lost]
            }
        }
    }

    /// Combines another accumulator into `accumulator`.
    pub(crate) fn combine(
        self,
        body: &mut KernelBody,
        accumulator: &Accumulator,
        other: &Accumulator,
    ) {
        let (a, b) = (accumulator[0], other[0]);
        let dtype = self.state_types()[0];
        match self.reduction {
            Reduction::SquaredDeviations => deviations::combine(body, accumulator, other),
            Reduction::Sum | Reduction::Squares if accumulator.len() == 2 => {
                add_compensated(body, accumulator, other)
            }
            Reduction::Sum | Reduction::Squares => {
                line!(body; "add.{} {a}, {a}, {b};", add_type(dtype))
            }
            Reduction::Product if dtype.is_wide_float() => {
                line!(body; "mul.{} {a}, {a}, {b};", add_type(dtype))
            }
            Reduction::Product => line!(body; "mul.lo.{} {a}, {a}, {b};", add_type(dtype)),
            Reduction::Any => line!(body; "or.b32 {a}, {a}, {b};"),
            Reduction::All => line!(body; "and.b32 {a}, {a}, {b};"),
            Reduction::Minimum => self.combine_order(body, "min", a, b),
            Reduction::Maximum => self.combine_order(body, "max", a, b),
            Reduction::ArgMinimum => self.combine_keys(body, "lt", accumulator, other, false),
            Reduction::ArgMaximum => self.combine_keys(body, "gt", accumulator, other, false),
        }
    }

    /// Replaces `a` by the minimum or maximum of both.
    fn combine_order(self, body: &mut KernelBody, name: &str, a: Reg, b: Reg) {
        let dtype = self.state_types()[0];
        let chosen = min_or_max(body, name, dtype, a, b);
        line!(body; "mov.{} {a}, {chosen};", RegClass::of(dtype).move_type());
    }

    /// Prepares a new accumulator for a thread whose first element has this number.
    pub(crate) fn begin_at(self, body: &mut KernelBody, accumulator: &Accumulator, number: Reg) {
        if let [_, position] = accumulator[..]
            && position.class == RegClass::B64
        {
            // If no element is better than the identity, the first is as good, and comes before
            // the others. The number of a thread without elements is greater than all others.
            let first = body.index_as_i64(number);
            line!(body; "mov.b64 {position}, {first};");
        }
    }

    /// Combines an element that comes after all elements of the accumulator.
    pub(crate) fn combine_later(
        self,
        body: &mut KernelBody,
        accumulator: &Accumulator,
        other: &Accumulator,
    ) {
        match self.reduction {
            Reduction::ArgMinimum => self.combine_keys(body, "lt", accumulator, other, true),
            Reduction::ArgMaximum => self.combine_keys(body, "gt", accumulator, other, true),
            Reduction::Sum
            | Reduction::Squares
            | Reduction::Product
            | Reduction::SquaredDeviations
            | Reduction::Minimum
            | Reduction::Maximum
            | Reduction::Any
            | Reduction::All => self.combine(body, accumulator, other),
        }
    }

    /// Combines a sort key with its position. Of equal keys, the one with the lower position is
    /// kept, which is the accumulator's if the other is later.
    fn combine_keys(
        self,
        body: &mut KernelBody,
        name: &str,
        accumulator: &Accumulator,
        other: &Accumulator,
        is_later: bool,
    ) {
        let ([a, position], [b, other_position]) = (&accumulator[..], &other[..]) else {
            unreachable!("the accumulator has a sort key and a position");
        };
        let dtype = self.state_types()[0];
        let (kind, moved) = (ordered_type(dtype), RegClass::of(dtype).move_type());
        let better = value!(body, Predicate; "setp.{name}.{kind} {b}, {a}");
        if !is_later {
            let same = value!(body, Predicate; "setp.eq.{kind} {a}, {b}");
            let earlier = value!(body, Predicate; "setp.lt.s64 {other_position}, {position}");
            line!(body; "and.pred {same}, {same}, {earlier};");
            line!(body; "or.pred {better}, {better}, {same};");
        }
        line!(body; "selp.{moved} {a}, {b}, {a}, {better};");
        line!(body; "selp.b64 {position}, {other_position}, {position}, {better};");
    }

    /// Combines the accumulators of a block: within each warp by shuffles, then those of the warps,
    /// in their order, through shared memory. A thread has one accumulator or, if the block stands
    /// for a larger one, one for each part of that. Every thread gets the result, in its first
    /// accumulator.
    pub(crate) fn combine_parts(
        self,
        body: &mut KernelBody,
        accumulators: &[Accumulator],
        thread: Reg,
        reduction: usize,
    ) {
        for accumulator in accumulators {
            self.combine_lanes(body, accumulator, WARP);
        }
        let totals = WarpTotals::new(body, self, thread, reduction);
        let warps = body.block / WARP;
        totals.store_parts(body, accumulators, warps);
        line!(body; "bar.sync 0;");
        let result = &accumulators[0];
        for warp in 0..accumulators.len() * warps {
            let other = totals.load(body, warp);
            if warp == 0 {
                assign(body, result, &other);
            } else {
                self.combine(body, result, &other);
            }
        }
    }

    /// Computes the sort key of a float: an integer that compares as the float, with −0 below +0,
    /// and NaN before all numbers in the order of this reduction.
    fn sort_key(self, body: &mut KernelBody, element: Reg) -> Reg {
        let dtype = self.key_type();
        let (class, float) = (RegClass::of(dtype), element.class.move_type());
        let (bits, moved) = (dtype.bytes() * 8, class.move_type());
        let [_, _, least, all_but_sign] = literals(dtype);
        let is_minimum = self.reduction == Reduction::ArgMinimum;
        let first = if is_minimum { least } else { all_but_sign };
        let [pattern, sign, ordered, key] = body.regs(class);
        line!(body; "mov.{moved} {pattern}, {element};");
        // Among negative floats, a larger bit pattern is a smaller number: all bits except the sign
        // are inverted.
        line!(body; "shr.s{bits} {sign}, {pattern}, {};", bits - 1);
        line!(body; "and.{moved} {sign}, {sign}, {all_but_sign};");
        line!(body; "xor.{moved} {ordered}, {pattern}, {sign};");
        let is_nan = test!(body; "nan.{float} {element}, {element}");
        line!(body; "selp.{moved} {key}, {first}, {ordered}, {is_nan};");
        key
    }

    /// Returns the result of an accumulator, as an element of type `to`.
    pub(crate) fn finish(self, body: &mut KernelBody, accumulator: &Accumulator, to: DType) -> Reg {
        match self.reduction {
            Reduction::ArgMinimum | Reduction::ArgMaximum => accumulator[1],
            Reduction::Any | Reduction::All => body.is_not_zero(accumulator[0]),
            Reduction::SquaredDeviations => compensated(body, accumulator[3], accumulator[4]),
            Reduction::Sum | Reduction::Squares if accumulator.len() == 2 => {
                compensated(body, accumulator[0], accumulator[1])
            }
            Reduction::Sum
            | Reduction::Squares
            | Reduction::Product
            | Reduction::Minimum
            | Reduction::Maximum => cast(body, self.state_types()[0], to, accumulator[0]),
        }
    }
}

/// Adds two compensated sums, and the rounding error of the addition to the accumulated errors.
fn add_compensated(body: &mut KernelBody, accumulator: &Accumulator, other: &Accumulator) {
    let (a, errors) = (accumulator[0], accumulator[1]);
    let (sum, error) = two_sum(body, a, other[0]);
    line!(body; "add.rn.f64 {error}, {error}, {};", other[1]);
    line!(body; "add.rn.f64 {errors}, {errors}, {error};");
    line!(body; "mov.f64 {a}, {sum};");
}

/// Adds the errors of a compensated sum. Where it is not finite, they are NaN or do not matter.
fn compensated(body: &mut KernelBody, sum: Reg, errors: Reg) -> Reg {
    let all = value!(body, F64; "add.rn.f64 {sum}, {errors}");
    let is_nan = value!(body, Predicate; "setp.nan.f64 {errors}, {errors}");
    value!(body, F64; "selp.f64 {sum}, {all}, {is_nan}")
}

/// Returns the rounded sum of two `f64` and its rounding error (Knuth's TwoSum).
pub(crate) fn two_sum(body: &mut KernelBody, a: Reg, b: Reg) -> (Reg, Reg) {
    let sum = value!(body, F64; "add.rn.f64 {a}, {b}");
    let of_b = value!(body, F64; "sub.rn.f64 {sum}, {a}");
    let of_a = value!(body, F64; "sub.rn.f64 {sum}, {of_b}");
    let lost_b = value!(body, F64; "sub.rn.f64 {b}, {of_b}");
    let lost_a = value!(body, F64; "sub.rn.f64 {a}, {of_a}");
    line!(body; "add.rn.f64 {lost_a}, {lost_a}, {lost_b};");
    (sum, lost_a)
}

pub(crate) fn assign(body: &mut KernelBody, accumulator: &Accumulator, to: &Accumulator) {
    for (reg, to) in accumulator.iter().zip(to) {
        line!(body; "mov.{} {reg}, {to};", reg.class.move_type());
    }
}

pub(crate) fn zero_literal(dtype: DType) -> &'static str {
    literals(dtype)[0]
}

pub(crate) fn min_literal(dtype: DType) -> &'static str {
    literals(dtype)[2]
}

/// Returns the type suffix of `add` and `mul` for a component.
fn add_type(dtype: DType) -> String {
    let rounding = if dtype.is_wide_float() { "rn." } else { "" };
    format!("{rounding}{}", ordered_type(dtype))
}
