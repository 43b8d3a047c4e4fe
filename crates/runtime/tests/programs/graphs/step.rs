//! The steps of graph programs, and their random drawing. A slot that a step names may be empty:
//! the step, or the operation in it, then does nothing, so that every sublist is a program.

use std::mem::discriminant;

use millstream::graph::Order;
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

pub(super) const ARRAYS: usize = 7;
pub(super) const GRAPHS: usize = 3;
/// The number of streams; the last is adopted.
pub(super) const STREAMS: usize = 4;
pub(super) const THEIRS: usize = STREAMS - 1;
pub(super) const VARIABLES: usize = 2;
pub(super) const KERNELS: usize = 1 + 2 * VARIABLES;
/// The bytes of a variable, and of most arrays.
pub(super) const BYTES: usize = 32;
/// The bytes of the allocation whose parts are adopted as arrays.
pub(super) const SLAB_BYTES: usize = 1 << 14;

/// A range of bytes of an array. It ends at the latest where the array does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(super) slot: usize,
    first: usize,
    len: usize,
}

impl Part {
    pub(super) fn whole(slot: usize) -> Self {
        let (first, len) = (0, usize::MAX);
        Self { slot, first, len }
    }

    /// Returns the start and the length within an array of `bytes` bytes, in multiples of `unit`.
    pub(super) fn within(self, bytes: usize, unit: usize) -> (usize, usize) {
        let first = self.first.min(bytes);
        (first, self.len.min(bytes - first) / unit * unit)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Pool(usize),
    /// The next `.1` bytes of the owner's allocation, behind a gap of `.0` bytes; with `.2` they
    /// are lent for a scope, so that no graph may keep them.
    Adopted(usize, usize, bool),
    Variable(usize),
    Managed,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum How {
    Fill,
    /// By a cast.
    FillWords,
    Upload,
    /// In the call of another library.
    Foreign,
}

/// An operation on arrays `P`, which is enqueued or recorded.
#[derive(Clone, Debug)]
pub(crate) enum Op<P> {
    /// Sets all bytes to a value.
    Set(P, How, u8),
    /// Copies, through an array that lives only until then if set.
    Copy([P; 2], bool),
    /// Launches a kernel: `to[i] = from[i] + k`. One with a [variable](variable_of) adds its first
    /// element too, or adds `from[i]` to its element and takes the sum.
    Add(usize, [P; 2], u32),
    /// Recorded: operations that run if the first word is not 0.
    If(P, Vec<Self>),
    /// Recorded: a replay of another graph.
    Replay(usize),
}

impl<P> Op<P> {
    /// Returns the arrays that the operation names, without those of a body.
    pub(super) fn operands(&self) -> &[P] {
        match self {
            Self::Set(array, ..) | Self::If(array, _) => std::slice::from_ref(array),
            Self::Copy(arrays, _) | Self::Add(_, arrays, _) => arrays,
            Self::Replay(_) => &[],
        }
    }

    pub(super) fn unit(&self) -> usize {
        match self {
            Self::Set(_, How::FillWords, _) | Self::Add(..) | Self::If(..) => 4,
            _ => 1,
        }
    }
}

/// Returns the variable that a kernel uses by its name, and whether it writes it.
pub(super) fn variable_of(kernel: usize) -> Option<(usize, bool)> {
    let number = kernel.checked_sub(1)?;
    Some((number / 2, number % 2 == 1))
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Once,
    Twice,
    Stepwise,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Make(usize, Source),
    Drop(usize),
    Do(usize, Op<Part>),
    Download(usize, Part),
    /// Moves an array to the owner.
    Lend(usize),
    /// Lends an array for reading, and forgets the lease.
    LendForEver(usize),
    /// The owner fills an array that was moved to it.
    OwnersFill(usize, u8),
    EndLease(usize),
    /// Returns an adopted array to the owner, who then fills it; not in a capture, in which the
    /// owner waits only for work that is pending.
    Return(usize, u8),
    /// The owner begins to capture its stream.
    Capture,
    EndCapture,
    /// Records operations, each on the recording stream of its number.
    Record(usize, Order, Vec<(usize, Op<Part>)>),
    Update(usize, Vec<(usize, Op<Part>)>),
    Replay(usize, usize, Way),
    /// Two arrays change places; each is passed as `&mut` or as `&`.
    Swap(usize, [usize; 2], [bool; 2]),
    SetScalar(usize, usize, u32),
    Instance(usize, usize),
    DropGraph(usize),
}

pub(crate) fn draw(number: u64) -> Vec<Step> {
    let mut draw = Draw {
        random: Pcg64Mcg::seed_from_u64(number + (2 << 32)),
        sources: [Source::Managed; ARRAYS],
    };
    let mut steps: Vec<Step> = (0..ARRAYS).map(|slot| draw.make(slot)).collect();
    steps.push(draw.record(0));
    for _ in 0..20 + number % 20 {
        match draw.below(20) {
            0 => steps.extend(draw.adjacent()),
            _ => steps.push(draw.step()),
        }
    }
    steps
}

struct Draw {
    random: Pcg64Mcg,
    /// The memory of the arrays, if all steps so far have succeeded.
    sources: [Source; ARRAYS],
}

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        (self.random.next_u64() % bound as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn slot(&mut self) -> usize {
        self.below(ARRAYS)
    }

    fn part(&mut self) -> Part {
        let slot = self.slot();
        let half = BYTES / 2;
        let (first, len) = match self.below(5) {
            0 => self.pick(&[(0, half), (half, half), (4, 12), (3, 5)]),
            1 => self.pick(&[(0, 0), (BYTES, 0)]),
            _ => return Part::whole(slot),
        };
        Part { slot, first, len }
    }

    fn make(&mut self, slot: usize) -> Step {
        let bytes = self.pick(&[BYTES, BYTES, BYTES, BYTES / 2, 0]);
        let source = match self.below(24) {
            0..8 => Source::Pool(bytes),
            8..18 => {
                let gap = self.pick(&[0, 0, 0, 1, 4, 16, 256]);
                Source::Adopted(gap, bytes, self.below(8) == 0)
            }
            18..23 => Source::Variable(self.below(VARIABLES)),
            _ => Source::Managed,
        };
        self.sources[slot] = source;
        Step::Make(slot, source)
    }

    /// Draws a recording of two arrays, of which one begins where the other ends, and a change.
    fn adjacent(&mut self) -> [Step; 4] {
        let (first, graph) = (self.slot(), self.below(GRAPHS));
        let second = (first + 1 + self.below(ARRAYS - 1)) % ARRAYS;
        let source = Source::Adopted(0, BYTES, false);
        let makes = [first, second].map(|slot| {
            self.sources[slot] = source;
            Step::Make(slot, source)
        });
        let mut end = Part::whole(first);
        (end.first, end.len) = (BYTES, 0);
        let operands = self.pick(&[[end, Part::whole(second)], [Part::whole(second), end]]);
        let op = Op::Add(self.below(KERNELS), operands, 5);
        let record = Step::Record(graph, Order::Stream, vec![(self.below(STREAMS), op)]);
        let slots = [self.pick(&[first, second]), self.slot()];
        let [one, two] = makes;
        [one, two, record, Step::Swap(graph, slots, [true; 2])]
    }

    /// Draws an operation; in a recording, inside of `depth` conditions.
    fn op(&mut self, depth: Option<usize>) -> Op<Part> {
        let operands = [self.part(), self.part()];
        let value = self.below(250) as u8;
        match self.below(13) {
            0..3 => {
                let how = self.pick(&[How::Fill, How::FillWords, How::Upload, How::Foreign]);
                Op::Set(operands[1], how, value)
            }
            3..6 => Op::Copy(operands, self.below(2) == 0),
            6 if depth.is_some_and(|depth| depth < 2) => {
                let depth = depth.map(|depth| depth + 1);
                let body = (0..1 + self.below(3)).map(|_| self.op(depth)).collect();
                Op::If(operands[0], body)
            }
            7 if depth.is_some() => Op::Replay(self.below(GRAPHS)),
            _ => {
                let source = self.sources[operands[0].slot];
                let kernel = match (source, self.below(2)) {
                    (Source::Variable(number), 0) => 1 + 2 * number,
                    _ => self.below(KERNELS),
                };
                Op::Add(kernel, operands, value.into())
            }
        }
    }

    fn ops(&mut self) -> Vec<(usize, Op<Part>)> {
        let ops = 0..1 + self.below(4);
        ops.map(|_| (self.below(STREAMS), self.op(Some(0))))
            .collect()
    }

    fn record(&mut self, graph: usize) -> Step {
        let order = self.pick(&[Order::Stream, Order::Stream, Order::Data]);
        Step::Record(graph, order, self.ops())
    }

    /// Draws two arrays to exchange, mostly of one kind.
    fn swap(&mut self, graph: usize) -> Step {
        let slot = self.slot();
        let kind = discriminant(&self.sources[slot]);
        let mut other = self.slot();
        for _ in 0..4 {
            if other != slot && discriminant(&self.sources[other]) == kind {
                break;
            }
            other = self.slot();
        }
        Step::Swap(graph, [slot, other], [0; 2].map(|_| self.below(3) > 0))
    }

    fn step(&mut self) -> Step {
        let (slot, graph, stream) = (self.slot(), self.below(GRAPHS), self.below(STREAMS));
        let value = self.below(250) as u8;
        match self.below(40) {
            0..3 => self.make(slot),
            3 => Step::Drop(slot),
            4..10 => Step::Do(stream, self.op(None)),
            10..13 => Step::Download(stream, self.part()),
            13 => Step::Lend(slot),
            14 if self.below(8) == 0 => Step::LendForEver(slot),
            14 | 15 => Step::OwnersFill(slot, value),
            16 => Step::EndLease(slot),
            17 => Step::Return(slot, value),
            18 => Step::Capture,
            19 => Step::EndCapture,
            20..23 => self.record(graph),
            23 => Step::Update(graph, self.ops()),
            24..30 => {
                let way = self.pick(&[Way::Once, Way::Once, Way::Twice, Way::Stepwise]);
                Step::Replay(graph, stream, way)
            }
            30..36 => self.swap(graph),
            36 | 37 => Step::SetScalar(graph, self.below(KERNELS), value.into()),
            38 => Step::Instance(graph, self.below(GRAPHS)),
            _ => Step::DropGraph(graph),
        }
    }
}
