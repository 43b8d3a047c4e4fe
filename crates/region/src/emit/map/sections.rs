//! Parts of an array, each computed by blocks of its own: the parts of a join, and the elements
//! that a series of updates replaces.
//!
//! Where parts overlap, the last of them has the elements.

use smallvec::SmallVec;

use crate::{
    emit::{
        body::{BLOCK, KernelBody, ParameterKey, Reg, index, jump, line},
        lower::Lowering,
        passes::GeneratedPasses,
    },
    plan::{FusedKernel, IndexAnalysis, KernelOutput},
};

/// The number of the sections in parameter keys, which no node has.
const SECTIONS: u64 = u64::MAX - 2;

/// The blocks of an output.
struct Section {
    output: usize,
    first_block: usize,
}

/// Generates the kernel. A thread computes an element.
pub(crate) fn sections(kernel: &FusedKernel) -> GeneratedPasses {
    let mut body = KernelBody::new(IndexAnalysis::of(kernel).wide);
    let mut blocks = 0;
    let mut all: SmallVec<[Section; 8]> = SmallVec::new();
    for (output, KernelOutput { value, .. }) in kernel.outputs.iter().enumerate() {
        let first_block = blocks;
        blocks += value.elements.div_ceil(BLOCK);
        if blocks > first_block {
            all.push(Section {
                output,
                first_block,
            });
        }
    }
    let own = body.block_and_thread();
    compute_one(&mut body, kernel, &all, own);
    body.label("DONE");
    GeneratedPasses::one(body.finish(""), blocks * BLOCK)
}

/// Computes the section that the block belongs to.
fn compute_one(body: &mut KernelBody, kernel: &FusedKernel, all: &[Section], own: (Reg, Reg)) {
    if let [section] = all {
        return compute(body, kernel, section, own);
    }
    let (before, from) = all.split_at(all.len() / 2);
    let Section {
        output,
        first_block,
    } = from[0];
    let first = body.start(SECTIONS, output, first_block);
    jump!(body; "SECTION{output}" if "ge.u# {}, {first}", own.0);
    compute_one(body, kernel, before, own);
    line!(body; "bra DONE;");
    body.label(&format!("SECTION{output}"));
    compute_one(body, kernel, from, own);
}

fn compute(
    body: &mut KernelBody,
    kernel: &FusedKernel,
    &Section {
        output,
        first_block,
    }: &Section,
    (block, thread): (Reg, Reg),
) {
    let KernelOutput { value, slot, .. } = &kernel.outputs[output];
    let mut block = block;
    if first_block > 0 {
        let first = body.start(SECTIONS, output, first_block);
        block = index!(body; "sub.s# {block}, {first}");
    }
    let number = index!(body; "mad.lo.s# {block}, {BLOCK}, {thread}");
    let count = ParameterKey::Length(SECTIONS, output);
    let count = body.index_parameter(count, value.elements as i64);
    jump!(body; "DONE" if "ge.u# {number}, {count}");
    let mut lowering = Lowering::new(body, kernel, false);
    let position = lowering.at_linear_index(value.id, &value.shape, number);
    let mut later = kernel.later_overlapping(output).peekable();
    if later.peek().is_some() {
        let target = lowering.target_position(output, position, number);
        for later in later {
            match lowering.is_replaced(later, target) {
                Some(is_replaced) => line!(lowering.body; "@{is_replaced} bra DONE;"),
                None => return,
            }
        }
    }
    let element = lowering.lower(value, position);
    let to = lowering.destination(output, position, number);
    body.store_output((*slot, value.dtype), to, &[element]);
}
