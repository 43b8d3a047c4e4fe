//! Launches of executable graphs: each node becomes an operation behind the start of the launch,
//! and the launch ends behind all of them.
//!
//! Nodes that do not depend on each other run in any order, which the schedule picks. The race
//! checker needs a total order along each of its clocks, so a launch divides the nodes into
//! branches: a node continues the branch of one of its dependencies, or begins another.
//!
//! A conditional node is one operation, whose iterations run as a whole. Each node of its body is
//! an operation of the race checker alone, with the accesses of the first iteration. Later
//! iterations come after all of the first one, so they are one operation more.

use std::sync::Arc;

use millstream_driver::{
    ConditionHandle, ConditionalKind, ContextHandle, GraphExecHandle, StreamHandle,
};
use millstream_ptx::Site;

use super::{
    graph::{BodyPlace, ConditionalOp, Conditions, NodeOperation, NodePlace, Template},
    op::OpKind,
    state::SimState,
    wait_set::WaitSet,
};
use crate::{
    ids::{OpId, StreamKind},
    race::{DestroyedStreams, EnqueuedOp, OpClock, OperationSummary},
};

/// An enqueued operation of a launch.
#[derive(Clone)]
struct Enqueued {
    id: OpId,
    clock: OpClock,
    /// The branch that the operation is in; `None` for the start of the launch.
    branch: Option<usize>,
}

/// A launch that is being enqueued.
struct Launch {
    stream: StreamHandle,
    context: ContextHandle,
    device: u32,
    graph: Arc<str>,
    conditions: Arc<Conditions>,
    start: OpId,
    /// The branches of the executable graph, more of which are added when needed.
    branches: Vec<StreamHandle>,
    /// The last operation of each branch in use.
    tails: Vec<OpId>,
}

impl Launch {
    fn place(&self, number: &str) -> NodePlace {
        NodePlace {
            graph: Arc::clone(&self.graph),
            number: number.into(),
            conditions: Arc::clone(&self.conditions),
        }
    }
}

impl SimState {
    /// Enqueues a launch of an executable graph on a stream.
    pub(crate) fn launch_executable(&mut self, exec: GraphExecHandle, stream: StreamHandle) {
        let executable = &self.executables[&exec];
        let template = executable.template.clone();
        let after = WaitSet {
            ops: executable.last.into_iter().collect(),
            finish_ns: executable.last_finish_ns,
        };
        let last_clock = executable.last_clock.clone();
        let (graph, conditions) = (
            Arc::clone(&executable.name),
            Arc::clone(&executable.conditions),
        );
        let branches = executable.branches.clone();
        let kind = OpKind::GraphStart(Arc::clone(&conditions));
        let (start, clock) = self.enqueue_behind(stream, kind, &after, &[last_clock]);
        let context = self.streams[&stream].context;
        let mut launch = Launch {
            stream,
            context,
            device: self.contexts[&context].device,
            graph,
            conditions,
            start,
            branches,
            tails: Vec::new(),
        };
        let entry = [Enqueued {
            id: start,
            clock,
            branch: None,
        }];
        let ends = self.enqueue_template(&mut launch, &template, "", &entry);
        let ends_set = WaitSet {
            ops: ends.iter().map(|end| end.id).collect(),
            finish_ns: 0,
        };
        let clocks: Vec<_> = ends.into_iter().map(|end| end.clock).collect();
        let kind = OpKind::GraphEnd(exec);
        let (end, clock) = self.enqueue_behind(stream, kind, &ends_set, &clocks);
        let executable = self
            .executables
            .get_mut(&exec)
            .expect("the executable graph was looked up above");
        executable.branches = launch.branches;
        executable.last = Some(end);
        executable.last_clock = clock;
    }

