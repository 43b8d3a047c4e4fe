//! Graph programs on a device.

#![allow(unsafe_code, reason = "launches kernels, and adopts memory")]

use std::{mem, sync::Arc};

use millstream::{
    Buffer, Device, Error, Global, Graph, GraphRecorder, Managed, Module, Pending, Ptx,
    ReadOperand, Release, Result, Stream, View, ViewMut,
    driver::FillPattern,
    graph::GraphOptions,
    interop::{After, ForeignCall, OwnedLease, write},
    sim::Gpu,
};
use millstream_testkit::outsiders::{Outsider, Tensor};

use super::{
    kernels::{Add, name, ptx},
    step::{
        ARRAYS, BYTES, GRAPHS, How, KERNELS, Op, Part, SLAB_BYTES, STREAMS, Source, Step, THEIRS,
        Way,
    },
};

enum Array {
    Buffer(Buffer<u8>),
    Global(Global<u8>),
    Managed(Box<Managed<u8>>),
    Lent(OwnedLease<u8>),
}

impl Array {
    /// Returns a part, in bytes that are a multiple of `unit`; `None` while the array is lent.
    fn part(&self, part: Part, unit: usize) -> Option<View<'_, u8>> {
        let range = |bytes| {
            let (first, len) = part.within(bytes, unit);
            first..first + len
        };
        Some(match self {
            Self::Buffer(buffer) => buffer.slice(range(buffer.len())),
            Self::Global(global) => global.slice(range(global.len())),
            Self::Managed(managed) => managed.slice(range(managed.len())),
            Self::Lent(_) => return None,
        })
    }

    fn part_mut(&mut self, part: Part, unit: usize) -> Option<ViewMut<'_, u8>> {
        let view = match self {
            Self::Buffer(buffer) => buffer.view_mut(),
            Self::Global(global) => global.view_mut(),
            Self::Managed(managed) => managed.view_mut(),
            Self::Lent(_) => return None,
        };
        let (first, len) = part.within(view.len(), unit);
        Some(view.split_at_mut(first).1.split_at_mut(len).0)
    }
}

/// Exchanges two arrays, each passed as `&mut` or as `&`.
fn swap(graph: &mut Graph, [old, new]: [&mut Array; 2], exclusive: [bool; 2]) -> Result<()> {
    fn with<O: ReadOperand<u8>>(
        graph: &mut Graph,
        old: Option<O>,
        new: &mut Array,
        is_exclusive: bool,
    ) -> Result<()> {
        let (Some(old), whole) = (old, Part::whole(0)) else {
            return Ok(());
        };
        if is_exclusive {
            let new = new.part_mut(whole, 1);
            return new.map_or(Ok(()), |new| graph.swap(old, new));
        }
        let new = new.part(whole, 1);
        new.map_or(Ok(()), |new| graph.swap(old, new))
    }
    let whole = Part::whole(0);
    if exclusive[0] {
        return with(graph, old.part_mut(whole, 1), new, exclusive[1]);
    }
    with(graph, old.part(whole, 1), new, exclusive[1])
}

pub(super) struct Running {
    // In the order of the drops.
    graphs: [Option<Graph>; GRAPHS],
    arrays: [Option<Array>; ARRAYS],
    /// The values that were downloaded.
    pub(super) downloads: Vec<Option<Pending<Vec<u8>>>>,
    streams: [Stream; STREAMS],
    kernels: Vec<Add>,
    module: Module,
    owner: Arc<Outsider>,
    /// The owner's allocation.
    slab: Arc<Tensor>,
    /// The number of its bytes that are in use.
    used: usize,
    is_capturing: bool,
    device: Device,
}

impl Running {
    pub(super) fn new(gpu: &Gpu, device: &Device) -> Result<Self> {
        let owner = Outsider::new(Some(gpu), 0);
        let theirs = owner.adopt(device);
        let module = device.module(Ptx::text("graphs.ptx", ptx()))?;
        let kernels = (0..KERNELS).map(|kernel| module.function(&name(kernel)));
        let ours = || device.stream();
        Ok(Self {
            graphs: [const { None }; GRAPHS],
            arrays: [const { None }; ARRAYS],
            downloads: Vec::new(),
            streams: [ours()?, ours()?, ours()?, theirs],
            kernels: kernels.collect::<Result<_>>()?,
            module,
            slab: Arc::new(owner.allocate(SLAB_BYTES)),
            owner,
            used: 0,
            is_capturing: false,
            device: device.clone(),
        })
    }

