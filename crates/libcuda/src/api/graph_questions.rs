//! Questions about graphs: their nodes and edges, and the operations of nodes.

use millstream_driver::{
    FillPattern, FunctionHandle, GraphNodeHandle, LaunchDims, Memory2d, ResultCode, Side2d,
};
use millstream_sim::{NodeDetails, NodeEntry};

use crate::{
    abi::{
        Address, AllocationFields, Copy3dFields, Device, FillNodeFields, Handle, In,
        KernelNodeFields, KernelNodeFields2, Out, Side3dFields,
    },
    api::{graph_node::node_of, pool},
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
    objects::NodeList,
};

/// The kinds of nodes that are supported, as the numbers of `CUgraphNodeType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Kernel = 0,
    Copy = 1,
    Fill = 2,
    Host = 3,
    Child = 4,
    Empty = 5,
    Wait = 6,
    Record = 7,
    Allocation = 10,
    Free = 11,
    Conditional = 13,
}

impl NodeKind {
    const ALL: [Self; 11] = [
        Self::Kernel,
        Self::Copy,
        Self::Fill,
        Self::Host,
        Self::Child,
        Self::Empty,
        Self::Wait,
        Self::Record,
        Self::Allocation,
        Self::Free,
        Self::Conditional,
    ];

    pub(super) fn of(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as i32 == number)
    }
}

pub(super) fn kind_of(operation: &NodeDetails) -> NodeKind {
    match operation {
        NodeDetails::Kernel { .. } => NodeKind::Kernel,
        NodeDetails::Copy(_) => NodeKind::Copy,
        NodeDetails::Fill { .. } => NodeKind::Fill,
        NodeDetails::Host(_) => NodeKind::Host,
        NodeDetails::Child => NodeKind::Child,
        NodeDetails::Wait(_) => NodeKind::Wait,
        NodeDetails::Record(_) => NodeKind::Record,
        NodeDetails::Allocation { .. } => NodeKind::Allocation,
        NodeDetails::Free(_) => NodeKind::Free,
        NodeDetails::Conditional { .. } => NodeKind::Conditional,
        _ => NodeKind::Empty,
    }
}

pub(super) fn entries(call: &Call, graph: Handle) -> Answer<Vec<NodeEntry>> {
    let (_, graph) = call.graph(graph)?;
    let nodes = call.process()?.gpu.graph_nodes(graph);
    nodes.ok_or(ResultCode::INVALID_VALUE)
}

fn siblings(call: &Call, raw: Handle) -> Answer<(GraphNodeHandle, Vec<NodeEntry>)> {
    let (_, node) = node_of(call, raw)?;
    let gpu = &call.process()?.gpu;
    let graph = gpu.graph_of_node(node).map(|(_, graph)| graph);
    let nodes = graph.and_then(|graph| gpu.graph_nodes(graph));
    Ok((node, nodes.ok_or(ResultCode::INVALID_VALUE)?))
}

/// Returns the operation of a node.
fn details(call: &Call, raw: Handle) -> Answer<NodeDetails> {
    let (_, node) = node_of(call, raw)?;
    let found = call.process()?.gpu.graph_node(node);
    found.ok_or(ResultCode::INVALID_VALUE)
}

/// Returns a value of the details of a node of this kind. Fails with `INVALID_VALUE` for others.
macro_rules! detail {
    ($call:ident, $node:ident, $kind:pat => $value:expr) => {
        match details($call, $node)? {
            $kind => $value,
            _ => return Err(ResultCode::INVALID_VALUE),
        }
    };
}

/// A list that the program reads: for a null pointer only its length, else as many values as it has
/// room for, and zeros in the rest.
#[derive(Clone, Copy)]
pub(crate) struct List {
    pub(crate) values: Out<Handle>,
    /// The number of values that there is room for; receives that of the values.
    pub(crate) count: Out<usize>,
}

impl List {
    fn write(self, nodes: impl Iterator<Item = GraphNodeHandle>) -> Answer {
        let nodes: Vec<_> = nodes.map(GraphNodeHandle::as_raw).collect();
        if self.values.is_null() {
            return self.count.set(nodes.len());
        }
        let room = self.count.get_at(0)?;
        let values = nodes.iter().copied().chain(std::iter::repeat(0));
        self.values.set_all(values.take(room))?;
        self.count.set(nodes.len().min(room))
    }

    /// Writes zeros as the data of as many edges as were written.
    fn write_data(self, data: Out<u64>) -> Answer {
        if self.values.is_null() || data.is_null() {
            return Ok(());
        }
        data.set_all(std::iter::repeat_n(0, self.count.get_at(0)?))
    }
}

/// `cuGraphGetNodes`
pub(crate) fn all(call: &Call, graph: Handle, list: List) -> Answer {
    let entries = entries(call, graph)?;
    list.write(entries.iter().map(|entry| entry.node))
}

