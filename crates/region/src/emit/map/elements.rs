//! Element-wise kernels, with one element or several neighbours per thread.

use smallvec::SmallVec;

use crate::{
    emit::{
        body::{KernelBody, ParameterKey, Reg, index, jump, line},
        lower::{Lowering, Position},
        passes::{GeneratedPasses, Threads},
    },
    expr::{NodeRef, Op},
    plan::{FusedKernel, IndexAnalysis, KernelOutput},
    schedule::MapSchedule,
    shape::{AxisMap, RANK_MAX},
};

/// Generates a kernel that computes its outputs, which have one shape and some elements.
pub(crate) fn map(kernel: &FusedKernel, of_thread: MapSchedule) -> GeneratedPasses {
    let mut body = KernelBody::new(IndexAnalysis::of(kernel).wide);
    let thread = body.thread();
    let count = body.elements_of(ParameterKey::Named("count"), &kernel.root);
    let threads = match of_thread {
        MapSchedule::Vectors { lanes } => {
            one_vector_per_thread(&mut body, kernel, thread, count, lanes);
            Threads::ForElements { lanes, more: lanes }
        }
        MapSchedule::Groups { lanes } => {
            one_group_per_thread(&mut body, kernel, thread, count, lanes);
            Threads::ForElements { lanes, more: 0 }
        }
        MapSchedule::Single => {
            let node = &kernel.root;
            jump!(body; "DONE" if "ge.u# {thread}, {count}");
            let mut lowering = Lowering::new(&mut body, kernel, false);
            let position = lowering.at_linear_index(node.id, &node.shape, thread);
            lowering.store_values(position, thread);
            body.label("DONE");
            Threads::ForElements { lanes: 1, more: 0 }
        }
    };
    GeneratedPasses::one(body.finish(""), threads)
}

/// Computes several neighbours per thread along the last axis, which has a multiple of them.
/// Threads all of whose elements an update replaces compute nothing else.
fn one_group_per_thread(
    body: &mut KernelBody,
    kernel: &FusedKernel,
    thread: Reg,
    count: Reg,
    lanes: usize,
) {
    let node = &kernel.root;
    let first = index!(body; "mul.lo.s# {thread}, {lanes}");
    jump!(body; "DONE" if "ge.u# {first}, {count}");
    if let Some((map, value)) = wide_update(kernel) {
        let words = body.name_parts();
        let mut lowering = Lowering::new(body, kernel, false);
        let positions = group_positions(&mut lowering, node, first, lanes);
        lowering.group(&positions);
        if let Some(all) = lowering.replaces_all(node, &positions, map, value) {
            line!(lowering.body; "@!{all} bra PART;");
            lowering.replaced = Some(node.id);
            store_group(lowering, &positions, first);
            line!(body; "bra DONE;");
            body.label("PART");
            body.truncate_name(words);
        }
    }
    let mut lowering = Lowering::new(body, kernel, false);
    let positions = group_positions(&mut lowering, node, first, lanes);
    store_group(lowering, &positions, first);
    body.label("DONE");
}

/// Returns the map and the value of an update that replaces most elements by computed ones.
fn wide_update(kernel: &FusedKernel) -> Option<(&AxisMap, &NodeRef)> {
    match kernel.op(&kernel.root) {
        Some(Op::Update { map, value, .. }) => {
            let is_wide = value.elements > kernel.root.elements / 2;
            (is_wide && kernel.op(value).is_some()).then_some((map, value))
        }
        _ => None,
    }
}

