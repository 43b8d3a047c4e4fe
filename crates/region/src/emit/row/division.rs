//! Divisions of the elements of a row by a value of the row, as `f32`.
//!
//! Elements of a row have the same divisor b, whose reciprocal y, rounded to nearest, is computed
//! once. The product q₀ = a·y is corrected by its remainder: q₀ − (b·q₀ − a)·y, of which each
//! parenthesis is rounded once, is the quotient a / b rounded to nearest (Markstein; Brisebarre,
//! Muller and Raina, "Accelerating correctly rounded floating-point division when the divisor is
//! known in advance", 2004), unless a step overflows or underflows. With these signs, the quotient
//! of a zero by a positive number has the sign of the zero.
//!
//! Neither step does if divisor and element lie between 2^−60 and 2^60. Other elements are divided
//! as elsewhere, behind one branch for several of them.

use smallvec::SmallVec;

use crate::{
    element::DType,
    emit::{
        body::{Reg, RegClass, line, value},
        lower::{Divisor, Lowering},
        row::elements::RowElements,
    },
    expr::{Function, NodeRef, Op},
};

/// The number of elements that one branch follows.
const DIVIDED_TOGETHER: usize = 4;

/// The least and greatest element and divisor.
const LEAST: &str = "0f21800000";
const GREATEST: &str = "0f5D800000";
/// The bits of the least element without its sign, doubled, minus 1. The same of a zero is the
/// greatest number of 32 bits.
const LEAST_DOUBLED: &str = "0x42FFFFFF";

/// A division of elements by a value of the row.
struct Division<'a> {
    quotient: &'a NodeRef,
    dividend: &'a NodeRef,
    /// The node of the row's value.
    divisor: &'a NodeRef,
}

/// The registers of an element and of its quotient.
type Quotients = SmallVec<[(Reg, Reg); DIVIDED_TOGETHER]>;

impl<'a> Lowering<'a> {
    /// Computes the divisors on which nodes depend, in front of a loop that divides by them.
    pub(crate) fn prepare_divisors(&mut self, nodes: impl Iterator<Item = &'a NodeRef>) {
        for division in self.divisions(nodes) {
            self.divisor(division.divisor);
        }
    }

    /// Computes the quotients on which nodes depend at the positions of a turn's elements, at the
    /// first of several turns also those of the others. Only the first add to the kernel's name.
    pub(crate) fn divide(
        &mut self,
        nodes: impl Iterator<Item = &'a NodeRef>,
        elements: &mut [RowElements],
        (row, turn): (Reg, usize),
    ) {
        let together = (DIVIDED_TOGETHER / elements[turn].numbers.len()).max(1);
        if !turn.is_multiple_of(together) {
            return;
        }
        let end = elements.len().min(turn + together);
        for division in self.divisions(nodes) {
            let mut positions = SmallVec::<[_; DIVIDED_TOGETHER]>::new();
            for elements in &mut elements[turn..end] {
                positions.extend(elements.positions(self, division.quotient, row));
            }
            for (number, positions) in positions.chunks(DIVIDED_TOGETHER).enumerate() {
                let mut quotients = Quotients::new();
                for (lane, &position) in positions.iter().enumerate() {
                    let words = self.body.name_parts();
                    let dividend = self.lower(division.dividend, position);
                    if turn + number + lane == 0 {
                        self.divisor(division.divisor);
                        self.body.name_part(Function::Divide.name());
                    } else {
                        self.body.truncate_name(words);
                    }
                    quotients.push((dividend, self.body.reg(RegClass::F32)));
                }
                let divisor = self.divisor(division.divisor);
                self.quotients(divisor, &quotients);
                for (&position, &(_, quotient)) in positions.iter().zip(&quotients) {
                    self.define(division.quotient, position, quotient);
                }
            }
        }
    }

