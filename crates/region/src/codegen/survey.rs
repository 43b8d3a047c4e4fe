//! What must be known of all nodes of a kernel before the first instruction: how large their indices get, and whether all
//! have the same numbers.

use rustc_hash::FxHashSet;

use super::index::keeps_numbers;
use crate::graph::{NodeRef, Op, State};

/// What is known of all nodes of a kernel.
pub(super) struct Extent {
    /// Whether indices need 64 bits.
    pub(super) wide: bool,
    /// Whether all nodes' elements have the numbers of the root's, or there is only one.
    pub(super) flat: bool,
}

/// The most elements for which 32 bits suffice, with the threads of the last block counted.
const NARROW_MAX: usize = (i32::MAX as usize) - 4096;

/// Looks at all nodes that are calculated for the root. `elements` are those of what is written.
pub(super) fn survey(root: &NodeRef, elements: usize) -> Extent {
    let mut extent = Extent {
        wide: root.elements.max(elements) > NARROW_MAX,
        flat: true,
    };
    let mut seen = FxHashSet::default();
    let mut open = vec![NodeRef::clone(root)];
    while let Some(node) = open.pop() {
        if !seen.insert(node.id) {
            continue;
        }
        extent.wide |= node.elements > NARROW_MAX;
        let State::Planned(op) = node.state() else {
            continue;
        };
        match &op {
            Op::View(source, map) => {
                extent.flat &= source.elements == 1 || keeps_numbers(&node.shape, map, &source.shape);
            }
            Op::Gather { .. } => extent.flat = false,
            _ => {}
        }
        op.operands(|operand| open.push(NodeRef::clone(operand)));
    }
    extent
}
