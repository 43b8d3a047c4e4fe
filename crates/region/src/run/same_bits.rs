//! Every schedule of a kernel gives the same bits.

use millstream::Device;
use ndarray::{Array1, Array2, Axis, Ix2, s};

use crate::{
    Array, Region,
    expr::NodeRef,
    plan::HeldNodes,
    run::{
        bound::BoundKernel,
        launch::enqueue_code,
        plans::{Recalled, recall},
        texts::generate_scheduled,
    },
    schedule::{Schedule, admissible::admissible},
};

/// Runs the kernel of a node by every schedule, and compares the bits: of a scatter, that which
/// adds to elements in memory. Returns the schedules.
fn run_all(region: &Region, node: &NodeRef, name: &str) -> Vec<Schedule> {
    let session = region.session();
    let stream = session.streams().first(&session.device).unwrap();
    let Recalled { graph, plan, .. } = recall(std::slice::from_ref(node), u64::MAX);
    let [step] = &plan.steps[..] else {
        panic!("the node takes one step");
    };
    let in_place = step.in_place.as_deref();
    let bound = BoundKernel {
        kernel: in_place.map_or(&step.kernels[0], |replacement| &replacement.kernel),
        nodes: &HeldNodes::of(graph),
        plan: &plan,
    };
    let kernel = bound.fused();
    let schedules = admissible(&kernel);
    let mut first: Option<Vec<u8>> = None;
    for &schedule in &schedules {
        let code = generate_scheduled(&kernel, schedule);
        let mut buffers = Vec::new();
        for output in &kernel.outputs {
            if output.slot == buffers.len() {
                buffers.push(stream.zeros::<u8>(output.target.bytes()).unwrap());
            }
        }
        let mut outputs: Vec<_> = buffers.iter_mut().collect();
        enqueue_code(session, &stream, &code, bound, &mut outputs).unwrap();
        let mut bits: Vec<u8> = Vec::new();
        for buffer in &buffers {
            bits.extend(stream.download(buffer).unwrap().wait().unwrap());
        }
        let expected = first.get_or_insert_with(|| bits.clone());
        assert!(bits == *expected, "{name}: {schedule:?} gives other bits");
        assert!(bits.iter().any(|&byte| byte != 0), "{name}: only zeros");
    }
    schedules
}

fn numbers(rows: usize, columns: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, columns), |(row, column)| {
        ((row * 31 + column * 7) % 101) as f32 / 7.0 - 3.0
    })
}

/// Returns numbers whose sums of rows depend on the order of additions even as `f64`: some are so
/// large that others are rounded, and cancel each other.
fn cancelling(rows: usize, columns: usize) -> Array2<f32> {
    let large = |column: usize| match column % 3 {
        0 => (column % 23) as f32 * 2_f32.powi(50),
        _ => 0.0,
    };
    let mut numbers = numbers(rows, columns);
    for ((_, column), number) in numbers.indexed_iter_mut() {
        let difference = large(column) - large(columns - 1 - column);
        if difference != 0.0 {
            *number = difference;
        }
    }
    numbers
}

#[test]
fn every_schedule_of_element_wise_kernels_joins_and_products_gives_the_same_bits() {
    let region = Region::new(Device::simulated().unwrap());
    let x: Array<f32, Ix2> = region.array(&numbers(36, 72));
    let joined = crate::concatenate(Axis(1), &[&x, &x, &x]).unwrap();
    let [sums, products] = [&x + &x, &x * 3.0];
    let join = |axis, parts: &[&Array<f32, Ix2>]| crate::concatenate(Axis(axis), parts).unwrap();
    let [rows, columns] = [0, 1].map(|axis| join(axis, &[&sums, &products]));
    let unequal = join(0, &[&sums, &products.slice(s![..5, ..])]);
    let values = (&x / 4.0).exp();
    let part = |at: isize| values.slice(s![at..at + 32, at..at + 64]);
    let stencil = part(0) + part(1) + part(2) + part(3) + part(4);
    for (name, node, count) in [
        ("flat", (&x * 2.0).exp().node(), 5),
        ("reversed", (&x.slice(s![.., ..;-1]) * 2.0).node(), 3),
        ("shifted", (&x.slice(s![.., 1..]) * 2.0).node(), 1),
        ("transposed", (x.t().exp() / 3.0).node(), 4),
        ("joined", joined.node(), 4),
        ("rows of functions", rows.node(), 5),
        ("columns of functions", columns.node(), 3),
        ("parts of two sizes", unequal.node(), 1),
        ("product", x.dot(&x.t()).relu().node(), 1),
        ("attention", x.attention(&x, &x, 0.1).node(), 1),
    ] {
        let schedules = run_all(&region, node, name);
        assert!(schedules.len() >= count, "{name}: {schedules:?}");
    }
    let schedules = run_all(&region, stencil.node(), "stencil");
    assert_eq!(schedules, [Schedule::Stencil]);
}