    fn make(&mut self, source: Source) -> Result<Option<Array>> {
        let stream = &self.streams[0];
        Ok(Some(match source {
            Source::Pool(bytes) => Array::Buffer(stream.upload(&vec![1; bytes])?),
            Source::Variable(number) => Array::Global(self.module.global(&format!("v{number}"))?),
            Source::Managed => Array::Managed(Box::new(self.device.managed(BYTES)?)),
            Source::Adopted(gap, bytes, is_scoped) => {
                let first = self.used + gap;
                if self.is_capturing || first + bytes > SLAB_BYTES {
                    return Ok(None);
                }
                self.used = first + bytes;
                let pointer = self.slab.pointer.offset(first as u64);
                self.owner.fill(pointer, bytes, 2);
                let keeper = match is_scoped {
                    true => Release::at_end_of_scope(),
                    false => Release::when_done(Arc::clone(&self.slab)),
                };
                let after = After::Stream(&self.streams[THEIRS]);
                // SAFETY: no other array has these bytes, which live until all work is complete.
                let adopted = unsafe { self.device.adopt_buffer(pointer, bytes, after, keeper) };
                Array::Buffer(adopted?)
            }
        }))
    }

    /// Enqueues or records an operation.
    fn op(
        &mut self,
        stream: &Stream,
        op: &Op<Part>,
        recorder: Option<&GraphRecorder>,
    ) -> Result<()> {
        if let Op::Replay(graph) = op {
            let graph = self.graphs[*graph].as_ref();
            return graph.map_or(Ok(()), |graph| graph.replay(stream));
        }
        let [.., last] = op.operands() else {
            return Ok(());
        };
        // Taken out, so that others can be borrowed.
        let Some(mut array) = self.arrays[last.slot].take() else {
            return Ok(());
        };
        let done = match op {
            Op::If(..) => self.condition(&array, op, recorder),
            op => self.write(stream, op, &mut array).unwrap_or(Ok(())),
        };
        self.arrays[last.slot] = Some(array);
        done
    }

