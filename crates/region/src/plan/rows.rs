//! Contiguous rows of arrays, and the values that belong to one row.

use rustc_hash::FxHashMap;

use crate::{
    expr::{NodeRef, Op},
    plan::limits::{LONG_ROWS_MIN, ROW_LENGTH_MAX},
    shape::{Axes, AxisMap, AxisSource, are_last, element_count, long_axes},
};

/// Contiguous rows of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowShape {
    pub(crate) rows: usize,
    /// The number of elements of a row.
    pub(crate) length: usize,
}

/// The part of an array that a value belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowClass {
    /// One value for each row.
    Row,
    /// One value for each element of each row.
    Element,
}

impl RowShape {
    /// Returns whether the rows do not fit in the registers of a usual block.
    pub(crate) fn is_long(self) -> bool {
        self.length > ROW_LENGTH_MAX
    }

    /// Returns the rows that a reduction reduces, if they are contiguous.
    pub(crate) fn of_reduction(op: &Op, node: &NodeRef) -> Option<Self> {
        match op {
            Op::Reduce { source, axes, .. } => Self::of_axes(&source.shape, axes, node.elements),
            _ => None,
        }
    }

    /// Returns the rows along these axes of an array, if they are contiguous and a row kernel can
    /// compute several reductions of them.
    pub(crate) fn of_axes(shape: &[usize], axes: &Axes, rows: usize) -> Option<Self> {
        if !are_last(shape, axes) || rows == 0 || i32::try_from(rows).is_err() {
            return None;
        }
        let length = element_count(shape)? / rows;
        let is_fused = length >= 2 && (length <= ROW_LENGTH_MAX || rows >= LONG_ROWS_MIN);
        is_fused.then_some(Self { rows, length })
    }

    /// Returns the rows of this length of a row kernel whose root has a class.
    pub(crate) fn of_root(length: usize, class: RowClass, root: &NodeRef) -> Self {
        let rows = match class {
            RowClass::Row => root.elements,
            RowClass::Element => root.elements / length,
        };
        Self { rows, length }
    }

    pub(crate) fn class(self, node: &NodeRef) -> Option<RowClass> {
        match node.elements {
            elements if elements == self.rows => Some(RowClass::Row),
            elements if elements == self.rows * self.length => Some(RowClass::Element),
            _ => None,
        }
    }

    /// Returns the classes of the nodes that depend on a reduction or on one of `values`, operands
    /// first, or `None` if one of them depends on that of another row than its own.
    pub(crate) fn classify<'a>(
        self,
        nodes: impl Iterator<Item = (&'a NodeRef, &'a Op)>,
        values: impl Iterator<Item = &'a NodeRef>,
    ) -> Option<FxHashMap<u64, RowClass>> {
        let of_value = |value: &NodeRef| Some((value.id, self.class(value)?));
        let mut classes: FxHashMap<u64, RowClass> = values.filter_map(of_value).collect();
        for (node, op) in nodes {
            let class_of = |operand: &NodeRef| classes.get(&operand.id).copied();
            if let Op::Reduce { source, .. } = op {
                let is_of_rows = Self::of_reduction(op, node) == Some(self);
                if !is_of_rows || class_of(source) == Some(RowClass::Row) {
                    return None;
                }
                classes.insert(node.id, RowClass::Row);
                continue;
            }
            let mut of_operands = None;
            op.operands(|operand| of_operands = class_of(operand).or(of_operands));
            let Some(operand_class) = of_operands else {
                continue;
            };
            let class = self.class(node)?;
            let is_aligned = match op {
                // All operands have the shape of the node.
                Op::Apply(..) => true,
                Op::Reshape(_) => class == operand_class,
                Op::View(source, map) => self.is_aligned(node, map, source, operand_class),
                _ => false,
            };
            if !is_aligned {
                return None;
            }
            classes.insert(node.id, class);
        }
        Some(classes)
    }

    /// Returns whether each element of a view shows an element of its own row.
    fn is_aligned(
        self,
        node: &NodeRef,
        map: &AxisMap,
        source: &NodeRef,
        source_class: RowClass,
    ) -> bool {
        let (of_view, of_source) = (long_axes(&node.shape), long_axes(&source.shape));
        let repeats: usize = match of_view.get(of_source.len()..) {
            Some(repeated) => repeated.iter().map(|&axis| node.shape[axis]).product(),
            None => return false,
        };
        let is_expected = match (source_class, self.class(node)) {
            (RowClass::Row, Some(RowClass::Element)) => repeats == self.length,
            (class, Some(other)) => class == other && repeats == 1,
            (_, None) => false,
        };
        let same = |(&seen, &axis): (&usize, &usize)| {
            map[axis] == AxisSource::same(seen) && node.shape[seen] == source.shape[axis]
        };
        is_expected && of_view.iter().zip(&of_source).all(same)
    }
}
