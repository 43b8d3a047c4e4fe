//! Changes of graphs by the calls that only programs of CUDA's driver API make.

use std::collections::BTreeSet;

use millstream_driver::{
    CaptureMode, ContextHandle, DeviceOrdinal, DevicePtr, GraphExecHandle, GraphHandle,
    GraphNodeHandle, ResultCode, StreamHandle,
};
use millstream_ptx::Site;

use super::graph::GivenNode;
use crate::{
    core::{
        call_error::{CallError, CallResult},
        gpu::StateGuard,
        graph::NodeOperation,
        graph_template::Template,
        objects::host_functions::RepeatedFunction,
    },
    ids::name,
};

impl StateGuard<'_> {
    /// Resolves the handle of a node: returns its graph, which must belong to `context`.
    fn graph_of(
        &mut self,
        context: ContextHandle,
        node: GraphNodeHandle,
    ) -> CallResult<GraphHandle> {
        self.context(context)?;
        match self.graph_of_node(node) {
            Some(graph) => {
                self.graph(context, graph)?;
                Ok(graph)
            }
            None => {
                let (kind, text) = self.handles.explain(node);
                Err(self.violation(kind, ResultCode::INVALID_VALUE, text))
            }
        }
    }

    /// Rejects operations of nodes whose event or memory is not valid.
    pub(super) fn check_own_node(
        &mut self,
        context: ContextHandle,
        operation: &NodeOperation<GraphHandle>,
    ) -> CallResult<()> {
        match operation {
            NodeOperation::Record(event) | NodeOperation::Wait(event) => {
                let owner = self.events.get(event).map(|found| found.context);
                match owner {
                    Some(owner)
                        if owner == context || matches!(operation, NodeOperation::Wait(_)) =>
                    {
                        Ok(())
                    }
                    _ => self.check_owner(context, *event, owner),
                }
            }
            NodeOperation::Free(base) if !self.graph_allocations.contains(base) => {
                self.refuse_argument(format!("no graph allocates memory at {base:#x}"))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn graph_add_allocation(
        &mut self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        device: DeviceOrdinal,
        bytes: usize,
    ) -> CallResult<(GraphNodeHandle, DevicePtr)> {
        self.graph(context, graph)?;
        self.refuse_empty(bytes)?;
        let device = self.device_index(device)? as u32;
        self.refuse_outside_work(graph)?;
        let dependencies = self.check_dependencies(graph, dependencies)?;
        let base = self.allocate_of_graph(context, device, bytes)?;
        let operation = NodeOperation::Allocation(base);
        let node = self.insert_node(graph, dependencies, operation);
        Ok((node, DevicePtr::from_raw(base)))
    }

    pub(crate) fn graph_set_node(
        &mut self,
        context: ContextHandle,
        node: GraphNodeHandle,
        operation: &GivenNode<'_>,
    ) -> CallResult<()> {
        let graph = self.graph_of(context, node)?;
        let operation = self.operation(context, operation)?;
        let found = self.graph_mut(graph).nodes.get_mut(&node);
        let found = found.expect("the node was looked up");
        if std::mem::discriminant(&found.operation) != std::mem::discriminant(&operation) {
            return self.refuse_argument(format!("{} is a node of another kind", name(node)));
        }
        found.site = Site::current().or(found.site.take());
        found.operation = operation;
        Ok(())
    }

    /// Returns the setting whether launches leave out the operation of a node.
    pub(crate) fn graph_exec_disabled(
        &mut self,
        context: ContextHandle,
        exec: GraphExecHandle,
        node: GraphNodeHandle,
    ) -> CallResult<&mut bool> {
        let can_be = |operation: &NodeOperation<_>| {
            matches!(
                operation,
                NodeOperation::Kernel(_) | NodeOperation::Copy(_) | NodeOperation::Fill(_)
            )
        };
        let Template { nodes } = &self.executable(context, exec)?.template;
        let index = nodes.iter().position(|found| found.handle == node);
        let Some(index) = index.filter(|index| can_be(&nodes[*index].operation)) else {
            let text = format!(
                "{} is no kernel, copy or fill of {}",
                name(node),
                name(exec)
            );
            return self.refuse_argument(text);
        };
        Ok(&mut self.executable(context, exec)?.template.nodes[index].disabled)
    }

    pub(crate) fn graph_remove_dependencies(
        &mut self,
        context: ContextHandle,
        graph: GraphHandle,
        pairs: &[(GraphNodeHandle, GraphNodeHandle)],
    ) -> CallResult<()> {
        self.graph(context, graph)?;
        let mut gone = BTreeSet::new();
        for &(from, to) in pairs {
            self.check_node(graph, from)?;
            self.check_node(graph, to)?;
            let exists = self.graphs[&graph].nodes[&to].dependencies.contains(&from);
            if !exists || !gone.insert((from, to)) {
                let text = format!("{} does not depend on {}", name(to), name(from));
                return self.refuse_argument(text);
            }
        }
        for (from, to) in gone {
            if let Some(node) = self.graph_mut(graph).nodes.get_mut(&to) {
                node.dependencies.remove(&from);
            }
        }
        Ok(())
    }

    pub(crate) fn graph_remove_node(
        &mut self,
        context: ContextHandle,
        node: GraphNodeHandle,
    ) -> CallResult<()> {
        let graph = self.graph_of(context, node)?;
        let operation = &self.graphs[&graph].nodes[&node].operation;
        let bodies = match operation {
            NodeOperation::Conditional { bodies, .. } => bodies.as_slice(),
            _ => &[],
        };
        let mut removed = bodies.iter().map(|body| self.captured_within(*body));
        if let Some(captured) = removed.find_map(|captured| captured) {
            return self.refuse_argument(format!("a stream captures into {}", name(captured)));
        }
        if self.graphs[&graph].is_captured_into {
            return self.refuse_argument(format!("a stream captures into {}", name(graph)));
        }
        self.remove_node(graph, node);
        self.free_graph_memory();
        Ok(())
    }

    pub(crate) fn stream_begin_capture_into(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
        (graph, dependencies): (GraphHandle, &[GraphNodeHandle]),
        mode: CaptureMode,
    ) -> CallResult<()> {
        let stream = self.capturable(context, stream)?;
        self.graph(context, graph)?;
        if self.graphs[&graph].is_captured_into {
            let text = format!("a stream captures into {} already", name(graph));
            return Err(CallError::new(ResultCode::ILLEGAL_STATE, text));
        }
        let dependencies = self.check_dependencies(graph, dependencies)?;
        self.begin_capture_into(graph, dependencies, stream, mode);
        Ok(())
    }

    /// Enqueues a host function, or adds it to a capture.
    pub(crate) fn launch_repeated_function(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
        function: &RepeatedFunction,
    ) -> CallResult<()> {
        let resolved = self.stream(context, stream)?;
        if !self.captures(resolved)? {
            let RepeatedFunction { function, .. } = function.clone();
            let mut function: Option<millstream_driver::HostFunction> =
                Some(Box::new(move || function()));
            return self.launch_host_function(context, stream, &mut function);
        }
        self.refuse_in_body_capture(resolved, "a host function")?;
        self.capture_node(resolved, NodeOperation::Host(function.clone()));
        Ok(())
    }
}
