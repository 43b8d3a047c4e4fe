//! Nodes of graphs: the operations that programs give for them, and their addition.

use millstream_driver::{
    ConditionHandle, ConditionalKind, ContextHandle, DevicePtr, FillPattern, GraphNode,
    GraphNodeHandle, KernelNode, LaunchAttributes, LaunchDims, ResultCode,
};
use millstream_sim::{BranchKind, NodeDetails, ProgramNode};

use crate::{
    abi::{
        Address, AllocationFields, Copy3dFields, FillNodeFields, Handle, HostNodeFields, In,
        KernelNodeFields, KernelNodeFields2, NodeFields, Out,
    },
    api::{
        copy_3d,
        graph::{drop_lists, nodes, nodes_within, refuse_edge_data},
        graph_questions::NodeKind,
        launch, pool, user_object,
    },
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
    host_function,
    objects::NodeList,
    process::options,
};

/// The graph that a node is added to, and the nodes before it.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) graph: Handle,
    pub(crate) dependencies: In<Handle>,
    pub(crate) count: usize,
}

/// The operation of a node, as the fields of a call give it.
#[derive(Clone, Copy)]
pub(crate) enum Fields {
    Kernel(In<KernelNodeFields>),
    /// A kernel that may be that of a library.
    Kernel2(In<KernelNodeFields2>),
    Copy(In<Copy3dFields>),
    Fill(In<FillNodeFields>),
    Host(In<HostNodeFields>),
    Record(Handle),
    Wait(Handle),
    Free(Address),
    Child(Handle),
    Empty,
}

impl Fields {
    /// Returns the operation that the fields of any node describe. Fails with `NOT_SUPPORTED` for
    /// operations that are not supported, and for allocations and conditional nodes, which have
    /// results.
    pub(super) fn of_node(fields: &NodeFields) -> Answer<Self> {
        let parameters = &fields.parameters;
        let start = parameters.as_ptr();
        let kind = NodeKind::of(fields.kind).ok_or(ResultCode::INVALID_VALUE)?;
        Ok(match kind {
            NodeKind::Kernel => Self::Kernel2(In::of(start)),
            // Behind two numbers and a context.
            NodeKind::Copy => Self::Copy(In::of(parameters[2..].as_ptr())),
            NodeKind::Fill => Self::Fill(In::of(start)),
            NodeKind::Host => Self::Host(In::of(start)),
            NodeKind::Child => match parameters[1] as u32 {
                0 => Self::Child(parameters[0] as Handle),
                // The child moves into the node.
                _ => return Err(ResultCode::NOT_SUPPORTED),
            },
            NodeKind::Empty => Self::Empty,
            NodeKind::Wait => Self::Wait(parameters[0] as Handle),
            NodeKind::Record => Self::Record(parameters[0] as Handle),
            NodeKind::Free => Self::Free(parameters[0]),
            NodeKind::Allocation | NodeKind::Conditional => return Err(ResultCode::NOT_SUPPORTED),
        })
    }

    /// Calls `work` with the operation.
    pub(super) fn with<R>(
        self,
        call: &Call,
        context: ContextHandle,
        work: impl FnOnce(&ProgramNode<'_>) -> Answer<R>,
    ) -> Answer<R> {
        match self {
            Self::Kernel(fields) => with_kernel(call, context, &fields.get()?, work),
            Self::Kernel2(fields) => {
                let kernel = first_version(&fields.get()?);
                with_kernel(call, context, &kernel, work)
            }
            Self::Copy(fields) => work(&ProgramNode::Driver(copy_of(call, fields)?)),
            Self::Fill(fields) => work(&ProgramNode::Driver(fill_of(fields)?)),
            Self::Host(fields) => {
                let HostNodeFields { function, data } = fields.get()?;
                let function = function.ok_or(ResultCode::INVALID_VALUE)?;
                work(&ProgramNode::Host(host_function::repeated(function, data)))
            }
            Self::Record(event) => work(&ProgramNode::Record(call.event(event)?.1)),
            Self::Wait(0) => Err(ResultCode::INVALID_VALUE),
            Self::Wait(event) => work(&ProgramNode::Wait(call.event(event)?.1)),
            Self::Free(pointer) => work(&ProgramNode::Free(DevicePtr::from_raw(pointer))),
            Self::Child(child) => {
                let (_, child) = call.graph(child)?;
                work(&ProgramNode::Driver(GraphNode::Child(child)))
            }
            Self::Empty => work(&ProgramNode::Driver(GraphNode::Empty)),
        }
    }
}

/// Calls `work` with the kernel that the fields of a node describe.
fn with_kernel<R>(
    call: &Call,
    context: ContextHandle,
    fields: &KernelNodeFields,
    work: impl FnOnce(&ProgramNode<'_>) -> Answer<R>,
) -> Answer<R> {
    let arguments = launch::Arguments {
        pointers: fields.pointers,
        extra: fields.extra,
    };
    let (function, params) = launch::resolve(call, fields.function, context, arguments)?;
    work(&ProgramNode::Driver(GraphNode::Kernel(KernelNode {
        function,
        dims: LaunchDims {
            grid: fields.grid,
            block: fields.block,
            shared_bytes: fields.shared_bytes,
        },
        attributes: LaunchAttributes::default(),
        params: &params,
    })))
}

/// Returns the fields of a kernel as of the first version. The function may be that of a library.
fn first_version(fields: &KernelNodeFields2) -> KernelNodeFields {
    let function = match fields.fields.function {
        0 => fields.kernel,
        function => function,
    };
    KernelNodeFields {
        function,
        ..fields.fields
    }
}

fn copy_of(call: &Call, fields: In<Copy3dFields>) -> Answer<GraphNode<'static>> {
    match copy_3d::copies(call, &fields.get()?)?[..] {
        [copy] => Ok(GraphNode::Copy(copy)),
        [] => Err(ResultCode::INVALID_VALUE),
        _ => Err(ResultCode::NOT_SUPPORTED),
    }
}

/// Returns the fill that the fields of a node describe: of one row, or of rows without gaps.
fn fill_of(fields: In<FillNodeFields>) -> Answer<GraphNode<'static>> {
    let fields = fields.get()?;
    let pattern = match fields.element_bytes {
        1 => FillPattern::U8(fields.value as u8),
        2 => FillPattern::U16(fields.value as u16),
        4 => FillPattern::U32(fields.value),
        _ => return Err(ResultCode::INVALID_VALUE),
    };
    if fields.height > 1 && fields.pitch != fields.width.wrapping_mul(pattern.size()) {
        return Err(ResultCode::NOT_SUPPORTED);
    }
    let count = fields.width.checked_mul(fields.height);
    Ok(GraphNode::Fill {
        target: DevicePtr::from_raw(fields.target),
        pattern,
        count: count.ok_or(ResultCode::INVALID_VALUE)?,
    })
}

