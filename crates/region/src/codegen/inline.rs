//! Functions of the maths library without a call.
//!
//! `ptxas` does not inline the library's functions. A call takes the moves of its argument and
//! result, and instructions of other elements are not scheduled between those of the function, so
//! that a kernel with few threads waits for each of them.

use rustc_hash::FxHashMap;

use super::body::{KernelBody, Reg, RegClass, line};
use crate::maths;

impl KernelBody {
    /// Appends the instructions of a maths library function of one argument, or a call of a
    /// function with branches.
    pub(super) fn inline(&mut self, name: &str, result: Reg, argument: Reg) {
        let Some(instructions) = maths::instructions_without_branches(name) else {
            self.call(name, result, &[argument]);
            return;
        };
        let kind = result.class.move_type();
        let mut registers: FxHashMap<&str, Reg> = FxHashMap::default();
        for instruction in instructions {
            let mut own = String::new();
            let mut rest = instruction;
            while let Some(at) = rest.find('%') {
                let (before, from) = rest.split_at(at);
                let is_name = |c: char| c == '%' || c.is_ascii_alphanumeric();
                let end = from.find(|c| !is_name(c)).unwrap_or(from.len());
                let (register, behind) = from.split_at(end);
                let reg = registers
                    .entry(register)
                    .or_insert_with(|| self.reg(class_of(register)));
                own += before;
                own += &reg.to_string();
                rest = behind;
            }
            own += rest;
            match own.split_once(char::is_whitespace) {
                Some((opcode, operands)) if opcode.starts_with("ld.param") => {
                    let target = operands.trim().split(',').next().unwrap_or_default();
                    line!(self, "mov.{kind} {target}, {argument};");
                }
                Some((opcode, operands)) if opcode.starts_with("st.param") => {
                    let source = operands.rsplit(',').next().unwrap_or_default().trim();
                    line!(self, "mov.{kind} {result}, {source}");
                }
                _ => line!(self, "{own}"),
            }
        }
    }
}

/// Returns the class of a register of the library.
fn class_of(register: &str) -> RegClass {
    match register.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "%p" => RegClass::Predicate,
        "%rs" => RegClass::B16,
        "%rd" => RegClass::B64,
        "%f" => RegClass::F32,
        "%fd" => RegClass::F64,
        _ => RegClass::B32,
    }
}
