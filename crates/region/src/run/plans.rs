//! Plans of graphs that were met before.
//!
//! A plan depends on the operations, the shapes and the requested nodes, and not on constants and
//! arrays. The steps of a graph are therefore kept in terms of node numbers, and a graph with the
//! same key gets the same steps without being analysed. Its kernels also share the slot for
//! generated code. The key of a uniform graph leaves out lengths (`uniform.rs`), and that of many
//! graphs of rows the number of rows (`first_axis.rs`).

use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::{
    expr::{NodeRef, Op},
    plan::{
        build,
        kernel::{CodeSlot, FusedKernel, FusedNode, KernelOutput, PlanLengths, Step, Work},
        key::GraphKey,
        planned::PlannedGraph,
        rows::{RowClass, RowShape},
        uniform::{FreeLengths, Uniform},
    },
    recent::RecentMap,
    run::kept::KeptSteps,
    shape::AxisMap,
};

/// The maximum number of plans that are kept.
const PLANS_MAX: usize = 1024;
/// The maximum number of nodes of a graph whose plan is kept.
const NODES_MAX: usize = 256;

/// Plans by the key of their graphs.
type PlanByKey = RecentMap<Box<[u64]>, Arc<Plan>>;

static PLANS: LazyLock<Mutex<PlanByKey>> = LazyLock::new(|| Mutex::new(RecentMap::new(PLANS_MAX)));

/// The identifier of the next plan.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// The plan of all graphs with one key.
pub(crate) struct Plan {
    /// An identifier that is unique in the process.
    pub(crate) id: u64,
    pub(crate) lengths: PlanLengths,
    /// The nodes and operations that no step needs.
    pub(crate) unneeded: Release,
    pub(crate) steps: Vec<StepPlan>,
    /// The numbers of the nodes that are stored.
    pub(crate) stored: Vec<u32>,
    /// The greatest number of launches of its fused kernels, of which passes are one.
    pub(crate) launches: usize,
}

/// A graph, with its plan if it was met before.
pub(crate) struct Recalled {
    pub(crate) graph: PlannedGraph,
    end: u64,
    /// The key, if its plan is kept.
    key: Option<GraphKey>,
    pub(crate) plan: Option<Arc<Plan>>,
}

/// A step in terms of node numbers.
pub(crate) struct StepPlan {
    pub(crate) nodes: SmallVec<[u32; 2]>,
    pub(crate) work: WorkPlan,
    /// The nodes and operations that no later step needs.
    pub(crate) released: Release,
}

/// Nodes and operations to drop, by node numbers. A node that a later step reads from memory is
/// held without its operation, which would hold the operands and so their memory.
#[derive(Default)]
pub(crate) struct Release {
    pub(crate) nodes: Vec<u32>,
    pub(crate) operations: Vec<u32>,
}

pub(crate) enum WorkPlan {
    Alias(u32),
    Kernels(Vec<KernelPlan>),
}

/// A fused kernel in terms of node numbers.
pub(crate) struct KernelPlan {
    pub(crate) root: u32,
    pub(crate) nodes: Vec<u32>,
    pub(crate) inputs: SmallVec<[u32; 4]>,
    pub(crate) outputs: SmallVec<[OutputPlan; 1]>,
    pub(crate) epilogue: Vec<u32>,
    /// The number of elements of a row of a row kernel, and the class of its root.
    rows: Option<(usize, RowClass)>,
    tiled: SmallVec<[u32; 1]>,
    /// The greatest number of launches, of which passes are one.
    launches: usize,
    /// True if the kernel can be launched by its code alone: it has elements to write, and is not a
    /// matrix product, which a library may compute.
    pub(crate) is_generated: bool,
    pub(crate) code: CodeSlot,
}

pub(crate) struct OutputPlan {
    value: u32,
    pub(crate) target: u32,
    target_map: Option<AxisMap>,
}

/// Returns the graph of these nodes, of which the nodes with identifiers less than `end` are to be
/// materialised.
pub(crate) fn recall(targets: &[NodeRef], end: u64) -> Recalled {
    let graph = PlannedGraph::of(targets);
    let is_kept = end == u64::MAX && graph.nodes.len() <= NODES_MAX;
    let key = is_kept.then(|| graph.key());
    let plan = key.as_deref().and_then(|key| PLANS.lock().get(key));
    Recalled {
        graph,
        end,
        key,
        plan,
    }
}

