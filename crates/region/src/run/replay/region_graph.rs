//! The graph of one plan: its recording, and replays with other arrays and constants.

#![allow(unsafe_code, reason = "replays generated kernels")]

use std::sync::Arc;

use millstream::{Buffer, Device, GraphRecorder, Stream, UnboundGraph, kernel::Argument};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::{
    checks::IndexChecks,
    counters::Counters,
    error::Result,
    expr::{LoggedLaunch, LoggedParameter, NodeRef, Op, Session, Storage},
    plan::PlannedGraph,
    run::{
        launch::allocate,
        plans::Plan,
        replay::Results,
        steps::{Interruption, materialise},
    },
    streams::Streams,
};

pub(crate) struct RegionGraph {
    unbound: UnboundGraph,
    results: SmallVec<[ResultMemory; 4]>,
    /// The scalar parameters that each replay sets.
    scalars: Vec<LoggedParameter>,
    uses_flag: bool,
    uses_counters: bool,
    /// The identifiers of the nodes that the last replay has stored.
    last_results: SmallVec<[u64; 4]>,
}

enum ResultMemory {
    Own,
    /// That of an earlier result.
    OfResult(usize),
    OfInput(usize),
}

/// Enqueues the kernels of a plan for a graph on recording streams. Returns the session.
fn record(
    device: &Device,
    plan: &Plan,
    graph: PlannedGraph,
    recorder: &GraphRecorder,
) -> Result<Session, Interruption> {
    let eager = device.stream()?;
    let streams = Streams::recording(&eager, || recorder.stream())?;
    let mut checks = IndexChecks::default();
    // Made here, so that it is an argument of the graph and not memory of it.
    checks.flag(&eager)?;
    let session = Session::logging(device.clone(), streams, checks);
    materialise(&session, plan, graph)?;
    Ok(session)
}

impl RegionGraph {
    /// Makes the graph of a plan. Returns `None` if there cannot be one.
    pub(crate) fn make(
        device: &Device,
        plan: &Plan,
        graph: &PlannedGraph,
        results: &Results,
    ) -> Option<Box<Self>> {
        let inputs: Option<Vec<Arc<Storage>>> =
            graph.inputs.iter().map(|node| node.storage()).collect();
        let inputs = inputs?;
        let is_same = |(number, storage): (usize, &Arc<Storage>)| {
            let mut others = inputs[..number].iter();
            others.any(|other| Arc::ptr_eq(other, storage))
        };
        // In the recording, equal inputs could not be told apart.
        let all = graph.nodes.iter().map(|fused| &fused.node);
        if all.chain(&graph.inputs).any(|node| node.elements == 0)
            || inputs.iter().enumerate().any(is_same)
        {
            return None;
        }
        let copy = graph.copied();
        let copied = |&number: &u32| NodeRef::clone(copy.node(number));
        let copied: Vec<NodeRef> = results.iter().map(copied).collect();
        let (mut copy, mut session) = (Some(copy), None);
        let recorded = device.record_kernels(|r| {
            let copy = copy.take();
            session = copy.and_then(|copy| record(device, plan, copy, r).ok());
            Ok(())
        });
        let (session, recorded) = (session?, recorded.ok()?);
        let stored: Option<Vec<Arc<Storage>>> = copied.iter().map(|node| node.storage()).collect();
        let stored = stored?;
        let memory = |(number, storage): (usize, &Arc<Storage>)| {
            let position = |others: &[Arc<Storage>]| {
                let mut others = others.iter();
                others.position(|other| Arc::ptr_eq(other, storage))
            };
            match (position(&inputs), position(&stored[..number])) {
                (Some(input), _) => ResultMemory::OfInput(input),
                (None, Some(result)) => ResultMemory::OfResult(result),
                (None, None) => ResultMemory::Own,
            }
        };
        let results: SmallVec<[ResultMemory; 4]> = stored.iter().enumerate().map(memory).collect();
        let launches = std::mem::take(&mut *session.log.as_ref()?.lock());
        let named = Named::of(&launches, recorded.names())?;
        let flag = session.checks().existing_flag()?;
        let stream = session.streams().first(device).ok()?;
        let counters = session.streams().counters(&stream).ok()?;
        let (flag, counters) = (flag.lock(), counters.lock());
        let own = stored.iter().zip(&results);
        let own = own.filter(|(_, memory)| matches!(memory, ResultMemory::Own));
        let storages = inputs.iter().chain(own.map(|(storage, _)| storage));
        let buffers = storages.map(|storage| &storage.buffer);
        let mut arrays: Vec<Argument<'_>> = buffers.map(Argument::read::<u8, _>).collect();
        if named.uses_flag {
            arrays.push(Argument::read::<u64, _>(&*flag));
        }
        if named.uses_counters {
            arrays.push(Argument::read::<u32, _>(counters.array()));
        }
        let unbound = recorded.unbind("region", &arrays, &named.places);
        let unbound = unbound.ok().flatten()?;
        Some(Box::new(Self {
            unbound,
            results,
            scalars: named.scalars,
            uses_flag: named.uses_flag,
            uses_counters: named.uses_counters,
            last_results: SmallVec::new(),
        }))
    }