    /// Returns the divisions by values of the row on which nodes depend, operands first.
    fn divisions(&self, nodes: impl Iterator<Item = &'a NodeRef>) -> SmallVec<[Division<'a>; 2]> {
        let kernel = self.kernel;
        let reached = kernel.reached_from(nodes);
        let in_order = kernel.nodes.iter().filter_map(|fused| {
            let Op::Apply(Function::Divide, operands) = &*fused.op else {
                return None;
            };
            let quotient = &fused.node;
            let is_divided = quotient.dtype == DType::F32
                && !self.is_row_node(quotient)
                && reached.iter().any(|node| node.id == quotient.id);
            is_divided.then_some((quotient, operands))
        });
        let of_row = in_order.filter_map(|(quotient, operands)| {
            let divisor = self.row_value_of(&operands[1])?;
            // The quotient of two values of the row is computed once.
            let is_element = self.row_value_of(&operands[0]).is_none();
            is_element.then_some(Division {
                quotient,
                dividend: &operands[0],
                divisor,
            })
        });
        of_row.collect()
    }

    /// Returns the node of the row's value that a node repeats for each element, if it does.
    fn row_value_of(&self, mut node: &'a NodeRef) -> Option<&'a NodeRef> {
        while !self.is_row_node(node) {
            match self.kernel.op(node)? {
                Op::View(source, _) | Op::Reshape(source) => node = source,
                _ => return None,
            }
        }
        Some(node)
    }

    /// Returns a value of the row with its reciprocal.
    fn divisor(&mut self, node: &NodeRef) -> Divisor {
        let rows = self.row_nodes.as_ref().expect("a row kernel");
        if let Some(&known) = rows.divisors.get(&node.id) {
            return known;
        }
        let position = self.row_position(node);
        let value = self.lower(node, position);
        let body = &mut *self.body;
        let reciprocal = value!(body, F32; "rcp.rn.f32 {value}");
        let is_regular = value!(body, Predicate; "setp.ge.f32 {value}, {LEAST}");
        let is_less = value!(body, Predicate; "setp.le.f32 {value}, {GREATEST}");
        line!(body; "and.pred {is_regular}, {is_regular}, {is_less};");
        let divisor = Divisor {
            value,
            reciprocal,
            is_regular,
        };
        let rows = self.row_nodes.as_mut().expect("a row kernel");
        rows.divisors.insert(node.id, divisor);
        divisor
    }

    /// Divides elements, each into the register beside its own.
    fn quotients(&mut self, divisor: Divisor, quotients: &Quotients) {
        let Divisor {
            value,
            reciprocal,
            is_regular,
        } = divisor;
        let body = &mut *self.body;
        let are_regular = value!(body, Predicate; "mov.pred {is_regular}");
        for &(dividend, quotient) in quotients {
            let [product, negative, remainder, magnitude] = body.regs(RegClass::F32);
            line!(body; "mul.rn.f32 {product}, {dividend}, {reciprocal};");
            line!(body; "neg.f32 {negative}, {dividend};");
            line!(body; "fma.rn.f32 {remainder}, {value}, {product}, {negative};");
            line!(body; "neg.f32 {remainder}, {remainder};");
            line!(body; "fma.rn.f32 {quotient}, {remainder}, {reciprocal}, {product};");
            let doubled = value!(body, B32; "mov.b32 {dividend}");
            line!(body; "shl.b32 {doubled}, {doubled}, 1;");
            line!(body; "sub.s32 {doubled}, {doubled}, 1;");
            let is_within = value!(body, Predicate; "setp.ge.u32 {doubled}, {LEAST_DOUBLED}");
            line!(body; "and.pred {are_regular}, {are_regular}, {is_within};");
            line!(body; "abs.f32 {magnitude}, {dividend};");
            line!(body; "setp.le.f32 {is_within}, {magnitude}, {GREATEST};");
            line!(body; "and.pred {are_regular}, {are_regular}, {is_within};");
        }
        let label = format!("DIVIDED{}", body.label_number());
        line!(body; "@{are_regular} bra {label};");
        for (dividend, quotient) in quotients {
            line!(body; "div.rn.f32 {quotient}, {dividend}, {value};");
        }
        body.label(&label);
    }
}