/// Adds the positions of neighbours along the last axis, the first at the linear index `first`.
pub(crate) fn group_positions(
    lowering: &mut Lowering<'_>,
    node: &NodeRef,
    first: Reg,
    lanes: usize,
) -> SmallVec<[Position; 4]> {
    let start = lowering.at_linear_index(node.id, &node.shape, first);
    let long = (0..node.shape.len()).filter(|&axis| node.shape[axis] != 1);
    let mut axes: SmallVec<[Option<Reg>; RANK_MAX]> = SmallVec::from_elem(None, node.shape.len());
    let mut last = 0;
    for axis in long {
        axes[axis] = Some(lowering.axis_index(start, axis));
        last = axis;
    }
    let along = axes[last].expect("the last axis is longer than 1");
    let position = |lane| {
        let number = index!(lowering.body; "add.s# {first}, {lane}");
        axes[last] = Some(index!(lowering.body; "add.s# {along}, {lane}"));
        lowering.at_indices(node.id, &node.shape, axes.clone(), Some(number))
    };
    (0..lanes).map(position).collect()
}

/// Computes and stores neighbours, from the linear index `first` on.
fn store_group(mut lowering: Lowering<'_>, positions: &[Position], first: Reg) {
    lowering.group(positions);
    let kernel = lowering.kernel;
    for (output, KernelOutput { value, slot, .. }) in kernel.outputs.iter().enumerate() {
        let lanes = positions.iter().enumerate();
        let element = |(lane, &position)| lowering.lower_in_turn(value, position, lane);
        let elements: SmallVec<[Reg; 4]> = lanes.map(element).collect();
        let number = lowering.destination(output, positions[0], first);
        (lowering.body).store_output((*slot, value.dtype), number, &elements);
    }
}

