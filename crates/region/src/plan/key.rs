//! The keys of graphs: graphs with equal keys have one plan.

use smallvec::SmallVec;

use crate::{
    expr::{FreeLengths, NodeRef},
    plan::{
        first_axis::{first_axis_of, ranks},
        planned::PlannedGraph,
        uniform::{KeyFreeLengths, Uniform, push_computed, push_stored},
    },
    shape::Shape,
};

/// The words of a graph on which its plan depends.
pub(crate) type GraphKey = SmallVec<[u64; 80]>;

impl PlannedGraph {
    /// Returns the lengths on which the plan of the graph does not depend.
    pub(crate) fn free_lengths(&self) -> KeyFreeLengths<'_> {
        let is_computed = |node: &NodeRef| self.planned_number(node).is_some();
        match Uniform::of(&self.nodes, is_computed) {
            Some(uniform) => FreeLengths::All(uniform),
            None => first_axis_of(self).map_or(FreeLengths::None, FreeLengths::First),
        }
    }

    pub(crate) fn differing_lengths(&self, free: FreeLengths) -> Shape {
        let last = self.nodes.last().map(|fused| &fused.node.shape);
        match (free, last) {
            (FreeLengths::All(()), Some(shape)) => shape.clone(),
            (FreeLengths::First(()), Some(shape)) => Shape::from_slice(&shape[..1]),
            _ => Shape::new(),
        }
    }

    /// Returns the key of all graphs with the same plan: with the same operations, types and
    /// requested nodes, and the same shapes, except for lengths on which the plan does not depend.
    pub(crate) fn key(&self) -> GraphKey {
        let free = self.free_lengths();
        let mut words = GraphKey::new();
        words.push(free.word());
        let counts = [self.nodes.len(), self.inputs.len(), self.targets.len()];
        words.extend(counts.map(|count| count as u64));
        words.extend(self.targets.iter().map(|&target| u64::from(target)));
        for fused in &self.nodes {
            push_computed(&mut words, fused, free, |operand| {
                self.number(operand).into()
            });
        }
        for node in &self.inputs {
            // An array handle may request the elements of an input later.
            push_stored(&mut words, node, free, node.is_held());
        }
        if let FreeLengths::First(_) = free {
            words.extend(ranks(self));
        }
        words
    }
}
