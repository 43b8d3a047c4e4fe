//! Plans of graphs, kept for graphs with the same key, which get the same steps without being
//! analysed.
//!
//! The key of a uniform graph leaves out lengths (`uniform.rs`), and that of many graphs of rows
//! the number of rows (`first_axis.rs`). The graphs of a plan also share the code of its kernels.

use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use crate::{
    expr::{FreeLengths, NodeRef},
    plan::{HeldNodes, PlannedGraph, Release, Step, build},
    recent::RecentMap,
    schedule::Machine,
};

/// The maximum number of plans of graphs that are kept.
const PLANS_MAX: usize = 1024;
/// The maximum number of nodes of such a graph.
const NODES_MAX: usize = 256;
/// The same of larger graphs: those of the parts of long loops.
const LONG_PLANS_MAX: usize = 64;
const LONG_NODES_MAX: usize = 1024;

type PlanByKey = RecentMap<Box<[u64]>, Arc<Plan>>;

static PLANS: LazyLock<Mutex<PlanByKey>> = LazyLock::new(|| Mutex::new(RecentMap::new(PLANS_MAX)));
static LONG_PLANS: LazyLock<Mutex<PlanByKey>> =
    LazyLock::new(|| Mutex::new(RecentMap::new(LONG_PLANS_MAX)));

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// The plan of all graphs with one key, or of a single graph.
pub(crate) struct Plan {
    /// An identifier that is unique in the process.
    pub(crate) id: u64,
    /// The machine of the graphs' devices.
    pub(crate) machine: Machine,
    pub(crate) lengths: FreeLengths,
    /// The nodes and operations that no step needs.
    unneeded: Release,
    pub(crate) steps: Vec<Step>,
    /// The numbers of the nodes that are stored.
    pub(crate) stored: Vec<u32>,
    /// The greatest number of launches of its fused kernels. Passes count as one.
    pub(crate) launches: usize,
    /// True if a graph of its kernels can be replayed: it is kept, and its kernels do not depend on
    /// what else refers to the nodes.
    pub(crate) is_repeatable: bool,
}

pub(crate) struct Recalled {
    pub(crate) graph: PlannedGraph,
    pub(crate) plan: Arc<Plan>,
    /// True if the plan was made for an earlier graph, and may be repeated.
    pub(crate) is_known: bool,
}

/// Returns the graph of these nodes, with a plan that materialises them as far as their identifiers
/// are less than `end`.
pub(crate) fn recall(targets: &[NodeRef], end: u64) -> Recalled {
    let graph = PlannedGraph::of(targets);
    let is_whole = end == u64::MAX;
    let (plans, is_kept) = match graph.nodes.len() {
        ..=NODES_MAX => (&PLANS, true),
        nodes => (&LONG_PLANS, nodes <= LONG_NODES_MAX),
    };
    let machine = targets.first().map(|node| Machine::of(&node.device));
    let machine = machine.unwrap_or(Machine::H200);
    let key = is_kept.then(|| {
        let mut key = graph.key();
        key.extend(machine.words());
        // The steps are those of the first nodes.
        let steps = graph.nodes.partition_point(|fused| fused.node.id < end);
        key.push(steps as u64);
        key
    });
    let plan = key.as_deref().and_then(|key| plans.lock().get(key));
    let is_repeated = is_whole && graph.nodes.len() <= NODES_MAX;
    let is_known = plan.is_some() && is_repeated;
    let plan = plan.unwrap_or_else(|| {
        let plan = Arc::new(Plan::of(&graph, machine, end, is_repeated));
        if let Some(key) = key {
            plans.lock().insert(key.into_boxed_slice(), plan.clone());
        }
        plan
    });
    Recalled {
        graph,
        plan,
        is_known,
    }
}

impl Plan {
    fn of(graph: &PlannedGraph, machine: Machine, end: u64, is_repeated: bool) -> Self {
        let mut steps = build::steps(graph, end);
        let nodes = graph.nodes.len();
        let kernels = steps.iter().flat_map(|step| &step.kernels);
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            machine,
            lengths: graph.free_lengths().kind(),
            launches: kernels.map(|kernel| kernel.launches()).sum(),
            stored: steps.iter().flat_map(|step| step.nodes.clone()).collect(),
            is_repeatable: is_repeated && steps.iter().all(|step| step.in_place.is_none()),
            unneeded: Release::plan(&mut steps, nodes, nodes + graph.inputs.len()),
            steps,
        }
    }

    /// Calls `run` with each step and the nodes of a graph of the plan, in order, until one fails.
    /// Releases after each the nodes that no later step needs.
    pub(crate) fn try_for_each<E>(
        &self,
        graph: PlannedGraph,
        mut run: impl FnMut(&Step, &HeldNodes) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut nodes = HeldNodes::of(graph);
        nodes.release(&self.unneeded);
        for step in &self.steps {
            run(step, &nodes)?;
            nodes.release(&step.released);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::{Array1, Array2, Ix1, Ix2};

    use super::*;
    use crate::{Array, ProductPrecision, expr::Op, plan::FusedKernel};

    fn kernels(nodes: &[&NodeRef]) -> (Arc<Plan>, Vec<FusedKernel>) {
        let targets: Vec<NodeRef> = nodes.iter().map(|&node| NodeRef::clone(node)).collect();
        let Recalled { graph, plan, .. } = recall(&targets, u64::MAX);
        let nodes = HeldNodes::of(graph);
        let kernels = plan.steps.iter().flat_map(|step| &step.kernels);
        let kernels = kernels.map(|kernel| kernel.fused(&nodes)).collect();
        (plan, kernels)
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
        let (plan, of_first) = kernels(&[first.node()]);
        let (same, of_second) = kernels(&[second.node()]);
        assert_eq!((of_first.len(), of_second.len()), (1, 1));
        assert!(Arc::ptr_eq(&plan, &same));
        assert_eq!(of_second[0].root.id, second.node().id);
        assert_eq!(of_second[0].inputs[0].id, y.node().id);
        assert_eq!(of_second[0].nodes.len(), of_first[0].nodes.len());
        let other = function(&longer, 2.0);
        let (same, of_other) = kernels(&[other.node()]);
        assert!(Arc::ptr_eq(&plan, &same));
        assert_eq!(of_other[0].root.id, other.node().id);
        // The length of a sum decides between kernels.
        let sums = [&x, &y, &longer].map(|x| kernels(&[function(x, 2.0).sum().node()]).0);
        assert!(Arc::ptr_eq(&sums[0], &sums[1]));
        assert!(!Arc::ptr_eq(&sums[0], &sums[2]));
    }

    #[test]
    fn plans_distinguish_the_precisions_of_products() {
        let device = Device::simulated().unwrap();
        let x: Array<f32, Ix2> = Array::from_host(&device, &Array2::zeros((94, 94))).unwrap();
        let product = |precision| {
            let y = x.dot_with(&x, precision);
            kernels(&[y.node()])
        };
        let (full, tf32) = (ProductPrecision::Full, ProductPrecision::Tf32);
        let first = [full, tf32].map(product);
        let again = [full, tf32].map(product);
        assert!(!Arc::ptr_eq(&first[0].0, &first[1].0));
        for ((first, again), precision) in first.iter().zip(&again).zip([full, tf32]) {
            assert!(Arc::ptr_eq(&first.0, &again.0));
            let op = again.1[0].op(&again.1[0].root);
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
            assert_eq!(kernels(&[shifted.node()]).1[0].outputs.len(), 1);
            let both = kernels(&[shifted.node(), powers.node()]).1;
            assert_eq!((both.len(), both[0].outputs.len()), (1, 2));
        }
    }
}
