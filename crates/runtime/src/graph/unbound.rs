//! Graphs whose arrays are arguments of each replay, for code that is generated at run time.
//!
//! A [`Graph`](super::Graph) owns its operands. A caller with other arrays and numbers at each
//! replay would have to exchange them first, and each graph would keep the memory of its
//! temporaries. An [`UnboundGraph`] owns no memory at all: each replay names its arrays, as a
//! launch does, and one more array as the memory of the temporaries. It does not keep the device
//! open either, so that it can be kept in the device ([`Device::slot`]).

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
    Device, Result, Stream,
    context::{Command, DeviceState, DriverStream, Operation, StreamState, poll_ticket, submit},
    disposal::log,
    error::OperationKind,
    kernel::Argument,
    memory::IdleFrees,
    tracker::{Accesses, Sequence},
};

/// A graph whose arrays are arguments of each replay.
#[doc(hidden)]
pub struct UnboundGraph {
    objects: GraphObjects,
    name: &'static str,
    location: &'static Location<'static>,
    nodes: Vec<UnboundNode>,
    /// The addresses and numbers of all nodes.
    values: Vec<u64>,
    arrays: Vec<ArrayPlace>,
    scalars: Vec<ValuePlace>,
    /// The number of arrays of a replay, the temporaries' memory included.
    array_count: usize,
    temporary_bytes: u64,
    /// The last replay.
    last: Option<(Arc<StreamState>, Sequence)>,
}

/// The driver's objects of a graph. They are no handle of the device. Dropping them destroys the
/// template, and defers the destruction of the executable graph, which may wait for the device
/// (rule 62).
struct GraphObjects {
    driver: Arc<dyn Driver>,
    context: ContextHandle,
    idle_frees: Arc<IdleFrees>,
    template: GraphHandle,
    /// `None` until it is instantiated.
    exec: Option<GraphExecHandle>,
}

/// A node, with its values by number.
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

/// A value of a node.
#[derive(Clone, Copy)]
struct ValuePlace {
    node: usize,
    value: usize,
}

/// A value that is an address in an array.
#[derive(Clone, Copy)]
struct ArrayPlace {
    place: ValuePlace,
    /// The number of the array among those of a replay.
    array: usize,
    offset: u64,
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

    /// Enqueues all operations as one, with these arrays, as arguments for reading or writing, and
    /// these scalars, each in the low bytes of a word.
    ///
    /// # Errors
    ///
    /// If the driver cannot change or launch the graph, or the device is lost. The graph may then
    /// be changed in part and must not be used again.
    ///
    /// # Safety
    ///
    /// Arrays and scalars agree in number and order with those given to
    /// [`unbind`](RecordedKernels::unbind), and the array of temporaries, if there is one, comes
    /// last, for writing. The stream is of the device of the recording and does not record. With
    /// the scalars, the kernels access nothing but these arrays, within the sizes of those of the
    /// recording, and write only those that are arguments for writing.
    pub unsafe fn replay(
        &mut self,
        stream: &Stream,
        arrays: &[Argument<'_>],
        scalars: &[u64],
    ) -> Result<()> {
        debug_assert_eq!(arrays.len(), self.array_count, "arrays of {}", self.name);
        debug_assert_eq!(scalars.len(), self.scalars.len(), "scalars");
        for &ArrayPlace {
            place,
            array,
            offset,
        } in &self.arrays
        {
            let value = arrays[array].address() + offset;
            set(&mut self.nodes, &mut self.values, place, value);
        }
        for (&place, &value) in self.scalars.iter().zip(scalars) {
            set(&mut self.nodes, &mut self.values, place, value);
        }
        let mut accesses = Accesses::default();
        let mut bytes = 0;
        for (span, kind) in arrays.iter().filter_map(Argument::as_slice) {
            bytes += span.bytes.len() as u64;
            accesses.push(span.access(kind));
        }
        let operation = Operation {
            kind: OperationKind::Graph,
            label: self.name,
            location: self.location,
            bytes,
            accesses,
            host_waiter: None,
        };
        let device = stream.device_state();
        let command = Replay {
            device,
            graph: self,
        };
        // SAFETY: the accesses name all memory of the nodes, by this function's contract.
        let (sequence, ()) = unsafe { submit(device, stream.state(), operation, command) }?;
        match &mut self.last {
            Some((last, at)) if Arc::ptr_eq(last, stream.state()) => *at = sequence,
            last => *last = Some((Arc::clone(stream.state()), sequence)),
        }
        Ok(())
    }
}

/// Sets a value of a node.
fn set(nodes: &mut [UnboundNode], values: &mut [u64], place: ValuePlace, value: u64) {
    if values[place.value] != value {
        values[place.value] = value;
        nodes[place.node].is_changed = true;
    }
}

/// The launch of a graph whose values are set.
struct Replay<'a> {
    device: &'a DeviceState,
    graph: &'a mut UnboundGraph,
}

impl Command for Replay<'_> {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let Self { device, graph } = self;
        let DriverStream {
            driver,
            context,
            stream,
        } = driver_stream;
        let exec = graph.objects.exec.expect("a graph is instantiated at once");
        for node in graph.nodes.iter_mut().filter(|node| node.is_changed) {
            let _name = device.named(node.label, node.location);
            node.work.with_node(&graph.values, |operation| {
                // SAFETY: the executable graph and its template are alive. The launches that use
                // these addresses name their arrays as accesses.
                unsafe { driver.graph_exec_set_node(context, exec, node.handle, operation) }
            })?;
            node.is_changed = false;
        }
        // SAFETY: the executable graph is alive; the rest is this function's contract.
        unsafe { driver.graph_launch(context, exec, stream) }
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
            idle_frees.defer_graph(exec);
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
