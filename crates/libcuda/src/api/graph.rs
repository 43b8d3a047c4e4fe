//! Graphs and their nodes.

use millstream_driver::{
    ConditionHandle, ConditionalKind, ContextHandle, DevicePtr, FillPattern, GraphHandle,
    GraphNode, GraphNodeHandle, KernelNode, LaunchAttributes, LaunchDims, ResultCode,
};

use crate::{
    abi::{
        Copy3dFields, FillNodeFields, Handle, In, KernelNodeFields, KernelNodeFields2, NodeFields,
        Out,
    },
    api::{copy_3d, launch, user_object},
    call::Call,
    codes::Answer,
};

/// Resolves a graph handle: the graph, and the context that it belongs to.
pub(super) fn graph_of(call: &Call, raw: Handle) -> Answer<(ContextHandle, GraphHandle)> {
    let graph = GraphHandle::from_raw(raw);
    let found = call.process()?.objects.lock().graphs.get(&graph).copied();
    match found {
        Some(context) => Ok((context, graph)),
        None => {
            call.wrong_handle("graph", raw);
            Err(ResultCode::INVALID_VALUE)
        }
    }
}

/// `cuGraphCreate`
pub(crate) fn create(call: &Call, graph: Out<Handle>, flags: u32) -> Answer {
    graph.check()?;
    if flags != 0 {
        return Err(ResultCode::INVALID_VALUE);
    }
    let context = call.context()?;
    let process = call.process()?;
    let created = process.graph_create(context)?;
    process.objects.lock().graphs.insert(created, context);
    graph.set(created.as_raw())
}

/// `cuGraphDestroy`
pub(crate) fn destroy(call: &Call, graph: Handle) -> Answer {
    let (context, graph) = graph_of(call, graph)?;
    let process = call.process()?;
    process.graph_destroy(context, graph)?;
    process.objects.lock().graphs.remove(&graph);
    user_object::drop_references(call, graph.as_raw())
}

/// `cuGraphClone`
pub(crate) fn clone(call: &Call, copy: Out<Handle>, graph: Handle) -> Answer {
    copy.check()?;
    let (context, graph) = graph_of(call, graph)?;
    let process = call.process()?;
    let cloned = process.graph_clone(context, graph)?;
    process.objects.lock().graphs.insert(cloned, context);
    user_object::copy_references(call, graph.as_raw(), cloned.as_raw())?;
    copy.set(cloned.as_raw())
}

/// Returns a list of nodes.
fn nodes(list: In<Handle>, count: usize) -> Answer<Vec<GraphNodeHandle>> {
    let raw = list.all(count)?.into_iter();
    Ok(raw.map(GraphNodeHandle::from_raw).collect())
}

/// Fails with `NOT_SUPPORTED` for edges whose data are not zeros: ports of programmatic launches.
pub(super) fn refuse_edge_data(edges: In<u64>, count: usize) -> Answer {
    let plain = edges.is_null() || edges.all(count)?.iter().all(|data| *data == 0);
    plain.then_some(()).ok_or(ResultCode::NOT_SUPPORTED)
}

/// The graph that a node is added to, and the nodes before it.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) graph: Handle,
    pub(crate) dependencies: In<Handle>,
    pub(crate) count: usize,
}

/// Adds a node.
fn add(call: &Call, node: Out<Handle>, place: Place, operation: &GraphNode<'_>) -> Answer {
    node.check()?;
    let (context, graph) = graph_of(call, place.graph)?;
    let dependencies = nodes(place.dependencies, place.count)?;
    let process = call.process()?;
    let added = process.graph_add_node(context, graph, &dependencies, operation)?;
    node.set(added.as_raw())
}

