//! Planning: from the nodes that are asked for to fused kernels.
//!
//! [`steps`] decides which of the planned nodes are stored, and puts together for each the
//! [`FusedKernel`]s that calculate it: which nodes are calculated inside, what is read and what is
//! written. Nobody looks for these boundaries again.
//!
//! | file | |
//! |---|---|
//! | `kernel.rs` | `FusedKernel`, and the steps that consist of them |
//! | `decide.rs` | which nodes are stored, and which are calculated within the kernels of others |
//! | `build.rs` | the kernels that follow from that |

mod build;
mod kernel;
mod partition;

pub(crate) use build::steps;
pub(crate) use kernel::{FusedKernel, FusedNode, Step, Work};

/// The only kernel of a node all of whose operands are in memory or calculated with it.
#[cfg(test)]
pub(crate) fn only_kernel(node: &crate::graph::NodeRef) -> FusedKernel {
    let mut steps = steps(std::slice::from_ref(node));
    let (Some(step), None) = (steps.next(), steps.next()) else {
        panic!("it takes one step");
    };
    match step.work {
        Work::Kernels(mut kernels) if kernels.len() == 1 => kernels.remove(0),
        _ => panic!("the step takes one kernel"),
    }
}