    /// Frees the memory of graphs that are gone, once no launch of any graph is pending.
    pub(crate) fn free_graph_memory(&mut self) {
        if self.graph_allocations.is_empty() || self.ops.values().any(|op| op.node.is_some()) {
            return;
        }
        let (graphs, executables) = (&self.graphs, &self.executables);
        let in_use = |base: &u64| {
            graphs.values().any(|graph| graph.allocates(*base))
                || executables
                    .values()
                    .any(|executable| executable.template.allocates(*base))
        };
        let gone: Vec<u64> = self
            .graph_allocations
            .iter()
            .copied()
            .filter(|base| !in_use(base))
            .collect();
        for base in gone {
            self.graph_allocations.remove(&base);
            // Not a free that the host makes: nothing is left that could use the memory.
            self.end_allocation(base, Some(OpId(self.ops_enqueued)));
        }
    }

    /// Enqueues the nodes of a template behind the operations `entry`, and returns the operations
    /// that it ends with.
    fn enqueue_template(
        &mut self,
        launch: &mut Launch,
        template: &Template,
        prefix: &str,
        entry: &[Enqueued],
    ) -> Vec<Enqueued> {
        let mut enqueued: Vec<Enqueued> = Vec::with_capacity(template.nodes.len());
        for node in &template.nodes {
            let number = format!("{prefix}{}", node.number);
            let before = dependencies(&node.dependencies, &enqueued, entry);
            let done = match &node.operation {
                NodeOperation::Child(child) => {
                    let ends = self.enqueue_template(launch, child, &format!("{number}."), &before);
                    self.enqueue_node(launch, &number, node.site.as_ref(), OpKind::Marker, &ends)
                }
                NodeOperation::Conditional {
                    condition,
                    kind,
                    body,
                } => {
                    let conditional = (*condition, *kind, body);
                    self.enqueue_conditional(
                        launch,
                        &number,
                        node.site.as_ref(),
                        conditional,
                        &before,
                    )
                }
                operation => {
                    let kind = operation.kind();
                    self.enqueue_node(launch, &number, node.site.as_ref(), kind, &before)
                }
            };
            enqueued.push(done);
        }
        ends(template, &enqueued, entry)
    }

    /// Enqueues the operation of one node.
    fn enqueue_node(
        &mut self,
        launch: &mut Launch,
        number: &str,
        site: Option<&Site>,
        kind: OpKind,
        before: &[Enqueued],
    ) -> Enqueued {
        let place = launch.place(number);
        let summary = kind.accesses_memory().then(|| kind.summary());
        let enqueued = self.clock_node(launch, &place, site, summary, before);
        let predecessors = before.iter().map(|done| done.id).collect();
        self.insert_op(
            enqueued.id,
            (launch.stream, launch.context, launch.device),
            kind,
            (Some(place), site.cloned()),
            predecessors,
            self.now_ns,
        );
        enqueued
    }

    /// Numbers an operation of a launch, puts it into a branch and notes it in the race checker.
    fn clock_node(
        &mut self,
        launch: &mut Launch,
        place: &NodePlace,
        site: Option<&Site>,
        summary: Option<OperationSummary>,
        before: &[Enqueued],
    ) -> Enqueued {
        self.ops_enqueued += 1;
        let id = OpId(self.ops_enqueued);
        let continued = before.iter().find_map(|done| {
            done.branch
                .filter(|branch| launch.tails[*branch] == done.id)
        });
        let branch = continued.unwrap_or(launch.tails.len());
        if branch == launch.branches.len() {
            let handle = self.handles.next_stream(launch.device, StreamKind::Branch);
            launch.branches.push(handle);
        }
        if continued.is_none() {
            launch.tails.push(id);
        }
        launch.tails[branch] = id;
        let handle = launch.branches[branch];
        let clocks: Vec<_> = before.iter().map(|done| done.clock.clone()).collect();
        let clock = self.race_checker.enqueued(EnqueuedOp {
            id,
            stream: launch.stream,
            branch: handle,
            queues: &[handle],
            gone: DestroyedStreams::None,
            after: &[],
            clocks: &clocks,
            summary: summary.map(|summary| place.summary(summary)),
            call: self.call,
            site: site.cloned(),
            launch: Some(launch.start),
        });
        Enqueued {
            id,
            clock,
            branch: Some(branch),
        }
    }

