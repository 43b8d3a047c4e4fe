//! Random programs: steps with their expected results on the host.

use std::ops::Mul;

use crate::differential::{
    host,
    prelude::*,
    step::Slot,
    value::{KINDS, OTHER_KINDS},
};

/// The maximum number of elements of an array, unless it is a long one.
const ELEMENTS_MAX: usize = 3000;
/// The maximum number of elements of a long array.
const LONG_MAX: usize = 120_000;
/// The maximum number of axes of an array.
pub(crate) const AXES_MAX: usize = 6;

pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    pub(crate) expected: Vec<Host>,
    /// The arrays that are downloaded.
    pub(crate) given: Vec<Slot>,
}

/// The size of a program and its kinds of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// The number of steps besides the inputs.
    pub(crate) steps: usize,
    pub(crate) is_long: bool,
    /// The only kind of step, if there is one.
    pub(crate) only: Option<u32>,
}

pub(crate) const STEP_KINDS: u32 = 29;

pub(crate) fn program(seed: u64, size: Size) -> Program {
    let mut generator = ProgramGenerator {
        rng: Pcg32::seed_from_u64(seed),
        kinds: kinds(seed),
        elements_max: if size.is_long { LONG_MAX } else { ELEMENTS_MAX },
        steps: Vec::new(),
        slots: Vec::new(),
    };
    let shape = if size.is_long {
        generator.long_shape()
    } else {
        generator.shape()
    };
    for _ in 0..1 + generator.below(3) {
        let shape = generator.related(&shape);
        let kind = generator.kind(generator.kinds.len());
        generator.fresh(kind, &shape);
    }
    let (inputs, mut tries) = (generator.slots.len(), 0);
    while generator.slots.len() < inputs + size.steps && tries < 40 * size.steps {
        let kind = size
            .only
            .unwrap_or_else(|| generator.rng.next_u32() % STEP_KINDS);
        generator.step(kind);
        tries += 1;
    }
    let last = generator.slots.len() - 1;
    let mut given = vec![last];
    for _ in 0..generator.below(4) {
        given.push(generator.below(last + 1));
    }
    Program {
        steps: generator.steps,
        expected: generator.slots,
        given,
    }
}

fn kinds(seed: u64) -> &'static [Kind] {
    // The schedules take turns, too, four seeds at a time.
    match seed % 5 {
        3 | 4 => OTHER_KINDS[(seed / 5) as usize % OTHER_KINDS.len()],
        _ => KINDS,
    }
}

pub(crate) struct ProgramGenerator {
    pub(crate) rng: Pcg32,
    /// The element types, of which the last is `bool`.
    pub(crate) kinds: &'static [Kind],
    pub(crate) elements_max: usize,
    steps: Vec<Step>,
    /// The result of each step on the host.
    pub(crate) slots: Vec<Host>,
}

