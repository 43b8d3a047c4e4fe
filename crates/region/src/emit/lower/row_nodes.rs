//! The nodes of a row kernel that have one element for each row.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    emit::{
        body::Reg,
        lower::{lowering::Lowering, position::Position},
    },
    expr::NodeRef,
    plan::{RowClass, RowShape},
    shape::Shape,
};

/// The nodes of a row kernel that have one element for each row.
pub(crate) struct RowNodes {
    ids: FxHashSet<u64>,
    row: Reg,
    /// The number of elements of a row.
    pub(crate) length: usize,
    /// The position of the row's element in arrays of each shape.
    positions: Vec<(Shape, Position)>,
    /// The values of the row by which elements are divided, by node.
    pub(crate) divisors: FxHashMap<u64, Divisor>,
}

impl RowNodes {
    pub(crate) fn new(classes: &FxHashMap<u64, RowClass>, rows: RowShape, row: Reg) -> Self {
        let of_row = classes.iter().filter(|(_, class)| **class == RowClass::Row);
        Self {
            ids: of_row.map(|(&id, _)| id).collect(),
            row,
            length: rows.length,
            positions: Vec::new(),
            divisors: FxHashMap::default(),
        }
    }
}

impl Lowering<'_> {
    /// Returns whether a node depends on a reduction and has one element for each row.
    pub(crate) fn is_row_node(&self, node: &NodeRef) -> bool {
        let row_nodes = self.row_nodes.as_ref();
        row_nodes.is_some_and(|rows| rows.ids.contains(&node.id))
    }

    pub(crate) fn row_position(&mut self, node: &NodeRef) -> Position {
        let position = self.row_position_of(node);
        position.expect("the node has an element for each row")
    }

    /// Returns the position at which such a node is computed, once for all elements of the row.
    pub(crate) fn row_position_of(&mut self, node: &NodeRef) -> Option<Position> {
        let rows = self.row_nodes.as_ref()?;
        if !rows.ids.contains(&node.id) {
            return None;
        }
        let class = rows
            .positions
            .iter()
            .find(|(shape, _)| *shape == node.shape);
        if let Some(&(_, position)) = class {
            return Some(position);
        }
        let row = rows.row;
        let position = self.at_linear_index(node.id, &node.shape, row);
        let rows = self.row_nodes.as_mut()?;
        rows.positions.push((node.shape.clone(), position));
        Some(position)
    }
}

/// A value of the row by which elements are divided.
#[derive(Clone, Copy)]
pub(crate) struct Divisor {
    pub(crate) value: Reg,
    pub(crate) reciprocal: Reg,
    /// True if the value lies within the bounds.
    pub(crate) is_regular: Reg,
}
