//! The steps of kept plans, which are enqueued from the plan and the graph.
//!
//! A plan has numbers in the place of nodes. Making steps and kernels of it with the nodes of each
//! call would take longer than the launches: a kernel whose code is in its slot needs only its
//! inputs, its constants and its outputs.

use std::{panic::Location, sync::Arc};

use smallvec::SmallVec;

use crate::{
    expr::{NodeRef, Op},
    plan::{
        kernel::{CodeSlot, FusedKernel, FusedNode},
        planned::PlannedGraph,
    },
    run::plans::{KernelPlan, Plan, Release, StepPlan, WorkPlan},
};

/// The steps of a kept plan that are not finished, and the nodes that they need.
pub(crate) struct KeptSteps {
    plan: Arc<Plan>,
    /// The nodes by number: first the planned nodes, then the inputs. `None` once released.
    nodes: Vec<Option<HeldNode>>,
    inputs: SmallVec<[Option<NodeRef>; 4]>,
}

/// A planned node that a step needs, with its operation if a step computes it.
struct HeldNode {
    node: NodeRef,
    op: Option<Arc<Op>>,
}

impl KeptSteps {
    pub(crate) fn of(plan: Arc<Plan>, graph: PlannedGraph) -> Self {
        let held = |FusedNode { node, op }| Some(HeldNode { node, op: Some(op) });
        let mut steps = Self {
            plan: Arc::clone(&plan),
            nodes: graph.nodes.into_iter().map(held).collect(),
            inputs: graph.inputs.into_iter().map(Some).collect(),
        };
        steps.release(&plan.unneeded);
        steps
    }

    fn release(&mut self, release: &Release) {
        for &number in &release.operations {
            if let Some(held) = &mut self.nodes[number as usize] {
                held.op = None;
            }
        }
        for &number in &release.nodes {
            match (number as usize).checked_sub(self.nodes.len()) {
                None => self.nodes[number as usize] = None,
                Some(of_input) => self.inputs[of_input] = None,
            }
        }
    }

    /// Calls `run` with each step, in order, until one fails. Releases after each the nodes that no
    /// later step needs.
    pub(crate) fn try_for_each<E>(
        mut self,
        mut run: impl FnMut(&KeptStep<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let plan = Arc::clone(&self.plan);
        for step in &plan.steps {
            let steps = &self;
            run(&KeptStep { plan: step, steps })?;
            self.release(&step.released);
        }
        Ok(())
    }

    fn node(&self, number: u32) -> &NodeRef {
        let node = match (number as usize).checked_sub(self.nodes.len()) {
            None => self.nodes[number as usize].as_ref().map(|held| &held.node),
            Some(of_input) => self.inputs[of_input].as_ref(),
        };
        node.expect(HELD)
    }

    fn op(&self, number: u32) -> &Arc<Op> {
        let held = self.nodes[number as usize].as_ref();
        held.and_then(|held| held.op.as_ref()).expect(HELD)
    }
}

/// The reason why a step finds its nodes.
const HELD: &str = "a node is held until the last step that needs it";

/// A step of a kept plan with the nodes of a graph.
pub(crate) struct KeptStep<'a> {
    plan: &'a StepPlan,
    steps: &'a KeptSteps,
}

/// The work of a step of a kept plan.
pub(crate) enum KeptWork<'a> {
    Alias(&'a NodeRef),
    Kernels(SmallVec<[KeptKernel<'a>; 2]>),
}

impl<'a> KeptStep<'a> {
    /// Returns the nodes that the step stores.
    pub(crate) fn nodes(&self) -> SmallVec<[&'a NodeRef; 2]> {
        let numbers = self.plan.nodes.iter();
        numbers.map(|&number| self.steps.node(number)).collect()
    }

    pub(crate) fn work(&self) -> KeptWork<'a> {
        let steps = self.steps;
        match &self.plan.work {
            WorkPlan::Alias(source) => KeptWork::Alias(steps.node(*source)),
            WorkPlan::Kernels(kernels) => {
                let kernels = kernels.iter();
                KeptWork::Kernels(kernels.map(|plan| KeptKernel { plan, steps }).collect())
            }
        }
    }
}

/// A kernel of a kept plan with the nodes of a graph.
pub(crate) struct KeptKernel<'a> {
    plan: &'a KernelPlan,
    steps: &'a KeptSteps,
}

impl<'a> KeptKernel<'a> {
    /// Returns the slot with the code, if launching that is all there is to do.
    pub(crate) fn code(&self) -> Option<&'a CodeSlot> {
        self.plan.is_generated.then_some(&self.plan.code)
    }

    /// Returns the nodes that the kernel reads from memory.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &'a NodeRef> + use<'a> {
        let steps = self.steps;
        self.plan.inputs.iter().map(|&number| steps.node(number))
    }

    /// Returns the node whose operation determines the kind of kernel.
    pub(crate) fn root(&self) -> &'a NodeRef {
        self.steps.node(self.plan.root)
    }

    /// Returns the source line of the operation for which the kernel is launched.
    pub(crate) fn location(&self) -> &'static Location<'static> {
        self.steps.node(self.plan.outputs[0].target).location
    }

    /// Returns a node by its number in the kernel: first those up to the root, then those of the
    /// epilogue, then the inputs.
    pub(crate) fn node(&self, number: usize) -> &'a NodeRef {
        let (nodes, epilogue) = (&self.plan.nodes, &self.plan.epilogue);
        let computed = nodes.len() + epilogue.len();
        let number = match number.checked_sub(computed) {
            Some(of_input) => self.plan.inputs[of_input],
            None => self.computed(number),
        };
        self.steps.node(number)
    }

    /// Returns the operation of a computed node by its number in the kernel.
    pub(crate) fn op(&self, number: usize) -> &'a Op {
        self.steps.op(self.computed(number))
    }

    /// Returns the number in the graph of a computed node.
    fn computed(&self, number: usize) -> u32 {
        match number.checked_sub(self.plan.nodes.len()) {
            None => self.plan.nodes[number],
            Some(of_epilogue) => self.plan.epilogue[of_epilogue],
        }
    }

    /// Returns the kernel as a value of its own.
    pub(crate) fn to_fused(&self) -> FusedKernel {
        let node = |number| NodeRef::clone(self.steps.node(number));
        let fused = |number| FusedNode {
            node: node(number),
            op: Arc::clone(self.steps.op(number)),
        };
        self.plan.kernel(&node, &fused)
    }
}
