//! Calls of executable graphs: instantiation, launches and updates.

use std::{collections::BTreeMap, sync::Arc};

use millstream_driver::{
    ConditionHandle, ContextHandle, GraphExecHandle, GraphHandle, GraphNode, GraphNodeHandle,
    ResultCode, StreamHandle,
};
use millstream_ptx::Site;

use super::graph::GivenNode;
use crate::{
    core::{
        call_error::{CallError, CallResult},
        gpu::StateGuard,
        graph::{Conditions, Executable, NodeOperation},
        graph_template::Template,
    },
    ids::name,
    race::{Input, OpClock},
};

impl StateGuard<'_> {
    pub(crate) fn graph_instantiate(
        &mut self,
        context: ContextHandle,
        graph: GraphHandle,
    ) -> CallResult<GraphExecHandle> {
        self.graph(context, graph)?;
        let template = self.template(graph)?;
        let conditions = self.conditions_in(graph);
        self.now_ns += self.config.cost.graph_instantiate_node_ns * template.count();
        let handle: GraphExecHandle = self.handles.next();
        let label = self.graphs[&graph].site.as_ref().and_then(Site::label);
        let executable = Executable {
            context,
            template,
            conditions: Arc::new(Conditions::new(conditions.into_iter())),
            name: match label {
                Some(label) => format!("graph `{label}`").into(),
                None => name(handle).into(),
            },
            branches: Vec::new(),
            last: None,
            last_clock: OpClock::default(),
            last_finish_ns: 0,
            site: Site::current(),
        };
        self.executables.insert(handle, executable);
        Ok(handle)
    }

    fn conditions_in(&self, graph: GraphHandle) -> BTreeMap<ConditionHandle, u32> {
        let found = &self.graphs[&graph];
        let mut conditions = found.conditions.clone();
        for body in found.bodies() {
            conditions.extend(self.conditions_in(body));
        }
        conditions
    }

    /// Resolves the handle of an executable graph, which must belong to `context`.
    pub(super) fn executable(
        &mut self,
        context: ContextHandle,
        exec: GraphExecHandle,
    ) -> CallResult<&mut Executable> {
        let owner = self.executables.get(&exec).map(|found| found.context);
        self.check_owner(context, exec, owner)?;
        Ok(self
            .executables
            .get_mut(&exec)
            .expect("the handle was resolved"))
    }

    /// Destroys an executable graph, also in a lost context. Its launches complete (rule 47). By
    /// the strict reading of rule 62, the call first waits for the devices.
    pub(crate) fn graph_exec_destroy(
        &mut self,
        context: ContextHandle,
        exec: GraphExecHandle,
    ) -> CallResult<()> {
        let lost = self.context_even_lost(context)?;
        self.executable(context, exec)?;
        if self.config.rules.graph_destruction.is_strict() {
            self.wait_for_devices();
        }
        // Another thread may have destroyed it during the wait.
        if let Some(gone) = self.executables.remove(&exec) {
            for branch in gone.branches {
                let input = Input::StreamDestroyed(branch, context, false);
                self.race_checker.take(input);
            }
        }
        self.free_graph_memory();
        lost
    }

    /// Prepares an executable graph on the device, which only takes time.
    pub(crate) fn graph_upload(
        &mut self,
        context: ContextHandle,
        exec: GraphExecHandle,
        stream: StreamHandle,
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        self.refuse_in_capture(stream, "an upload of a graph")?;
        let nodes = self.executable(context, exec)?.template.count();
        self.now_ns += self.config.cost.graph_upload_node_ns * nodes;
        Ok(())
    }

    pub(crate) fn graph_launch(
        &mut self,
        context: ContextHandle,
        exec: GraphExecHandle,
        stream: StreamHandle,
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        if self.captures(stream)? {
            return self.capture_launch(context, exec, stream);
        }
        let template = &self.executable(context, exec)?.template;
        let (nodes, is_line) = (template.count(), template.is_line());
        let calls_host = template.calls_host();
        let unloaded = template
            .kernels()
            .into_iter()
            .map(|launch| (launch.module_handle, Arc::clone(&launch.name)))
            .collect::<Vec<_>>()
            .into_iter()
            .find(|(module, _)| !self.modules.contains_key(module));
        if let Some((module, kernel)) = unloaded {
            let (kind, text) = self.handles.explain(module);
            let text = format!("a node of {} is kernel `{kernel}`: {text}", name(exec));
            return Err(self.violation(kind, ResultCode::INVALID_HANDLE, text));
        }
        let cost = &self.config.cost;
        let fixed_ns = if is_line {
            cost.graph_launch_call_ns
        } else {
            cost.graph_launch_branched_call_ns
        };
        self.now_ns += fixed_ns + cost.graph_launch_100_nodes_ns * nodes / 100;
        self.launch_executable(exec, stream);
        if calls_host {
            self.wake_callback_thread();
        }
        Ok(())
    }

    /// Adds a launch of an executable graph to the capture of a stream, as a child.
    fn capture_launch(
        &mut self,
        context: ContextHandle,
        exec: GraphExecHandle,
        stream: StreamHandle,
    ) -> CallResult<()> {
        let template = self.executable(context, exec)?.template.clone();
        let plain = template.nodes.iter().all(|node| {
            !matches!(
                node.operation,
                NodeOperation::Conditional { .. } | NodeOperation::Allocation(_)
            )
        });
        if !plain {
            self.refuse_in_capture(stream, "a graph with conditional nodes or allocations")?;
        }
        if template.has_outside_work() {
            self.refuse_in_body_capture(stream, "a graph with nodes for the host or events")?;
        }
        self.capture_node(stream, NodeOperation::Child(Arc::new(template)));
        Ok(())
    }

    /// Changes the operation of a node in later launches.
    pub(crate) fn graph_exec_set_node(
        &mut self,
        context: ContextHandle,
        exec: GraphExecHandle,
        node: GraphNodeHandle,
        operation: &GivenNode<'_>,
    ) -> CallResult<()> {
        self.context(context)?;
        self.executable(context, exec)?;
        if matches!(operation, GivenNode::Other(GraphNode::Empty)) {
            return self.refuse_argument("an empty node has no parameters".to_owned());
        }
        let operation = self.operation(context, operation)?;
        let operation = operation.with_bodies(|body| Template::of(body, &self.graphs));
        let operation = operation.expect("a node that is set has no bodies");
        let of_rows = |operation: &NodeOperation<_>| match operation {
            NodeOperation::Copy(copy) => copy.rows.height != 1,
            _ => false,
        };
        let nodes = &mut self.executable(context, exec)?.template.nodes;
        let changed = match nodes.iter_mut().find(|found| found.handle == node) {
            None => Err(format!(
                "{} is no node of the graph that {} was made from",
                name(node),
                name(exec)
            )),
            Some(found) if of_rows(&found.operation) || of_rows(&operation) => Err(format!(
                "{} of {} is a copy of several rows, which cannot be changed by itself",
                name(node),
                name(exec)
            )),
            Some(found) => {
                found.site = Site::current().or(found.site.take());
                found
                    .operation
                    .change_to(&operation)
                    .map_err(|problem| format!("{} of {}: {problem}", name(node), name(exec)))
            }
        };
        changed.or_else(|text| self.refuse_argument(text))
    }

    /// Changes later launches of an executable graph to those of another graph.
    pub(crate) fn graph_exec_update(
        &mut self,
        context: ContextHandle,
        exec: GraphExecHandle,
        graph: GraphHandle,
    ) -> CallResult<()> {
        self.graph(context, graph)?;
        self.executable(context, exec)?;
        let new = self.template(graph)?;
        self.now_ns += self.config.cost.graph_update_node_ns * new.count();
        let executable = self.executable(context, exec)?;
        let mut template = executable.template.clone();
        match template.change_to(&new) {
            Ok(()) => {
                executable.template = template;
                Ok(())
            }
            Err((node, problem)) => {
                let error = CallError::new(ResultCode::GRAPH_EXEC_UPDATE_FAILURE, problem);
                Err(match node {
                    Some(node) => error.at_node(node),
                    None => error,
                })
            }
        }
    }
}