/// The steps of a graph, operands first. A finished step is dropped to release the inputs that only
/// it reads.
pub(crate) enum Steps {
    New(std::vec::IntoIter<Step>),
    Kept(KeptSteps),
}

impl Recalled {
    /// Returns the steps that materialise the nodes.
    pub(crate) fn into_steps(self) -> Steps {
        let Self {
            graph,
            end,
            key,
            plan,
        } = self;
        if let Some(plan) = plan {
            return Steps::Kept(KeptSteps::of(plan, graph));
        }
        let mut steps = build::steps(&graph, end);
        if let Some(key) = key
            && let Some(plan) = Plan::of(&mut steps, &graph)
        {
            PLANS.lock().insert(key.into_boxed_slice(), Arc::new(plan));
        }
        Steps::New(steps.into_iter())
    }
}

/// Returns the steps that materialise these nodes, operands first, as far as the identifiers of
/// their nodes are less than `end`.
#[cfg(test)]
pub(crate) fn steps(targets: &[NodeRef], end: u64) -> impl Iterator<Item = Step> + use<> {
    let recalled = recall(targets, end);
    let plan = recalled.plan.clone();
    let kept = plan.map(|plan| plan.steps(&recalled.graph));
    match recalled.into_steps() {
        Steps::New(steps) => steps,
        Steps::Kept(_) => kept.expect("the plan is kept").into_iter(),
    }
}

impl Plan {
    /// Returns the plan of these steps, or `None` if they depend on more than the key.
    fn of(steps: &mut [Step], graph: &PlannedGraph) -> Option<Self> {
        let lengths = match graph.free_lengths() {
            FreeLengths::None => PlanLengths::None,
            FreeLengths::All(_) => PlanLengths::Uniform,
            FreeLengths::First { .. } => PlanLengths::FirstAxis,
        };
        let steps = steps
            .iter_mut()
            .map(|step| StepPlan::of(step, graph, lengths));
        let mut steps = steps.collect::<Option<Vec<_>>>()?;
        let (mut needed, mut computed) = (FxHashSet::default(), FxHashSet::default());
        for step in steps.iter_mut().rev() {
            step.released = Release {
                nodes: step
                    .numbers()
                    .filter(|&number| needed.insert(number))
                    .collect(),
                operations: step
                    .computed()
                    .filter(|&number| computed.insert(number))
                    .collect(),
            };
        }
        let numbers = |count: usize| (0..).take(count);
        let all = numbers(graph.nodes.len() + graph.inputs.len());
        let unneeded = Release {
            nodes: all.filter(|number| !needed.contains(number)).collect(),
            operations: numbers(graph.nodes.len())
                .filter(|number| !computed.contains(number))
                .collect(),
        };
        let launches = |step: &StepPlan| match &step.work {
            WorkPlan::Alias(_) => 0,
            WorkPlan::Kernels(kernels) => kernels.iter().map(|plan| plan.launches).sum(),
        };
        Some(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            lengths,
            unneeded,
            stored: steps.iter().flat_map(|step| step.nodes.clone()).collect(),
            launches: steps.iter().map(launches).sum(),
            steps,
        })
    }

    /// Returns the steps for a graph with the key of this plan.
    pub(crate) fn steps(&self, graph: &PlannedGraph) -> Vec<Step> {
        self.steps.iter().map(|plan| plan.step(graph)).collect()
    }
}

impl StepPlan {
    /// Returns the plan of a step, or `None` if it depends on more than the key. Its kernels get
    /// slots for their code.
    fn of(step: &mut Step, graph: &PlannedGraph, lengths: PlanLengths) -> Option<Self> {
        let work = match &mut step.work {
            Work::Alias(source) => WorkPlan::Alias(graph.number(source)),
            Work::Kernels(kernels) => {
                // The code of a uniform graph serves other lengths, so that of each kernel must.
                if lengths == PlanLengths::Uniform
                    && kernels
                        .iter()
                        .any(|kernel| Uniform::of_kernel(kernel).is_none())
                {
                    debug_assert!(false, "a kernel of a uniform graph is uniform");
                    return None;
                }
                let kernels = kernels.iter_mut();
                WorkPlan::Kernels(
                    kernels
                        .map(|kernel| KernelPlan::of(kernel, graph, lengths))
                        .collect(),
                )
            }
            // The kernels read the elements where they are only if nothing else refers to them.
            Work::Replace(_) => return None,
        };
        let nodes = step.nodes.iter().map(|node| graph.number(node));
        Some(Self {
            nodes: nodes.collect(),
            work,
            released: Release::default(),
        })
    }

