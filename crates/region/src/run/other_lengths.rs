//! A test of plans and code that serve other lengths than those that they were made for: random
//! expressions get the same kernels, texts, parameters and numbers of threads as a new plan.

use millstream::Device;
use ndarray::{Array2, ArrayD, Axis, Ix2, IxDyn};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;

use crate::{
    Array,
    emit::body::kernel::KernelParameter,
    expr::NodeRef,
    plan::{HeldNodes, KernelPlan, PlannedGraph, Step, build},
    run::{
        bound::BoundKernel,
        plans::{Plan, Recalled, recall},
        texts::{Code, CodeParameter, code_of, generate_anew},
    },
};

type Dynamic = Array<f32, IxDyn>;

/// Arrays that broadcast to the shape of the first.
struct Operands {
    all: Vec<Dynamic>,
}

impl Operands {
    fn of(device: &Device, shape: &[usize]) -> Self {
        let array = |shape: &[usize]| -> Dynamic {
            Array::from_host(device, &ArrayD::zeros(IxDyn(shape))).unwrap()
        };
        let mut all = vec![array(shape), array(shape), array(&[])];
        for axis in 0..shape.len() {
            let mut flat = shape.to_vec();
            flat[axis] = 1;
            all.extend([array(&flat), array(&shape[axis..])]);
        }
        Self { all }
    }

    /// Returns a random expression, and sometimes a value in it.
    fn expression(&self, random: &mut Pcg32) -> Vec<Dynamic> {
        let mut pick = |count: usize| random.next_u32() as usize % count;
        let mut value = self.all[0].clone();
        let mut results = Vec::new();
        for _ in 0..1 + pick(8) {
            let other = &self.all[pick(self.all.len())];
            value = match pick(12) {
                0 => value.exp(),
                1 => value * 2.0,
                2 => (&value * 2.0) + &value,
                3 => value.less(other).where_cond(other, 1.0),
                4 => &value / &(other * 0.5),
                5 => &value - &value.max_keepdims(&[Axis(0)]),
                6 => {
                    results.push(value.clone());
                    value.sqrt()
                }
                _ => value + other,
            };
        }
        results.push(value);
        results
    }

    /// Returns a random expression with reductions of rows, along all axes but the first.
    fn expression_of_rows(&self, random: &mut Pcg32) -> Vec<Dynamic> {
        let mut pick = |count: usize| random.next_u32() as usize % count;
        let mut value = self.all[0].clone();
        let axes: Vec<Axis> = (1..value.ndim()).map(Axis).collect();
        for _ in 0..1 + pick(5) {
            let other = &self.all[pick(self.all.len())];
            value = match pick(9) {
                0 => value.exp(),
                1 => &value - &value.max_keepdims(&axes),
                2 => &value / &value.sum_keepdims(&axes),
                3 => &value * &(value.mean_keepdims(&axes) + 1e-3).sqrt(),
                4 => &value - &value.min_keepdims(&axes),
                5 => value.less(other).where_cond(other, 1.0),
                _ => value + other,
            };
        }
        match pick(8) {
            0 => vec![value.sum_keepdims(&axes)],
            5 if value.ndim() == 2 => {
                let value = value
                    .into_dimensionality::<Ix2>()
                    .expect("there are two axes");
                let columns = value.shape()[1];
                let weights = Array2::from_elem((columns, 3), 0.5);
                let weights = Array::from_host(value.device(), &weights).unwrap();
                let product = (value.dot(&weights) + 1.0).relu();
                vec![product.into_dyn()]
            }
            4 => vec![value.var_axis(Axis(1), 0.0)],
            1 => vec![value.max_keepdims(&axes), value.min_keepdims(&axes)],
            2 => vec![value.sum_axis(Axis(1)).exp()],
            3 => vec![value.max_axis(Axis(value.ndim() - 1))],
            _ => vec![value],
        }
    }
}

