//! The operands of attention.

use crate::{element::Scalar, expr::NodeRef};

/// The operands of attention, `softmax(q·kᵀ·scale + mask)·v`. All have the same batch axes.
#[derive(Clone)]
pub(crate) struct Attention {
    pub(crate) queries: NodeRef,
    pub(crate) keys: NodeRef,
    pub(crate) values: NodeRef,
    /// The numbers to add to the scores.
    pub(crate) mask: Option<NodeRef>,
    pub(crate) scale: Scalar,
    /// True if a query takes no key behind its own position.
    pub(crate) is_causal: bool,
}

impl Attention {
    /// Returns the queries, the keys, the values and the mask, if there is one.
    pub(crate) fn operands(&self) -> impl Iterator<Item = &NodeRef> {
        [&self.queries, &self.keys, &self.values]
            .into_iter()
            .chain(&self.mask)
    }
}
