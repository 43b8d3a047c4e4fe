//! Questions about graphs, which only programs of CUDA's driver API ask.

use millstream_driver::{
    ConditionHandle, ContextHandle, Copy2d, DevicePtr, EventHandle, FillPattern, FunctionHandle,
    GraphHandle, GraphKernel, GraphNodeHandle, LaunchAttributes, LaunchDims, Memory2d, Side2d,
};

use crate::{
    Gpu,
    core::{
        call_error::CallResult,
        gpu::StateGuard,
        graph::{Node, NodeOperation},
        objects::host_functions::RepeatedFunction,
        op::{CopyOp, CopySource, CopyTarget, FillOp, KernelLaunch},
        state::SimState,
    },
    memory::host::HostRange,
};

/// A node of a graph, as [`Gpu::graph_nodes`] describes it.
///
/// ```
/// use millstream_driver::{DeviceOrdinal, Driver, GraphNode};
/// use millstream_sim::{Gpu, NodeDetails, SimConfig};
/// let gpu = Gpu::new(SimConfig::new());
/// let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0)).unwrap();
/// // SAFETY: the handles are alive.
/// let (graph, first) = unsafe {
///     let graph = gpu.graph_create(context).unwrap();
///     let first = gpu.graph_add_node(context, graph, &[], &GraphNode::Empty).unwrap();
///     gpu.graph_add_node(context, graph, &[first], &GraphNode::Empty).unwrap();
///     (graph, first)
/// };
/// let nodes = gpu.graph_nodes(graph).unwrap();
/// assert!(matches!(nodes[0].operation, NodeDetails::Empty));
/// assert_eq!(nodes[1].dependencies, [first]);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeEntry {
    /// The node.
    pub node: GraphNodeHandle,
    /// The nodes that run before it.
    pub dependencies: Vec<GraphNodeHandle>,
    /// The operation.
    pub operation: NodeDetails,
}

/// The operation of a node, as [`Gpu::graph_nodes`] describes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NodeDetails {
    /// A kernel.
    Kernel {
        /// The kernel, if its handle is alive.
        function: Option<FunctionHandle>,
        /// The dimensions.
        dims: LaunchDims,
        /// The block of arguments.
        params: Box<[u8]>,
    },
    /// A copy.
    Copy(Copy2d),
    /// A fill.
    Fill {
        /// The first byte.
        target: DevicePtr,
        /// The element.
        pattern: FillPattern,
        /// The number of elements.
        count: usize,
    },
    /// A host function.
    Host(RepeatedFunction),
    /// A record of an event.
    Record(EventHandle),
    /// A wait for an event.
    Wait(EventHandle),
    /// No operation.
    Empty,
    /// A child.
    Child,
    /// An allocation.
    Allocation {
        /// The address.
        pointer: DevicePtr,
        /// The size in bytes.
        bytes: usize,
        /// The device.
        device: u32,
    },
    /// The end of an allocation.
    Free(DevicePtr),
    /// A conditional node.
    Conditional {
        /// The condition.
        condition: ConditionHandle,
        /// The bodies.
        bodies: Vec<GraphHandle>,
    },
}

/// Returns the caller's pointer to a range of its memory.
fn host_pointer(range: HostRange) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(range.address() as usize)
}

fn copy_details(copy: &CopyOp) -> Copy2d {
    let (source, target) = (&copy.source, &copy.target);
    Copy2d {
        source: Side2d {
            memory: match source {
                CopySource::Mapped(address) => Memory2d::Device(DevicePtr::from_raw(*address)),
                CopySource::Host(range) => Memory2d::Host(host_pointer(*range)),
                CopySource::Captured(_) => Memory2d::Host(std::ptr::null_mut()),
            },
            pitch_bytes: copy.rows.source_pitch as usize,
        },
        target: Side2d {
            memory: match target {
                CopyTarget::Mapped(address) => Memory2d::Device(DevicePtr::from_raw(*address)),
                CopyTarget::Host(range) => Memory2d::Host(host_pointer(*range)),
            },
            pitch_bytes: copy.rows.target_pitch as usize,
        },
        width_bytes: copy.rows.width as usize,
        height: copy.rows.height as usize,
    }
}

fn fill_details(fill: &FillOp) -> NodeDetails {
    let [a, b, ..] = fill.pattern;
    NodeDetails::Fill {
        target: DevicePtr::from_raw(fill.target),
        pattern: match fill.pattern_bytes {
            1 => FillPattern::U8(a),
            2 => FillPattern::U16(u16::from_le_bytes([a, b])),
            _ => FillPattern::U32(u32::from_le_bytes(fill.pattern)),
        },
        count: fill.bytes as usize / fill.pattern_bytes,
    }
}

impl StateGuard<'_> {
    /// Returns the kernels of a graph, each behind those that it depends on; `None` if there is
    /// another node, or a kernel whose handle is not alive.
    pub(super) fn graph_kernels(
        &mut self,
        context: ContextHandle,
        graph: GraphHandle,
    ) -> CallResult<Option<Vec<GraphKernel>>> {
        self.graph(context, graph)?;
        Ok(self.kernels_of(graph))
    }
}

