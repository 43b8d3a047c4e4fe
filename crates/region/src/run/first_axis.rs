//! Kernels of rows whose code serves arrays of any number of rows.
//!
//! A program that calls a region for batches of many sizes has row kernels and reductions whose
//! arrays differ in the length of their first axis alone. Their text is the same, because a kernel
//! has its threads for each row, and so are all parameters but lengths of first axes and numbers of
//! rows, which a launch takes from its own nodes. The key of such code therefore leaves out the
//! length `n` of the first axis.
//!
//! Code generation compares lengths with each other, with bounds, and with 1. A kernel has
//! this property if
//!
//! - `n` is at least 2, and every computed node has a single element or a first axis of length `n`,
//!   so that no two of them have the same number of elements for one `n` only;
//! - no operation reduces, joins or scans the first axis, or checks an index against its length;
//! - no array is so large that its indices need 64 bits;
//! - the choice between kinds of kernels, which depends on the number of rows, is part of the key,
//!   and a row has its threads whatever the number of rows. That excludes rows that several blocks
//!   share, and rows that do not fit in registers.
//!
//! The key marks the lengths of first axes that are `n`, also those of inputs, and has all others.
//! An input that has the length `n` along another axis, or a step or start that follows from `n`,
//! therefore gives each `n` a key of its own.

use crate::{
    emit::{body::kernel::KernelParameter, passes::Threads},
    plan::{
        ELEMENTS_32_MAX, FreeLengths, FusedKernel, FusedNode, ReductionOrder, keeps_first_axis,
    },
    run::texts::{Code, CodeParameter},
    schedule::{Choice, Machine, ReduceSchedule, RowSchedule, Schedule},
};

/// Returns the length of the first axis, if the code serves others, and the numbers of rows that it
/// serves.
pub(crate) fn free_first_axis(kernel: &FusedKernel) -> Option<(FreeLengths<'static>, ServedRows)> {
    let length = *kernel.root.shape.first()?;
    let is_plain = kernel.overwrites.is_none()
        && kernel.tiled.is_empty()
        && kernel
            .outputs
            .iter()
            .all(|output| output.target_map.is_none());
    if length < 2 || !is_plain {
        return None;
    }
    let computed = || kernel.nodes.iter().chain(&kernel.epilogue);
    let targets = kernel.outputs.iter().map(|output| &output.target);
    let mut all = computed()
        .map(|fused| &fused.node)
        .chain(&kernel.inputs)
        .chain(targets);
    if all.any(|node| node.elements > ELEMENTS_32_MAX)
        || !computed().all(|FusedNode { node, op }| {
            keeps_first_axis(op, length)
                && (node.elements == 1 || node.shape.first() == Some(&length))
        })
    {
        return None;
    }
    let served = ServedRows::of(kernel)?;
    let kind = served.kind();
    Some((FreeLengths::First { length, kind }, served))
}

/// The numbers of rows for which a kernel has the same code: those with its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedRows {
    All,
    Scheduled(Choice, Schedule),
}

impl ServedRows {
    /// Returns the numbers of rows for which the kernel has the same code as for its own, if a row
    /// has its threads whatever their number is.
    fn of(kernel: &FusedKernel) -> Option<Self> {
        let choice = Choice::of(kernel, &Machine::H200);
        let schedule = choice.schedule(kernel.root.elements, &Machine::H200);
        let is_free = schedule.has_threads_for_each_row();
        is_free.then_some(Self::Scheduled(choice, schedule))
    }

    /// Returns whether a kernel whose root has this many elements is among them.
    pub(crate) fn contains(self, root: usize) -> bool {
        match self {
            Self::All => true,
            Self::Scheduled(choice, schedule) => choice.schedule(root, &Machine::H200) == schedule,
        }
    }

    /// Returns a number for the schedule.
    fn kind(self) -> u64 {
        match self {
            Self::Scheduled(_, Schedule::Row(_, RowSchedule::ManyRows { .. })) => 1,
            Self::Scheduled(_, Schedule::Reduce(of_result)) => match of_result {
                ReduceSchedule::Accumulators(ReductionOrder::Row { .. }) => 2,
                ReduceSchedule::Accumulators(ReductionOrder::Thread) => 3,
                ReduceSchedule::Warp => 4,
                ReduceSchedule::Accumulators(_) => 5,
            },
            _ => 0,
        }
    }
}

/// Returns whether the code takes all lengths of first axes and numbers of rows from the nodes of a
/// launch.
pub(crate) fn is_free_of_first_axis(code: &Code) -> bool {
    let is_free = |parameter: &CodeParameter| {
        !matches!(
            parameter,
            CodeParameter::Fixed(
                KernelParameter::Length { axis: 0, .. } | KernelParameter::ElementsOf { .. }
            )
        )
    };
    code.temporaries.is_empty()
        && code.passes.iter().all(|pass| {
            let kernel = &pass.kernel;
            let mut parameters = kernel.parameters.iter().chain(&kernel.table);
            matches!(pass.threads, Threads::ForRows { .. }) && parameters.all(is_free)
        })
}
