//! A recording: the operations of recording streams, and a tracker of its own that finds the
//! dependencies between them.
//!
//! The recording has an access history for each allocation that it meets, and a vector clock for
//! each of its streams. An operation is planned as by an ordinary submission; its dependencies
//! become edges. The program's own access histories are not touched, so that a recording that fails
//! leaves no trace.

mod nested;
mod replays;
#[cfg(all(test, feature = "sim", not(shuttle)))]
mod tests;

use std::{panic::Location, sync::Arc};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use nested::INSIDE;

use super::{
    body::Block,
    limit::LoopSite,
    node::{Node, NodeAccess},
    operand::{Operand, OperandMemory},
    options::{GraphOptions, Order},
    sink::{Collector, OperandRange},
};
use crate::{
    Result, Stream, UsageError, UsageErrorKind,
    context::{DeviceState, Memory, NodeRecorder, NodeSink, Operation, StreamState},
    memory::Allocation,
    sync::ranked::{RECORDED_LOOPS, RECORDING, Ranked},
    tracker::{
        Access, AccessHistory, Accesses, DeviceNumber, Plan, Sequence, StreamId, Ticket,
        VectorClock, plan_and_publish,
    },
};

#[derive(Debug)]
pub(super) struct Recording {
    device: Arc<DeviceState>,
    /// The stream on which memory is allocated, and uploads are made, at once.
    eager: Stream,
    options: GraphOptions,
    /// The loops of the graph, also those in bodies.
    loops: Arc<Ranked<RECORDED_LOOPS, Vec<LoopSite>>>,
    state: Ranked<RECORDING, State>,
}

/// The part of a recording that its operations change.
#[derive(Debug)]
struct State {
    over: bool,
    /// True while the body of a conditional node is being recorded.
    has_open_body: bool,
    /// The number of a device that does not exist, for the tickets of this recording.
    number: DeviceNumber,
    /// The recording streams, by their ids as ordinary streams.
    queues: FxHashMap<StreamId, Queue>,
    /// The number of stream ids given out.
    indices: u32,
    operations: FxHashMap<Ticket, Recorded>,
    operands: Vec<RecordedOperand>,
    /// The operands' numbers by the ids of their access histories.
    numbers: FxHashMap<u64, usize>,
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Queue {
    id: StreamId,
    next: Sequence,
    /// Everything ordered before the next operation.
    clock: VectorClock,
    last: Option<Ticket>,
}

#[derive(Debug)]
struct Recorded {
    /// The numbers of the nodes with which it ends.
    ends: SmallVec<[usize; 1]>,
    /// Everything ordered before the end of the operation, the operation included.
    clock: VectorClock,
}

#[derive(Debug)]
struct RecordedOperand {
    allocation: Arc<Allocation>,
    history: AccessHistory,
    role: Role,
}

/// The origin of an operand.
#[derive(Clone, Debug)]
enum Role {
    /// Existed before.
    Outside,
    /// Made in the recording.
    Inside,
    /// Holds data that were uploaded in the recording.
    Constant,
    /// Memory of another graph, whose replay was recorded.
    OtherGraph(Arc<Block>),
}

#[derive(Debug, Default)]
pub(super) struct RecordedGraph {
    pub(super) nodes: Vec<Node>,
    pub(super) operands: Vec<Operand>,
    pub(super) loops: Vec<LoopSite>,
}

/// The refusal of a call after the end of the closure.
const OVER: &str = "the recording is over: record again, or use an ordinary stream";

impl Recording {
    pub(super) fn new(device: &Arc<DeviceState>, options: GraphOptions) -> Result<Self> {
        Ok(Self {
            device: Arc::clone(device),
            eager: Stream::new(device, 0)?,
            options,
            loops: Arc::default(),
            state: Ranked::new(State::new()),
        })
    }

    pub(super) fn add_stream(&self, stream: &StreamState) -> Result<()> {
        let mut state = self.state.lock();
        let id = state.next_id()?;
        let queue = Queue {
            id,
            next: Sequence::FIRST,
            clock: VectorClock::default(),
            last: None,
        };
        state.queues.insert(stream.id, queue);
        Ok(())
    }

    /// Ends the recording and returns the graph. Arrays that were made inside and are still in use
    /// count as arrays of the program.
    pub(super) fn finish(&self) -> RecordedGraph {
        let mut state = self.state.lock();
        state.over = true;
        let nodes = std::mem::take(&mut state.nodes);
        let operands = std::mem::take(&mut state.operands);
        state.numbers.clear();
        drop(state);
        let mut graph = RecordedGraph {
            nodes,
            loops: std::mem::take(&mut *self.loops.lock()),
            ..RecordedGraph::default()
        };
        for operand in operands {
            let RecordedOperand {
                allocation, role, ..
            } = operand;
            let is_held = Arc::strong_count(&allocation) > 1;
            let (pointer, bytes) = (allocation.pointer, allocation.history.bytes());
            let constant = matches!(role, Role::Constant);
            let memory = match role {
                Role::Outside => OperandMemory::Outside(allocation),
                Role::Inside if is_held => OperandMemory::Outside(allocation),
                Role::Inside | Role::Constant => OperandMemory::Recorded {
                    allocation,
                    constant,
                },
                Role::OtherGraph(block) => OperandMemory::Block(block),
            };
            graph.operands.push(Operand::new(pointer, bytes, memory));
        }
        graph.keep_used();
        graph
    }

