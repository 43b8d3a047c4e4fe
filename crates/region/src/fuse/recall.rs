//! Plans of graphs that were met before.
//!
//! A plan depends on the operations, the shapes and the requested nodes, and not on constants and
//! arrays. The steps of a graph are therefore kept in terms of node numbers, and a graph with the
//! same signature gets the same steps without being analysed. Its kernels also share the slot for
//! generated code.

use std::sync::{Arc, LazyLock};

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

static PLANS: LazyLock<Mutex<RecentMap<GraphSignature, Arc<[StepPlan]>>>> =
    LazyLock::new(|| Mutex::new(RecentMap::new(PLANS_MAX)));

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
    code: CodeSlot,
}

struct OutputPlan {
    value: u32,
    target: u32,
    target_map: Option<AxisMap>,
}

/// Returns the steps that materialise these nodes, operands first, as far as the identifiers of
/// their nodes are less than `end`. A finished step can be dropped to release the inputs that only
/// it reads.
pub(crate) fn steps(targets: &[NodeRef], end: u64) -> impl Iterator<Item = Step> + use<> {
    let graph = PlannedGraph::of(targets);
    if end != u64::MAX || graph.nodes.len() > NODES_MAX {
        return build::steps(&graph, end).into_iter();
    }
    let signature = graph.signature();
    let known = PLANS.lock().get(&signature);
    let steps = match known {
        Some(plans) => plans.iter().map(|plan| plan.step(&graph)).collect(),
        None => {
            let mut steps = build::steps(&graph, end);
            let plans = steps.iter_mut().map(|step| StepPlan::of(step, &graph));
            if let Some(plans) = plans.collect::<Option<Vec<_>>>() {
                PLANS.lock().insert(signature, plans.into());
            }
            steps
        }
    };
    steps.into_iter()
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
    use ndarray::{Array1, Ix1};

    use super::*;
    use crate::Array;

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
