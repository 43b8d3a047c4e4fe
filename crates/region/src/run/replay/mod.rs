//! Replays: a region whose plan was met before is one launch of a graph of its kernels.
//!
//! The body of a region runs at each call, because it may branch on the host. If its expression
//! graph has a plan that was met several times, the kernels of the plan become a graph of the
//! driver: addresses and constants of the call are set, and one launch enqueues all kernels.
//! Results have memory of their own at each call; what is computed in between is in one array that
//! the call allocates and drops. A graph therefore holds no memory of arrays.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the graphs of a device: when they are made, used and dropped |
//! | `graph.rs` | the graph of one plan: recording and replay |
//! | `prepared.rs` | the graph of a prepared region, with memory that it uses again |
//!
//! Two kinds of evaluation are launched kernel by kernel. An update in place writes the memory of
//! its base only if nothing else needs the old elements, which is known no earlier than when the
//! call is enqueued: two calls with the same operations may run different kernels. A mesh region is
//! evaluated in parts, each between two collectives, which the host enqueues for all devices at
//! once and which a graph of one device cannot contain; no graphs are made of the parts.
//!
//! An executable graph does not run twice at a time. A call whose graph is still running for a call
//! that it does not depend on uses another instance of the graph. If there are [`INSTANCES_MAX`]
//! already, it launches the kernels one by one. So does a call whose graph fails for any reason:
//! the ordinary way then succeeds, or returns the error.

mod prepared;
mod region_graph;

use std::sync::Arc;

use millstream::Device;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    expr::{Session, Storage},
    plan::PlannedGraph,
    run::plans::Plan,
    shape::Shape,
};
use prepared::PreparedGraphs;
pub(crate) use prepared::{PreparedGraph, SharedGraph, StoredResult};
pub(crate) use region_graph::RegionGraph;

/// The number of kernels from which on a graph takes less time than its kernels. For fewer, setting
/// the nodes takes longer than the launches that it saves.
const KERNELS_MIN: usize = 3;

/// The number of calls of a plan before its graph is made.
const CALLS_BEFORE: u32 = 2;

/// The maximum number of graphs of one plan.
const INSTANCES_MAX: usize = 4;

/// The maximum number of graphs of a device.
const GRAPHS_MAX: usize = 64;

/// The properties that determine the kernels of a graph: a plan, the nodes that a call stores, and
/// the shape of a uniform graph, whose plan has none.
type PatternKey = (u64, Results, Shape);

/// The numbers of the nodes that a call stores.
pub(crate) type Results = SmallVec<[u32; 4]>;

#[derive(Default)]
struct RegionGraphs(Mutex<State>);

#[derive(Default)]
struct State {
    patterns: FxHashMap<PatternKey, Pattern>,
    uses: u64,
    is_off: bool,
    prepared: PreparedGraphs,
}

/// Sets whether regions on a device are replayed as graphs.
pub(crate) fn set_graphs(device: &Device, are_used: bool) {
    let graphs = RegionGraphs::of(device);
    graphs.0.lock().is_off = !are_used;
    graphs.clear();
}

/// The graphs of one plan with the same results.
#[derive(Default)]
struct Pattern {
    calls: u32,
    last_use: u64,
    /// True if there cannot be a graph.
    is_refused: bool,
    /// The graphs that no thread is using at the moment.
    #[allow(clippy::vec_box, reason = "a graph is moved at each use")]
    graphs: Vec<Box<RegionGraph>>,
    /// The number of graphs, those in use included.
    made: usize,
}

/// The way in which a call is enqueued.
enum Choice {
    Replay(Box<RegionGraph>),
    Make,
    Eager,
}

impl RegionGraphs {
    /// Returns the graphs of a device, which are dropped when it is closed.
    fn of(device: &Device) -> Arc<Self> {
        let mut is_new = false;
        let graphs = device.slot(|| {
            is_new = true;
            Self::default()
        });
        if is_new {
            let weak = Arc::downgrade(&graphs);
            device.on_memory_shortage(move || weak.upgrade().is_some_and(|weak| weak.release()));
        }
        graphs
    }

    fn add_prepared(&self, graph: &SharedGraph) {
        self.0.lock().prepared.add(graph);
    }