/// `cuGraphAddKernelNode` and the like: adds a node without further results.
pub(crate) fn add(call: &Call, node: Out<Handle>, place: Place, fields: Fields) -> Answer {
    node.check()?;
    let (context, graph) = call.graph(place.graph)?;
    let dependencies = nodes(place.dependencies, place.count)?;
    let added = fields.with(call, context, |operation| {
        call.process()?
            .graph_add_program_node(context, graph, &dependencies, operation)
    })?;
    node.set(added.as_raw())?;
    match fields {
        Fields::Child(child) => user_object::copy_references(call, child, place.graph),
        _ => Ok(()),
    }
}

/// `cuGraphAddMemAllocNode`. Access of other devices is not supported.
pub(crate) fn add_allocation(
    call: &Call,
    node: Out<Handle>,
    place: Place,
    fields: Out<AllocationFields>,
) -> Answer {
    node.check()?;
    let given = fields.get_at(0)?;
    let (context, graph) = call.graph(place.graph)?;
    let dependencies = nodes(place.dependencies, place.count)?;
    let device = pool::device_of(call, given.pool.location, given.pool.kind)?;
    refuse_if(given.pool.handle_types != 0, ResultCode::INVALID_VALUE)?;
    let mut access = given.access.all(given.access_count)?.into_iter();
    if access.any(|access| access.location.id != device.as_raw()) {
        return Err(ResultCode::NOT_SUPPORTED);
    }
    let process = call.process()?;
    let bytes = given.bytes;
    let (added, pointer) =
        process.graph_add_allocation(context, graph, &dependencies, device, bytes)?;
    fields.set(AllocationFields {
        pointer: pointer.as_raw(),
        ..given
    })?;
    node.set(added.as_raw())
}

/// The CUDA version from which on conditional nodes have several bodies.
const BRANCHES_SINCE: i32 = 12080;

/// The most bodies of a conditional node.
const BODIES_MAX: u32 = 1 << 16;

/// Adds a conditional node, and returns the address of the list of its bodies.
fn add_conditional(
    call: &Call,
    node: Out<Handle>,
    place: Place,
    parameters: &[u64; 29],
) -> Answer<u64> {
    node.check()?;
    let condition = ConditionHandle::from_raw(parameters[0]);
    let (kind, bodies) = (parameters[1] as u32, (parameters[1] >> 32) as u32);
    let has_branches = options()?.cuda_version >= BRANCHES_SINCE;
    let (context, graph) = call.graph(place.graph)?;
    call.context_of_handle(parameters[3] as Handle)?;
    let dependencies = nodes(place.dependencies, place.count)?;
    let process = call.process()?;
    let (added, bodies) = match (kind, bodies) {
        (1, 1) => {
            let kind = ConditionalKind::While;
            let added =
                process.graph_add_conditional(context, graph, &dependencies, condition, kind)?;
            (added.node, vec![added.body])
        }
        (2, too_many) if has_branches && too_many > BODIES_MAX => {
            return Err(ResultCode::OUT_OF_MEMORY);
        }
        (0, 1) | (0, 2) | (2, 1..) if bodies == 1 && kind == 0 || has_branches => {
            let kind = match kind {
                0 => BranchKind::IfElse,
                _ => BranchKind::Switch,
            };
            let of = (kind, bodies);
            process.graph_add_branches(context, graph, &dependencies, condition, of)?
        }
        _ => return Err(ResultCode::INVALID_VALUE),
    };
    node.set(added.as_raw())?;
    let list = NodeList::of_bodies(context, &bodies);
    let address = list.pointer().expose_provenance() as u64;
    process.objects.lock().node_lists.insert(added, list);
    Ok(address)
}

