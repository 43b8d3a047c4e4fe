//! Graphs and kernels whose plan and code are those of other lengths, too.
//!
//! Most decisions compare numbers of elements or lengths with each other or with bounds, so equal
//! plans can only be proved where such comparisons have one outcome. They have in a uniform graph.
//! There, every computed node has one shape `S`. It is a constant, the linear index, a function of
//! nodes at the same position, or a broadcast view of a node in memory.
//!
//! - Planning asks for ratios of numbers of elements, which are 1; whether there is a single
//!   element or none, which is excluded; whether a view preserves linear indices; and whether an
//!   input has fewer elements than the result. The last two follow from the index maps, which are
//!   part of the key, and from the axes of length 1, because a source has length 1 or that of `S`
//!   along each axis.
//! - Code generation (`emit/map/elements.rs`) asks in addition for the width of indices, which is
//!   32 bits, because larger shapes are excluded; and, unless all nodes share linear indices,
//!   whether the length of the last axis is a multiple of 2 or 4, for vectors. No view is
//!   transposed, because the axes of each index map increase. Lengths themselves are only in
//!   parameters.
//!
//! [`Uniform::word`] has the other properties. Other operations choose between kernels by bounds of
//! lengths and by numbers of blocks, and are never part of a uniform graph.

use smallvec::{Array, SmallVec};

use crate::{
    expr::{FreeLengths, KeyType, NodeRef, Op, push_input, push_operation},
    plan::kernel::{FusedKernel, FusedNode},
    shape::{AxisMap, AxisSource, Shape, preserves_linear_index},
};

/// The maximum number of elements for 32-bit indices; the difference leaves room for the threads of
/// the last block.
pub(crate) const ELEMENTS_32_MAX: usize = (i32::MAX as usize) - 4096;

/// The shape of a uniform graph or kernel.
#[derive(Clone, Copy)]
pub(crate) struct Uniform<'a> {
    shape: &'a Shape,
    /// True if every view has a single element or preserves linear indices.
    is_flat: bool,
}

impl<'a> Uniform<'a> {
    pub(crate) fn of(
        nodes: &'a [FusedNode],
        is_computed: impl Fn(&NodeRef) -> bool,
    ) -> Option<Self> {
        let first = &nodes.first()?.node;
        if !(2..=ELEMENTS_32_MAX).contains(&first.elements) {
            return None;
        }
        let shape = &first.shape;
        let mut is_flat = true;
        for FusedNode { node, op } in nodes {
            match &**op {
                _ if node.shape != *shape => return None,
                Op::Constant(_) | Op::Iota | Op::Apply(..) => {}
                Op::View(source, map)
                    if !is_computed(source) && is_broadcast(shape, map, &source.shape) =>
                {
                    is_flat &=
                        source.elements == 1 || preserves_linear_index(shape, map, &source.shape);
                }
                _ => return None,
            }
        }
        Some(Self { shape, is_flat })
    }

    pub(crate) fn of_kernel(kernel: &'a FusedKernel) -> Option<Self> {
        let mut outputs = kernel.outputs.iter();
        let is_plain = kernel.epilogue.is_empty()
            && kernel.overwrites.is_none()
            && kernel.rows.is_none()
            && outputs.all(|output| output.target_map.is_none());
        let is_computed = |node: &NodeRef| kernel.op(node).is_some();
        is_plain.then(|| Self::of(&kernel.nodes, is_computed))?
    }

    /// Returns whether the code serves other lengths of the first axis, too.
    pub(crate) fn is_free_of_first_axis(&self) -> bool {
        let last = self.shape.iter().rposition(|&length| length != 1);
        self.is_flat || last != Some(0)
    }

    /// Returns the properties that plans and code depend on besides operations, types, index maps
    /// and numbers of axes: which axes have length 1, and the greatest vector of neighbours along
    /// the last axis.
    pub(crate) fn word(&self) -> u64 {
        let long = self.shape.iter().rev().find(|&&length| length != 1);
        let vector = match long {
            Some(length) if !self.is_flat => length.trailing_zeros().min(2),
            _ => 3,
        };
        1 << 63 | u64::from(vector) << 32 | ones(self.shape)
    }
}

/// The lengths that the key of a graph or kernel leaves out.
pub(crate) type KeyFreeLengths<'a> = FreeLengths<Uniform<'a>, usize>;

impl KeyFreeLengths<'_> {
    /// Returns the word of a key for all that depends on these lengths.
    pub(crate) fn word(self) -> u64 {
        match self {
            Self::None => 0,
            Self::All(uniform) => uniform.word(),
            Self::First(_) => 1 << 62,
        }
    }

    pub(crate) fn kind(self) -> FreeLengths {
        match self {
            Self::None => FreeLengths::None,
            Self::All(_) => FreeLengths::All(()),
            Self::First(_) => FreeLengths::First(()),
        }
    }

    fn key_type(self, node: &NodeRef) -> KeyType<'_> {
        KeyType {
            dtype: node.dtype,
            shape: &node.shape,
            free: match self {
                Self::None => FreeLengths::None,
                Self::All(_) => FreeLengths::All(()),
                Self::First(length) => FreeLengths::First(length),
            },
        }
    }
}

/// Appends a computed node of a graph or kernel to its key, as [`push_operation`].
pub(crate) fn push_computed<A: Array<Item = u64>>(
    words: &mut SmallVec<A>,
    FusedNode { node, op }: &FusedNode,
    free: KeyFreeLengths<'_>,
    number: impl FnMut(&NodeRef) -> u64,
) {
    push_operation(words, free.key_type(node), op, number);
}

/// Appends a node in memory to a key, with whether it is held if that matters.
pub(crate) fn push_stored<A: Array<Item = u64>>(
    words: &mut SmallVec<A>,
    node: &NodeRef,
    free: KeyFreeLengths<'_>,
    is_held: bool,
) {
    let of_shape = match free {
        // The lengths of an input are 1 or those of the shape of the computed nodes.
        FreeLengths::All(Uniform { shape, .. }) => {
            ones(&node.shape) << 1 | u64::from(node.shape == *shape)
        }
        _ => 0,
    };
    let detail = of_shape << 1 | u64::from(is_held);
    push_input(words, free.key_type(node), detail);
}

/// Returns the set of axes of length 1.
fn ones(shape: &[usize]) -> u64 {
    let ones = (0..).zip(shape).filter(|(_, length)| **length == 1);
    ones.fold(0, |set, (axis, _): (u32, _)| set | 1 << axis)
}

/// Returns whether a view shows each element of its source at all positions of some axes: along
/// others, source and view have the same lengths and the same order.
pub(crate) fn is_broadcast(view: &[usize], map: &AxisMap, source: &[usize]) -> bool {
    let mut next = 0;
    map.iter().zip(source).all(|(from, &length)| {
        if length == 1 {
            return true;
        }
        let Some(axis) = from.axis.filter(|&axis| axis >= next) else {
            return false;
        };
        next = axis + 1;
        *from == AxisSource::same(axis) && view[axis] == length
    })
}