    /// Drops what can be made again and is not in use. Returns whether there was anything.
    fn release(&self) -> bool {
        let prepared = self.0.lock().prepared.all();
        let release = |graph: &SharedGraph| {
            // A call holds the lock while it allocates, perhaps that of this thread.
            let mut graph = graph.try_lock();
            let graph = graph.as_mut().and_then(|graph| graph.as_mut());
            graph.is_some_and(PreparedGraph::release_memory)
        };
        let released = prepared.iter().filter(|graph| release(graph)).count() > 0;
        self.clear() | released
    }

    /// Drops all graphs that are not in use. Returns whether there were any.
    fn clear(&self) -> bool {
        let mut state = self.0.lock();
        let mut dropped = Vec::new();
        for pattern in state.patterns.values_mut() {
            pattern.made -= pattern.graphs.len();
            // It must be met again before it gets another graph.
            pattern.calls = 0;
            dropped.append(&mut pattern.graphs);
        }
        drop(state);
        !dropped.is_empty()
    }

    /// Chooses how a call with these inputs is enqueued.
    fn choose(&self, device: &Device, key: &PatternKey, graph: &PlannedGraph) -> Choice {
        let mut state = self.0.lock();
        state.uses += 1;
        let uses = state.uses;
        if state.is_off {
            return Choice::Eager;
        }
        let Some(pattern) = state.patterns.get_mut(key) else {
            state.make_room();
            let first = Pattern {
                calls: 1,
                last_use: uses,
                ..Pattern::default()
            };
            state.patterns.insert(key.clone(), first);
            return Choice::Eager;
        };
        pattern.last_use = uses;
        pattern.calls = pattern.calls.saturating_add(1);
        if pattern.is_refused {
            return Choice::Eager;
        }
        let mut idle = pattern.graphs.iter();
        let place = idle.position(|known| known.leads_to(graph) || !known.is_running(device));
        if let Some(place) = place {
            return Choice::Replay(pattern.graphs.swap_remove(place));
        }
        if pattern.calls > CALLS_BEFORE && pattern.made < INSTANCES_MAX {
            pattern.made += 1;
            return Choice::Make;
        }
        Choice::Eager
    }

    /// Gives a graph back after its use. `None` if it failed; then there is none in its place.
    fn give_back(&self, key: &PatternKey, instance: Option<Box<RegionGraph>>, refuses: bool) {
        let mut state = self.0.lock();
        let Some(pattern) = state.patterns.get_mut(key) else {
            drop(state);
            return;
        };
        match instance {
            Some(instance) => pattern.graphs.push(instance),
            None => {
                pattern.made -= 1;
                pattern.is_refused |= refuses;
            }
        }
    }
}

impl State {
    /// Forgets the pattern that was not used for the longest time if there are many.
    fn make_room(&mut self) {
        if self.patterns.len() < GRAPHS_MAX {
            return;
        }
        let oldest = self.patterns.iter().min_by_key(|(_, known)| known.last_use);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.patterns.remove(&key);
        }
    }
}

/// Enqueues the kernels of a plan as one launch. Returns `false` if they are to be enqueued one by
/// one.
pub(crate) fn replay(session: &Session, plan: &Plan, graph: &PlannedGraph) -> bool {
    if !plan.is_repeatable || plan.launches < KERNELS_MIN || session.member.is_some() {
        return false;
    }
    let is_result = |&number: &u32| {
        graph.targets.contains(&number) || graph.nodes[number as usize].node.is_held()
    };
    let results: Results = plan.stored.iter().copied().filter(is_result).collect();
    let key = (plan.id, results, graph.differing_lengths(plan.lengths));
    let graphs = RegionGraphs::of(&session.device);
    let instance = match graphs.choose(&session.device, &key, graph) {
        Choice::Eager => return false,
        Choice::Replay(instance) => Some(instance),
        Choice::Make => RegionGraph::make(&session.device, plan, graph, &key.1),
    };
    let Some(mut instance) = instance else {
        graphs.give_back(&key, None, true);
        return false;
    };
    // While this memory is held, no other thread takes it for an update.
    let inputs = graph.inputs.iter().map(|node| node.storage());
    let Some(inputs) = inputs.collect::<Option<SmallVec<[Arc<Storage>; 8]>>>() else {
        graphs.give_back(&key, Some(instance), false);
        return false;
    };
    let is_enqueued = instance.replay(session, graph, &key.1, &inputs).is_ok();
    graphs.give_back(&key, is_enqueued.then_some(instance), false);
    is_enqueued
}