    /// Returns whether the last replay is not known to be complete.
    pub(crate) fn is_running(&self, device: &Device) -> bool {
        self.unbound.is_running(device)
    }

    /// Returns whether the graph reads results of the last replay, and so runs behind it anyway.
    pub(crate) fn leads_to(&self, graph: &PlannedGraph) -> bool {
        let mut inputs = graph.inputs.iter();
        inputs.any(|input| self.last_results.contains(&input.id))
    }

    /// Enqueues all kernels for a graph of the plan, as one launch, and stores the results. The
    /// inputs of the graph have this memory.
    ///
    /// # Errors
    ///
    /// As [`launch`](Self::launch). No node is stored then.
    pub(crate) fn replay(
        &mut self,
        session: &Session,
        graph: &PlannedGraph,
        results: &Results,
        inputs: &[Arc<Storage>],
    ) -> Result<()> {
        let nodes = || results.iter().map(|&number| graph.node(number));
        let operands: SmallVec<[u64; 8]> = graph.inputs.iter().map(|node| node.id).collect();
        let ids = nodes().map(|node| node.id);
        let acquire = || session.stream_behind(inputs);
        let stream = session.streams().choose(ids, &operands, acquire)?;
        let scalars = self.scalars(session, graph);
        self.set_scalars(&scalars);
        let sizes = nodes().map(|node| node.bytes());
        let inputs: SmallVec<[&Arc<Storage>; 8]> = inputs.iter().collect();
        let stored = self.launch(session, &stream, &inputs, sizes)?;
        self.last_results = nodes().map(|node| node.id).collect();
        for (node, storage) in nodes().zip(stored) {
            node.store(storage);
        }
        Ok(())
    }

    pub(crate) fn scalars(&self, session: &Session, graph: &PlannedGraph) -> SmallVec<[u64; 16]> {
        let word = |scalar: &LoggedParameter| match *scalar {
            LoggedParameter::Constant(node) => match *graph.nodes[node as usize].op {
                Op::Constant(value) => value.bits(),
                _ => unreachable!("graphs of one plan have constants at the same numbers"),
            },
            LoggedParameter::CheckCode { node, axis, length } => {
                let location = graph.node(node).location;
                session.checks().code(location, axis, length)
            }
            LoggedParameter::Flag | LoggedParameter::Counters => {
                unreachable!("an array is not a scalar")
            }
        };
        self.scalars.iter().map(word).collect()
    }

    /// Enqueues all kernels as one launch, with inputs in this memory. Returns the memory of the
    /// results, which have these sizes in bytes.
    ///
    /// # Errors
    ///
    /// If there is not enough memory, the driver cannot change or launch the graph, or the device
    /// is lost. After an error of the driver the graph must not be used again.
    pub(crate) fn launch(
        &mut self,
        session: &Session,
        stream: &Stream,
        inputs: &[&Arc<Storage>],
        sizes: impl Iterator<Item = usize>,
    ) -> Result<SmallVec<[Arc<Storage>; 4]>> {
        let mut buffers: SmallVec<[Option<Buffer<u8>>; 4]> = SmallVec::new();
        for (bytes, memory) in sizes.zip(&self.results) {
            buffers.push(match memory {
                ResultMemory::Own => Some(allocate(stream, bytes)?),
                ResultMemory::OfResult(_) | ResultMemory::OfInput(_) => None,
            });
        }
        // Dropped behind the replay, it is freed in stream order.
        let mut temporaries = self.temporaries(stream)?;
        let words = self.words(session, stream)?;
        let own = buffers.iter_mut().flatten();
        self.enqueue(stream, inputs, own, &words, temporaries.as_mut())?;
        let checks = session.deferred_checks(inputs.iter().map(|storage| &***storage))?;
        let mut stored: SmallVec<[Arc<Storage>; 4]> = SmallVec::new();
        for (buffer, memory) in buffers.into_iter().zip(&self.results) {
            stored.push(match (buffer, memory) {
                (Some(buffer), _) => Arc::new(Storage {
                    buffer,
                    checks: checks.clone(),
                }),
                (None, &ResultMemory::OfInput(input)) => Arc::clone(inputs[input]),
                (None, &ResultMemory::OfResult(result)) => Arc::clone(&stored[result]),
                (None, ResultMemory::Own) => unreachable!("it was just allocated"),
            });
        }
        Ok(stored)
    }

