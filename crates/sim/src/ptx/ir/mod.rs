//! The intermediate representation: lowered code, which the interpreter executes.
//!
//! A kernel's registers lie in three register files: 32-bit words (including 16-bit and
//! single-precision registers), 64-bit doublewords, and predicates. Every operand is a slot of one
//! of them. Constants and special registers have slots, too, which are set when a block starts, so
//! that operations need not distinguish kinds of operands. 16-bit values are kept with zero high
//! halves.

mod access;
mod calls;
mod code;
mod extra;
mod family;
mod fused;
mod image;
mod matrix;
mod mbarrier;
mod operation;
mod register;
mod table;

pub(crate) use access::*;
pub(crate) use calls::*;
pub(crate) use code::*;
pub(crate) use extra::*;
pub(crate) use family::*;
pub(crate) use fused::*;
pub(crate) use image::*;
pub(crate) use matrix::*;
pub(crate) use mbarrier::*;
pub(crate) use operation::*;
pub(crate) use register::*;
pub(crate) use table::*;
