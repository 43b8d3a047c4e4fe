//! The indices of a kernel: their width, and whether all nodes have elements at the same ones.

use crate::{
    expr::Op,
    plan::{
        kernel::{FusedKernel, FusedNode},
        uniform::ELEMENTS_32_MAX,
    },
    shape::preserves_linear_index,
};

/// The properties of a kernel's indices, known before its first instruction.
#[derive(Clone, Copy)]
pub(crate) struct IndexAnalysis {
    /// True if indices need 64 bits.
    pub(crate) wide: bool,
    /// True if every node up to the root has its elements at the root's linear indices, or has only
    /// one element.
    pub(crate) flat: bool,
}

impl IndexAnalysis {
    pub(crate) fn of(kernel: &FusedKernel) -> Self {
        let calculated = kernel.nodes.iter().map(|fused| &fused.node);
        let written = kernel.outputs.iter().map(|output| &output.target);
        let mut nodes = calculated.chain(&kernel.inputs).chain(written);
        Self {
            wide: are_all_wide() || nodes.any(|node| node.elements > ELEMENTS_32_MAX),
            flat: are_flat(&kernel.nodes) && !kernel.has_nested_reductions(),
        }
    }
}

/// Returns whether all kernels have indices of 64 bits, and not only those of large arrays. In
/// tests the environment variable `MILLSTREAM_INDEX_BITS=64` selects that; it is read once, because
/// kernels are kept.
fn are_all_wide() -> bool {
    use std::{env, sync::LazyLock};
    static ARE_ALL_WIDE: LazyLock<bool> = LazyLock::new(|| {
        cfg!(feature = "testing")
            && env::var("MILLSTREAM_INDEX_BITS").is_ok_and(|bits| bits == "64")
    });
    *ARE_ALL_WIDE
}

/// Returns whether every node has its elements at the same linear indices, or has only one element.
pub(crate) fn are_flat(nodes: &[FusedNode]) -> bool {
    nodes.iter().all(|fused| match &*fused.op {
        Op::View(source, map) => {
            source.elements == 1 || preserves_linear_index(&fused.node.shape, map, &source.shape)
        }
        Op::Gather { .. } | Op::Update { .. } | Op::Concatenate { .. } => false,
        _ => true,
    })
}
