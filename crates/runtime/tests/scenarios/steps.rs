//! Random programs as lists of steps, and what carries them out beside plain vectors that do the same in the order of the
//! calls.

use std::{
    future::Future,
    ops::Range,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use millstream::{Buffer, Device, Event, Grid, Pending, Pinned, Result, Stream, Timeline};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::{
    arrays::sums,
    rig::{Gate, Rig},
};

/// Elements of each array: few, so that ranges meet often.
const LEN: usize = 48;
const ARRAYS: usize = 4;
const STREAMS: usize = 4;

/// One thing that a program does. Streams and arrays are named by their places.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Fill {
        stream: usize,
        array: usize,
        to: Range<usize>,
        value: f32,
    },
    Upload {
        stream: usize,
        array: usize,
        to: Range<usize>,
        value: f32,
    },
    Copy {
        stream: usize,
        source: usize,
        from: Range<usize>,
        target: usize,
        to: Range<usize>,
    },
    /// A kernel that writes the sums of two arrays, which may be one, to a third.
    Add {
        stream: usize,
        terms: [usize; 2],
        sum: usize,
    },
    Download {
        stream: usize,
        array: usize,
        from: Range<usize>,
    },
    /// Drops an array and makes another: of zeros, or with this value uploaded.
    Renew {
        stream: usize,
        array: usize,
        value: Option<f32>,
    },
    ToPinned {
        stream: usize,
        array: usize,
    },
    FromPinned {
        stream: usize,
        array: usize,
    },
    /// Drops the pinned array, perhaps in flight.
    RenewPinned,
    /// Drops a stream's handle, its work pending.
    RenewStream(usize),
    Record(usize),
    WaitForEvent(usize),
    /// Begins a timeline, or drops the one that runs.
    Timeline,
    /// Closes a gate on a stream.
    Close(usize),
    /// Opens the gate that is closed.
    Open,
    /// Two bits for each download on its way: whether to wait for it, await it, poll it once, or drop it.
    Settle(u64),
    ReadPinned,
    WritePinned(f32),
    /// Uploads and downloads in a scope.
    Scope {
        stream: usize,
        array: usize,
        to: Range<usize>,
        value: f32,
    },
    FinishTimeline,
}

/// Draws a program of so many steps, some more where a gate must be opened before the host waits.
pub(crate) fn program(seed: u64, count: usize, with_gates: bool) -> Vec<Step> {
    let mut draw = Draw(Pcg64Mcg::seed_from_u64(seed));
    let mut steps = Vec::new();
    let mut is_gated = false;
    for _ in 0..count {
        let step = draw.step(with_gates, is_gated);
        let host_waits = matches!(
            step,
            Step::Settle(_)
                | Step::ReadPinned
                | Step::WritePinned(_)
                | Step::Scope { .. }
                | Step::FinishTimeline
        );
        if host_waits && is_gated {
            steps.push(Step::Open);
            is_gated = false;
        }
        match step {
            Step::Close(_) => is_gated = true,
            Step::Open => is_gated = false,
            _ => {}
        }
        steps.push(step);
    }
    steps
}

struct Draw(Pcg64Mcg);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0.next_u32() as usize % bound
    }

    /// Small whole numbers, whose sums are exact.
    fn value(&mut self) -> f32 {
        self.below(1000) as f32
    }

    fn range(&mut self, len: usize) -> Range<usize> {
        let start = self.below(LEN - len + 1);
        start..start + len
    }

    fn step(&mut self, with_gates: bool, is_gated: bool) -> Step {
        let (stream, array, value) = (self.below(STREAMS), self.below(ARRAYS), self.value());
        let len = 1 + self.below(LEN);
        let other = (array + 1 + self.below(ARRAYS - 1)) % ARRAYS;
        let to = self.range(len);
        match self.below(if with_gates { 28 } else { 26 }) {
            0..3 => Step::Fill {
                stream,
                array,
                to,
                value,
            },
            3..5 => Step::Upload {
                stream,
                array,
                to,
                value,
            },
            5..8 => Step::Copy {
                stream,
                source: other,
                from: self.range(len),
                target: array,
                to,
            },
            8..10 => {
                let second = (array + 1 + self.below(ARRAYS - 1)) % ARRAYS;
                Step::Add {
                    stream,
                    terms: [other, second],
                    sum: array,
                }
            }
            10..14 => Step::Download {
                stream,
                array,
                from: to,
            },
            14..16 => Step::Renew {
                stream,
                array,
                value: (value > 500.0).then_some(value),
            },
            16 => Step::ToPinned { stream, array },
            17 => Step::FromPinned { stream, array },
            18 => Step::RenewPinned,
            19 => Step::RenewStream(stream),
            20 => Step::Record(stream),
            21 => Step::WaitForEvent(stream),
            22 => Step::Settle(self.0.next_u64()),
            23 if value > 500.0 => Step::ReadPinned,
            23 => Step::WritePinned(value),
            24 => Step::Scope {
                stream,
                array,
                to,
                value,
            },
            25 if value > 500.0 => Step::FinishTimeline,
            25 => Step::Timeline,
            _ if is_gated => Step::Open,
            _ => Step::Close(stream),
        }
    }
}

