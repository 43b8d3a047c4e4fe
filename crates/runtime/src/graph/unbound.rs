//! Graphs whose arrays are arguments of each replay, for code that is generated at run time.
//!
//! A [`Graph`](super::Graph) owns its operands. A caller with other arrays and numbers at each
//! replay would have to exchange them first, and each graph would keep the memory of its
//! temporaries. An [`UnboundGraph`] owns no memory at all: each replay names its arrays, as a
//! launch does, and one more array as the memory of the temporaries. It does not keep the device
//! open either, so that it can be kept in the device ([`Device::slot`]). Only nodes whose arrays or
//! numbers differ from those of the last replay are set anew.

#![allow(unsafe_code, reason = "submits replays, and destroys driver graphs")]

mod build;

use std::{ffi::c_void, panic::Location, sync::Arc};

use millstream_driver::{
    ContextHandle, DevicePtr, Driver, DriverError, FillPattern, FunctionHandle, GraphExecHandle,
    GraphHandle, GraphNode, GraphNodeHandle, KernelNode, LaunchAttributes, LaunchDims,
};
use smallvec::SmallVec;

pub use build::RecordedKernels;

use crate::{
    Buffer, Device, Result, Stream,
    array::Span,
    context::{Command, DeviceState, DriverStream, Operation, StreamState, poll_ticket, submit},
    disposal::log,
    error::OperationKind,
    page_locked::{IdleFrees, Resource},
    tracker::{AccessKind, Sequence},
};

/// A graph whose arrays are arguments of each replay.
#[doc(hidden)]
pub struct UnboundGraph {
    objects: GraphObjects,
    name: &'static str,
    location: &'static Location<'static>,
    nodes: Vec<UnboundNode>,
    /// True if a node's values have changed since the driver's node was set.
    is_changed: bool,
    /// The addresses and numbers of all nodes.
    values: Vec<u64>,
    /// The arrays of a replay, the temporaries' memory included.
    arrays: Vec<BoundArray>,
    scalars: Vec<ValuePlace>,
    temporary_bytes: u64,
    last: Option<(Arc<StreamState>, Sequence)>,
}

/// The driver's objects of a graph. They do not keep the device open. Their drop destroys the
/// template and defers the destruction of the executable graph, which may wait for the device (rule
/// 62).
struct GraphObjects {
    driver: Arc<dyn Driver>,
    context: ContextHandle,
    idle_frees: Arc<IdleFrees>,
    template: GraphHandle,
    /// `None` until it is instantiated.
    exec: Option<GraphExecHandle>,
}

struct UnboundNode {
    label: &'static str,
    location: &'static Location<'static>,
    work: UnboundWork,
    handle: GraphNodeHandle,
    /// True if its values have changed since the driver's node was set.
    is_changed: bool,
}

enum UnboundWork {
    Kernel {
        function: FunctionHandle,
        dims: LaunchDims,
        attributes: LaunchAttributes,
        /// The number of the first word of each parameter among the values.
        params: Vec<usize>,
    },
    Fill {
        target: usize,
        pattern: FillPattern,
        count: usize,
    },
}

#[derive(Clone, Copy)]
struct ValuePlace {
    node: usize,
    value: usize,
}

#[derive(Default)]
struct BoundArray {
    /// The address in the last replay.
    address: Option<u64>,
    /// The values that are addresses in the array, each with its position there.
    places: Vec<(ValuePlace, u64)>,
}

impl UnboundWork {
    /// Calls `body` with the operation for the driver.
    fn with_node<R>(&self, values: &[u64], body: impl FnOnce(&GraphNode<'_>) -> R) -> R {
        match self {
            Self::Kernel {
                function,
                dims,
                attributes,
                params,
            } => {
                let params: SmallVec<[*const c_void; 12]> = params
                    .iter()
                    .map(|&first| values[first..].as_ptr().cast())
                    .collect();
                body(&GraphNode::Kernel(KernelNode {
                    function: *function,
                    dims: *dims,
                    attributes: *attributes,
                    params: &params,
                }))
            }
            &Self::Fill {
                target,
                pattern,
                count,
            } => body(&GraphNode::Fill {
                target: DevicePtr::from_raw(values[target]),
                pattern,
                count,
            }),
        }
    }
}

impl UnboundGraph {
    /// Returns the size of the array that each replay names behind the others, for the temporaries;
    /// 0 if there are none and no such array is named.
    #[must_use]
    pub fn temporary_bytes(&self) -> u64 {
        self.temporary_bytes
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether there are no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns whether the last replay is not known to be complete. Never blocks.
    #[must_use]
    pub fn is_running(&self, device: &Device) -> bool {
        let running = |(stream, sequence): &(Arc<StreamState>, Sequence)| {
            // A lost device runs nothing.
            !poll_ticket(device.state(), stream, *sequence).unwrap_or(true)
        };
        self.last.as_ref().is_some_and(running)
    }

    /// Sets the scalars of later replays, each in the low bytes of a word.
    ///
    /// # Panics
    ///
    /// If there are not as many as at [`unbind`](RecordedKernels::unbind).
    pub fn set_scalars(&mut self, scalars: &[u64]) {
        assert_eq!(
            scalars.len(),
            self.scalars.len(),
            "scalars of {}",
            self.name
        );
        for (&place, &value) in self.scalars.iter().zip(scalars) {
            let changed = set(&mut self.nodes, &mut self.values, place, value);
            self.is_changed |= changed;
        }
    }

    /// Begins a replay, whose arrays are named one after the other.
    #[inline]
    pub fn bind<'a>(&mut self) -> BoundReplay<'_, 'a> {
        BoundReplay {
            operation: Operation::new(OperationKind::Graph, self.name, self.location),
            graph: self,
            named: 0,
        }
    }
}

/// A replay of an [`UnboundGraph`] whose arrays are being named.
#[doc(hidden)]
pub struct BoundReplay<'g, 'a> {
    graph: &'g mut UnboundGraph,
    operation: Operation<'a>,
    /// The number of arrays that were named.
    named: usize,
}

impl<'a> BoundReplay<'_, 'a> {
    /// Names the next array, which the operations read.
    #[inline]
    pub fn read<T>(&mut self, array: &'a Buffer<T>) {
        self.name(array.span(), AccessKind::Read);
    }