/// `cuGraphGetRootNodes`
pub(crate) fn roots(call: &Call, graph: Handle, list: List) -> Answer {
    let entries = entries(call, graph)?.into_iter();
    let roots = entries.filter(|entry| entry.dependencies.is_empty());
    list.write(roots.map(|entry| entry.node))
}

/// `cuGraphNodeGetDependencies`
pub(crate) fn dependencies(call: &Call, node: Handle, data: Out<u64>, list: List) -> Answer {
    let (node, nodes) = siblings(call, node)?;
    let own = nodes.into_iter().filter(|entry| entry.node == node);
    list.write(own.flat_map(|entry| entry.dependencies))?;
    list.write_data(data)
}

/// `cuGraphNodeGetDependentNodes`
pub(crate) fn dependents(call: &Call, node: Handle, data: Out<u64>, list: List) -> Answer {
    let (node, nodes) = siblings(call, node)?;
    let behind = nodes
        .iter()
        .filter(|entry| entry.dependencies.contains(&node));
    list.write(behind.map(|entry| entry.node))?;
    list.write_data(data)
}

/// Returns the fields of a kernel in the first version. The program may read the arguments until it
/// asks again, or the node ends.
fn kernel_fields(
    call: &Call,
    node: Handle,
    function: FunctionHandle,
    dims: LaunchDims,
    params: Box<[u8]>,
) -> Answer<KernelNodeFields> {
    let process = call.process()?;
    let details = process.gpu.function_details(function);
    let details = details.ok_or(ResultCode::INVALID_HANDLE)?;
    let (context, node) = node_of(call, node)?;
    let arguments = NodeList::of_arguments(context, params, &details.params);
    let pointers = In::of(arguments.pointer());
    process.objects.lock().node_lists.insert(node, arguments);
    Ok(KernelNodeFields {
        function: function.as_raw(),
        grid: dims.grid,
        block: dims.block,
        shared_bytes: dims.shared_bytes,
        pointers,
        extra: In::null(),
    })
}

fn side(side: &Side2d) -> Side3dFields {
    let (memory_type, host, device) = match side.memory {
        Memory2d::Host(pointer) => (1, pointer, 0),
        Memory2d::Device(pointer) => (2, std::ptr::null_mut(), pointer.as_raw()),
    };
    Side3dFields {
        x_bytes: 0,
        y: 0,
        z: 0,
        level: 0,
        memory_type,
        host,
        device,
        array: 0,
        context: 0,
        pitch: side.pitch_bytes,
        height: 0,
    }
}