/// Returns what a launch passes, with identifiers for nodes.
fn bound(code: &Code, kernel: BoundKernel<'_>) -> Vec<String> {
    let launches = code.passes.iter().flat_map(|pass| {
        let of_kernel = &pass.kernel;
        let described = |parameter: &CodeParameter| match *parameter {
            CodeParameter::Input(number) => format!("array {}", kernel.node(number).id),
            CodeParameter::Constant(number) => {
                let (node, value) = (kernel.node(number).id, kernel.constant(number));
                format!("constant {node} {value:?}")
            }
            CodeParameter::CheckCode { node, axis, length } => {
                format!("check {} {axis} {length}", kernel.node(node).id)
            }
            CodeParameter::Fixed(KernelParameter::Output(number)) => format!("output {number}"),
            CodeParameter::Fixed(KernelParameter::Temporary(number)) => {
                format!("temporary {number}")
            }
            CodeParameter::Fixed(KernelParameter::Scalar(value)) => format!("{value:?}"),
            ref parameter => format!("{:?}", parameter.length(kernel)),
        };
        let parameters = of_kernel.parameters.iter().chain(&of_kernel.table);
        let threads = pass.threads.of(kernel.root().elements);
        [of_kernel.ptx.to_string(), of_kernel.name.to_string()]
            .into_iter()
            .chain([format!("{threads} threads, {} of a block", of_kernel.block)])
            .chain(parameters.map(described))
            .collect::<Vec<_>>()
    });
    launches.collect()
}

/// Returns the kernels of a step with the identifiers of what they compute, read and write.
fn described<'a>(
    step: &'a Step,
    nodes: &'a HeldNodes,
    plan: &'a Plan,
) -> Vec<(BoundKernel<'a>, Vec<u64>)> {
    let described = |kernel: &'a KernelPlan| {
        let bound = BoundKernel {
            kernel,
            nodes,
            plan,
        };
        let outputs = kernel.outputs.iter();
        let outputs = outputs.flat_map(|output| [output.value, output.target]);
        let all = std::iter::once(kernel.root).chain(step.nodes.iter().copied());
        let all = all.chain(outputs).chain(kernel.nodes.iter().copied());
        let all = all.chain(kernel.epilogue.iter().chain(&kernel.inputs).copied());
        (bound, all.map(|number| nodes.node(number).id).collect())
    };
    step.kernels.iter().map(described).collect()
}

/// Compares the plan of these nodes with a new one, and the code of its kernels with new code.
/// Returns whether the plan was recalled.
fn is_recalled_right(targets: &[NodeRef], what: &str) -> bool {
    let Recalled {
        graph,
        plan,
        is_known,
    } = recall(targets, u64::MAX);
    let new = build::steps(&PlannedGraph::of(targets), u64::MAX);
    let nodes = HeldNodes::of(graph);
    assert_eq!(plan.steps.len(), new.len(), "{what}");
    for (step, new) in plan.steps.iter().zip(&new) {
        let step = described(step, &nodes, &plan);
        let new = described(new, &nodes, &plan);
        assert_eq!(step.len(), new.len(), "{what}");
        for ((step, kept_numbers), (new, new_numbers)) in step.into_iter().zip(new) {
            assert_eq!(kept_numbers, new_numbers, "{what}");
            let fused = new.fused();
            assert_eq!(step.fused().rows, fused.rows, "{what}");
            let fresh = bound(&generate_anew(&fused), new);
            assert_eq!(bound(&code_of(step), step), fresh, "{what}");
        }
    }
    is_known
}

/// The lengths of axes: of 1, and with every residue of a vector of four.
const LENGTHS: [usize; 9] = [1, 2, 3, 4, 5, 6, 8, 12, 33];

#[test]
fn a_recalled_plan_of_other_lengths_is_that_of_a_new_one() {
    let device = Device::simulated().unwrap();
    let mut recalled_for_others = 0;
    for seed in 0..150 {
        let mut random = Pcg32::seed_from_u64(seed);
        let rank = 1 + random.next_u32() as usize % 3;
        let expression = random.clone();
        let mut first: Option<Vec<usize>> = None;
        for _ in 0..6 {
            let length = |_| LENGTHS[random.next_u32() as usize % LENGTHS.len()];
            let shape: Vec<usize> = (0..rank).map(length).collect();
            let results = Operands::of(&device, &shape).expression(&mut expression.clone());
            let targets: Vec<NodeRef> = results
                .iter()
                .map(|result| NodeRef::clone(result.node()))
                .collect();
            let is_known = is_recalled_right(&targets, &format!("seed {seed}, {shape:?}"));
            let other = first.get_or_insert_with(|| shape.clone());
            recalled_for_others += usize::from(is_known && *other != shape);
        }
    }
    assert!(
        recalled_for_others > 200,
        "{recalled_for_others} plans for others"
    );
}

