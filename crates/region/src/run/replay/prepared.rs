//! The graph of a prepared region, with memory that it uses again in each call.
//!
//! The kernels write their temporaries to one array, which the graph keeps. Results have memory of
//! their own, because the caller may keep them. The graph also refers to the results of its last
//! [`RESULTS_MAX`] calls: once it alone does, the next call writes to their memory. The access
//! history of that memory is still there, so the kernels run behind everything that has used the
//! results, and no memory is allocated or freed. Idle memory is dropped when memory is short.

use std::{
    panic::Location,
    sync::{Arc, Weak},
};

use millstream::{Buffer, Stream};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::{
    checks::DeferredChecks,
    element::DType,
    error::Result,
    expr::{Node, NodeRef, Session, State, Storage},
    run::{
        launch::allocate,
        replay::{RegionGraph, RegionGraphs},
    },
    shape::Shape,
};

/// The number of calls whose results are kept: a caller that passes the result of one call to the
/// next refers to one of two.
const RESULTS_MAX: usize = 2;

type ResultNodes = SmallVec<[NodeRef; 2]>;

/// The graph of a prepared region; `None` after an error of the driver.
pub(crate) type SharedGraph = Arc<Mutex<Option<PreparedGraph>>>;

/// The graph of a prepared region and the memory that it keeps.
pub(crate) struct PreparedGraph {
    graph: Box<RegionGraph>,
    stream: Stream,
    stored: Vec<StoredResult>,
    /// The number of each result of the region among these.
    results: SmallVec<[usize; 4]>,
    temporaries: Option<Buffer<u8>>,
    /// What the last calls have stored, oldest first.
    last_results: SmallVec<[ReusableResults; RESULTS_MAX]>,
}

/// An array that the graph of a prepared region stores.
pub(crate) struct StoredResult {
    dtype: DType,
    shape: Shape,
    bytes: usize,
    location: &'static Location<'static>,
}

impl StoredResult {
    pub(crate) fn of(node: &Node) -> Self {
        Self {
            dtype: node.dtype,
            shape: node.shape.clone(),
            bytes: node.bytes(),
            location: node.location,
        }
    }

    fn node(&self, session: &Session, storage: Arc<Storage>) -> NodeRef {
        Arc::new(Node::new(
            session.device.clone(),
            self.dtype,
            self.shape.clone(),
            State::Stored(storage),
            self.location,
        ))
    }
}

/// Result nodes that are kept for a later call.
struct ReusableResults(ResultNodes);

impl ReusableResults {
    /// Returns whether nothing else refers to the nodes and their memory.
    fn are_idle(&mut self) -> bool {
        let is_idle = |node: &mut NodeRef| Arc::get_mut(node).is_some_and(Node::has_idle_memory);
        self.0.iter_mut().all(is_idle)
    }
}

impl Drop for ReusableResults {
    fn drop(&mut self) {
        self.0.iter().for_each(|node| node.keep(false));
    }
}

impl PreparedGraph {
    /// Takes over a graph whose scalars are set. It stores these arrays, which are the results with
    /// these numbers.
    pub(crate) fn share(
        graph: Box<RegionGraph>,
        stream: Stream,
        stored: Vec<StoredResult>,
        results: SmallVec<[usize; 4]>,
    ) -> SharedGraph {
        let device = stream.device();
        let shared = Arc::new(Mutex::new(Some(Self {
            graph,
            stream,
            stored,
            results,
            temporaries: None,
            last_results: SmallVec::new(),
        })));
        RegionGraphs::of(&device).add_prepared(&shared);
        shared
    }