    fn kernels(&self) -> &[KernelPlan] {
        match &self.work {
            WorkPlan::Alias(_) => &[],
            WorkPlan::Kernels(kernels) => kernels,
        }
    }

    /// Returns the numbers of the nodes that the kernels of the step compute, some several times.
    fn computed(&self) -> impl Iterator<Item = u32> {
        let kernels = self.kernels().iter();
        kernels.flat_map(|plan| plan.nodes.iter().chain(&plan.epilogue).copied())
    }

    /// Returns the numbers of all nodes of the step, some several times.
    fn numbers(&self) -> impl Iterator<Item = u32> {
        let source = match &self.work {
            WorkPlan::Alias(source) => Some(*source),
            WorkPlan::Kernels(_) => None,
        };
        let others = self.kernels().iter().flat_map(|plan| {
            let outputs = plan
                .outputs
                .iter()
                .flat_map(|output| [output.value, output.target]);
            std::iter::once(plan.root)
                .chain(outputs)
                .chain(plan.inputs.iter().copied())
        });
        let nodes = self.nodes.iter().copied().chain(source);
        nodes.chain(others).chain(self.computed())
    }

    fn step(&self, graph: &PlannedGraph) -> Step {
        let node = |&number: &u32| NodeRef::clone(graph.node(number));
        Step {
            nodes: self.nodes.iter().map(node).collect(),
            work: match &self.work {
                WorkPlan::Alias(source) => Work::Alias(node(source)),
                WorkPlan::Kernels(kernels) => {
                    let fused = |number: u32| graph.nodes[number as usize].clone();
                    let node = |number| NodeRef::clone(graph.node(number));
                    let kernels = kernels.iter();
                    Work::Kernels(kernels.map(|plan| plan.kernel(&node, &fused)).collect())
                }
            },
        }
    }
}

impl KernelPlan {
    fn of(kernel: &mut FusedKernel, graph: &PlannedGraph, lengths: PlanLengths) -> Self {
        let code = CodeSlot::new(lengths);
        kernel.code = Some(code.clone());
        let numbers = |nodes: &[FusedNode]| -> Vec<u32> {
            nodes
                .iter()
                .map(|fused| graph.number(&fused.node))
                .collect()
        };
        let output = |output: &KernelOutput| OutputPlan {
            value: graph.number(&output.value),
            target: graph.number(&output.target),
            target_map: output.target_map.clone(),
        };
        Self {
            root: graph.number(&kernel.root),
            nodes: numbers(&kernel.nodes),
            inputs: kernel
                .inputs
                .iter()
                .map(|node| graph.number(node))
                .collect(),
            outputs: kernel.outputs.iter().map(output).collect(),
            epilogue: numbers(&kernel.epilogue),
            rows: kernel.rows.map(|rows| {
                let class = rows.class(&kernel.root);
                (
                    rows.length,
                    class.expect("the root of a row kernel is of its rows"),
                )
            }),
            tiled: (kernel.tiled.iter())
                .map(|node| graph.number(node))
                .collect(),
            launches: kernel.launches_max(),
            is_generated: !kernel.is_empty()
                && !matches!(kernel.op(&kernel.root), Some(Op::MatrixProduct(..))),
            code,
        }
    }

