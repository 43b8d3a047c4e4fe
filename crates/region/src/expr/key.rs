//! Operations as words: the keys of nodes, plans and kernels.
//!
//! A region looks up each operation that it records. When it is evaluated, it looks up its whole
//! graph. A key is therefore a list of words, which is hashed and compared as a block of memory.
//! Different operations have different words, and so have sequences of operations. The first word
//! contains the operation, the type and the number of axes. A part of variable length begins with
//! its length.

use smallvec::{Array, SmallVec};

use crate::{
    element::DType,
    expr::{NodeRef, Op},
    shape::AxisSource,
};

/// The words of a node's key: enough for a function of three operands, and for a constant and most
/// views of arrays of two axes.
pub(super) type NodeKey = SmallVec<[u64; 6]>;

/// The number of bits of each of the first parts of the first word.
const PART: u32 = 8;

/// A word that is not the number of an operand, an axis or a length.
const NONE: u64 = u64::MAX;

#[derive(Clone, Copy)]
pub(crate) struct KeyType<'a> {
    pub(crate) dtype: DType,
    pub(crate) shape: &'a [usize],
    pub(crate) free: FreeLengths<(), usize>,
}

/// The lengths of axes that a key leaves out, and by which the graphs of one plan differ. The rest
/// of the key determines what depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeLengths<A = (), F = ()> {
    None,
    /// Those of all computed nodes.
    All(A),
    /// Those of first axes, with their length, for which a mark stands.
    First(F),
}

/// Returns the key of a node in the interning table: nodes with equal keys have the same elements.
pub(super) fn node_key(dtype: DType, shape: &[usize], op: &Op) -> NodeKey {
    let mut words = NodeKey::new();
    let kind = KeyType {
        dtype,
        shape,
        free: FreeLengths::None,
    };
    push_operation(&mut words, kind, op, |operand| operand.id);
    if let Op::Constant(value) = op {
        words.push(value.bits());
    }
    words
}

/// Appends an operation, with `number` called for each operand. The value of a constant is left
/// out.
pub(crate) fn push_operation<A: Array<Item = u64>>(
    words: &mut SmallVec<A>,
    kind: KeyType<'_>,
    op: &Op,
    mut number: impl FnMut(&NodeRef) -> u64,
) {
    let (tag, detail) = tag_and_detail(op);
    let free = match op {
        // The shape of the operands determines that of the result of a function.
        Op::Apply(..) => FreeLengths::All(()),
        _ => kind.free,
    };
    push_type(words, KeyType { free, ..kind }, tag, detail);
    op.operands(|operand| words.push(number(operand)));
    match op {
        Op::Constant(_)
        | Op::Iota
        | Op::Apply(..)
        | Op::Reshape(_)
        | Op::Gather { .. }
        | Op::MatrixProduct(..)
        | Op::Scatter { .. }
        | Op::Scan { .. }
        | Op::Sort(..)
        | Op::Search { .. } => {}
        Op::View(_, map) | Op::Update { map, .. } => push_map(words, map),
        Op::Reduce { axes, .. } => {
            words.push(axes.len() as u64);
            words.extend(axes.iter().map(|&axis| axis as u64));
        }
        Op::Attention(attention) => {
            let scale = attention.scale;
            words.extend([scale.dtype() as u64, scale.bits()]);
        }
        Op::Concatenate { axis, .. } => words.push(*axis as u64),
    }
}

/// Appends a node in memory, of which a key has the type, the shape and a detail.
pub(crate) fn push_input<A: Array<Item = u64>>(
    words: &mut SmallVec<A>,
    kind: KeyType<'_>,
    detail: u64,
) {
    push_type(words, kind, NONE & 0xff, detail);
}

pub(crate) fn push_map<A: Array<Item = u64>>(words: &mut SmallVec<A>, map: &[AxisSource]) {
    words.push(map.len() as u64);
    for from in map {
        let axis = from.axis.map_or(NONE, |axis| axis as u64);
        words.extend([axis, from.start as u64, from.step as u64]);
    }
}

/// Appends the first word of a node, and the lengths of its axes that the key has.
fn push_type<A: Array<Item = u64>>(
    words: &mut SmallVec<A>,
    kind: KeyType<'_>,
    tag: u64,
    detail: u64,
) {
    debug_assert!(detail < 1 << (64 - 4 * PART), "the detail {detail}");
    let axes = (kind.shape.len() as u64) << (2 * PART);
    let has_lengths = !matches!(kind.free, FreeLengths::All(()));
    let without = u64::from(!has_lengths) << (3 * PART);
    words.push(tag | (kind.dtype as u64) << PART | axes | without | detail << (4 * PART));
    if has_lengths {
        let start = words.len();
        words.extend(kind.shape.iter().map(|&length| length as u64));
        if let FreeLengths::First(free) = kind.free
            && kind.shape.first() == Some(&free)
        {
            words[start] = NONE;
        }
    }
}

/// Returns the number of an operation, and what it has besides operands, if that is small. The two
/// determine the number of operands.
fn tag_and_detail(op: &Op) -> (u64, u64) {
    match op {
        Op::Constant(_) => (0, 0),
        Op::Iota => (1, 0),
        Op::Apply(function, operands) => (2, function.code() << 2 | operands.len() as u64),
        Op::View(..) => (3, 0),
        Op::Reshape(_) => (4, 0),
        Op::Gather {
            axis, is_checked, ..
        } => (5, (*axis as u64) << 1 | u64::from(*is_checked)),
        Op::Reduce { reduction, .. } => (6, *reduction as u64),
        Op::MatrixProduct(_, _, precision) => (7, *precision as u64),
        Op::Attention(attention) => {
            let has_mask = u64::from(attention.mask.is_some());
            (8, has_mask << 1 | u64::from(attention.is_causal))
        }
        Op::Concatenate { parts, .. } => (9, parts.len() as u64),
        Op::Update { .. } => (10, 0),
        Op::Scatter { axis, mode, .. } => (11, (*axis as u64) << 2 | *mode as u64),
        Op::Scan {
            reduction, axis, ..
        } => (12, (*axis as u64) << PART | *reduction as u64),
        Op::Sort(_, sorted) => (13, *sorted as u64),
        Op::Search { counts_equal, .. } => (14, u64::from(*counts_equal)),
    }
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashSet;

    use crate::expr::{Function, key::*};

    #[test]
    fn every_function_has_a_code_of_its_own() {
        let codes: FxHashSet<u64> = Function::all().into_iter().map(Function::code).collect();
        assert_eq!(codes.len(), Function::all().len());
        // A code and the number of operands are in the detail of the first word.
        assert!(codes.iter().all(|&code| code < 1 << (64 - 4 * PART - 2)));
    }
}
