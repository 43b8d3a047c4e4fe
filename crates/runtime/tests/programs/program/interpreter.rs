//! The interpreter: executes programs on devices and logs each step's outcome. The oracle judges
//! the log.

use std::{
    any::Any,
    mem,
    sync::{Arc, mpsc},
    thread,
};

use millstream::{Buffer, Device, Event, Managed, Pinned, Result, Stream, Timeline, View, ViewMut};

use super::{
    elem::Elem,
    host::AnyPending,
    kernels::Kernels,
    outcome::{Answer, LogEntry, Stop},
    step::{
        ARRAYS, EVENTS, PENDINGS, Part, Placed, Program, STREAMS, Settle, Step, StreamOf, THREADS,
        Via,
    },
};

/// Opens the device of this index again.
pub(crate) type Reopen<'a> = dyn Fn(usize) -> Result<Device> + Sync + 'a;
/// Closes a gate on a stream; dropping the returned value opens it.
pub(crate) type CloseGate<'a> = dyn Fn(&Stream) -> Box<dyn Any + Send> + Sync + 'a;

/// The environment of a program. Without an opener or gates, the steps that need them do nothing.
#[derive(Clone, Copy, Default)]
pub(crate) struct Environment<'a> {
    pub(crate) reopen: Option<&'a Reopen<'a>>,
    pub(crate) gates: Option<&'a CloseGate<'a>>,
    /// Set if parts of the program are recorded in graphs and replayed.
    pub(crate) records: bool,
}

/// An array of bytes of any kind.
pub(super) enum Array {
    Buffer(Buffer<u8>),
    Managed(Managed<u8>),
    Pinned(Pinned<u8>),
}

impl Array {
    pub(super) fn is_pinned(&self) -> bool {
        matches!(self, Self::Pinned(_))
    }
}

/// Returns a read view of the bytes of a device array's range.
pub(super) fn part(array: &Array, part: Part, elem: Elem) -> Result<View<'_, u8>, Stop> {
    let size = elem.bytes();
    let bytes = part.first * size..(part.first + part.len) * size;
    match array {
        Array::Buffer(buffer) => Ok(buffer.try_slice(bytes)?),
        Array::Managed(managed) => Ok(managed.try_slice(bytes)?),
        Array::Pinned(_) => Err(Stop::SKIP),
    }
}

/// Returns a mutable view of the bytes of a device array's range, obtained in the range's way
/// (`via`).
pub(super) fn part_mut(array: &mut Array, part: Part, elem: Elem) -> Result<ViewMut<'_, u8>, Stop> {
    let size = elem.bytes();
    let (first, len) = (part.first * size, part.len * size);
    let whole = match array {
        Array::Buffer(buffer) => buffer.view_mut(),
        Array::Managed(managed) => managed.view_mut(),
        Array::Pinned(_) => return Err(Stop::SKIP),
    };
    if let Err(error) = whole.try_slice(first..first + len) {
        return Err(error.into());
    }
    Ok(match part.via {
        Via::Chunks if first > 0 && len > 0 && len <= first => {
            let chunk = whole
                .chunks_mut(first)
                .nth(1)
                .expect("the range lies in the second chunk");
            chunk.split_at_mut(len).0
        }
        Via::Slice => {
            let front = whole.split_at_mut(first + len).0;
            front.split_at_mut(first).1
        }
        _ => whole.split_at_mut(first).1.split_at_mut(len).0,
    })
}

/// A running program. Streams and arrays are stored with the index of their device.
pub(crate) struct Interpreter<'a> {
    pub(super) environment: Environment<'a>,
    pub(super) devices: Vec<Device>,
    kernels: Vec<Arc<Kernels>>,
    pub(super) streams: Vec<Option<(usize, Stream)>>,
    pub(super) arrays: Vec<Option<(usize, Array)>>,
    pub(super) pendings: Vec<Option<Box<dyn AnyPending>>>,
    pub(super) events: Vec<Option<Event>>,
    pub(super) timeline: Option<Timeline>,
    pub(super) gate: Option<Box<dyn Any + Send>>,
    pub(super) log: Vec<LogEntry>,
    /// The number of parts that could have been recorded.
    pub(super) segments: usize,
}

fn slots<T>(count: usize) -> Vec<Option<T>> {
    (0..count).map(|_| None).collect()
}

impl<'a> Interpreter<'a> {
    /// Creates an interpreter and loads the kernels if the program launches any.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernels do not load.
    pub(crate) fn new(
        devices: &[Device],
        environment: Environment<'a>,
        program: &Program,
    ) -> Result<Self> {
        let kernels = if program.launches() { devices } else { &[] };
        let kernels = kernels
            .iter()
            .map(|device| Kernels::load(device).map(Arc::new));
        Ok(Self {
            environment,
            kernels: kernels.collect::<Result<_>>()?,
            devices: devices.to_vec(),
            streams: slots(STREAMS),
            arrays: slots(ARRAYS),
            pendings: slots(PENDINGS),
            events: slots(EVENTS),
            timeline: None,
            gate: None,
            log: Vec::new(),
            segments: 0,
        })
    }