    /// Returns the kernel with the nodes that these functions return by their numbers.
    pub(crate) fn kernel(
        &self,
        node: &dyn Fn(u32) -> NodeRef,
        fused: &dyn Fn(u32) -> FusedNode,
    ) -> FusedKernel {
        let output = |output: &OutputPlan| KernelOutput {
            value: node(output.value),
            target: node(output.target),
            target_map: output.target_map.clone(),
        };
        let root = node(self.root);
        let rows = |(length, class)| RowShape::of_root(length, class, &root);
        FusedKernel {
            rows: self.rows.map(rows),
            root,
            nodes: self.nodes.iter().map(|&number| fused(number)).collect(),
            inputs: self.inputs.iter().map(|&number| node(number)).collect(),
            outputs: self.outputs.iter().map(output).collect(),
            epilogue: self.epilogue.iter().map(|&number| fused(number)).collect(),
            overwrites: None,
            tiled: self.tiled.iter().map(|&number| node(number)).collect(),
            code: Some(self.code.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::{Array1, Array2, Ix1, Ix2};

    use super::*;
    use crate::{Array, ProductPrecision, expr::Op};

    /// Returns the kernels of the steps for some nodes.
    fn kernels(nodes: &[&NodeRef]) -> Vec<FusedKernel> {
        let targets: Vec<NodeRef> = nodes.iter().map(|&node| NodeRef::clone(node)).collect();
        let kernels = |step: Step| match step.work {
            Work::Kernels(kernels) => kernels,
            _ => panic!("the step has kernels"),
        };
        steps(&targets, u64::MAX).flat_map(kernels).collect()
    }

    fn is_same_code(left: &FusedKernel, right: &FusedKernel) -> bool {
        let slot = |kernel: &FusedKernel| kernel.code.clone().expect("the plan is kept");
        slot(left).is(&slot(right))
    }

    #[test]
    fn a_graph_of_the_same_structure_gets_the_same_plan_with_its_own_nodes() {
        let device = Device::simulated().unwrap();
        let array = |length: usize| -> Array<f32, Ix1> {
            Array::from_host(&device, &Array1::zeros(length)).unwrap()
        };
        let (x, y, longer) = (array(91), array(91), array(92));
        let function = |x: &Array<f32, Ix1>, factor: f32| (x * factor).exp() + x;
        let (first, second) = (function(&x, 2.0), function(&y, 3.0));
        let (of_first, of_second) = (kernels(&[first.node()]), kernels(&[second.node()]));
        assert_eq!((of_first.len(), of_second.len()), (1, 1));
        assert!(is_same_code(&of_first[0], &of_second[0]));
        assert_eq!(of_second[0].root.id, second.node().id);
        assert_eq!(of_second[0].inputs[0].id, y.node().id);
        assert_eq!(of_second[0].nodes.len(), of_first[0].nodes.len());
        let other = function(&longer, 2.0);
        let of_other = kernels(&[other.node()]);
        assert!(is_same_code(&of_first[0], &of_other[0]));
        assert_eq!(of_other[0].root.id, other.node().id);
        // The length of a sum decides between kernels.
        let sums = [&x, &y, &longer].map(|x| kernels(&[function(x, 2.0).sum().node()]));
        assert!(is_same_code(&sums[0][0], &sums[1][0]));
        assert!(!is_same_code(&sums[0][0], &sums[2][0]));
    }

    #[test]
    fn plans_distinguish_the_precisions_of_products() {
        let device = Device::simulated().unwrap();
        let x: Array<f32, Ix2> = Array::from_host(&device, &Array2::zeros((94, 94))).unwrap();
        let product = |precision| {
            let y = x.dot_with(&x, precision);
            kernels(&[y.node()]).pop().expect("a product is a kernel")
        };
        let (full, tf32) = (ProductPrecision::Full, ProductPrecision::Tf32);
        let first = [full, tf32].map(product);
        let again = [full, tf32].map(product);
        assert!(!is_same_code(&first[0], &first[1]));
        for ((first, again), precision) in first.iter().zip(&again).zip([full, tf32]) {
            assert!(is_same_code(first, again));
            let op = again.op(&again.root);
            assert!(matches!(op, Some(Op::MatrixProduct(_, _, found)) if *found == precision));
        }
    }

    #[test]
    fn plans_distinguish_the_requested_nodes() {
        let device = Device::simulated().unwrap();
        let x: Array<f32, Ix1> = Array::from_host(&device, &Array1::zeros(93)).unwrap();
        for _ in 0..2 {
            let powers = x.exp();
            let shifted = &powers + 1.0;
            assert_eq!(kernels(&[shifted.node()])[0].outputs.len(), 1);
            let both = kernels(&[shifted.node(), powers.node()]);
            assert_eq!((both.len(), both[0].outputs.len()), (1, 2));
        }
    }
}
