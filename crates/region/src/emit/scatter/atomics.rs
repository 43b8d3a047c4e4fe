//! Scatter kernels, with one thread per index.
//!
//! `scatter_add` adds atomically. `scatter` must store the last of several values for one element,
//! independently of the order in which threads run: a first kernel marks each element with the
//! greatest linear index that writes to it, and a second kernel stores the marked value. Indices
//! that are a permutation need no marks.

use smallvec::smallvec;

use crate::{
    element::DType,
    emit::{
        body::{BLOCK, Kernel, KernelBody, Reg, jump, line},
        lower::{Lowering, Position},
        passes::{GeneratedPasses, Temporary},
    },
    expr::{NodeRef, Op, ScatterMode},
    plan::{FusedKernel, IndexAnalysis},
};

/// The work of a kernel for each index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScatterStage {
    /// Adds the value to the element.
    Add,
    /// Raises the mark of the element to the linear index, counted from 1.
    Mark,
    /// Stores the value if the element's mark holds this linear index.
    Store,
    /// Stores the value, the only one for its element.
    Permute,
}

/// Generates the kernel that adds at least one value to a target, which holds the base.
pub(crate) fn add_each(kernel: &FusedKernel) -> GeneratedPasses {
    let wide = IndexAnalysis::of(kernel).wide;
    let add = stage_kernel(kernel, wide, ScatterStage::Add);
    GeneratedPasses::one(add, threads(kernel))
}

/// Generates the kernel of a scatter whose indices are a permutation.
pub(crate) fn permute(kernel: &FusedKernel) -> GeneratedPasses {
    let wide = IndexAnalysis::of(kernel).wide;
    let permute = stage_kernel(kernel, wide, ScatterStage::Permute);
    GeneratedPasses::one(permute, threads(kernel))
}

/// Returns the index, the value and the axis of a kernel's scatter.
pub(crate) fn operands_of(kernel: &FusedKernel) -> (&NodeRef, &NodeRef, usize) {
    match kernel.op(&kernel.root) {
        Some(Op::Scatter {
            index, value, axis, ..
        }) => (index, value, *axis),
        _ => unreachable!("the root is a scatter"),
    }
}

fn threads(kernel: &FusedKernel) -> usize {
    operands_of(kernel).0.elements.next_multiple_of(BLOCK)
}

/// Generates the kernels of a scatter into a target that holds the base.
pub(crate) fn mark_and_store(kernel: &FusedKernel) -> GeneratedPasses {
    let (wide, threads) = (IndexAnalysis::of(kernel).wide, threads(kernel));
    let marks = Temporary {
        bytes: kernel.root.elements * mark_bytes(wide),
        is_zeroed: true,
    };
    let stages = [ScatterStage::Mark, ScatterStage::Store];
    let passes = stages.map(|stage| (stage_kernel(kernel, wide, stage), threads));
    GeneratedPasses::chain(smallvec![marks], passes)
}

/// Returns the size of a mark in bytes, which is the width of indices.
fn mark_bytes(wide: bool) -> usize {
    if wide { 8 } else { 4 }
}

/// Generates the kernel of one stage, with one thread per index.
fn stage_kernel(kernel: &FusedKernel, wide: bool, stage: ScatterStage) -> Kernel {
    let node = &kernel.root;
    let (index, value, axis) = operands_of(kernel);
    let mut body = KernelBody::new(wide);
    let thread = body.thread();
    let count = body.named("count", index.elements);
    jump!(body; "DONE" if "ge.u# {thread}, {count}");
    let mut lowering = Lowering::new(&mut body, kernel, false);
    let position = lowering.at_linear_index(index.id, &index.shape, thread);
    let target = lowering.scatter_target(node, (index, axis), position);
    let mark_bytes = mark_bytes(wide);
    let mark = lowering.body.index_reg();
    let output = (0, node.dtype);
    match stage {
        ScatterStage::Permute => {
            let value = lowering.lower(value, position);
            lowering.body.store_output(output, target, &[value]);
        }
        ScatterStage::Add => {
            let value = lowering.lower(value, position);
            let kind = added_type(node.dtype);
            let base = lowering.body.output(0);
            let address = lowering.body.element(base, target, node.dtype.bytes());
            line!(lowering.body; "red.global.add.{kind} [{address}], {value};");
        }
        ScatterStage::Mark => {
            line!(lowering.body; "add.s# {mark}, {thread}, 1;");
            let base = lowering.body.output(0);
            let address = lowering.body.element(base, target, mark_bytes);
            line!(lowering.body; "red.global.max.u# [{address}], {mark};");
        }
        ScatterStage::Store => {
            let base = lowering.body.temporary(0);
            let address = lowering.body.element(base, target, mark_bytes);
            line!(lowering.body; "ld.global.u# {mark}, [{address}];");
            line!(lowering.body; "sub.s# {mark}, {mark}, 1;");
            jump!(lowering.body; "DONE" if "ne.u# {mark}, {thread}");
            let value = lowering.lower(value, position);
            lowering.body.store_output(output, target, &[value]);
        }
    }
    body.name_part(match stage {
        ScatterStage::Add => "scatter_add",
        ScatterStage::Mark => "scatter_mark",
        ScatterStage::Store => "scatter",
        ScatterStage::Permute => "permute",
    });
    body.label("DONE");
    body.finish("")
}

pub(crate) fn added_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::I64 | DType::U64 => "u64",
        DType::I32 | DType::U32 => "u32",
        other => unreachable!("{other:?} is added as a wider type"),
    }
}

impl Lowering<'_> {
    /// Returns the linear index of the target for a position of the indices.
    pub(crate) fn scatter_target(
        &mut self,
        node: &NodeRef,
        (index, axis): (&NodeRef, usize),
        position: Position,
    ) -> Reg {
        let axis_index = self.lower(index, position);
        let is_known = matches!(
            self.kernel.op(node),
            Some(Op::Scatter {
                mode: ScatterMode::Permute,
                ..
            })
        );
        let axis_index = match is_known {
            true => self.known_index(axis_index),
            false => self.checked_index(node, axis_index, axis, node.shape[axis]),
        };
        let target = self.with_axis_index(node.id, position, axis, axis_index, &node.shape);
        self.linear_index(target)
    }
}
