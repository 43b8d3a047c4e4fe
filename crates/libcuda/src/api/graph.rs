//! Graphs: creation, copies, dependencies, and conditions.

use std::fmt::Write as _;

use millstream_driver::{GraphHandle, GraphNodeHandle, ResultCode};
use millstream_sim::NodeDetails;

use crate::{
    abi::{Handle, In, Out, Text},
    api::{
        graph_questions::{entries, kind_of},
        user_object,
    },
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
};

/// Returns the nodes of a graph, with those of the bodies in it.
pub(super) fn nodes_within(call: &Call, graph: GraphHandle) -> Answer<Vec<GraphNodeHandle>> {
    let gpu = &call.process()?.gpu;
    let (mut nodes, mut graphs) = (Vec::new(), vec![graph]);
    while let Some(graph) = graphs.pop() {
        for entry in gpu.graph_nodes(graph).unwrap_or_default() {
            nodes.push(entry.node);
            if let NodeDetails::Conditional { bodies, .. } = entry.operation {
                graphs.extend(bodies);
            }
        }
    }
    Ok(nodes)
}

/// Drops the lists of nodes that are gone.
pub(super) fn drop_lists(call: &Call, nodes: &[GraphNodeHandle]) -> Answer {
    let mut objects = call.process()?.objects.lock();
    for node in nodes {
        objects.node_lists.remove(node);
    }
    Ok(())
}

pub(super) fn nodes(list: In<Handle>, count: usize) -> Answer<Vec<GraphNodeHandle>> {
    let raw = list.all(count)?.into_iter();
    Ok(raw.map(GraphNodeHandle::from_raw).collect())
}

/// Fails with `NOT_SUPPORTED` for edges whose data are not zeros: ports of programmatic launches.
pub(super) fn refuse_edge_data(edges: In<u64>, count: usize) -> Answer {
    let plain = edges.is_null() || edges.all(count)?.iter().all(|data| *data == 0);
    plain.then_some(()).ok_or(ResultCode::NOT_SUPPORTED)
}

/// The ends of dependencies, as a program lists them.
#[derive(Clone, Copy)]
pub(crate) struct Edges {
    pub(crate) from: In<Handle>,
    pub(crate) to: In<Handle>,
    /// The data of the edges, which must be zeros; null for none.
    pub(crate) data: In<u64>,
    pub(crate) count: usize,
}

impl Edges {
    fn pairs(self) -> Answer<Vec<(GraphNodeHandle, GraphNodeHandle)>> {
        refuse_edge_data(self.data, self.count)?;
        let from = nodes(self.from, self.count)?;
        Ok(from.into_iter().zip(nodes(self.to, self.count)?).collect())
    }
}

/// `cuGraphAddDependencies`
pub(crate) fn add_dependencies(call: &Call, graph: Handle, edges: Edges) -> Answer {
    let (context, graph) = call.graph(graph)?;
    call.process()?
        .graph_add_dependencies(context, graph, &edges.pairs()?)
}

/// `cuGraphRemoveDependencies`
pub(crate) fn remove_dependencies(call: &Call, graph: Handle, edges: Edges) -> Answer {
    let (context, graph) = call.graph(graph)?;
    call.process()?
        .graph_remove_dependencies(context, graph, &edges.pairs()?)
}

exports! {
    [cuGraphCreate]
    fn create(call, graph: Out<Handle>, flags: u32) {
        graph.check()?;
        refuse_if(flags != 0, ResultCode::INVALID_VALUE)?;
        let context = call.context()?;
        graph.set(call.process()?.graph_create(context)?.as_raw())
    }

    [cuGraphDestroy]
    fn destroy(call, graph: Handle) {
        let (context, graph) = call.graph(graph)?;
        let nodes = nodes_within(call, graph)?;
        call.process()?.graph_destroy(context, graph)?;
        drop_lists(call, &nodes)?;
        user_object::drop_references(call, graph.as_raw())
    }

    [cuGraphClone]
    fn clone(call, copy: Out<Handle>, graph: Handle) {
        copy.check()?;
        let (context, graph) = call.graph(graph)?;
        let process = call.process()?;
        let cloned = process.graph_clone(context, graph)?;
        user_object::copy_references(call, graph.as_raw(), cloned.as_raw())?;
        copy.set(cloned.as_raw())
    }

    [cuGraphConditionalHandleCreate]
    fn create_condition(
        call, condition: Out<u64>, graph: Handle, its_context: Handle, initial: u32, flags: u32
    ) {
        /// `CU_GRAPH_COND_ASSIGN_DEFAULT`: each launch begins with the initial value.
        const ASSIGN_DEFAULT: u32 = 1;
        condition.check()?;
        refuse_if(flags & !ASSIGN_DEFAULT != 0, ResultCode::INVALID_VALUE)?;
        let (context, graph) = call.graph(graph)?;
        call.context_of_handle(its_context)?;
        let initial = if flags == ASSIGN_DEFAULT { initial } else { 0 };
        let created = call.process()?.graph_condition(context, graph, initial)?;
        condition.set(created.as_raw())
    }

    /// The kinds of the nodes with their edges, whatever the flags are.
    [cuGraphDebugDotPrint]
    fn print(call, graph: Handle, path: Text, _flags: u32) {
        /// `CUDA_ERROR_OPERATING_SYSTEM`
        const OPERATING_SYSTEM: i32 = 304;
        let mut text = "digraph {\n".to_owned();
        for entry in entries(call, graph)? {
            let node = entry.node.as_raw();
            let kind = kind_of(&entry.operation);
            let _ = writeln!(text, "  n{node} [label=\"{kind:?}\"];");
            for before in entry.dependencies {
                let _ = writeln!(text, "  n{} -> n{node};", before.as_raw());
            }
        }
        let written = std::fs::write(path.get()?, text + "}\n");
        written.map_err(|_| ResultCode::from_raw(OPERATING_SYSTEM))
    }

    [cuGraphAddDependencies]
    fn _(call, graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        add_dependencies(call, graph, Edges { from, to, data: In::null(), count })
    }

    [cuGraphAddDependencies_v2]
    fn _(call, graph: Handle, from: In<Handle>, to: In<Handle>, edges: In<u64>, count: usize) {
        add_dependencies(call, graph, Edges { from, to, data: edges, count })
    }

    [cuGraphRemoveDependencies]
    fn _(call, graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        remove_dependencies(call, graph, Edges { from, to, data: In::null(), count })
    }

    [cuGraphRemoveDependencies_v2]
    fn _(call, graph: Handle, from: In<Handle>, to: In<Handle>, edges: In<u64>, count: usize) {
        remove_dependencies(call, graph, Edges { from, to, data: edges, count })
    }
}