impl ProgramGenerator {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.rng.next_u32() as usize % end.max(1)
    }

    /// Returns one of the first element types.
    pub(crate) fn kind(&mut self, among: usize) -> Kind {
        self.kinds[self.below(among)]
    }

    pub(crate) fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    fn shape(&mut self) -> Vec<usize> {
        let rank = [0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6][self.below(11)];
        let mut shape: Vec<usize> = Vec::new();
        for _ in 0..rank {
            let length = [1, 2, 3, 4, 5, 7, 8, 33, 64][self.below(9)];
            let fits = shape.iter().product::<usize>() * length <= self.elements_max;
            shape.push(if fits { length } else { 1 });
        }
        if self.chance(12) && rank > 0 {
            let axis = self.below(rank);
            shape[axis] = 0;
        }
        shape
    }

    fn long_shape(&mut self) -> Vec<usize> {
        let long = 1000 + self.below(self.elements_max / 4);
        let other = 1 + self.below((self.elements_max / long).min(40));
        match self.below(3) {
            0 => vec![long],
            1 => vec![other, long],
            _ => vec![long, other],
        }
    }

    /// Returns a shape that broadcasts with another.
    pub(crate) fn related(&mut self, shape: &[usize]) -> Vec<usize> {
        let skip = if self.chance(3) {
            self.below(shape.len() + 1)
        } else {
            0
        };
        let mut related = shape[skip..].to_vec();
        for length in &mut related {
            if self.chance(5) {
                *length = 1;
            }
        }
        related
    }

    pub(crate) fn fresh(&mut self, kind: Kind, shape: &[usize]) -> Slot {
        let is_special = self.chance(2);
        // Mostly zeros of both signs, so that they meet in every reduction.
        let is_zero = self.chance(4);
        macro_rules! host {
            ($($kind:ident: $special:expr, $small:expr;)*) => {
                match kind {
                    $(Kind::$kind => {
                        let special: &[_] = if is_special { &$special } else { &[] };
                        let element = || self.element(special, is_zero, $small);
                        Host::$kind(ArrayD::from_shape_simple_fn(shape, element))
                    })*
                    Kind::Bool => {
                        Host::Bool(ArrayD::from_shape_simple_fn(shape, || self.chance(2)))
                    }
                }
            };
        }
        macro_rules! half {
            ($type:ty) => {
                [
                    <$type>::NAN,
                    <$type>::INFINITY,
                    <$type>::NEG_INFINITY,
                    <$type>::NEG_ZERO,
                    <$type>::MIN_POSITIVE_SUBNORMAL,
                    <$type>::MAX,
                    <$type>::from_f32_const(0.333),
                    <$type>::from_f32_const(-3e4),
                ]
            };
        }
        let host = host! {
            F16: half!(f16), |small| f16::from_f32(small as f32 / 4.0);
            Bf16: half!(bf16), |small| bf16::from_f32(small as f32 / 4.0);
            F32: [f32::NAN, f32::INFINITY, -f32::INFINITY, -0.0, 1e-40, 3.4e38, 0.5, 1e10, -3e9],
                |small| small as f32 / 4.0;
            F64: [f64::NAN, f64::INFINITY, -f64::INFINITY, -0.0, 5e-324, 1.7e308, 0.5, 1e20, -3e9],
                |small| f64::from(small) / 4.0;
            I8: [i8::MIN, i8::MAX, 0, -1, 16], |small| small as i8;
            I16: [i16::MIN, i16::MAX, 0, -1, 256], |small| small as i16;
            I32: [i32::MIN, i32::MAX, 0, -1, 65536], |small| small;
            I64: [i64::MIN, i64::MAX, 0, -1, 1 << 40], i64::from;
            U8: [255, 0, 128], |small| small as u8;
            U16: [u16::MAX, 0, 1 << 15], |small: i32| small.unsigned_abs() as u16;
            U32: [u32::MAX, 0, 1 << 31], i32::unsigned_abs;
            U64: [u64::MAX, 0, 1 << 63], |small: i32| small.unsigned_abs().into();
        };
        self.push(Step::Fresh(host))
    }

    /// Returns a small number, one of the special ones if there are any, or mostly a zero.
    fn element<T: Copy + Mul<Output = T>>(
        &mut self,
        special: &[T],
        is_zero: bool,
        small: impl Fn(i32) -> T,
    ) -> T {
        if !special.is_empty() && self.chance(9) {
            special[self.below(special.len())]
        } else if is_zero && !self.chance(16) {
            small(0) * small(if self.chance(2) { 1 } else { -1 })
        } else {
            small(self.below(64) as i32 - 32)
        }
    }

    pub(crate) fn push(&mut self, step: Step) -> Slot {
        self.slots.push(host::apply(&step, &self.slots));
        self.steps.push(step);
        self.slots.len() - 1
    }

    pub(crate) fn shape_of(&self, slot: Slot) -> Vec<usize> {
        self.slots[slot].shape().to_vec()
    }

    pub(crate) fn kind_of(&self, slot: Slot) -> Kind {
        self.slots[slot].kind()
    }

    /// Returns a random array that satisfies the condition.
    pub(crate) fn some(&mut self, holds: impl Fn(&Host) -> bool) -> Option<Slot> {
        let fitting: Vec<_> = (0..self.slots.len())
            .filter(|&slot| holds(&self.slots[slot]))
            .collect();
        (!fitting.is_empty()).then(|| fitting[self.below(fitting.len())])
    }

    /// Returns a random array of type `kind` that broadcasts with this one.
    pub(crate) fn partner(&mut self, slot: Slot, kind: Kind) -> Option<Slot> {
        let (shape, most) = (self.shape_of(slot), self.elements_max);
        self.some(|other| {
            let both = broadcast(&shape, other.shape());
            other.kind() == kind && both.is_some_and(|both| both.iter().product::<usize>() <= most)
        })
    }

    /// Appends a step that makes sums or products of the array exact.
    pub(crate) fn exact(&mut self, slot: Slot, reduce: Reduce) -> Slot {
        if !self.kind_of(slot).is_float() {
            return slot;
        }
        match reduce {
            Reduce::Sum => self.push(Step::Unary(Unary::Coarse, slot)),
            Reduce::Product => self.push(Step::Unary(Unary::Coarsest, slot)),
            _ => slot,
        }
    }
}