impl SimState {
    fn kernels_of(&self, graph: GraphHandle) -> Option<Vec<GraphKernel>> {
        let nodes = &self.graphs[&graph].nodes;
        let kernel = |(handle, node): (&GraphNodeHandle, &Node<GraphHandle>)| {
            let NodeOperation::Kernel(launch) = &node.operation else {
                return None;
            };
            let kernel = launch.module.ptx.kernel(&launch.name)?;
            let params = kernel.signature().params.iter();
            // An edge may have been added from a later node to an earlier one.
            let mut earlier = node.dependencies.iter();
            if !earlier.all(|before| before < handle) {
                return None;
            }
            Some(GraphKernel {
                function: self.function_of(launch)?,
                dims: launch.dims,
                attributes: LaunchAttributes {
                    cooperative: launch.cooperative,
                    ..LaunchAttributes::default()
                },
                params: params
                    .map(|param| launch.params[param.offset..][..param.size].into())
                    .collect(),
            })
        };
        nodes.iter().map(kernel).collect()
    }

    pub(super) fn graph_of_node(&self, node: GraphNodeHandle) -> Option<GraphHandle> {
        let mut graphs = self.graphs.iter();
        let found = graphs.find(|(_, graph)| graph.nodes.contains_key(&node))?;
        Some(*found.0)
    }

    fn function_of(&self, launch: &KernelLaunch) -> Option<FunctionHandle> {
        let mut functions = self.functions.iter();
        let found = functions.find(|(_, function)| {
            function.module == launch.module_handle && *function.name == *launch.name
        });
        found.map(|(handle, _)| *handle)
    }

    fn kernel_details(&self, launch: &KernelLaunch) -> NodeDetails {
        NodeDetails::Kernel {
            function: self.function_of(launch),
            dims: launch.dims,
            params: launch.params.clone(),
        }
    }

    fn node_details(&self, node: &Node<GraphHandle>) -> NodeDetails {
        match &node.operation {
            NodeOperation::Kernel(launch) => self.kernel_details(launch),
            NodeOperation::Copy(copy) => NodeDetails::Copy(copy_details(copy)),
            NodeOperation::Fill(fill) => fill_details(fill),
            NodeOperation::Host(function) => NodeDetails::Host(function.clone()),
            NodeOperation::Record(event) => NodeDetails::Record(*event),
            NodeOperation::Wait(event) => NodeDetails::Wait(*event),
            NodeOperation::Empty => NodeDetails::Empty,
            NodeOperation::Child(_) => NodeDetails::Child,
            NodeOperation::Allocation(base) => {
                let found = self.memory.at(*base);
                NodeDetails::Allocation {
                    pointer: DevicePtr::from_raw(*base),
                    bytes: found.map_or(0, |found| found.bytes as usize),
                    device: found.map_or(0, |found| found.device),
                }
            }
            NodeOperation::Free(base) => NodeDetails::Free(DevicePtr::from_raw(*base)),
            NodeOperation::Conditional {
                condition, bodies, ..
            } => NodeDetails::Conditional {
                condition: *condition,
                bodies: bodies.clone(),
            },
        }
    }
}

impl Gpu {
    /// Returns the nodes of a graph, in the order of addition; `None` for a handle that is not
    /// alive.
    #[must_use]
    pub fn graph_nodes(&self, graph: GraphHandle) -> Option<Vec<NodeEntry>> {
        let state = self.enter();
        let nodes = state.graphs.get(&graph)?.nodes.iter();
        let entry = |(handle, node): (&GraphNodeHandle, &Node<GraphHandle>)| NodeEntry {
            node: *handle,
            dependencies: node.dependencies.iter().copied().collect(),
            operation: state.node_details(node),
        };
        Some(nodes.map(entry).collect())
    }

    /// Returns the context of a graph; `None` for a handle that is not alive.
    #[must_use]
    pub fn graph_context(&self, graph: GraphHandle) -> Option<ContextHandle> {
        let state = self.enter();
        Some(state.graphs.get(&graph)?.context)
    }

    /// Returns the graph that has a node, behind its context; `None` for a node that is not alive.
    #[must_use]
    pub fn graph_of_node(&self, node: GraphNodeHandle) -> Option<(ContextHandle, GraphHandle)> {
        let state = self.enter();
        let graph = state.graph_of_node(node)?;
        Some((state.graphs[&graph].context, graph))
    }

    /// Returns the operation of a node; `None` for a node that is not alive.
    #[must_use]
    pub fn graph_node(&self, node: GraphNodeHandle) -> Option<NodeDetails> {
        let state = self.enter();
        let graph = state.graph_of_node(node)?;
        Some(state.node_details(&state.graphs[&graph].nodes[&node]))
    }

    /// Returns the copy of a node in a clone of its graph (`cuGraphNodeFindInClone`).
    #[must_use]
    pub fn graph_node_in_clone(
        &self,
        original: GraphNodeHandle,
        clone: GraphHandle,
    ) -> Option<GraphNodeHandle> {
        let state = self.enter();
        let mut nodes = state.graphs.get(&clone)?.nodes.iter();
        let found = nodes.find(|(_, node)| node.original == Some(original))?;
        Some(*found.0)
    }

    /// Returns the number of bytes that graphs have allocated on a device.
    #[must_use]
    pub fn graph_memory_bytes(&self, device: u32) -> u64 {
        let state = self.enter();
        let bases = state.graph_allocations.iter();
        let found = bases.filter_map(|base| state.memory.at(*base));
        let on_device = found.filter(|found| found.device == device);
        on_device.map(|found| found.bytes).sum()
    }
}