    pub(crate) fn has_own_results(&self) -> bool {
        let mut results = self.results.iter();
        results.all(|memory| matches!(memory, ResultMemory::Own))
    }

    /// Allocates the memory of the temporaries, if there are any.
    pub(crate) fn temporaries(&self, stream: &Stream) -> Result<Option<Buffer<u8>>> {
        match self.unbound.temporary_bytes() {
            0 => Ok(None),
            bytes => allocate(stream, bytes as usize).map(Some),
        }
    }

    /// Returns the words of the session that the kernels of one launch use.
    pub(crate) fn words(&self, session: &Session, stream: &Stream) -> Result<SessionWords> {
        let flag = match self.uses_flag {
            true => Some(session.checks().flag(stream)?),
            false => None,
        };
        let counters = match self.uses_counters {
            true => Some(session.streams().counters(stream)?),
            false => None,
        };
        Ok(SessionWords { flag, counters })
    }

    /// Sets the scalar parameters of later launches.
    pub(crate) fn set_scalars(&mut self, scalars: &[u64]) {
        self.unbound.set_scalars(scalars);
    }

    /// Enqueues all kernels as one launch, with inputs in this memory. They write the results that
    /// have memory of their own to `own`, in order.
    ///
    /// # Errors
    ///
    /// If the driver cannot change or launch the graph, or the device is lost. The graph must not
    /// be used again.
    pub(crate) fn enqueue<'a>(
        &mut self,
        stream: &Stream,
        inputs: &[&Arc<Storage>],
        own: impl Iterator<Item = &'a mut Buffer<u8>>,
        words: &SessionWords,
        temporaries: Option<&mut Buffer<u8>>,
    ) -> Result<()> {
        // Unlocked behind the launch, because reading the flag locks it.
        let mut flag = words.flag.as_ref().map(|flag| flag.lock());
        let mut counters = words.counters.as_ref().map(|counters| counters.lock());
        let mut replay = self.unbound.bind();
        for storage in inputs {
            replay.read(&storage.buffer);
        }
        for result in own {
            replay.write(result);
        }
        if let Some(flag) = &mut flag {
            replay.write(flag);
        }
        if let Some(counters) = &mut counters {
            replay.write(counters.begin_launch());
        }
        if let Some(temporaries) = temporaries {
            replay.write(temporaries);
        }
        // SAFETY: arrays and scalars are those of the recording, in the same order: a plan
        // determines the sizes of its arrays, and the kernels access nothing beyond these whatever
        // the constants are. The session's streams are ordinary streams of the device that keeps
        // this graph.
        unsafe { replay.submit(stream) }?;
        drop(replay);
        if let Some(counters) = &mut counters {
            counters.end_launch();
        }
        Ok(())
    }
}

pub(crate) struct SessionWords {
    flag: Option<Arc<Mutex<Buffer<u64>>>>,
    counters: Option<Arc<Mutex<Counters>>>,
}

/// The logged launches in terms of recorded kernels.
#[derive(Default)]
struct Named {
    /// The number of the kernel and of the parameter of each scalar.
    places: Vec<(usize, usize)>,
    scalars: Vec<LoggedParameter>,
    uses_flag: bool,
    uses_counters: bool,
}

impl Named {
    /// Finds the launches among the recorded kernels of these names; the others are not generated.
    fn of(
        launches: &[LoggedLaunch],
        mut names: impl Iterator<Item = &'static str>,
    ) -> Option<Self> {
        let mut named = Self::default();
        let mut next = 0;
        for LoggedLaunch { name, parameters } in launches {
            let kernel = next + names.position(|recorded| recorded == *name)?;
            next = kernel + 1;
            for &(place, parameter) in parameters {
                match parameter {
                    LoggedParameter::Flag => named.uses_flag = true,
                    LoggedParameter::Counters => named.uses_counters = true,
                    scalar => {
                        named.places.push((kernel, place));
                        named.scalars.push(scalar);
                    }
                }
            }
        }
        Some(named)
    }
}