exports! {
    [cuGraphGetEdges_v2]
    fn edges(
        call, graph: Handle, from: Out<Handle>, to: Out<Handle>, data: Out<u64>, count: Out<usize>
    ) {
        let entries = entries(call, graph)?;
        refuse_if(from.is_null() != to.is_null(), ResultCode::INVALID_VALUE)?;
        let pairs = entries.iter().flat_map(|entry| {
            let before = entry.dependencies.iter();
            before.map(|before| (*before, entry.node))
        });
        let (starts, ends): (Vec<_>, Vec<_>) = pairs.unzip();
        let room = count.get_at(0)?;
        List { values: to, count }.write(ends.into_iter())?;
        if !from.is_null() {
            count.set(room)?;
        }
        let list = List {
            values: from,
            count,
        };
        list.write(starts.into_iter())?;
        list.write_data(data)
    }

    [cuGraphNodeGetType]
    fn kind(call, node: Handle, kind: Out<i32>) {
        kind.set(kind_of(&details(call, node)?) as i32)
    }

    [cuGraphNodeFindInClone]
    fn in_clone(call, found: Out<Handle>, node: Handle, clone: Handle) {
        found.check()?;
        let (_, node) = node_of(call, node)?;
        let (_, clone) = call.graph(clone)?;
        let copy = call.process()?.gpu.graph_node_in_clone(node, clone);
        found.set(copy.ok_or(ResultCode::INVALID_VALUE)?.as_raw())
    }

    [cuGraphKernelNodeGetParams]
    fn kernel(call, node: Handle, fields: Out<KernelNodeFields>) {
        fields.check()?;
        match details(call, node)? {
            NodeDetails::Kernel {
                function: Some(function),
                dims,
                params,
            } => fields.set(kernel_fields(call, node, function, dims, params)?),
            NodeDetails::Kernel { function: None, .. } => Err(ResultCode::INVALID_HANDLE),
            _ => Err(ResultCode::INVALID_VALUE),
        }
    }

    [cuGraphKernelNodeGetParams_v2]
    fn kernel_2(call, node: Handle, fields: Out<KernelNodeFields2>) {
        fields.check()?;
        kernel(call, node, fields.first_version())?;
        fields.set(KernelNodeFields2 {
            kernel: 0,
            context: 0,
            ..fields.get_at(0)?
        })
    }

    [cuGraphMemcpyNodeGetParams]
    fn copy(call, node: Handle, fields: Out<Copy3dFields>) {
        let copy = detail!(call, node, NodeDetails::Copy(copy) => copy);
        fields.set(Copy3dFields {
            source: side(&copy.source),
            target: side(&copy.target),
            width_bytes: copy.width_bytes,
            height: copy.height,
            depth: 1,
        })
    }

    [cuGraphMemsetNodeGetParams]
    fn fill(call, node: Handle, fields: Out<FillNodeFields>) {
        let (target, pattern, count) = detail!(
            call, node, NodeDetails::Fill { target, pattern, count } => (target, pattern, count)
        );
        let (value, element_bytes) = match pattern {
            FillPattern::U8(value) => (value.into(), 1),
            FillPattern::U16(value) => (value.into(), 2),
            FillPattern::U32(value) => (value, 4),
        };
        fields.set(FillNodeFields {
            target: target.as_raw(),
            pitch: 0,
            value,
            element_bytes,
            width: count,
            height: 1,
        })
    }

    /// The addresses of the function and of its data.
    [cuGraphHostNodeGetParams]
    fn host(call, node: Handle, fields: Out<[usize; 2]>) {
        fields.set(detail!(call, node, NodeDetails::Host(function) => function.tag))
    }

    [cuGraphEventRecordNodeGetEvent]
    fn record(call, node: Handle, event: Out<Handle>) {
        event.set(detail!(call, node, NodeDetails::Record(found) => found.as_raw()))
    }

    [cuGraphEventWaitNodeGetEvent]
    fn wait(call, node: Handle, event: Out<Handle>) {
        event.set(detail!(call, node, NodeDetails::Wait(found) => found.as_raw()))
    }

    [cuGraphMemAllocNodeGetParams]
    fn allocation(call, node: Handle, fields: Out<AllocationFields>) {
        let (pointer, bytes, device) = detail!(
            call, node,
            NodeDetails::Allocation { pointer, bytes, device } => (pointer, bytes, device)
        );
        fields.set(AllocationFields {
            pool: pool::fields_of(device as Device),
            access: In::null(),
            access_count: 0,
            bytes,
            pointer: pointer.as_raw(),
        })
    }

    [cuGraphMemFreeNodeGetParams]
    fn free(call, node: Handle, pointer: Out<Address>) {
        pointer.set(detail!(call, node, NodeDetails::Free(found) => found.as_raw()))
    }

    /// The current numbers of bytes. Peaks are not supported.
    [cuDeviceGetGraphMemAttribute]
    fn memory(call, device: Device, attribute: i32, value: Out<std::ffi::c_void>) {
        /// `CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT`, `CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT`
        const CURRENT: [i32; 2] = [0, 2];
        let device = call.device(device)?;
        value.check()?;
        match attribute {
            _ if CURRENT.contains(&attribute) => {
                let gpu = &call.process()?.gpu;
                value
                    .to()
                    .set(gpu.graph_memory_bytes(device.as_raw() as u32))
            }
            1 | 3 => Err(ResultCode::NOT_SUPPORTED),
            _ => Err(ResultCode::INVALID_VALUE),
        }
    }

    /// Memory of graphs that are gone is freed at once in any case.
    [cuDeviceGraphMemTrim]
    fn trim(call, device: Device) {
        call.device(device).map(drop)
    }

    [cuGraphGetNodes]
    fn _(call, graph: Handle, values: Out<Handle>, count: Out<usize>) {
        all(call, graph, List { values, count })
    }

    [cuGraphGetRootNodes]
    fn _(call, graph: Handle, values: Out<Handle>, count: Out<usize>) {
        roots(call, graph, List { values, count })
    }

    [cuGraphGetEdges]
    fn _(call, graph: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>) {
        edges(call, graph, from, to, Out::null(), count)
    }

    [cuGraphNodeGetDependencies]
    fn _(call, node: Handle, values: Out<Handle>, count: Out<usize>) {
        dependencies(call, node, Out::null(), List { values, count })
    }

    [cuGraphNodeGetDependencies_v2]
    fn _(call, node: Handle, values: Out<Handle>, edges: Out<u64>, count: Out<usize>) {
        dependencies(call, node, edges, List { values, count })
    }

    [cuGraphNodeGetDependentNodes]
    fn _(call, node: Handle, values: Out<Handle>, count: Out<usize>) {
        dependents(call, node, Out::null(), List { values, count })
    }

    [cuGraphNodeGetDependentNodes_v2]
    fn _(call, node: Handle, values: Out<Handle>, edges: Out<u64>, count: Out<usize>) {
        dependents(call, node, edges, List { values, count })
    }
}
