//! Graphs: operations that are recorded once and replayed as one.
//!
//! A `Recording` collects operations as nodes, with the edges that a
//! tracker of its own finds. The nodes are the truth about a graph; the driver's executable graph
//! (`exec`) is made from them, and made again if it cannot be changed. The graph owns its
//! operands and the memory of arrays that do not leave the recording (`body`). A replay is one
//! operation, whose accesses are the union of those of the nodes (`replay`). A conditional node
//! has a body of nodes that runs as often as a flag says (`conditional`).

mod body;
mod branches;
mod change;
mod conditional;
mod conditions;
mod dot;
mod driver_graph;
mod exec;
#[cfg(all(test, shuttle))]
mod interleavings;
mod limit;
mod node;
mod operand;
mod options;
mod params;
mod placement;
mod recorder;
mod recording;
mod replay;
mod sink;
mod steps;
#[cfg(all(test, feature = "sim", not(shuttle)))]
mod tests;
mod unbound;

use std::{fmt, panic::Location, sync::Arc};

pub use change::GraphNodeMut;
pub use options::{GraphOptions, Order};
pub use recorder::GraphRecorder;
#[doc(hidden)]
pub use unbound::{BoundReplay, RecordedKernels, UnboundGraph};

use body::Body;
use conditions::Conditions;
use node::Node;
use operand::Operand;
use recording::RecordedGraph;
use replay::{ExecState, GraphAccess};

use crate::{
    Device, Result,
    context::DeviceState,
    kernel::interned,
    sync::ranked::{EXECUTABLE_GRAPH, Ranked},
};

/// Operations that were recorded once, with their dependencies, and can be replayed as one.
///
/// [`Device::record`] makes a graph. [`replay`](Self::replay) enqueues all its operations with one
/// driver call. A replay is an operation like any other: it waits for earlier operations that
/// conflict with it, and later ones wait for it, on whatever streams and from whatever threads.
///
/// The graph keeps the arrays that it uses. Between replays the program may use them like any other
/// array, and drop its own handles. Arrays that are made in the recording and dropped there are
/// memory of the graph.
///
/// ```
/// use millstream::Device;
///
/// let device = Device::simulated()?;
/// let (stream, other) = (device.stream()?, device.stream()?);
/// let mut input = stream.upload(&[1_u32, 2, 3])?;
/// let mut output = stream.zeros::<u32>(3)?;
/// let graph = device.record("copy", |r| {
///     let recorded = r.stream()?;
///     recorded.copy(&input, &mut output)
/// })?;
/// graph.replay(&stream)?;
/// other.upload_into(&[4, 5, 6], &mut input)?; // waits for the replay, which reads it
/// let first = other.download(&output)?;
/// graph.replay(&stream)?;
/// assert_eq!(first.wait()?, [1, 2, 3]);
/// assert_eq!(other.download(&output)?.wait()?, [4, 5, 6]);
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// Dropping a graph never blocks: replays that are enqueued complete, and the memory is freed
/// behind them.
#[doc(alias("CUgraphExec", "cudaGraphExec_t", "CudaGraph", "CUDAGraph"))]
pub struct Graph {
    name: &'static str,
    location: &'static Location<'static>,
    device: Arc<DeviceState>,
    options: GraphOptions,
    nodes: Vec<Node>,
    /// The accesses of a replay to memory that the program may use too.
    accesses: Vec<GraphAccess>,
    /// True if an operand is in the body.
    uses_body: bool,
    /// The number of bytes that the nodes access, for timelines.
    accessed_bytes: u64,
    exec: Ranked<EXECUTABLE_GRAPH, ExecState>,
    /// Set if there are conditional nodes.
    conditions: Option<Conditions>,
    /// Declared behind the executable graph, which uses their memory.
    operands: Vec<Operand>,
    /// The owner of the arrays that were made in the recording.
    body: Arc<Body>,
    /// The other bodies that operands are in, each once: those of graphs whose replays were
    /// recorded.
    recorded_bodies: Vec<Arc<Body>>,
    updates: u64,
}

/// Figures of a [`Graph`].
///
/// ```
/// let device = millstream::Device::simulated()?;
/// let mut x = device.stream()?.zeros::<u8>(1000)?;
/// let graph = device.record("two fills", |r| {
///     let stream = r.stream()?;
///     stream.fill(&mut x, 1)?;
///     stream.fill(x.slice_mut(..10), 2)
/// })?;
/// let figures = graph.figures();
/// assert_eq!((figures.nodes, figures.edges, figures.launches), (2, 1, 0));
/// assert_eq!((figures.operand_bytes, figures.body_bytes), (1000, 0));
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphFigures {
    /// The number of nodes, with those in the bodies of conditional nodes.
    pub nodes: usize,
    /// The number of edges between the nodes, with those in bodies.
    pub edges: usize,
    /// The size of the arrays that the graph keeps and the program may use too.
    pub operand_bytes: u64,
    /// The size of the memory that only the graph, and graphs that share it, use.
    pub body_bytes: u64,
    /// The number of replays that were enqueued.
    pub launches: u64,
    /// The number of changes after the recording.
    pub updates: u64,
}

