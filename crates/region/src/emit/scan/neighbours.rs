//! Elements that a thread of a scan loads together, which may be beyond the end of their row.

use crate::emit::body::{Accumulator, KernelBody, Reg, index, line, test};

/// Neighbouring elements of a thread: registers of loaded elements, or accumulators of them.
pub(crate) struct Neighbours<E> {
    pub(crate) elements: Vec<E>,
    pub(crate) position: Reg,
    /// False beyond the end of the row.
    pub(crate) inside: Reg,
}

/// Runs what `store` generates unless the elements are beyond the end.
pub(crate) fn if_inside(body: &mut KernelBody, inside: Reg, store: impl FnOnce(&mut KernelBody)) {
    let label = format!("SKIP{}", body.label_number());
    line!(body; "@!{inside} bra {label};");
    store(body);
    body.label(&label);
}

/// Loads a thread's `turns` groups of neighbours. The first begins at `first`, and each `stride`
/// behind the one before. `read` reads `lanes` neighbours at once: several only if they are beyond
/// the end together.
pub(crate) fn neighbours<E>(
    body: &mut KernelBody,
    (first, end, base): (Reg, Reg, Reg),
    (turns, stride): (usize, usize),
    lanes: usize,
    read: impl Fn(&mut KernelBody, Reg, usize) -> Vec<E>,
) -> Vec<Neighbours<E>> {
    let last = index!(body; "sub.s# {end}, {lanes}");
    let at_turn = |turn: usize| {
        let at = index!(body; "add.s# {first}, {}", turn * stride);
        let inside = test!(body; "lt.u# {at}, {end}");
        // Beyond the end, the last elements are read and replaced by the identity.
        let position = index!(body; "min.u# {at}, {last}");
        line!(body; "add.s# {position}, {position}, {base};");
        Neighbours {
            elements: read(body, position, lanes),
            position,
            inside,
        }
    };
    (0..turns).map(at_turn).collect()
}

/// Replaces an element beyond the end by the identity.
pub(crate) fn replace_outside(
    body: &mut KernelBody,
    element: &Accumulator,
    identity: &Accumulator,
    inside: Reg,
) {
    for (&reg, &none) in element.iter().zip(identity) {
        let kind = reg.class.move_type();
        line!(body; "selp.{kind} {reg}, {reg}, {none}, {inside};");
    }
}