/// `cuGraphAddNode`. The data of edges must be zeros.
pub(crate) fn add_any(
    call: &Call,
    node: Out<Handle>,
    place: Place,
    edges: In<u64>,
    fields: Out<NodeFields>,
) -> Answer {
    refuse_edge_data(edges, place.count)?;
    let mut given = fields.get_at(0)?;
    match NodeKind::of(given.kind) {
        Some(NodeKind::Allocation) => {
            let allocation = fields.parameters().to::<AllocationFields>();
            add_allocation(call, node, place, allocation)
        }
        Some(NodeKind::Conditional) => {
            given.parameters[2] = add_conditional(call, node, place, &given.parameters)?;
            fields.set(given)
        }
        _ => add(call, node, place, Fields::of_node(&given)?),
    }
}

/// Resolves a node handle: the context of its graph, and the node.
pub(super) fn node_of(call: &Call, raw: Handle) -> Answer<(ContextHandle, GraphNodeHandle)> {
    let node = GraphNodeHandle::from_raw(raw);
    let place = call.process()?.gpu.graph_of_node(node);
    let (context, _) = place.ok_or_else(|| call.wrong_value("graph node", raw))?;
    Ok((context, node))
}

/// `cuGraphKernelNodeSetParams` and the like: replaces the operation of a node of a graph.
pub(crate) fn set(call: &Call, node: Handle, fields: Fields) -> Answer {
    let (context, node) = node_of(call, node)?;
    fields.with(call, context, |operation| {
        call.process()?
            .graph_set_program_node(context, node, operation)
    })
}

/// Exports these functions, and those that add a node with one operation.
macro_rules! node_exports {
    (
        add { $($add:ident($given:ident: $given_ty:ty $(, $ignored:ident: $ignored_ty:ty)?)
                $added:ident;)* }
        $($others:tt)*
    ) => {
        exports! {
            $($others)*
            $([$add]
            fn _(
                call, node: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize,
                $given: $given_ty $(, $ignored: $ignored_ty)?
            ) {
                add(call, node, Place { graph, dependencies, count }, Fields::$added($given))
            })*
        }
    };
}

node_exports! {
    add {
        cuGraphAddKernelNode(fields: In<KernelNodeFields>) Kernel;
        cuGraphAddKernelNode_v2(fields: In<KernelNodeFields2>) Kernel2;
        cuGraphAddMemcpyNode(fields: In<Copy3dFields>, _context: Handle) Copy;
        cuGraphAddMemsetNode(fields: In<FillNodeFields>, _context: Handle) Fill;
        cuGraphAddHostNode(fields: In<HostNodeFields>) Host;
        cuGraphAddChildGraphNode(child: Handle) Child;
        cuGraphAddEventRecordNode(event: Handle) Record;
        cuGraphAddEventWaitNode(event: Handle) Wait;
        cuGraphAddMemFreeNode(pointer: Address) Free;
    }

    [cuGraphNodeSetParams, cuGraphNodeSetParams_v2]
    fn set_any(call, node: Handle, fields: In<NodeFields>) {
        set(call, node, Fields::of_node(&fields.get()?)?)
    }

    [cuGraphDestroyNode]
    fn destroy(call, node: Handle) {
        let (context, node) = node_of(call, node)?;
        let process = call.process()?;
        let mut nodes = vec![node];
        if let Some(NodeDetails::Conditional { bodies, .. }) = process.gpu.graph_node(node) {
            for body in bodies {
                nodes.extend(nodes_within(call, body)?);
            }
        }
        process.graph_remove_node(context, node)?;
        drop_lists(call, &nodes)
    }

    [cuGraphAddEmptyNode]
    fn _(call, node: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize) {
        add(call, node, Place { graph, dependencies, count }, Fields::Empty)
    }

    [cuGraphAddMemAllocNode]
    fn _(
        call, node: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize,
        fields: Out<AllocationFields>
    ) {
        add_allocation(call, node, Place { graph, dependencies, count }, fields)
    }

    [cuGraphAddNode]
    fn _(
        call, node: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize,
        fields: Out<NodeFields>
    ) {
        add_any(call, node, Place { graph, dependencies, count }, In::null(), fields)
    }

    [cuGraphAddNode_v2, cuGraphAddNode_v3]
    fn _(
        call, node: Out<Handle>, graph: Handle, dependencies: In<Handle>, edges: In<u64>,
        count: usize, fields: Out<NodeFields>
    ) {
        add_any(call, node, Place { graph, dependencies, count }, edges, fields)
    }
}