/// Calls `work` with the kernel that the fields of a node describe.
pub(super) fn with_kernel<R>(
    call: &Call,
    context: ContextHandle,
    fields: &KernelNodeFields,
    work: impl FnOnce(&GraphNode<'_>) -> Answer<R>,
) -> Answer<R> {
    let arguments = launch::Arguments {
        pointers: fields.pointers,
        extra: fields.extra,
    };
    let (function, params) = launch::resolve(call, fields.function, context, arguments)?;
    work(&GraphNode::Kernel(KernelNode {
        function,
        dims: LaunchDims {
            grid: fields.grid,
            block: fields.block,
            shared_bytes: fields.shared_bytes,
        },
        attributes: LaunchAttributes::default(),
        params: &params,
    }))
}

/// Returns the fields of a kernel as of the first version. The function may be that of a library.
pub(super) fn first_version(fields: &KernelNodeFields2) -> KernelNodeFields {
    let function = match fields.fields.function {
        0 => fields.kernel,
        function => function,
    };
    KernelNodeFields {
        function,
        ..fields.fields
    }
}

/// Returns the copy that the fields of a node describe.
pub(super) fn copy_of(call: &Call, fields: In<Copy3dFields>) -> Answer<GraphNode<'static>> {
    match copy_3d::copies(call, &fields.get()?)?[..] {
        [copy] => Ok(GraphNode::Copy(copy)),
        [] => Err(ResultCode::INVALID_VALUE),
        _ => Err(ResultCode::NOT_SUPPORTED),
    }
}

/// Returns the fill that the fields of a node describe: of one row, or of rows without gaps.
pub(super) fn fill_of(fields: In<FillNodeFields>) -> Answer<GraphNode<'static>> {
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

/// `cuGraphAddKernelNode`, in its first version.
pub(crate) fn add_kernel(
    call: &Call,
    node: Out<Handle>,
    graph: Handle,
    dependencies: In<Handle>,
    count: usize,
    fields: In<KernelNodeFields>,
) -> Answer {
    let place = Place {
        graph,
        dependencies,
        count,
    };
    let (context, _) = graph_of(call, graph)?;
    with_kernel(call, context, &fields.get()?, |kernel| {
        add(call, node, place, kernel)
    })
}

/// `cuGraphAddKernelNode_v2`
pub(crate) fn add_kernel_2(
    call: &Call,
    node: Out<Handle>,
    graph: Handle,
    dependencies: In<Handle>,
    count: usize,
    fields: In<KernelNodeFields2>,
) -> Answer {
    let place = Place {
        graph,
        dependencies,
        count,
    };
    let (context, _) = graph_of(call, graph)?;
    with_kernel(call, context, &first_version(&fields.get()?), |kernel| {
        add(call, node, place, kernel)
    })
}

/// `cuGraphAddMemcpyNode`
pub(crate) fn add_copy(
    call: &Call,
    node: Out<Handle>,
    graph: Handle,
    dependencies: In<Handle>,
    count: usize,
    fields: In<Copy3dFields>,
    _context: Handle,
) -> Answer {
    let place = Place {
        graph,
        dependencies,
        count,
    };
    add(call, node, place, &copy_of(call, fields)?)
}

/// `cuGraphAddMemsetNode`
pub(crate) fn add_fill(
    call: &Call,
    node: Out<Handle>,
    graph: Handle,
    dependencies: In<Handle>,
    count: usize,
    fields: In<FillNodeFields>,
    _context: Handle,
) -> Answer {
    let place = Place {
        graph,
        dependencies,
        count,
    };
    add(call, node, place, &fill_of(fields)?)
}

/// `cuGraphAddChildGraphNode`
pub(crate) fn add_child(
    call: &Call,
    node: Out<Handle>,
    graph: Handle,
    dependencies: In<Handle>,
    count: usize,
    child: Handle,
) -> Answer {
    let place = Place {
        graph,
        dependencies,
        count,
    };
    let (_, child) = graph_of(call, child)?;
    add(call, node, place, &GraphNode::Child(child))?;
    user_object::copy_references(call, child.as_raw(), graph)
}

/// `cuGraphAddEmptyNode`
pub(crate) fn add_empty(
    call: &Call,
    node: Out<Handle>,
    graph: Handle,
    dependencies: In<Handle>,
    count: usize,
) -> Answer {
    let place = Place {
        graph,
        dependencies,
        count,
    };
    add(call, node, place, &GraphNode::Empty)
}

/// `cuGraphAddDependencies`
pub(crate) fn add_dependencies(
    call: &Call,
    graph: Handle,
    from: In<Handle>,
    to: In<Handle>,
    count: usize,
) -> Answer {
    let (context, graph) = graph_of(call, graph)?;
    let pairs = nodes(from, count)?.into_iter().zip(nodes(to, count)?);
    let pairs: Vec<_> = pairs.collect();
    call.process()?
        .graph_add_dependencies(context, graph, &pairs)
}