/// Carries out a program; every value that it sees is the one that plain vectors have.
///
/// # Errors
///
/// The first of a step, at which the program ends.
pub(crate) fn run(device: &Device, gates: Option<&Rig>, steps: &[Step]) -> Result<()> {
    let mut machine = Machine::new(device, gates)?;
    for step in steps {
        machine.step(step)?;
    }
    machine.finish()
}

/// An array on the device and what must be in it once everything called for so far is done.
struct Array {
    buffer: Buffer<f32>,
    expected: Vec<f32>,
}

/// A download on its way and what it must bring.
struct Arrival {
    pending: Pending<Vec<f32>>,
    expected: Vec<f32>,
}

struct Machine<'a> {
    device: &'a Device,
    gates: Option<&'a Rig>,
    kernels: sums::Kernels,
    streams: Vec<Stream>,
    arrays: Vec<Array>,
    pinned: Pinned<f32>,
    pinned_expected: Vec<f32>,
    arrivals: Vec<Arrival>,
    event: Option<Event>,
    timeline: Option<Timeline>,
    gate: Option<Gate>,
}

impl<'a> Machine<'a> {
    fn new(device: &'a Device, gates: Option<&'a Rig>) -> Result<Self> {
        let streams: Vec<_> = (0..STREAMS).map(|_| device.stream()).collect::<Result<_>>()?;
        let zeros = |at| {
            Ok(Array {
                buffer: Stream::zeros(&streams[at], LEN)?,
                expected: vec![0.0; LEN],
            })
        };
        Ok(Self {
            arrays: (0..ARRAYS).map(zeros).collect::<Result<_>>()?,
            device,
            gates,
            kernels: sums::load(device)?,
            streams,
            pinned: device.pinned(LEN)?,
            pinned_expected: vec![0.0; LEN],
            arrivals: Vec::new(),
            event: None,
            timeline: None,
            gate: None,
        })
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Fill {
                stream,
                array,
                to,
                value,
            } => {
                let array = &mut self.arrays[*array];
                self.streams[*stream].fill(array.buffer.slice_mut(to.clone()), *value)?;
                array.expected[to.clone()].fill(*value);
            }
            Step::Upload {
                stream,
                array,
                to,
                value,
            } => {
                let array = &mut self.arrays[*array];
                let source = vec![*value; to.len()];
                self.streams[*stream].upload_into(&source, array.buffer.slice_mut(to.clone()))?;
                array.expected[to.clone()].copy_from_slice(&source);
            }
            Step::Copy {
                stream,
                source,
                from,
                target,
                to,
            } => {
                let [source, target] = self
                    .arrays
                    .get_disjoint_mut([*source, *target])
                    .expect("two arrays");
                let part = source.buffer.slice(from.clone());
                self.streams[*stream].copy(part, target.buffer.slice_mut(to.clone()))?;
                target.expected[to.clone()].copy_from_slice(&source.expected[from.clone()]);
            }
            Step::Add { stream, terms, sum } => self.add(*stream, *terms, *sum)?,
            Step::Download { stream, array, from } => {
                let array = &self.arrays[*array];
                let pending = self.streams[*stream].download(array.buffer.slice(from.clone()))?;
                let expected = array.expected[from.clone()].to_vec();
                self.arrivals.push(Arrival { pending, expected });
            }
            Step::Renew { stream, array, value } => {
                let expected = vec![value.unwrap_or(0.0); LEN];
                let stream = &self.streams[*stream];
                let buffer = match value {
                    Some(_) => stream.upload(&expected)?,
                    None => stream.zeros(LEN)?,
                };
                self.arrays[*array] = Array { buffer, expected };
            }
            Step::RenewStream(stream) => self.streams[*stream] = self.device.stream()?,
            Step::Record(stream) => self.event = Some(self.streams[*stream].record()?),
            Step::WaitForEvent(stream) => {
                if let Some(event) = &self.event {
                    self.streams[*stream].wait_for(event)?;
                }
            }
            Step::Timeline => {
                self.timeline = match self.timeline {
                    Some(_) => None,
                    None => Some(self.device.timeline()?),
                }
            }
            Step::FinishTimeline => {
                if let Some(timeline) = self.timeline.take() {
                    timeline.finish()?;
                }
            }
            Step::Close(stream) => {
                let rig = self.gates.expect("a program with gates runs on a rig");
                self.gate = Some(rig.gate(&self.streams[*stream]));
            }
            Step::Open => drop(self.gate.take()),
            Step::Settle(draws) => self.settle(*draws)?,
            Step::Scope {
                stream,
                array,
                to,
                value,
            } => self.scope(*stream, *array, to, *value)?,
            Step::ToPinned { stream, array } => {
                let array = &self.arrays[*array];
                self.streams[*stream].copy(&array.buffer, &mut self.pinned)?;
                self.pinned_expected.clone_from(&array.expected);
            }
            Step::FromPinned { stream, array } => {
                let array = &mut self.arrays[*array];
                self.streams[*stream].copy(&self.pinned, &mut array.buffer)?;
                array.expected.clone_from(&self.pinned_expected);
            }
            Step::RenewPinned => {
                self.pinned = self.device.pinned(LEN)?;
                self.pinned_expected.fill(0.0);
            }
            Step::ReadPinned => assert_eq!(*self.pinned.read()?, self.pinned_expected),
            Step::WritePinned(value) => {
                self.pinned.write()?.fill(*value);
                self.pinned_expected.fill(*value);
            }
        }
        Ok(())
    }

    fn add(&mut self, stream: usize, [first, second]: [usize; 2], sum: usize) -> Result<()> {
        let added = |terms: (&f32, &f32)| terms.0 + terms.1;
        let terms = self.arrays[first].expected.iter();
        let expected = terms.zip(&self.arrays[second].expected).map(added).collect();
        // Taken out, so that the two others can be borrowed beside it.
        let mut target = self.arrays.remove(sum);
        let place = |at: usize| at - usize::from(at > sum);
        let (first, second) = (&self.arrays[place(first)], &self.arrays[place(second)]);
        let launched = self.kernels.vecadd(
            &self.streams[stream],
            Grid::linear(LEN),
            &first.buffer,
            &second.buffer,
            &mut target.buffer,
            LEN as u64,
        );
        if launched.is_ok() {
            target.expected = expected;
        }
        self.arrays.insert(sum, target);
        launched
    }

    fn settle(&mut self, draws: u64) -> Result<()> {
        for (at, mut arrival) in std::mem::take(&mut self.arrivals).into_iter().enumerate() {
            match draws >> (2 * at % 64) & 3 {
                0 => assert_eq!(arrival.pending.wait()?, arrival.expected),
                1 => assert_eq!(pollster::block_on(arrival.pending)?, arrival.expected),
                2 => {
                    let mut context = Context::from_waker(Waker::noop());
                    match Pin::new(&mut arrival.pending).poll(&mut context) {
                        Poll::Ready(value) => assert_eq!(value?, arrival.expected),
                        Poll::Pending => self.arrivals.push(arrival),
                    }
                }
                _ => drop(arrival),
            }
        }
        Ok(())
    }

    fn scope(&mut self, stream: usize, array: usize, to: &Range<usize>, value: f32) -> Result<()> {
        let (stream, array) = (&self.streams[stream], &mut self.arrays[array]);
        let source = vec![value; to.len()];
        let mut arrived = vec![f32::NAN; LEN];
        self.device.scope(|scope| {
            scope.upload(stream, &source, array.buffer.slice_mut(to.clone()))?;
            array.expected[to.clone()].copy_from_slice(&source);
            scope.download(stream, &array.buffer, &mut arrived)
        })?;
        assert_eq!(arrived, array.expected);
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        drop(self.gate.take());
        for arrival in std::mem::take(&mut self.arrivals) {
            assert_eq!(arrival.pending.wait()?, arrival.expected);
        }
        for (Array { buffer, expected }, stream) in self.arrays.iter().zip(&self.streams) {
            assert_eq!(stream.download(buffer)?.wait()?, *expected);
        }
        assert_eq!(*self.pinned.read()?, self.pinned_expected);
        if let Some(timeline) = self.timeline.take() {
            timeline.finish()?;
        }
        Ok(())
    }
}