    /// Names the next array, which the operations may write.
    #[inline]
    pub fn write<T>(&mut self, array: &'a mut Buffer<T>) {
        self.name(array.span(), AccessKind::Write);
    }

    fn name(&mut self, span: Span<'a>, kind: AccessKind) {
        let graph = &mut *self.graph;
        let array = &mut graph.arrays[self.named];
        self.named += 1;
        let address = span.pointer().as_raw();
        if array.address.replace(address) != Some(address) {
            for &(place, offset) in &array.places {
                let value = address + offset;
                graph.is_changed |= set(&mut graph.nodes, &mut graph.values, place, value);
            }
        }
        self.operation.bytes += span.bytes.len() as u64;
        self.operation.accesses.push(span.access(kind));
    }

    /// Enqueues all operations as one.
    ///
    /// # Errors
    ///
    /// If the driver cannot change or launch the graph, or the device is lost. The graph may then
    /// be changed in part and must not be used again.
    ///
    /// # Safety
    ///
    /// The named arrays agree in number, order and access with those given to
    /// [`unbind`](RecordedKernels::unbind), and the array of temporaries, if there is one, comes
    /// last, for writing. The scalars were set, if there are any. The stream is of the device of
    /// the recording and does not record. With the scalars, the kernels access nothing but these
    /// arrays, within the sizes of those of the recording, and write only those that are named for
    /// writing.
    pub unsafe fn submit(&mut self, stream: &Stream) -> Result<()> {
        let graph = &mut *self.graph;
        debug_assert_eq!(self.named, graph.arrays.len(), "arrays of {}", graph.name);
        let device = stream.device_state();
        let command = Replay { device, graph };
        // SAFETY: the accesses name all memory of the nodes, by this function's contract.
        let submitted = unsafe { submit(device, stream.state(), &mut self.operation, command) };
        let (sequence, ()) = submitted?;
        match &mut self.graph.last {
            Some((last, at)) if Arc::ptr_eq(last, stream.state()) => *at = sequence,
            last => *last = Some((Arc::clone(stream.state()), sequence)),
        }
        Ok(())
    }
}

impl std::fmt::Debug for BoundReplay<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BoundReplay of {:?}", self.graph)
    }
}

/// Sets a value of a node. Returns whether it was another.
fn set(nodes: &mut [UnboundNode], values: &mut [u64], place: ValuePlace, value: u64) -> bool {
    let is_other = values[place.value] != value;
    if is_other {
        values[place.value] = value;
        nodes[place.node].is_changed = true;
    }
    is_other
}

/// The launch of a graph whose values are set.
struct Replay<'a> {
    device: &'a DeviceState,
    graph: &'a mut UnboundGraph,
}

impl Command for Replay<'_> {
    type Output = ();

    unsafe fn enqueue(mut self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let (driver, context, stream) = driver_stream.parts();
        let exec = self.graph.objects.exec;
        let exec = exec.expect("a graph is instantiated at once");
        if self.graph.is_changed {
            self.set_nodes(driver_stream, exec)?;
        }
        // SAFETY: the executable graph is alive; the rest is this function's contract.
        unsafe { driver.graph_launch(context, exec, stream) }
    }
}

impl Replay<'_> {
    /// Sets the nodes whose values have changed.
    #[inline(never)]
    fn set_nodes(
        &mut self,
        driver_stream: DriverStream<'_>,
        exec: GraphExecHandle,
    ) -> Result<(), DriverError> {
        let Self { device, graph } = self;
        let (driver, context, _) = driver_stream.parts();
        for node in graph.nodes.iter_mut().filter(|node| node.is_changed) {
            let _name = device.named(node.label, node.location);
            node.work.with_node(&graph.values, |operation| {
                // SAFETY: the executable graph and its template are alive. The launches that use
                // these addresses name their arrays as accesses.
                unsafe { driver.graph_exec_set_node(context, exec, node.handle, operation) }
            })?;
            node.is_changed = false;
        }
        graph.is_changed = false;
        Ok(())
    }
}

impl Drop for GraphObjects {
    fn drop(&mut self) {
        let Self {
            driver,
            context,
            idle_frees,
            template,
            exec,
        } = self;
        if let Some(exec) = *exec {
            idle_frees.defer(Resource::Graph(exec), SmallVec::new());
        }
        // SAFETY: the graph is alive and not used again.
        if let Err(error) = unsafe { driver.graph_destroy(*context, *template) } {
            log!(debug, %error, "cannot destroy a graph");
        }
    }
}

impl std::fmt::Debug for UnboundGraph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UnboundGraph({}: {} nodes)", self.name, self.len())
    }
}
