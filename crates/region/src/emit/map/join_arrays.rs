//! Joins of arrays in memory, however many, by one kernel.
//!
//! A line of the result, along the joined axis and those behind it, consists of one line of each
//! array. Each block first stores the addresses of the arrays and the places where their lines
//! begin in shared memory. A thread then finds the array of its elements by binary search.

use crate::{
    emit::{
        body::{BLOCK, KernelBody, Reg, RegClass, index, jump, line, value},
        passes::GeneratedPasses,
    },
    plan::{FusedKernel, IndexAnalysis},
    schedule::JoinedArrays,
};

/// Generates the kernel for this number of blocks. A thread copies `lanes` neighbours at once.
pub(crate) fn join(kernel: &FusedKernel, lanes: usize, blocks: usize) -> GeneratedPasses {
    let root = &kernel.root;
    let joined = JoinedArrays::of(kernel).expect("the kernel joins arrays");
    let (dtype, bytes) = (root.dtype, root.dtype.bytes());
    let behind = joined.behind(root);
    let line_length = root.shape[joined.axis] * behind;
    let mut body = KernelBody::new(IndexAnalysis::of(kernel).wide);
    let index_bytes = if body.wide { 8 } else { 4 };
    let vectors = root.elements / lanes;

    let (block, thread) = body.block_and_thread();
    let count = body.named("vectors", vectors);
    let step = body.named("step", blocks * BLOCK);
    let length = body.named("line", line_length);
    let addresses = value!(body, B64; "mov.u64 addresses");
    let begins = value!(body, B64; "mov.u64 begins");
    let slots = joined.parts.len().next_power_of_two();
    jump!(body; "STORED" if "ne.u# {thread}, 0");
    // The addresses first, so that no shorter parameters between them need padding.
    for (number, &(array, _)) in joined.parts.iter().enumerate() {
        let address = body.input(array);
        line!(body; "st.shared.b64 [{addresses}+{}], {address};", 8 * number);
    }
    let mut begin = 0;
    for (number, &(_, of_axis)) in joined.parts.iter().enumerate() {
        let first = body.start(root.id, number, begin);
        let offset = index_bytes * number;
        line!(body; "st.shared.b# [{begins}+{offset}], {first};");
        begin += of_axis * behind;
    }
    for number in joined.parts.len()..=slots {
        line!(body; "st.shared.b# [{begins}+{}], {length};", index_bytes * number);
    }
    body.label("STORED");
    line!(body; "bar.sync 0;");

    let at = index!(body; "mad.lo.s# {block}, {BLOCK}, {thread}");
    body.label("LOOP");
    jump!(body; "DONE" if "ge.u# {at}, {count}");
    let [first, line_number, within, product] = body.index_regs();
    line!(body; "shl.b# {first}, {at}, {};", lanes.trailing_zeros());
    line!(body; "div.u# {line_number}, {first}, {length};");
    line!(body; "mul.lo.s# {product}, {line_number}, {length};");
    line!(body; "sub.s# {within}, {first}, {product};");
    let number = find(&mut body, (begins, index_bytes), slots, within);
    let own = body.element(begins, number, index_bytes);
    let begin = index!(body; "ld.shared.b# [{own}]");
    let end = index!(body; "ld.shared.b# [{own}+{index_bytes}]");
    let own_length = index!(body; "sub.s# {end}, {begin}");
    let offset = index!(body; "sub.s# {within}, {begin}");
    line!(body; "mad.lo.s# {offset}, {line_number}, {own_length}, {offset};");
    let (slot, array) = (body.element(addresses, number, 8), body.reg(RegClass::B64));
    line!(body; "ld.shared.b64 {array}, [{slot}];");
    let from = body.element(array, offset, bytes);
    let elements = body.load(dtype, from, lanes);
    let output = body.output(0);
    let to = body.element(output, first, bytes);
    body.store(dtype, to, &elements);
    line!(body; "add.s# {at}, {at}, {step};");
    line!(body; "bra LOOP;");
    body.label("DONE");
    body.name_part("concatenate");
    let shared = format!(
        "\t.shared .align 8 .b8 addresses[{}];\n\t.shared .align 8 .b8 begins[{}];\n",
        8 * slots,
        index_bytes * (slots + 1)
    );
    GeneratedPasses::one(body.finish(&shared), blocks * BLOCK)
}

/// Returns the number of the last of 2^n ascending places that is not beyond an index.
fn find(
    body: &mut KernelBody,
    (places, index_bytes): (Reg, usize),
    count: usize,
    index: Reg,
) -> Reg {
    let number = index!(body; "mov.b# 0");
    let mut distance = count / 2;
    while distance > 0 {
        let [next, place] = body.index_regs();
        let is_there = body.predicate();
        line!(body; "add.s# {next}, {number}, {distance};");
        let address = body.element(places, next, index_bytes);
        line!(body; "ld.shared.b# {place}, [{address}];");
        line!(body; "setp.ge.u# {is_there}, {index}, {place};");
        line!(body; "selp.b# {number}, {next}, {number}, {is_there};");
        distance /= 2;
    }
    number
}