impl Device {
    /// Records a graph: operations on the streams that `body` gets from the recorder become nodes
    /// of the graph instead of being enqueued. Any code that takes a [`Stream`](crate::Stream) can
    /// be recorded.
    ///
    /// Operations of one recorded stream keep their order. Between streams, and between threads
    /// that use them, operations are ordered by the bytes that they access, as always. An array
    /// that is made in the recording begins with zeros; what creates its contents is recorded too.
    /// Data of an upload are captured once, and copied from there by each replay. An array that
    /// leaves the closure belongs to the program like any other.
    ///
    /// Calls that a graph cannot contain return a [`UsageErrorKind::Recording`] that says what to
    /// do instead: downloads and waits, page-locked and managed memory, owned uploads' host
    /// functions, memory of other devices, events, leases.
    ///
    /// Does not wait for the device, unless it is busy and 64 dropped graphs are left to destroy.
    ///
    /// ```
    /// use millstream::{Device, Error, UsageErrorKind};
    ///
    /// let device = Device::simulated()?;
    /// let x = device.stream()?.upload(&[1.0_f32; 100])?;
    /// let refused = device.record("sum", |r| {
    ///     let stream = r.stream()?;
    ///     let values = stream.download(&x)?.wait()?; // there are no values yet
    ///     stream.upload(&[values.iter().sum::<f32>()]).map(drop)
    /// });
    /// let Err(Error::Usage(error)) = refused else {
    ///     unreachable!("a graph has no downloads")
    /// };
    /// assert!(matches!(error.problem(), UsageErrorKind::Recording { .. }));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The error of `body`, or if memory is exhausted, the driver cannot make the graph, or the
    /// device is lost. All arrays are then as before, and so they are if `body` panics.
    ///
    /// [`UsageErrorKind::Recording`]: crate::UsageErrorKind::Recording
    #[track_caller]
    #[doc(alias(
        "cuStreamBeginCapture",
        "cudaStreamBeginCapture",
        "begin_capture",
        "torch.cuda.graph"
    ))]
    pub fn record(
        &self,
        name: &str,
        body: impl FnOnce(&GraphRecorder) -> Result<()>,
    ) -> Result<Graph> {
        self.record_with(name, GraphOptions::new(), body)
    }

    /// Records a graph like [`record`](Self::record), with options.
    ///
    /// # Errors
    ///
    /// As [`record`](Self::record).
    #[track_caller]
    pub fn record_with(
        &self,
        name: &str,
        options: GraphOptions,
        body: impl FnOnce(&GraphRecorder) -> Result<()>,
    ) -> Result<Graph> {
        let location = Location::caller();
        let memory = Arc::new(Body::new());
        Graph::record(self.state(), name, options, memory, location, body)
    }

    /// Records a graph like [`record`](Self::record), whose memory for arrays that are made and
    /// dropped in the recording is that of `other`, as far as it is large enough. Replays of the
    /// two exclude each other.
    ///
    /// ```
    /// let device = millstream::Device::simulated()?;
    /// let (small, large) = (1000, 2000);
    /// let fill = |len| {
    ///     move |r: &millstream::GraphRecorder| r.stream()?.zeros::<u8>(len).map(drop)
    /// };
    /// let prefill = device.record("prefill", fill(large))?;
    /// let decode = device.record_sharing(&prefill, "decode", fill(small))?;
    /// assert_eq!(decode.figures().body_bytes, 2000);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`record`](Self::record), and if the other graph is of another device.
    #[track_caller]
    pub fn record_sharing(
        &self,
        other: &Graph,
        name: &str,
        body: impl FnOnce(&GraphRecorder) -> Result<()>,
    ) -> Result<Graph> {
        let location = Location::caller();
        let device = self.state();
        other.check_device(device, "record_sharing", location)?;
        let memory = Arc::clone(&other.body);
        Graph::record(device, name, other.options, memory, location, body)
    }
}

impl Graph {
    fn record(
        device: &Arc<DeviceState>,
        name: &str,
        options: GraphOptions,
        memory: Arc<Body>,
        location: &'static Location<'static>,
        body: impl FnOnce(&GraphRecorder) -> Result<()>,
    ) -> Result<Self> {
        let name = interned(name);
        let mut recorded = recorder::record(device, options, body)?;
        let conditions = Conditions::of(device, name, &mut recorded)?;
        let RecordedGraph {
            mut nodes,
            mut operands,
            ..
        } = recorded;
        memory.adopt(&mut operands, &nodes);
        node::resolve(&mut nodes, &operands);
        let mut graph = Self {
            name,
            location,
            device: Arc::clone(device),
            options,
            accesses: Vec::new(),
            uses_body: false,
            recorded_bodies: Vec::new(),
            accessed_bytes: 0,
            nodes: Vec::new(),
            operands: Vec::new(),
            exec: Ranked::default(),
            conditions,
            body: memory,
            updates: 0,
        };
        graph.set_nodes(nodes, operands);
        graph.build()?;
        Ok(graph)
    }

    /// Returns the graph's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the device on which the graph runs.
    #[must_use]
    pub fn device(&self) -> Device {
        Device::from_state(Arc::clone(&self.device))
    }

    /// Returns the graph's figures.
    #[must_use]
    pub fn figures(&self) -> GraphFigures {
        let outside = self
            .operands
            .iter()
            .filter(|operand| operand.outside().is_some());
        GraphFigures {
            nodes: count(&self.nodes, &|_| 1),
            edges: count(&self.nodes, &|node| node.dependencies.len()),
            operand_bytes: outside.map(|operand| operand.bytes).sum(),
            body_bytes: self.body.bytes(),
            launches: self.exec.lock().launches,
            updates: self.updates,
        }
    }
}

/// Returns the sum of `number` over the nodes, also those in bodies.
fn count(nodes: &[Node], number: &impl Fn(&Node) -> usize) -> usize {
    let with_body = |node: &Node| number(node) + count(node.work.body(), number);
    nodes.iter().map(with_body).sum()
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, location, .. } = self;
        let GraphFigures { nodes, edges, .. } = self.figures();
        write!(
            f,
            "Graph({name}, recorded at {location}: {nodes} nodes, {edges} edges, on {})",
            self.device
        )
    }
}