    /// Enqueues a conditional node.
    fn enqueue_conditional(
        &mut self,
        launch: &mut Launch,
        number: &str,
        site: Option<&Site>,
        (condition, kind, body): (ConditionHandle, ConditionalKind, &Arc<Template>),
        before: &[Enqueued],
    ) -> Enqueued {
        let place = launch.place(number);
        let start = self.clock_node(launch, &place, site, None, before);
        let (op, end) = self.clock_body(
            launch,
            &place,
            site,
            (condition, kind, body),
            std::slice::from_ref(&start),
        );
        let predecessors = before.iter().map(|done| done.id).collect();
        self.insert_op(
            start.id,
            (launch.stream, launch.context, launch.device),
            OpKind::Conditional(Box::new(op)),
            (Some(place), site.cloned()),
            predecessors,
            self.now_ns,
        );
        // Later operations wait for the node as a whole, and their clocks come after its body.
        let branch = end
            .branch
            .expect("only the start of a launch has no branch");
        launch.tails[branch] = start.id;
        Enqueued {
            id: start.id,
            ..end
        }
    }

    /// Notes the body of a conditional node in the race checker. Returns the operation of the node,
    /// and the end of its iterations.
    fn clock_body(
        &mut self,
        launch: &mut Launch,
        place: &NodePlace,
        site: Option<&Site>,
        (condition, kind, body): (ConditionHandle, ConditionalKind, &Arc<Template>),
        entry: &[Enqueued],
    ) -> (ConditionalOp, Enqueued) {
        let prefix = format!("{}.", place.number);
        let (places, ends) = self.clock_template(launch, body, &prefix, entry);
        let iterations = OperationSummary::Plain("iterations after the first");
        let end = self.clock_node(launch, place, site, Some(iterations), &ends);
        let op = ConditionalOp {
            condition,
            kind,
            body: Arc::clone(body),
            places,
            repeats: end.id,
        };
        (op, end)
    }

    /// Notes the nodes of a template in the race checker, as
    /// [`enqueue_template`](Self::enqueue_template) enqueues them.
    fn clock_template(
        &mut self,
        launch: &mut Launch,
        template: &Template,
        prefix: &str,
        entry: &[Enqueued],
    ) -> (Vec<BodyPlace>, Vec<Enqueued>) {
        let mut places = Vec::with_capacity(template.nodes.len());
        let mut enqueued: Vec<Enqueued> = Vec::with_capacity(template.nodes.len());
        for node in &template.nodes {
            let site = node.site.as_ref();
            let place = launch.place(&format!("{prefix}{}", node.number));
            let before = dependencies(&node.dependencies, &enqueued, entry);
            let (body_place, done) = match &node.operation {
                NodeOperation::Child(child) => {
                    let prefix = format!("{}.", place.number);
                    let (places, ends) = self.clock_template(launch, child, &prefix, &before);
                    let join = self.clock_node(launch, &place, site, None, &ends);
                    (BodyPlace::Child(places), join)
                }
                NodeOperation::Conditional {
                    condition,
                    kind,
                    body,
                } => {
                    let conditional = (*condition, *kind, body);
                    let (op, end) = self.clock_body(launch, &place, site, conditional, &before);
                    (BodyPlace::Conditional(Box::new(op)), end)
                }
                operation => {
                    let kind = operation.kind();
                    let summary = kind.accesses_memory().then(|| kind.summary());
                    let done = self.clock_node(launch, &place, site, summary, &before);
                    (BodyPlace::Node(done.id, place), done)
                }
            };
            places.push(body_place);
            enqueued.push(done);
        }
        let ends = ends(template, &enqueued, entry);
        (places, ends)
    }
}

/// Returns the operations that a node runs after.
fn dependencies(indices: &[usize], enqueued: &[Enqueued], entry: &[Enqueued]) -> Vec<Enqueued> {
    if indices.is_empty() {
        return entry.to_vec();
    }
    indices
        .iter()
        .map(|index| enqueued[*index].clone())
        .collect()
}

/// Returns the operations that a template ends with.
fn ends(template: &Template, enqueued: &[Enqueued], entry: &[Enqueued]) -> Vec<Enqueued> {
    if template.nodes.is_empty() {
        return entry.to_vec();
    }
    dependencies(&template.leaves(), enqueued, entry)
}
