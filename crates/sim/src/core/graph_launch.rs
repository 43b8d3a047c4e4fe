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
    ConditionHandle, ContextHandle, EventHandle, GraphExecHandle, StreamHandle,
};
use millstream_ptx::Site;
use smallvec::smallvec;

use super::{
    graph::{
        BodyPlace, ConditionalForm, ConditionalOp, Conditions, LaunchedBody, NodeOperation,
        NodePlace,
    },
    graph_template::{Template, TemplateNode},
    objects::stream::{Capture, WaitSet},
    op::OpKind,
    state::SimState,
};
use crate::{
    ids::{OpId, StreamKind},
    race::{DestroyedStreams, EnqueuedOp, Input, OpClock, OperationSummary},
};

#[derive(Clone)]
struct Enqueued {
    id: OpId,
    clock: OpClock,
    /// The branch that the operation is in; `None` for the start of the launch.
    branch: Option<usize>,
}

struct Launch {
    stream: StreamHandle,
    context: ContextHandle,
    device: u32,
    graph: Arc<str>,
    conditions: Arc<Conditions>,
    start: OpId,
    /// The branches of the executable graph. More are added when needed.
    branches: Vec<StreamHandle>,
    /// The last operation of each branch in use.
    tails: Vec<OpId>,
}

impl Launch {
    /// Returns the branch of an operation that [`clock_node`](SimState::clock_node) numbered.
    fn branch_of(&self, done: &Enqueued) -> StreamHandle {
        let branch = done.branch;
        self.branches[branch.expect("only the start of a launch has no branch")]
    }

    fn place(&self, number: &str) -> NodePlace {
        NodePlace {
            graph: Arc::clone(&self.graph),
            number: number.into(),
            conditions: Arc::clone(&self.conditions),
        }
    }
}