    /// Enqueues all kernels as one launch, with inputs in this memory. Returns the nodes of the
    /// results, in order.
    ///
    /// # Errors
    ///
    /// If there is not enough memory, the driver cannot change or launch the graph, or the device
    /// is lost. `is_broken` is set if the graph must not be used again.
    pub(crate) fn call(
        &mut self,
        session: &Session,
        inputs: &[&Arc<Storage>],
        is_broken: &mut bool,
    ) -> Result<ResultNodes> {
        if !self.graph.has_own_results() {
            return self.call_afresh(session, inputs, is_broken);
        }
        let Self {
            graph,
            stream,
            temporaries,
            last_results,
            ..
        } = self;
        if temporaries.is_none() {
            *temporaries = graph.temporaries(stream)?;
        }
        let idle = last_results.iter_mut().position(ReusableResults::are_idle);
        let at = match idle {
            Some(at) => at,
            None => {
                let made = made_nodes(session, stream, &self.stored)?;
                if last_results.len() == RESULTS_MAX {
                    last_results.remove(0);
                }
                last_results.push(made);
                last_results.len() - 1
            }
        };
        let words = graph.words(session, stream)?;
        let nodes = &mut last_results[at].0;
        *is_broken = true;
        let memory = nodes.iter_mut().map(|node| only_here(node).renew());
        graph.enqueue(stream, inputs, memory, &words, temporaries.as_mut())?;
        *is_broken = false;
        let checks = session.deferred_checks(inputs.iter().map(|storage| &***storage))?;
        if !checks.is_empty() {
            for node in nodes.iter_mut() {
                only_here(node).depend_on(&checks);
            }
        }
        let result = |&number: &usize| NodeRef::clone(&nodes[number]);
        Ok(self.results.iter().map(result).collect())
    }

    /// Enqueues like [`call`](Self::call), with memory that is allocated.
    fn call_afresh(
        &mut self,
        session: &Session,
        inputs: &[&Arc<Storage>],
        is_broken: &mut bool,
    ) -> Result<ResultNodes> {
        let sizes = self.stored.iter().map(|result| result.bytes);
        *is_broken = true;
        let stored = self.graph.launch(session, &self.stream, inputs, sizes)?;
        *is_broken = false;
        let nodes = self.stored.iter().zip(stored);
        let nodes: ResultNodes = nodes
            .map(|(result, storage)| result.node(session, storage))
            .collect();
        let result = |&number: &usize| NodeRef::clone(&nodes[number]);
        Ok(self.results.iter().map(result).collect())
    }

    /// Drops memory that no call is using. Returns whether there was any.
    pub(crate) fn release_memory(&mut self) -> bool {
        let before = self.last_results.len();
        self.last_results.retain(|results| !results.are_idle());
        let has_dropped = self.last_results.len() < before;
        self.temporaries.take().is_some() || has_dropped
    }
}

/// Returns a node to which nothing else refers.
fn only_here(node: &mut NodeRef) -> &mut Node {
    Arc::get_mut(node).expect("nothing else refers to the node")
}

/// Makes the nodes of what a call stores, in memory that the caller's next launch on the stream
/// fills.
fn made_nodes(
    session: &Session,
    stream: &Stream,
    stored: &[StoredResult],
) -> Result<ReusableResults> {
    let mut nodes = ReusableResults(ResultNodes::new());
    for result in stored {
        let storage = Arc::new(Storage {
            buffer: allocate(stream, result.bytes)?,
            checks: DeferredChecks::default(),
        });
        let node = result.node(session, storage);
        node.keep(true);
        nodes.0.push(node);
    }
    Ok(nodes)
}

#[derive(Default)]
pub(crate) struct PreparedGraphs(Vec<Weak<Mutex<Option<PreparedGraph>>>>);

impl PreparedGraphs {
    /// Adds a graph, and forgets those that are dropped.
    pub(crate) fn add(&mut self, graph: &SharedGraph) {
        self.0.retain(|graph| graph.strong_count() > 0);
        self.0.push(Arc::downgrade(graph));
    }

    pub(crate) fn all(&self) -> Vec<SharedGraph> {
        self.0.iter().filter_map(Weak::upgrade).collect()
    }
}
