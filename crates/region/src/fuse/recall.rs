//! Plans of graphs that were met before.
//!
//! A plan depends on the operations, the shapes and the requested nodes, and not on constants and
//! arrays. The steps of a graph are therefore kept in terms of node numbers, and a graph with the
//! same signature gets the same steps without being analysed. Its kernels also share the slot for
//! generated code.

use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{
    build,
    kernel::{CodeSlot, FusedKernel, FusedNode, KernelOutput, Step, Work},
    planned::{GraphSignature, PlannedGraph},
    rows::RowShape,
};
use crate::{graph::NodeRef, recent::RecentMap, shape::AxisMap};

/// The maximum number of plans that are kept.
const PLANS_MAX: usize = 1024;
/// The maximum number of nodes of a graph whose plan is kept.
const NODES_MAX: usize = 256;

static PLANS: LazyLock<Mutex<RecentMap<GraphSignature, Arc<Plan>>>> =
    LazyLock::new(|| Mutex::new(RecentMap::new(PLANS_MAX)));

/// The identifier of the next plan.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// The plan of all graphs with one signature.
pub(crate) struct Plan {
    /// An identifier that is unique in the process.
    pub(crate) id: u64,
    steps: Vec<StepPlan>,
    /// The numbers of the nodes that are stored.
    pub(crate) stored: Vec<u32>,
    /// The greatest number of launches of its fused kernels, of which passes are one.
    pub(crate) launches: usize,
}

/// A graph, with its plan if it was met before.
pub(crate) struct Recalled {
    pub(crate) graph: PlannedGraph,
    end: u64,
    /// The signature, if its plan is kept.
    signature: Option<GraphSignature>,
    pub(crate) plan: Option<Arc<Plan>>,
}

/// A step in terms of node numbers.
struct StepPlan {
    nodes: SmallVec<[u32; 2]>,
    work: WorkPlan,
}

enum WorkPlan {
    Alias(u32),
    Kernels(Vec<KernelPlan>),
}

/// A fused kernel in terms of node numbers.
struct KernelPlan {
    root: u32,
    nodes: Vec<u32>,
    inputs: SmallVec<[u32; 4]>,
    outputs: SmallVec<[OutputPlan; 1]>,
    epilogue: Vec<u32>,
    rows: Option<RowShape>,
    /// The greatest number of launches, of which passes are one.
    launches: usize,
    code: CodeSlot,
}

struct OutputPlan {
    value: u32,
    target: u32,
    target_map: Option<AxisMap>,
}

/// Returns the graph of these nodes, of which the nodes with identifiers less than `end` are to be
/// materialised.
pub(crate) fn recall(targets: &[NodeRef], end: u64) -> Recalled {
    let graph = PlannedGraph::of(targets);
    let is_kept = end == u64::MAX && graph.nodes.len() <= NODES_MAX;
    let signature = is_kept.then(|| graph.signature());
    let plan = signature
        .as_ref()
        .and_then(|signature| PLANS.lock().get(signature));
    Recalled {
        graph,
        end,
        signature,
        plan,
    }
}

impl Recalled {
    /// Returns the steps that materialise the nodes, operands first. A finished step can be dropped
    /// to release the inputs that only it reads.
    pub(crate) fn into_steps(self) -> impl Iterator<Item = Step> {
        let Self {
            graph,
            end,
            signature,
            plan,
        } = self;
        let steps = match plan {
            Some(plan) => plan.steps(&graph),
            None => {
                let mut steps = build::steps(&graph, end);
                if let Some(signature) = signature
                    && let Some(plan) = Plan::of(&mut steps, &graph)
                {
                    PLANS.lock().insert(signature, Arc::new(plan));
                }
                steps
            }
        };
        steps.into_iter()
    }
}

/// Returns the steps that materialise these nodes, operands first, as far as the identifiers of
/// their nodes are less than `end`.
#[cfg(test)]
pub(crate) fn steps(targets: &[NodeRef], end: u64) -> impl Iterator<Item = Step> + use<> {
    recall(targets, end).into_steps()
}

impl Plan {
    /// Returns the plan of these steps, or `None` if they depend on more than the signature.
    fn of(steps: &mut [Step], graph: &PlannedGraph) -> Option<Self> {
        let steps = steps.iter_mut().map(|step| StepPlan::of(step, graph));
        let steps = steps.collect::<Option<Vec<_>>>()?;
        let launches = |step: &StepPlan| match &step.work {
            WorkPlan::Alias(_) => 0,
            WorkPlan::Kernels(kernels) => kernels.iter().map(|plan| plan.launches).sum(),
        };
        Some(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            stored: steps.iter().flat_map(|step| step.nodes.clone()).collect(),
            launches: steps.iter().map(launches).sum(),
            steps,
        })
    }

    /// Returns the steps for a graph with the signature of this plan.
    pub(crate) fn steps(&self, graph: &PlannedGraph) -> Vec<Step> {
        self.steps.iter().map(|plan| plan.step(graph)).collect()
    }
}

impl StepPlan {
    /// Returns the plan of a step, or `None` if it depends on more than the signature. Its kernels
    /// get slots for their code.
    fn of(step: &mut Step, graph: &PlannedGraph) -> Option<Self> {
        let work = match &mut step.work {
            Work::Alias(source) => WorkPlan::Alias(graph.number(source)),
            Work::Kernels(kernels) => {
                let kernels = kernels.iter_mut();
                WorkPlan::Kernels(
                    kernels
                        .map(|kernel| KernelPlan::of(kernel, graph))
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
        })
    }

    fn step(&self, graph: &PlannedGraph) -> Step {
        let node = |&number: &u32| NodeRef::clone(graph.node(number));
        Step {
            nodes: self.nodes.iter().map(node).collect(),
            work: match &self.work {
                WorkPlan::Alias(source) => Work::Alias(node(source)),
                WorkPlan::Kernels(kernels) => {
                    Work::Kernels(kernels.iter().map(|plan| plan.kernel(graph)).collect())
                }
            },
        }
    }
}

impl KernelPlan {
    fn of(kernel: &mut FusedKernel, graph: &PlannedGraph) -> Self {
        let code = CodeSlot::default();
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
            rows: kernel.rows,
            launches: kernel.launches_max(),
            code,
        }
    }

    fn kernel(&self, graph: &PlannedGraph) -> FusedKernel {
        let node = |&number: &u32| NodeRef::clone(graph.node(number));
        let fused = |&number: &u32| {
            let FusedNode { node, op } = &graph.nodes[number as usize];
            FusedNode {
                node: NodeRef::clone(node),
                op: Arc::clone(op),
            }
        };
        let output = |output: &OutputPlan| KernelOutput {
            value: node(&output.value),
            target: node(&output.target),
            target_map: output.target_map.clone(),
        };
        FusedKernel {
            root: node(&self.root),
            nodes: self.nodes.iter().map(fused).collect(),
            inputs: self.inputs.iter().map(node).collect(),
            outputs: self.outputs.iter().map(output).collect(),
            epilogue: self.epilogue.iter().map(fused).collect(),
            overwrites: None,
            rows: self.rows,
            code: Some(self.code.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::{Array1, Array2, Ix1, Ix2};

    use super::*;
    use crate::{Array, ProductPrecision, graph::Op};

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
        assert!(!is_same_code(&of_first[0], &of_other[0]));
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