/// The numbers of rows. Some give other kinds of kernels.
const ROWS: [usize; 8] = [1, 2, 3, 7, 64, 200, 8_192, 13_000];

#[test]
fn a_recalled_plan_of_other_rows_is_that_of_a_new_one() {
    let device = Device::simulated().unwrap();
    let mut recalled_for_others = 0;
    for seed in 0..120 {
        let mut random = Pcg32::seed_from_u64(seed);
        let mut pick = |count: usize| random.next_u32() as usize % count;
        let lengths = [1, 2, 4, 5, 32, 33, 100, 257, 260, 1024, 9_000];
        let mut shape = vec![0, lengths[pick(lengths.len())]];
        if pick(3) == 0 {
            shape.push([2, 3, 8][pick(3)]);
        }
        let mut seen: Vec<usize> = Vec::new();
        for _ in 0..5 {
            shape[0] = ROWS[pick(ROWS.len())];
            if shape.iter().product::<usize>() > 1 << 20 {
                shape[0] = ROWS[pick(6)];
            }
            let mut expression = Pcg32::seed_from_u64(seed);
            let results = Operands::of(&device, &shape).expression_of_rows(&mut expression);
            let nodes = results.iter().map(|result| NodeRef::clone(result.node()));
            let nodes: Vec<NodeRef> = nodes.collect();
            let is_known = is_recalled_right(&nodes, &format!("seed {seed}, {shape:?}"));
            recalled_for_others += usize::from(is_known && !seen.contains(&shape[0]));
            seen.push(shape[0]);
        }
    }
    assert!(
        recalled_for_others > 100,
        "{recalled_for_others} plans for others"
    );
}

/// Returns for each number of rows whether the plan of `results` was recalled.
fn recalled_for(rows: &[usize], results: impl Fn(usize) -> Vec<Dynamic>) -> Vec<bool> {
    let is_recalled = |&rows: &usize| {
        let results = results(rows);
        let nodes = results.iter().map(|result| NodeRef::clone(result.node()));
        is_recalled_right(&nodes.collect::<Vec<_>>(), &format!("{rows} rows"))
    };
    rows.iter().map(is_recalled).collect()
}

#[test]
fn the_number_of_rows_chooses_between_kernels_of_one_plan() {
    let device = Device::simulated().unwrap();
    let zeros = |rows: usize, columns: usize| -> Dynamic {
        Array::from_host(&device, &ArrayD::zeros(IxDyn(&[rows, columns]))).unwrap()
    };
    // Blocks of 256 and of 64 threads for each row.
    let softmax = |rows| {
        let x = zeros(rows, 259);
        let powers = (&x - x.max_keepdims(&[Axis(1)])).exp();
        vec![&powers / powers.sum_keepdims(&[Axis(1)])]
    };
    let rows = [100, 13_000, 200, 12_671, 12_672];
    let recalled = recalled_for(&rows, softmax);
    assert_eq!(recalled, [false, true, true, true, true]);
    // Blocks and warps.
    let sums = |rows| vec![(zeros(rows, 261) * 2.0).sum_axis(Axis(1))];
    let recalled = recalled_for(&[9_000, 100, 8_192, 8_191], sums);
    assert_eq!(recalled, [false, true, true, true]);
}

#[test]
fn inputs_with_more_elements_than_the_rows_have_other_plans() {
    let device = Device::simulated().unwrap();
    let zeros = |shape: &[usize]| -> Dynamic {
        Array::from_host(&device, &ArrayD::zeros(IxDyn(shape))).unwrap()
    };
    let weights = zeros(&[67]);
    let results = |rows| {
        let [a, b] = [zeros(&[rows, 1]), zeros(&[rows, 1])];
        vec![
            (a * &weights).sum_axis(Axis(1)),
            (b + &weights).max_axis(Axis(1)),
        ]
    };
    let recalled = recalled_for(&[3, 4, 200, 300, 67, 5], results);
    assert_eq!(recalled, [false, true, false, true, false, true]);
}