/// Computes a vector in each of the first threads, and in each of the others one element.
fn one_vector_per_thread(
    body: &mut KernelBody,
    kernel: &FusedKernel,
    thread: Reg,
    count: Reg,
    lanes: usize,
) {
    let node = &kernel.root;
    let vectors = index!(body; "shr.u# {count}, {}", lanes.trailing_zeros());
    jump!(body; "TAIL" if "ge.u# {thread}, {vectors}");
    let first = index!(body; "shl.b# {thread}, {}", lanes.trailing_zeros());
    let mut lowering = Lowering::new(body, kernel, true);
    let numbers = lowering.body.neighbours(first, lanes).into_iter();
    let position = |number| lowering.at_linear_index(node.id, &node.shape, number);
    let positions: SmallVec<[Position; 4]> = numbers.map(position).collect();
    store_group(lowering, &positions, first);
    line!(body; "bra DONE;");

    body.label("TAIL");
    let [last, done, after] = body.index_regs();
    line!(body; "sub.s# {after}, {thread}, {vectors};");
    line!(body; "shl.b# {done}, {vectors}, {};", lanes.trailing_zeros());
    line!(body; "add.s# {last}, {done}, {after};");
    jump!(body; "DONE" if "ge.u# {last}, {count}");
    let mut lowering = Lowering::new(body, kernel, true);
    let position = lowering.at_linear_index(node.id, &node.shape, last);
    let words = lowering.body.name_parts();
    lowering.store_values(position, last);
    body.truncate_name(words);
    body.label("DONE");
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::{Axis, Ix6, Slice, array};

    use crate::{
        Number, Region,
        element::DType,
        emit::{
            body::kernel::{BLOCK, Kernel},
            map::elements::*,
        },
        plan::only_kernel,
        schedule::{Machine, Schedule, schedule},
        shape::Shape,
    };

    /// Returns the kernel that computes a node, and its number of threads.
    fn map(node: &NodeRef) -> (Kernel, usize) {
        let kernel = only_kernel(node);
        let Schedule::Map(of_thread) = schedule(&kernel, &Machine::H200) else {
            panic!("the node has another kernel");
        };
        let pass = super::map(&kernel, of_thread).passes.remove(0);
        (pass.kernel, pass.threads.of(node.elements))
    }

    /// Returns the size of the parameters that a kernel declares.
    fn declared_bytes(ptx: &str) -> usize {
        let kinds = ptx
            .lines()
            .filter_map(|line| line.strip_prefix("\t.param "));
        kinds.fold(0, |bytes: usize, kind| {
            let size = if kind.starts_with(".u64") || kind.starts_with(".f64") {
                8
            } else {
                4
            };
            bytes.next_multiple_of(size) + size
        })
    }

    /// Returns the kernel of the sum of `count` slices, each with twelve parameters: no two slices
    /// have the same start and step along an axis.
    fn kernel_of_slices<T: Number>(x: &crate::Array<T, Ix6>, count: usize) -> Kernel {
        let parts = (0..count as isize).map(|at| {
            let (first, other) = (at / 8 + 1, at % 8);
            let second = other + 2 * isize::from(other >= first);
            let ends = first.min(second)..first.max(second) + 1;
            let along = Slice::from(ends).step_by(second - first);
            (0..6).fold(x.clone(), |part, axis| part.slice_axis(Axis(axis), along))
        });
        let sum = parts.reduce(|sum, part| sum + part).unwrap();
        map(sum.node()).0
    }

    #[test]
    fn parameters_beyond_the_limit_are_in_a_table() {
        // Each kernel has its own region, so that no part of the sum is evaluated early.
        let kernel = |slices| {
            let region = Region::new(Device::simulated().unwrap());
            kernel_of_slices::<f32>(&region.array(&ndarray::Array6::zeros([13; 6])), slices)
        };
        // Each slice has a start and a step for each axis; the array and the result have lengths.
        let values = |slices: usize| slices * 12 + 5 + 5 + 1;
        let few = kernel(84);
        assert_eq!((few.parameters.len(), few.table.len()), (values(84) + 2, 0));
        assert!(
            (4000..=4096).contains(&declared_bytes(&few.ptx)),
            "{}",
            declared_bytes(&few.ptx)
        );
        for slices in [85, 96] {
            let many = kernel(slices);
            // The array, the target, and the table.
            assert_eq!((many.parameters.len(), declared_bytes(&many.ptx)), (2, 24));
            assert_eq!(many.table.len(), values(slices));
            let loads = many.ptx.matches("ld.global.u32").count();
            assert_eq!(loads, many.table.len());
        }
    }

    #[test]
    fn a_table_holds_64_bit_indices() {
        let region = Region::new(Device::simulated().unwrap());
        let session = region.session();
        let location = std::panic::Location::caller();
        let numbers = session.plan(
            DType::I64,
            Shape::from_elem(99, 6),
            Op::Iota,
            "numbers",
            location,
        );
        let kernel = kernel_of_slices(&crate::Array::<i64, _>::of(session, numbers), 50);
        assert!(kernel.wide && kernel.table.len() > 600);
        assert_eq!(
            kernel.ptx.matches("ld.global.u64").count(),
            kernel.table.len()
        );
        assert_eq!(declared_bytes(&kernel.ptx), 16);
    }

    #[test]
    fn neighbours_are_loaded_and_stored_as_vectors_and_the_rest_one_by_one() {
        let region = Region::new(Device::simulated().unwrap());
        let x: crate::Array<f32, _> = region.array(&array![1.0, 2.0, 3.0, 4.0, 5.0]);
        let (kernel, threads) = map((&x + &x).node());
        let count = |what: &str| kernel.ptx.matches(what).count();
        assert_eq!((count("ld.global.v4.f32"), count("ld.global.f32")), (1, 1));
        assert_eq!((count("st.global.v4.f32"), count("st.global.f32")), (1, 1));
        assert_eq!(count("add.rn.f32"), 5);
        assert!(kernel.ptx.starts_with(".version 8.0\n.target sm_75\n"));
        assert_eq!((&*kernel.name, threads), ("add", BLOCK));
        // The number of elements, the operand and the target: the text does not contain the length.
        assert_eq!(kernel.parameters.len(), 3);
        let longer: crate::Array<f32, _> = region.array(&ndarray::Array1::<f32>::zeros(70));
        let (other, _) = map((&longer + &longer).node());
        assert_eq!(other.ptx, kernel.ptx);
    }
}