    /// Returns the operands of an operation by number, and the memory of each.
    fn operands_of(&self, operation: &Operation<'_>) -> Result<(Vec<usize>, Vec<OperandRange>)> {
        let refused = |problem| UsageError::new(operation.label, problem).at(operation.location);
        let mut allocations = Vec::new();
        for (number, access) in operation.accesses.iter().enumerate() {
            let operand = match access.param {
                Access::NO_PARAM => number,
                param => param.into(),
            };
            allocations.push(Allocation::of(access.history, operand).map_err(refused)?);
        }
        let mut state = self.state.lock();
        if let Some(why) = state.refusal() {
            return Err(refused(UsageErrorKind::Recording { why }).into());
        }
        let mut numbers = Vec::new();
        let mut ranges = Vec::new();
        for (allocation, access) in allocations.into_iter().zip(operation.accesses.iter()) {
            let pointer = allocation.pointer;
            let bytes = allocation.history.bytes();
            let operand = state.operand(allocation, Role::Outside);
            numbers.push(operand);
            ranges.push(OperandRange {
                operand,
                param: access.param,
                kind: access.kind,
                pointer,
                bytes,
                range: access.extent.hull(),
            });
        }
        Ok((numbers, ranges))
    }
}

impl State {
    fn new() -> Self {
        Self {
            over: false,
            has_open_body: false,
            number: DeviceNumber::next(),
            queues: FxHashMap::default(),
            indices: 0,
            operations: FxHashMap::default(),
            operands: Vec::new(),
            numbers: FxHashMap::default(),
            nodes: Vec::new(),
        }
    }

    /// Returns the reason why nothing can be recorded at the moment, if there is one.
    fn refusal(&self) -> Option<&'static str> {
        match (self.over, self.has_open_body) {
            (true, _) => Some(OVER),
            (false, true) => Some(INSIDE),
            (false, false) => None,
        }
    }

    fn next_id(&mut self) -> Result<StreamId> {
        let id = StreamId::new(self.number, self.indices);
        self.indices += 1;
        id.ok_or_else(|| {
            let why = "it has too many operations";
            UsageError::new("record", UsageErrorKind::Recording { why }).into()
        })
    }

    /// Returns the number of an operand. One that is new gets this role.
    fn operand(&mut self, allocation: Arc<Allocation>, role: Role) -> usize {
        let next = self.operands.len();
        let number = *self.numbers.entry(allocation.history.id()).or_insert(next);
        if number == next {
            let history = AccessHistory::new(allocation.history.bytes());
            self.operands.push(RecordedOperand {
                allocation,
                history,
                role,
            });
        }
        number
    }

    /// Adds the nodes of an operation, behind all operations that the tracker finds, and on a
    /// stream behind the stream's earlier ones. The nodes' own dependencies are positions among
    /// them.
    fn add(
        &mut self,
        stream: Option<StreamId>,
        accesses: &[NodeAccess],
        nodes: Vec<Node>,
    ) -> Result<()> {
        let Some(first) = nodes.first() else {
            return Ok(());
        };
        let (ticket, clock, last) = match stream {
            Some(stream) => {
                let Some(queue) = self.queues.get(&stream) else {
                    let problem = UsageErrorKind::Recording { why: OVER };
                    return Err(UsageError::new(first.label, problem).into());
                };
                let ticket = Ticket::new(queue.id, queue.next);
                (ticket, queue.clock.clone(), queue.last)
            }
            None => {
                let ticket = Ticket::new(self.next_id()?, Sequence::FIRST);
                (ticket, VectorClock::default(), None)
            }
        };
        let mut plan = Plan::default();
        let accesses = accesses.iter().map(|access| Access {
            ordered: access.ordered,
            ..Access::new(
                &self.operands[access.operand].history,
                access.extent.clone(),
                access.kind,
            )
        });
        let mut accesses: Accesses<'_> = accesses.collect();
        plan_and_publish(ticket, &clock, &mut accesses, &|_| false, &mut plan);
        let mut before = plan.dependencies;
        before.extend(last);
        let mut after = clock;
        for earlier in &before {
            after.join(&self.operations[earlier].clock);
        }
        after.advance(ticket);
        let implied = |ticket: &Ticket| {
            let mut others = before.iter().filter(|other| *other != ticket);
            others.any(|other| self.operations[other].clock.covers(*ticket))
        };
        let direct = before.iter().filter(|ticket| !implied(ticket));
        let mut before: Vec<usize> = direct
            .flat_map(|ticket| self.operations[ticket].ends.iter().copied())
            .collect();
        before.sort_unstable();
        let first = self.nodes.len();
        let is_end = |at: &usize| !nodes.iter().any(|node| node.dependencies.contains(at));
        let ends = (0..nodes.len()).filter(is_end).map(|at| first + at);
        let recorded = Recorded {
            ends: ends.collect(),
            clock: after.clone(),
        };
        self.nodes.extend(nodes.into_iter().map(|mut node| {
            match &mut node.dependencies {
                none if none.is_empty() => none.clone_from(&before),
                inner => inner.iter_mut().for_each(|at| *at += first),
            }
            node
        }));
        self.operations.insert(ticket, recorded);
        if let Some(queue) = stream.and_then(|stream| self.queues.get_mut(&stream)) {
            queue.next = queue.next.next();
            queue.clock = after;
            queue.last = Some(ticket);
        }
        Ok(())
    }