    /// Splits off an interpreter with the same streams and with the arrays and pending values of
    /// every second slot.
    pub(super) fn part(&mut self, odd: usize) -> Self {
        fn every_second<T>(all: &mut [Option<T>], odd: usize) -> Vec<Option<T>> {
            let take = |(at, slot): (usize, &mut Option<T>)| {
                if at % 2 == odd { slot.take() } else { None }
            };
            all.iter_mut().enumerate().map(take).collect()
        }
        Self {
            environment: Environment::default(),
            devices: self.devices.clone(),
            kernels: self.kernels.clone(),
            streams: self.streams.clone(),
            arrays: every_second(&mut self.arrays, odd),
            pendings: every_second(&mut self.pendings, odd),
            events: slots(EVENTS),
            timeline: None,
            gate: None,
            log: Vec::new(),
            segments: 0,
        }
    }

    /// Moves the arrays, pending values and log of a split-off interpreter back.
    pub(super) fn join(&mut self, part: Self) {
        fn give<T>(all: &mut [Option<T>], back: Vec<Option<T>>) {
            for (slot, back) in all.iter_mut().zip(back) {
                if back.is_some() {
                    *slot = back;
                }
            }
        }
        give(&mut self.arrays, part.arrays);
        give(&mut self.pendings, part.pendings);
        self.log.extend(part.log);
    }

    /// Executes all steps, each on its thread.
    pub(crate) fn run(self, steps: &[Placed]) -> Self {
        thread::scope(|scope| {
            let mut hands: [Option<_>; THREADS] = [const { None }; THREADS];
            let (back, returned) = mpsc::channel::<Self>();
            let mut interpreter = self;
            for run in steps.chunk_by(|one, next| one.thread == next.thread) {
                if run[0].thread == 0 {
                    interpreter.steps_with_graphs(run);
                    continue;
                }
                let hand = hands[run[0].thread].get_or_insert_with(|| {
                    let (give, given) = mpsc::channel::<(Self, &[Placed])>();
                    let back = back.clone();
                    scope.spawn(move || {
                        for (mut interpreter, run) in given {
                            interpreter.steps_with_graphs(run);
                            back.send(interpreter)
                                .expect("the first thread receives the interpreter");
                        }
                    });
                    give
                });
                hand.send((interpreter, run))
                    .expect("the thread receives steps");
                interpreter = returned.recv().expect("a thread has panicked");
            }
            interpreter
        })
    }

    /// Executes one step and logs its outcome. A step that may block opens a closed gate first.
    pub(super) fn enter(&mut self, step: &Step) {
        if step.may_wait() {
            self.gate = None;
        }
        let answer = self.step(step);
        self.log.push(answer.into());
    }

    /// Waits for every pending value, reads every array, drops everything, and returns the log. The
    /// last entries are those of the pending values and of the arrays, in the order of their slots.
    pub(crate) fn finish(mut self) -> Vec<LogEntry> {
        self.gate = None;
        for pending in 0..PENDINGS {
            let how = Settle::Wait;
            self.enter(&Step::Settle { pending, how });
        }
        for at in 0..ARRAYS {
            let answer = self.whole(at);
            self.log.push(answer.into());
        }
        self.log
    }

    fn whole(&self, at: usize) -> Answer {
        let (device, array) = self.arrays[at].as_ref().ok_or(Stop::SKIP)?;
        Ok(Some(match array {
            Array::Buffer(buffer) => self.devices[*device].stream()?.download(buffer)?.wait()?,
            Array::Managed(managed) => managed.read()?.to_vec(),
            Array::Pinned(pinned) => pinned.read()?.to_vec(),
        }))
    }

    /// Returns a stream and its device's index.
    pub(super) fn stream(&self, at: usize) -> Result<(usize, Stream), Stop> {
        self.streams[at].clone().ok_or(Stop::SKIP)
    }

    pub(super) fn kernels(&self, device: usize) -> Arc<Kernels> {
        Arc::clone(&self.kernels[device])
    }

    pub(super) fn array(&self, at: usize) -> Result<&Array, Stop> {
        self.arrays[at]
            .as_ref()
            .map(|(_, array)| array)
            .ok_or(Stop::SKIP)
    }

