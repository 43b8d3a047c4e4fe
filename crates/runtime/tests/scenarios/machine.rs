//! Carries out the programs of `steps.rs`, beside plain vectors that do the same in the order of the calls.

use std::{
    future::Future,
    ops::Range,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use millstream::{Buffer, Device, Event, Grid, Managed, Pending, Pinned, Result, Stream, Timeline};

use crate::{
    arrays::sums,
    rig::{Gate, Rig},
    steps::{ARRAYS, LEN, Pages, STREAMS, Step},
};

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
    managed: Managed<f32>,
    managed_expected: Vec<f32>,
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
            managed: device.managed(LEN)?,
            managed_expected: vec![0.0; LEN],
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
            Step::Renew {
                stream,
                array,
                value,
                owned,
            } => {
                let expected = vec![value.unwrap_or(0.0); LEN];
                let stream = &self.streams[*stream];
                let buffer = match value {
                    Some(_) if *owned => stream.upload_owned(expected.clone())?,
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
            Step::RenewPinned(pages) => self.renew_pinned(*pages)?,
            Step::ToManaged { stream, array, to } => {
                let array = &self.arrays[*array];
                let part = array.buffer.slice(to.clone());
                self.streams[*stream].copy(part, self.managed.slice_mut(to.clone()))?;
                self.managed_expected[to.clone()].copy_from_slice(&array.expected[to.clone()]);
            }
            Step::FromManaged { stream, array, from } => {
                let array = &mut self.arrays[*array];
                let part = self.managed.slice(from.clone());
                self.streams[*stream].copy(part, array.buffer.slice_mut(from.clone()))?;
                array.expected[from.clone()].copy_from_slice(&self.managed_expected[from.clone()]);
            }
            Step::Prefetch {
                stream,
                part,
                to_host,
            } => {
                let (stream, part) = (&self.streams[*stream], self.managed.slice(part.clone()));
                if *to_host {
                    stream.prefetch_to_host(part)?;
                } else {
                    stream.prefetch(part)?;
                }
            }
            Step::RenewManaged => {
                self.managed = self.device.managed(LEN)?;
                self.managed_expected.fill(0.0);
            }
            Step::ReadPinned => assert_eq!(*self.pinned.read()?, self.pinned_expected),
            Step::ReadManaged(part) => {
                let read = self.managed.read_range_async(part.clone());
                assert_eq!(*pollster::block_on(read)?, self.managed_expected[part.clone()]);
            }
            Step::Write { managed, value } => {
                if *managed {
                    self.managed.write()?.fill(*value);
                    self.managed_expected.fill(*value);
                } else {
                    pollster::block_on(self.pinned.write_async())?.fill(*value);
                    self.pinned_expected.fill(*value);
                }
            }
        }
        Ok(())
    }

    fn renew_pinned(&mut self, pages: Pages) -> Result<()> {
        self.pinned = match pages {
            Pages::Pool => self.device.pinned(LEN)?,
            Pages::Registered => Pinned::register(self.device, vec![0.0; LEN])?,
            Pages::Same => {
                let old = std::mem::replace(&mut self.pinned, self.device.pinned(0)?);
                let elements = old.into_vec()?;
                assert_eq!(elements, self.pinned_expected);
                self.pinned = Pinned::register(self.device, elements)?;
                return Ok(());
            }
        };
        self.pinned_expected.fill(0.0);
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
        assert_eq!(*self.managed.read()?, self.managed_expected);
        if let Some(timeline) = self.timeline.take() {
            timeline.finish()?;
        }
        Ok(())
    }
}