    /// Returns memory of a dropped array of this size whose uses are all ordered before the next
    /// operation of the stream.
    fn reusable(&self, stream: StreamId, bytes: u64) -> Option<Memory> {
        let queue = self.queues.get(&stream)?;
        let is_free = |operand: &&RecordedOperand| {
            let uses = || operand.history.all_tickets();
            matches!(operand.role, Role::Inside)
                && operand.history.bytes() == bytes
                && Arc::strong_count(&operand.allocation) == 1
                && uses().iter().all(|&ticket| queue.clock.covers(ticket))
        };
        // The newest, because its contents are the likeliest to be in a cache.
        let operand = self.operands.iter().rev().find(is_free)?;
        Some(Arc::clone(&operand.allocation) as Memory)
    }
}

impl NodeRecorder for Recording {
    fn eager(&self) -> &Stream {
        &self.eager
    }

    fn allocate(
        &self,
        stream: &StreamState,
        bytes: usize,
        location: &'static Location<'static>,
    ) -> Result<Memory> {
        let reuses = self.options.reuse && self.options.order == Order::Stream;
        if reuses && let Some(memory) = self.state.lock().reusable(stream.id, bytes as u64) {
            return Ok(memory);
        }
        // Zeros, so that an array that is read before the first replay has defined contents.
        let memory = self.eager.zeros_at::<u8>(bytes, location)?.shared_memory();
        let allocation = Allocation::recorded(Arc::clone(&memory));
        self.state.lock().operand(allocation, Role::Inside);
        Ok(memory)
    }

    fn keep_constant(&self, memory: Memory) {
        let allocation = Allocation::recorded(memory);
        self.state.lock().operand(allocation, Role::Constant);
    }

    fn record(
        &self,
        stream: &StreamState,
        operation: &Operation<'_>,
        nodes: &mut dyn FnMut(&mut dyn NodeSink) -> Result<()>,
    ) -> Result<()> {
        let (numbers, ranges) = self.operands_of(operation)?;
        // Without the lock, because the call of another library runs in here.
        let mut collector = Collector::new(&self.device, &ranges);
        nodes(&mut collector)?;
        let works = collector.finish(operation)?;
        let accesses = operation.accesses.iter().zip(&numbers);
        let accesses: SmallVec<[NodeAccess; 3]> = accesses
            .map(|(access, &operand)| NodeAccess {
                operand,
                extent: access.extent.clone(),
                kind: access.kind,
                ordered: access.ordered,
            })
            .collect();
        // Each behind the one before.
        let nodes = works.into_iter().enumerate().map(|(at, work)| Node {
            kind: operation.kind,
            label: operation.label,
            location: operation.location,
            work,
            accesses: accesses.clone(),
            dependencies: at.checked_sub(1).into_iter().collect(),
        });
        let mut state = self.state.lock();
        if let Some(why) = state.refusal() {
            let problem = UsageErrorKind::Recording { why };
            return Err(UsageError::new(operation.label, problem).into());
        }
        let stream = match self.options.order {
            Order::Stream => Some(stream.id),
            Order::Data => None,
        };
        state.add(stream, &accesses, nodes.collect())
    }
}

impl RecordedGraph {
    /// Removes the operands that no node uses.
    fn keep_used(&mut self) {
        let mut used = vec![false; self.operands.len()];
        mark_used(&self.nodes, &mut used);
        let mut numbers = Vec::with_capacity(used.len());
        let mut next = 0;
        for &is_used in &used {
            numbers.push(next);
            next += usize::from(is_used);
        }
        let mut at = used.iter();
        self.operands.retain(|_| at.next() == Some(&true));
        for node in &mut self.nodes {
            node.renumber(&numbers);
        }
    }
}

/// Marks the operands of the nodes and their bodies. Those of a body are marked by its own nodes:
/// the union of their accesses has no empty ranges.
fn mark_used(nodes: &[Node], used: &mut [bool]) {
    for node in nodes {
        for access in &node.accesses {
            used[access.operand] = true;
        }
        mark_used(node.work.body(), used);
    }
}