    /// Enqueues or records an operation that writes an array; `None` if an operand is missing.
    fn write(&self, stream: &Stream, op: &Op<Part>, array: &mut Array) -> Option<Result<()>> {
        let from = |part: Part| self.arrays[part.slot].as_ref()?.part(part, op.unit());
        let mut target = array.part_mut(*op.operands().last()?, op.unit())?;
        let bytes = target.len();
        Some(match *op {
            Op::Set(_, How::Fill, value) => stream.fill(target, value),
            Op::Set(_, How::FillWords, value) => {
                let target = target.cast::<u32>().map_err(Error::from);
                target.and_then(|target| stream.fill(target, u32::from_ne_bytes([value; 4])))
            }
            Op::Set(_, How::Upload, value) => stream.upload_into(&vec![value; bytes], target),
            Op::Set(_, How::Foreign, _) if bytes == 0 => Ok(()),
            Op::Set(_, How::Foreign, value) => {
                let call = |call: ForeignCall<'_>| {
                    let (context, stream) = (call.context(), call.stream());
                    let (target, pattern) = (call.address(0), FillPattern::U8(value));
                    let driver = call.driver();
                    // SAFETY: the operand has this length.
                    unsafe { driver.memset_async(context, target, pattern, bytes, stream) }
                };
                // SAFETY: the call fills its operand and nothing else.
                unsafe { stream.foreign("foreign", [write(target)], call) }
            }
            Op::Copy([source, _], is_indirect) => {
                let source = from(source)?;
                let len = source.len().min(bytes);
                let (source, target) = (source.slice(..len), target.slice_mut(..len));
                if !is_indirect {
                    return Some(stream.copy(source, target));
                }
                stream.zeros::<u8>(len).and_then(|mut between| {
                    stream.copy(source, &mut between)?;
                    stream.copy(&between, target)
                })
            }
            Op::Add(kernel, [source, _], k) => {
                let (source, kernel) = (from(source)?, &self.kernels[kernel]);
                let n = (source.len().min(bytes) / 4) as u32;
                source.cast().and_then(|source| {
                    let operands = (source, target.cast::<u32>()?, n, k);
                    // SAFETY: one thread accesses `n` elements of each array and of the variable.
                    unsafe { kernel.launch(stream, (1, 1), operands) }
                })
            }
            Op::If(..) | Op::Replay(_) => return None,
        })
    }

    fn condition(
        &mut self,
        flag: &Array,
        op: &Op<Part>,
        recorder: Option<&GraphRecorder>,
    ) -> Result<()> {
        let (Op::If(part, body), Some(recorder)) = (op, recorder) else {
            return Ok(());
        };
        let flag = flag.part(*part, op.unit()).filter(|flag| !flag.is_empty());
        let Some(flag) = flag.map(|flag| flag.cast::<u32>()).transpose()? else {
            return Ok(());
        };
        recorder.if_(flag, |inner| {
            let stream = inner.stream()?;
            let mut body = body.iter();
            body.try_for_each(|op| self.op(&stream, op, Some(inner)))
        })
    }

    fn record(&mut self, recorder: &GraphRecorder, ops: &[(usize, Op<Part>)]) -> Result<()> {
        let streams = (0..STREAMS).map(|_| recorder.stream());
        let streams = streams.collect::<Result<Vec<_>>>()?;
        let mut ops = ops.iter();
        ops.try_for_each(|(number, op)| self.op(&streams[*number], op, Some(recorder)))
    }

    /// Passes the array in a slot to `change`, which returns the array to put there.
    fn replace(
        &mut self,
        slot: usize,
        change: impl FnOnce(&mut Self, Array) -> (Option<Array>, Result<()>),
    ) -> Result<()> {
        let Some(array) = self.arrays[slot].take() else {
            return Ok(());
        };
        let (array, result) = change(self, array);
        self.arrays[slot] = array;
        result
    }

    /// Waits until all work is complete.
    pub(super) fn finish(&self) -> Result<()> {
        self.streams.iter().try_for_each(Stream::synchronize)
    }

    pub(super) fn step(&mut self, step: &Step) -> Result<()> {
        match *step {
            Step::Make(slot, source) => {
                if let Some(made) = self.make(source)? {
                    self.arrays[slot] = Some(made);
                }
            }
            Step::Drop(slot) => self.arrays[slot] = None,
            Step::Do(stream, ref op) => self.op(&self.streams[stream].clone(), op, None)?,
            Step::Download(stream, part) => {
                let array = self.arrays[part.slot].as_ref();
                let view = array.and_then(|array| array.part(part, 1));
                let download = |view| self.streams[stream].download(view);
                self.downloads.push(view.map(download).transpose()?);
            }
            Step::Lend(slot) => {
                return self.replace(slot, |running, array| match array {
                    Array::Buffer(buffer) => match buffer.into_lease(&running.streams[THEIRS]) {
                        Ok(lease) => (Some(Array::Lent(lease)), Ok(())),
                        Err(rejected) => {
                            (Some(Array::Buffer(rejected.source)), Err(rejected.error))
                        }
                    },
                    array => (Some(array), Ok(())),
                });
            }
            Step::LendForEver(slot) => {
                if let Some(Array::Buffer(buffer)) = &self.arrays[slot] {
                    mem::forget(buffer.lend(&self.streams[THEIRS])?);
                }
            }
            Step::OwnersFill(slot, value) => {
                if let Some(Array::Lent(lease)) = &self.arrays[slot]
                    && !self.is_capturing
                {
                    self.owner.fill(lease.as_raw(), lease.len(), value);
                }
            }
            Step::EndLease(slot) => {
                return self.replace(slot, |_, array| match array {
                    Array::Lent(lease) => (Some(Array::Buffer(lease.end())), Ok(())),
                    array => (Some(array), Ok(())),
                });
            }
            Step::Return(slot, value) => {
                return self.replace(slot, |running, array| {
                    let buffer = match array {
                        Array::Buffer(buffer) if !running.is_capturing => buffer,
                        array => return (Some(array), Ok(())),
                    };
                    let (pointer, bytes) = (buffer.as_raw(), buffer.len());
                    match buffer.return_to_owner(&running.streams[THEIRS]) {
                        Ok(_) => {
                            running.owner.fill(pointer, bytes, value);
                            (None, Ok(()))
                        }
                        Err(rejected) => {
                            (Some(Array::Buffer(rejected.source)), Err(rejected.error))
                        }
                    }
                });
            }
            Step::Capture if !mem::replace(&mut self.is_capturing, true) => {
                self.owner.begin_capture();
            }
            Step::EndCapture if mem::take(&mut self.is_capturing) => {
                self.owner.end_capture(true);
            }
            Step::Capture | Step::EndCapture => {}
            Step::Record(graph, order, ref ops) => {
                let options = GraphOptions::new().order(order);
                let device = self.device.clone();
                let made = device.record_with("graph", options, |r| self.record(r, ops))?;
                self.graphs[graph] = Some(made);
            }
            Step::Update(at, ref ops) => {
                if let Some(mut graph) = self.graphs[at].take() {
                    let updated = graph.update(|r| self.record(r, ops));
                    self.graphs[at] = Some(graph);
                    return updated;
                }
            }
            Step::Replay(graph, stream, way) => {
                let stream = &self.streams[stream];
                match (&self.graphs[graph], way) {
                    (None, _) => {}
                    (Some(graph), Way::Once) => graph.replay(stream)?,
                    (Some(graph), Way::Twice) => graph.replay_times(stream, 2)?,
                    (Some(graph), Way::Stepwise) => graph.replay_stepwise(stream)?,
                }
            }
            Step::Swap(graph, slots, exclusive) => {
                let mut arrays = slots.map(|slot| self.arrays[slot].take());
                let swapped = match (&mut self.graphs[graph], &mut arrays) {
                    (Some(graph), [Some(old), Some(new)]) => swap(graph, [old, new], exclusive),
                    _ => Ok(()),
                };
                for (slot, array) in slots.into_iter().zip(arrays) {
                    self.arrays[slot] = array.or(self.arrays[slot].take());
                }
                return swapped;
            }
            Step::SetScalar(graph, kernel, value) => {
                if let Some(graph) = &mut self.graphs[graph] {
                    // SAFETY: the parameter is a number that the kernel adds.
                    unsafe { graph.node(&name(kernel))?.set_scalar(3, value) }?;
                }
            }
            Step::Instance(graph, to) => {
                if let Some(graph) = &self.graphs[graph] {
                    self.graphs[to] = Some(graph.instance()?);
                }
            }
            Step::DropGraph(graph) => self.graphs[graph] = None,
        }
        Ok(())
    }
}
