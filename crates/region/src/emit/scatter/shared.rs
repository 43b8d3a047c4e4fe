//! Scatter-additions of many values to few elements: each block adds its values in shared memory
//! first, and then its sums to the elements. Neither takes a fixed order, so floats have the same
//! bound of their error as with one atomic addition for each value.

use smallvec::SmallVec;

use crate::{
    element::DType,
    emit::{
        body::{BLOCK, Kernel, KernelBody, Reg, RegClass, index, jump, line, value},
        lower::Lowering,
        passes::GeneratedPasses,
        scatter::atomics::{added_type, operands_of},
    },
    plan::{FusedKernel, IndexAnalysis},
    schedule::machine::SCATTER_LOADS,
};

/// A value, and the linear index of the element to which it is added.
struct Addend {
    value: Reg,
    target: Reg,
}

/// Generates a scatter-addition whose blocks add in shared memory first.
pub(crate) fn add_in_shared(kernel: &FusedKernel, blocks: usize) -> GeneratedPasses {
    GeneratedPasses::one(generate(kernel, blocks), blocks * BLOCK)
}

fn generate(kernel: &FusedKernel, blocks: usize) -> Kernel {
    let node = &kernel.root;
    let (index, ..) = operands_of(kernel);
    let mut body = KernelBody::new(IndexAnalysis::of(kernel).wide);
    let (block, thread) = body.block_and_thread();
    let count = body.named("count", index.elements);
    let elements = body.named("elements", node.elements);
    let step = body.named("step", blocks * BLOCK);
    let sums = value!(body, B64; "mov.u64 sums");

    for_each_sum(&mut body, thread, elements, "CLEAR", |body, at| {
        let address = body.element(sums, at, node.dtype.bytes());
        let (kind, identity) = (RegClass::of(node.dtype).move_type(), identity(node.dtype));
        line!(body; "st.shared.{kind} [{address}], {identity};");
    });
    line!(body; "bar.sync 0;");

    let (number, beyond) = (body.index_reg(), body.predicate());
    line!(body; "mad.lo.s# {number}, {block}, {BLOCK}, {thread};");
    body.label("VALUES");
    let numbers = body.steps(number, step, SCATTER_LOADS);
    let last = numbers[SCATTER_LOADS - 1];
    jump!(body, beyond; "REST" if "ge.u# {last}, {count}");
    add(&mut body, kernel, &numbers, sums);
    line!(body; "add.s# {number}, {last}, {step};");
    line!(body; "bra VALUES;");
    body.label("REST");
    jump!(body, beyond; "ADDED" if "ge.u# {number}, {count}");
    let words = body.name_parts();
    add(&mut body, kernel, &[number], sums);
    body.truncate_name(words);
    line!(body; "add.s# {number}, {number}, {step};");
    line!(body; "bra REST;");
    body.label("ADDED");
    line!(body; "bar.sync 0;");

    let output = body.output(0);
    for_each_sum(&mut body, thread, elements, "STORE", |body, at| {
        let (bytes, class) = (node.dtype.bytes(), RegClass::of(node.dtype));
        let (from, to) = (
            body.element(sums, at, bytes),
            body.element(output, at, bytes),
        );
        let (sum, is_other) = (body.reg(class), body.predicate());
        line!(body; "ld.shared.{} {sum}, [{from}];", class.move_type());
        let pattern = body.reg(if bytes == 8 {
            RegClass::B64
        } else {
            RegClass::B32
        });
        line!(body; "mov.{} {pattern}, {sum};", pattern.class.move_type());
        let (identity, bits) = (identity_bits(node.dtype), 8 * bytes);
        line!(body; "setp.ne.s{bits} {is_other}, {pattern}, {identity};");
        let kind = added_type(node.dtype);
        line!(body; "@{is_other} red.global.add.{kind} [{to}], {sum};");
    });
    body.name_part("scatter_add");
    let bytes = node.elements.next_power_of_two().max(BLOCK) * node.dtype.bytes();
    body.finish(&format!("\t.shared .align 8 .b8 sums[{bytes}];\n"))
}

/// Repeats instructions for every sum of the block. One thread takes each sum.
fn for_each_sum(
    body: &mut KernelBody,
    thread: Reg,
    elements: Reg,
    label: &str,
    instructions: impl FnOnce(&mut KernelBody, Reg),
) {
    let at = index!(body; "mov.b# {thread}");
    body.label(label);
    jump!(body; "{label}_END" if "ge.u# {at}, {elements}");
    instructions(body, at);
    line!(body; "add.s# {at}, {at}, {BLOCK};");
    line!(body; "bra {label};");
    body.label(&format!("{label}_END"));
}

/// Adds the values with these linear indices to the sums of the block, after all are loaded.
fn add(body: &mut KernelBody, kernel: &FusedKernel, numbers: &[Reg], sums: Reg) {
    let node = &kernel.root;
    let (index, value, axis) = operands_of(kernel);
    let mut lowering = Lowering::new(body, kernel, false);
    let mut addends: SmallVec<[Addend; SCATTER_LOADS]> = SmallVec::new();
    let mut words = None;
    for &number in numbers {
        let position = lowering.at_linear_index(index.id, &index.shape, number);
        let target = lowering.scatter_target(node, (index, axis), position);
        let value = lowering.lower(value, position);
        addends.push(Addend { value, target });
        // The others repeat the operations of the first.
        let words = *words.get_or_insert(lowering.body.name_parts());
        lowering.body.truncate_name(words);
    }
    let kind = added_type(node.dtype);
    for Addend { value, target } in addends {
        let address = body.element(sums, target, node.dtype.bytes());
        line!(body; "red.shared.add.{kind} [{address}], {value};");
    }
}

/// Returns the sum of no values: the number that changes no other when it is added, not even −0.
fn identity(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "0d8000000000000000",
        _ => "0",
    }
}

/// Returns the bits of this number, as an integer with a sign.
fn identity_bits(dtype: DType) -> i64 {
    match dtype {
        DType::F64 => i64::MIN,
        _ => 0,
    }
}
