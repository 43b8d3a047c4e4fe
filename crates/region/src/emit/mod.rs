//! Code generation: lowers a [`FusedKernel`] to PTX.
//!
//! Compiling a kernel takes longer than most launches, so kernels are generated to be reused. One
//! lowering of the fused nodes produces both the text and the parameters: the text depends on the
//! kind of computation, and everything specific to one computation (addresses, lengths, strides,
//! scalars) is a parameter. Computations of the same kind therefore share a kernel, whatever their
//! shapes are.
//!
//! `body` uses no other of these modules, `passes` and `lower` use `body`, and the families of
//! kernels use these three and not each other. [`passes_of`] calls the kernel of a family that the
//! [`Schedule`] names.

pub(crate) mod attention;
pub(crate) mod body;
pub(crate) mod lower;
pub(crate) mod map;
pub(crate) mod passes;
pub(crate) mod product;
pub(crate) mod reduce;
pub(crate) mod row;
pub(crate) mod scan;
pub(crate) mod scatter;

use attention::kernel::attention;
use map::{
    elements::map, join_arrays::join, sections::sections, stencil::stencil, transpose::tiles,
};
use passes::GeneratedPasses;
use product::product;
use reduce::reduction::reduce;
use row::{block::block_row, long_row::long_row, many_rows::many_rows};
use scan::rows::scan;
use scatter::{
    atomics::{add_each, mark_and_store, permute},
    shared::add_in_shared,
};

use crate::{
    plan::FusedKernel,
    schedule::{RowSchedule, ScatterSchedule, Schedule},
};

/// Generates the passes of a fused kernel that has elements to write.
pub(crate) fn passes_of(kernel: &FusedKernel, schedule: Schedule) -> GeneratedPasses {
    match schedule {
        Schedule::Map(of_thread) => map(kernel, of_thread),
        Schedule::Transposed => tiles(kernel),
        Schedule::Stencil => stencil(kernel),
        Schedule::Sections => sections(kernel),
        Schedule::Join { lanes, blocks } => join(kernel, lanes, blocks),
        Schedule::Row(split, of_row) => {
            let rows = kernel.rows.expect("a row kernel has rows");
            match of_row {
                RowSchedule::ManyRows { parts, blocks } => {
                    many_rows(kernel, rows, split, (parts, blocks))
                }
                RowSchedule::LongRow { blocks, groups } => {
                    long_row(kernel, rows, split, (blocks, groups))
                }
                _ => block_row(kernel, rows, split),
            }
        }
        Schedule::Reduce(of_result) => reduce(kernel, of_result),
        Schedule::Scan { order, blocks } => scan(kernel, order, blocks),
        Schedule::Scatter(ScatterSchedule::Add) => add_each(kernel),
        Schedule::Scatter(ScatterSchedule::AddInShared { blocks }) => add_in_shared(kernel, blocks),
        Schedule::Scatter(ScatterSchedule::MarkAndStore) => mark_and_store(kernel),
        Schedule::Scatter(ScatterSchedule::Permute) => permute(kernel),
        Schedule::Product(plan) => product(kernel, &plan),
        Schedule::Attention => attention(kernel),
    }
}