/// `cuGraphAddDependencies_v2`
pub(crate) fn add_dependencies_with_edges(
    call: &Call,
    graph: Handle,
    from: In<Handle>,
    to: In<Handle>,
    edges: In<u64>,
    count: usize,
) -> Answer {
    refuse_edge_data(edges, count)?;
    add_dependencies(call, graph, from, to, count)
}

/// `cuGraphConditionalHandleCreate`
pub(crate) fn create_condition(
    call: &Call,
    condition: Out<u64>,
    graph: Handle,
    _context: Handle,
    initial: u32,
    flags: u32,
) -> Answer {
    /// `CU_GRAPH_COND_ASSIGN_DEFAULT`: each launch begins with the initial value.
    const ASSIGN_DEFAULT: u32 = 1;
    condition.check()?;
    if flags & !ASSIGN_DEFAULT != 0 {
        return Err(ResultCode::INVALID_VALUE);
    }
    let (context, graph) = graph_of(call, graph)?;
    let initial = if flags == ASSIGN_DEFAULT { initial } else { 0 };
    let created = call.process()?.graph_condition(context, graph, initial)?;
    condition.set(created.as_raw())
}

/// `cuGraphAddNode`: kernels, children, and empty and conditional nodes.
pub(crate) fn add_node(
    call: &Call,
    node: Out<Handle>,
    graph: Handle,
    dependencies: In<Handle>,
    count: usize,
    fields: Out<NodeFields>,
) -> Answer {
    const KERNEL: i32 = 0;
    const CHILD: i32 = 4;
    const EMPTY: i32 = 5;
    const CONDITIONAL: i32 = 13;
    let mut given = fields.get_at(0)?;
    match given.kind {
        KERNEL => {
            let kernel = In::<KernelNodeFields2>::of(given.parameters.as_ptr());
            add_kernel_2(call, node, graph, dependencies, count, kernel)
        }
        CHILD => {
            let child = given.parameters[0] as Handle;
            add_child(call, node, graph, dependencies, count, child)
        }
        EMPTY => add_empty(call, node, graph, dependencies, count),
        CONDITIONAL => {
            let place = Place {
                graph,
                dependencies,
                count,
            };
            given.parameters[2] = add_conditional(call, node, place, &given.parameters)?;
            fields.set(given)
        }
        _ => Err(ResultCode::NOT_SUPPORTED),
    }
}

/// Adds a conditional node with one body, and returns the address of the list of its bodies.
fn add_conditional(
    call: &Call,
    node: Out<Handle>,
    place: Place,
    parameters: &[u64; 29],
) -> Answer<u64> {
    node.check()?;
    let condition = ConditionHandle::from_raw(parameters[0]);
    let kind = match (parameters[1] as u32, parameters[1] >> 32) {
        (0, 1) => ConditionalKind::If,
        (1, 1) => ConditionalKind::While,
        // An else branch, or a switch.
        (0, 2) | (2, _) => return Err(ResultCode::NOT_SUPPORTED),
        _ => return Err(ResultCode::INVALID_VALUE),
    };
    let (context, graph) = graph_of(call, place.graph)?;
    let dependencies = nodes(place.dependencies, place.count)?;
    let process = call.process()?;
    let added = process.graph_add_conditional(context, graph, &dependencies, condition, kind)?;
    node.set(added.node.as_raw())?;
    let bodies = Box::new([added.body.as_raw()]);
    let address = bodies.as_ptr().expose_provenance() as u64;
    let mut objects = process.objects.lock();
    objects.graphs.insert(added.body, context);
    objects.bodies.insert(added.node.as_raw(), bodies);
    Ok(address)
}

/// `cuGraphAddNode_v2`
pub(crate) fn add_node_with_edges(
    call: &Call,
    node: Out<Handle>,
    graph: Handle,
    dependencies: In<Handle>,
    edges: In<u64>,
    count: usize,
    fields: Out<NodeFields>,
) -> Answer {
    refuse_edge_data(edges, count)?;
    add_node(call, node, graph, dependencies, count, fields)
}