#[test]
fn every_schedule_of_rows_gives_the_same_bits() {
    let region = Region::new(Device::simulated().unwrap());
    for (rows, columns, count) in [
        (5, 60, 1),
        (5, 300, 7),
        (3, 1_023, 6),
        (3, 1_024, 7),
        (128, 8_196, 3),
        (128, 8_193, 3),
    ] {
        let x: Array<f32, Ix2> = region.array(&cancelling(rows, columns));
        let of_row = |of_row: Array<f32, _>| of_row.insert_axis(Axis(1));
        let rest = &x - &of_row(x.sum_axis(Axis(1)));
        let scaled = &rest / &of_row(rest.abs().max_axis(Axis(1)));
        let name = format!("{rows} x {columns}");
        let schedules = run_all(&region, scaled.node(), &name);
        assert!(schedules.len() >= count, "{name}: {schedules:?}");
    }
}

#[test]
fn every_schedule_of_reductions_scans_and_scatters_gives_the_same_bits() {
    let region = Region::new(Device::simulated().unwrap());
    for (columns, count) in [(60, 1), (300, 2), (2_048, 2), (2_049, 1), (40_000, 1)] {
        let x: Array<f32, Ix2> = region.array(&cancelling(3, columns));
        let columns_of: Array<f32, Ix2> = region.array(&numbers(columns, 3));
        let near_one = columns_of.t().cast::<f64>() / 1e4 + 1.0;
        for (name, node) in [
            ("sum", x.sum_axis(Axis(1)).node()),
            ("position", x.argmin_axis(Axis(1)).node()),
            ("product", near_one.product_axis(Axis(1)).node()),
        ] {
            let schedules = run_all(&region, node, &format!("{name}, {columns}"));
            assert!(schedules.len() >= count, "{name}, {columns}: {schedules:?}");
        }
        let apart = x.insert_axis(Axis(2)) - region.array(&numbers(1, 3)).insert_axis(Axis(1));
        let nearest = apart.pow2().sum_axis(Axis(2)).argmin_axis(Axis(1));
        for (name, node) in [
            ("nearest", nearest.node()),
            ("by a vector", x.dot(&x.row(1)).node()),
        ] {
            let schedules = run_all(&region, node, &format!("{name}, {columns}"));
            assert!(schedules.len() >= count, "{name}, {columns}: {schedules:?}");
        }
        let sums = [
            ("scan", x.cumsum(Axis(1))),
            ("scan of columns", columns_of.cumsum(Axis(0))),
        ];
        for (name, scan) in &sums {
            run_all(&region, scan.node(), &format!("{name}, {columns}"));
        }
    }
    let values = Array1::from_shape_fn(5_000, |at| at as i32 % 17 - 4);
    let places = Array1::from_shape_fn(5_000, |at| (at * 7 % 10) as i32);
    let (values, places): (Array<i32, _>, Array<i32, _>) =
        (region.array(&values), region.array(&places));
    let base: Array<i32, _> = region.array(&Array1::zeros(10));
    let added = base.scatter_add(Axis(0), &places, &values);
    assert_eq!(run_all(&region, added.node(), "scatter").len(), 4);
}