    /// Runs a closure with an array taken out of its slot, so that the closure can also borrow the
    /// others.
    pub(super) fn with(
        &mut self,
        at: usize,
        work: impl FnOnce(&mut Self, &mut Array) -> Answer,
    ) -> Answer {
        let (device, mut array) = self.arrays[at].take().ok_or(Stop::SKIP)?;
        let answer = work(self, &mut array);
        self.arrays[at] = Some((device, array));
        answer
    }

    fn step(&mut self, step: &Step) -> Answer {
        match *step {
            Step::Stream { stream, device, of } => {
                let from = &self.devices[device];
                let made = match of {
                    StreamOf::New => from.stream()?,
                    StreamOf::Priority => from.stream_with_priority(-1)?,
                    StreamOf::Thread => from.thread_stream()?,
                };
                self.streams[stream] = Some((device, made));
            }
            Step::DropStream(stream) => drop(self.streams[stream].take().ok_or(Stop::SKIP)?),
            Step::Make { at, on, len, made } => return self.make(at, on, len, made),
            Step::MakePinned {
                array,
                device,
                len,
                pages,
            } => return self.make_pinned(array, device, len, pages),
            Step::MakeManaged { array, device, len } => {
                let made = self.devices[device].managed(len)?;
                self.arrays[array] = Some((device, Array::Managed(made)));
            }
            Step::Drop(array) => drop(self.arrays[array].take().ok_or(Stop::SKIP)?),
            Step::Forget(array) => mem::forget(self.arrays[array].take().ok_or(Stop::SKIP)?),
            Step::IntoVec(array) => return self.take_vec(array),
            Step::Fill { on, to, value } => return self.fill(on, to, value),
            Step::UploadInto { on, to, value } => return self.upload_into(on, to, value),
            Step::OwnedInto { on, to, from, back } => return self.owned_into(on, to, from, back),
            Step::Copy { on, from, to } => return self.copy(on, from, to),
            Step::CopyWithin { on, from, start } => return self.copy_within(on, from, start),
            Step::FillRows { on, to, value } => return self.fill_rows(on, to, value),
            Step::UploadRows { on, to, gap, value } => return self.upload_rows(on, to, gap, value),
            Step::CopyRows { on, from, to } => return self.copy_rows(on, from, to),
            Step::DownloadRows { on, from, pending } => {
                return self.download_rows(on, from, pending);
            }
            Step::Download { on, from, pending } => return self.download(on, from, pending),
            Step::Add { by, terms, sum } => return self.add(by, terms, sum),
            Step::Saxpy { by, factor, x, y } => return self.saxpy(by, f32::from(factor), [x, y]),
            Step::Luminance { by, pixels, luma } => return self.luminance(by, pixels, luma),
            Step::Unordered {
                stream,
                array,
                value,
            } => return self.unordered(stream, array, value),
            Step::Halves {
                array,
                middle,
                streams,
                value,
            } => return self.halves(array, middle, streams, value),
            Step::Settle { pending, how } => return self.settle(pending, how),
            Step::ReadGuard { part, how, copy } => return self.host_read(part, how, copy),
            Step::WriteGuard { part, how, value } => return self.host_write(part, how, value),
            Step::Prefetch {
                stream,
                part,
                to_host,
            } => return self.prefetch(stream, part, to_host),
            Step::Advise { array, advice } => return self.advise(array, advice),
            Step::Record { stream, event } => {
                let (_, stream) = self.stream(stream)?;
                self.events[event] = Some(stream.record()?);
            }
            Step::WaitFor { stream, event } => {
                let (_, stream) = self.stream(stream)?;
                stream.wait_for(self.events[event].as_ref().ok_or(Stop::SKIP)?)?;
            }
            Step::Look { event, how } => return self.look(event, how),
            Step::Synchronize(stream) => self.stream(stream)?.1.synchronize()?,
            Step::IsIdle(stream) => drop(self.stream(stream)?.1.is_idle()?),
            Step::Scope {
                device,
                ref copies,
                end,
            } => return self.scope(device, copies, end),
            Step::Timeline(timeline) => return self.timeline(timeline),
            Step::OpenAgain(device) => {
                if let Some(reopen) = self.environment.reopen {
                    self.devices[device] = reopen(device)?;
                }
            }
            Step::Trim(device) => self.devices[device].trim()?,
            Step::Limit { device, bytes } => self.devices[device].set_memory_limit(bytes),
            Step::StagingLimit { device, bytes } => self.devices[device].set_staging_limit(bytes),
            Step::CacheLimit { device, bytes } => self.devices[device].set_cache_limit(bytes),
            Step::Close(stream) => {
                let (_, stream) = self.stream(stream)?;
                self.gate = None;
                self.gate = self.environment.gates.map(|close| close(&stream));
            }
            Step::Open => self.gate = None,
            Step::Apart(ref lists) => return self.apart(lists),
        }
        Ok(None)
    }
}