impl SimState {
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
        let ends = self.add_template(&mut launch, &template, "", &entry, None);
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
        if self.graph_allocations.is_empty() || self.node_ops > 0 {
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
            self.race_discarded(base);
            self.end_allocation(base, Some(OpId(self.ops_enqueued)));
        }
    }

    /// Adds the nodes of a template behind the operations `entry`, and returns the operations that
    /// it ends with. The nodes of a body are operations of the race checker alone: `body` receives
    /// their places.
    fn add_template(
        &mut self,
        launch: &mut Launch,
        template: &Template,
        prefix: &str,
        entry: &[Enqueued],
        mut body: Option<&mut Vec<BodyPlace>>,
    ) -> Vec<Enqueued> {
        let mut added: Vec<Enqueued> = Vec::with_capacity(template.nodes.len());
        for node in &template.nodes {
            let place = launch.place(&format!("{prefix}{}", node.number));
            let before = dependencies(&node.dependencies, &added, entry);
            let done = self.add_template_node(launch, node, place, &before, body.as_deref_mut());
            added.push(done);
        }
        if template.nodes.is_empty() {
            return entry.to_vec();
        }
        dependencies(&template.leaves(), &added, entry)
    }

    fn add_template_node(
        &mut self,
        launch: &mut Launch,
        node: &TemplateNode,
        place: NodePlace,
        before: &[Enqueued],
        body: Option<&mut Vec<BodyPlace>>,
    ) -> Enqueued {
        let site = node.site.as_ref();
        match (&node.operation, body) {
            _ if node.disabled => self.enqueue_node(launch, place, site, OpKind::Marker, before),
            (NodeOperation::Child(child), None) => {
                let prefix = format!("{}.", place.number);
                let ends = self.add_template(launch, child, &prefix, before, None);
                self.enqueue_node(launch, place, site, OpKind::Marker, &ends)
            }
            (NodeOperation::Child(child), Some(body)) => {
                let prefix = format!("{}.", place.number);
                let mut places = Vec::with_capacity(child.nodes.len());
                let ends = self.add_template(launch, child, &prefix, before, Some(&mut places));
                body.push(BodyPlace::Child(places));
                self.clock_node(launch, &place, site, None, &ends)
            }
            (
                NodeOperation::Conditional {
                    condition,
                    form,
                    bodies,
                },
                body,
            ) => {
                let conditional = (*condition, *form, &bodies[..]);
                match body {
                    None => self.enqueue_conditional(launch, place, site, conditional, before),
                    Some(body) => {
                        let (op, end) =
                            self.clock_bodies(launch, &place, site, conditional, before);
                        body.push(BodyPlace::Conditional(Box::new(op)));
                        end
                    }
                }
            }
            (NodeOperation::Wait(event), None) => {
                self.enqueue_wait(launch, place, site, *event, before)
            }
            (operation, None) => {
                let done = self.enqueue_node(launch, place, site, operation.kind(), before);
                self.enqueued_outside_work(launch, operation, &done);
                done
            }
            (operation, Some(body)) => {
                let summary = summary_of(&operation.kind());
                let done = self.clock_node(launch, &place, site, summary, before);
                body.push(BodyPlace::Node(done.id, place));
                done
            }
        }
    }

    fn enqueue_node(
        &mut self,
        launch: &mut Launch,
        place: NodePlace,
        site: Option<&Site>,
        kind: OpKind,
        before: &[Enqueued],
    ) -> Enqueued {
        let enqueued = self.clock_node(launch, &place, site, summary_of(&kind), before);
        let after = WaitSet::default();
        self.insert_node_op(launch, enqueued.id, kind, (place, site), before, &after);
        enqueued
    }

    /// Adds the operation of a node behind those that it depends on, and the wait set `after`.
    fn insert_node_op(
        &mut self,
        launch: &Launch,
        id: OpId,
        kind: OpKind,
        (place, site): (NodePlace, Option<&Site>),
        before: &[Enqueued],
        after: &WaitSet,
    ) {
        let before = before.iter().map(|done| done.id);
        self.insert_op(
            id,
            (launch.stream, launch.context, launch.device),
            kind,
            (Some(place), site.cloned()),
            before.chain(after.ops.iter().copied()).collect(),
            self.now_ns.max(after.finish_ns),
        );
    }

    /// Notes a host function or the record of an event that a node is.
    fn enqueued_outside_work(
        &mut self,
        launch: &Launch,
        operation: &NodeOperation<Arc<Template>>,
        done: &Enqueued,
    ) {
        match operation {
            NodeOperation::Host(_) => self.host_functions.enqueued(done.id),
            NodeOperation::Record(event) => {
                if let Some(event) = self.events.get_mut(event) {
                    event.capture = Some(Capture {
                        op: done.id,
                        finish_ns: None,
                    });
                    event.captured = None;
                }
                let input = Input::Recorded(*event, launch.branch_of(done));
                self.race_checker.take(input);
            }
            _ => {}
        }
    }

    fn enqueue_wait(
        &mut self,
        launch: &mut Launch,
        place: NodePlace,
        site: Option<&Site>,
        event: EventHandle,
        before: &[Enqueued],
    ) -> Enqueued {
        let start = self.clock_node(launch, &place, site, None, before);
        self.race_checker
            .take(Input::Waits(launch.branch_of(&start), event));
        let done = self.clock_node(launch, &place, site, None, std::slice::from_ref(&start));
        let recorded = self.events.get(&event).map(Self::event_wait_set);
        let recorded = recorded.unwrap_or_default();
        let kind = OpKind::Marker;
        self.insert_node_op(launch, done.id, kind, (place, site), before, &recorded);
        done
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
        let op = EnqueuedOp {
            id,
            stream: launch.stream,
            branch: handle,
            queues: smallvec![handle],
            gone: DestroyedStreams::None,
            summary: summary.map(|summary| place.summary(summary)),
            call: self.call,
            site: site.cloned(),
            launch: Some(launch.start),
        };
        let clock = self.race_checker.enqueued(op, &[], &clocks);
        Enqueued {
            id,
            clock,
            branch: Some(branch),
        }
    }

    fn enqueue_conditional(
        &mut self,
        launch: &mut Launch,
        place: NodePlace,
        site: Option<&Site>,
        conditional: (ConditionHandle, ConditionalForm, &[Arc<Template>]),
        before: &[Enqueued],
    ) -> Enqueued {
        let start = self.clock_node(launch, &place, site, None, before);
        let entry = std::slice::from_ref(&start);
        let (op, end) = self.clock_bodies(launch, &place, site, conditional, entry);
        let kind = OpKind::Conditional(Box::new(op));
        let after = WaitSet::default();
        self.insert_node_op(launch, start.id, kind, (place, site), before, &after);
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

    /// Notes the bodies of a conditional node in the race checker. Returns the operation of the
    /// node, and the end of its iterations.
    fn clock_bodies(
        &mut self,
        launch: &mut Launch,
        place: &NodePlace,
        site: Option<&Site>,
        (condition, form, templates): (ConditionHandle, ConditionalForm, &[Arc<Template>]),
        entry: &[Enqueued],
    ) -> (ConditionalOp, Enqueued) {
        let (mut bodies, mut all_ends) = (Vec::new(), Vec::new());
        for (index, template) in templates.iter().enumerate() {
            let prefix = match index {
                0 => format!("{}.", place.number),
                _ => format!("{}:{index}.", place.number),
            };
            let mut places = Vec::with_capacity(template.nodes.len());
            let ends = self.add_template(launch, template, &prefix, entry, Some(&mut places));
            bodies.push(LaunchedBody {
                template: Arc::clone(template),
                places,
            });
            all_ends.extend(ends);
        }
        let iterations = OperationSummary::Plain("iterations after the first");
        let end = self.clock_node(launch, place, site, Some(iterations), &all_ends);
        let op = ConditionalOp {
            condition,
            form,
            bodies,
            repeats: end.id,
        };
        (op, end)
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

/// Returns the description of an operation for the race checker, if it accesses memory.
fn summary_of(kind: &OpKind) -> Option<OperationSummary> {
    kind.accesses_memory().then(|| kind.summary())
}
