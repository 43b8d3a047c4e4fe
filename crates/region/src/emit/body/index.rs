//! Indices of threads, and addresses of elements.

use std::{
    fmt::{Display, Write},
    iter,
};

use smallvec::{SmallVec, smallvec};

use crate::emit::body::kernel::{BLOCK, KernelBody, Reg, STRING, index, line, value};

impl KernelBody {
    /// Returns a register that holds the index 0 throughout the kernel.
    pub(crate) fn zero_index(&mut self) -> Reg {
        self.constant_index(0)
    }

    /// Returns a register that holds an index throughout the kernel.
    pub(crate) fn constant_index(&mut self, index: usize) -> Reg {
        if let Some(&(_, known)) = self.indices.iter().find(|(known, _)| *known == index) {
            return known;
        }
        let reg = self.index_reg();
        writeln!(self.prologue, "\tmov.u{} {reg}, {index};", self.bits()).expect(STRING);
        self.indices.push((index, reg));
        reg
    }

    /// Returns the index that such a register holds.
    pub(crate) fn known_index(&self, reg: Reg) -> Option<usize> {
        let mut indices = self.indices.iter();
        indices
            .find(|(_, known)| *known == reg)
            .map(|&(index, _)| index)
    }

    pub(crate) fn thread(&mut self) -> Reg {
        let block = value!(self, B32; "mov.u32 %ctaid.x");
        let within = value!(self, B32; "mov.u32 %tid.x");
        let thread = self.index_reg();
        if self.wide {
            let wide = value!(self, B64; "cvt.u64.u32 {within}");
            line!(self; "mad.wide.u32 {thread}, {block}, {}, {wide};", BLOCK);
        } else {
            line!(self; "mad.lo.u32 {thread}, {block}, {}, {within};", BLOCK);
        }
        thread
    }

    /// Computes the address a number of bytes behind another.
    pub(crate) fn address_behind(&mut self, first: Reg, bytes: usize) -> Reg {
        if bytes == 0 {
            return first;
        }
        value!(self, B64; "add.s64 {first}, {bytes}")
    }

    /// Computes the address of an element: `base` plus the index times the size of an element.
    pub(crate) fn element(&mut self, base: Reg, index: Reg, bytes: usize) -> Reg {
        let name = if self.wide {
            "mad.lo.u64"
        } else {
            "mad.wide.u32"
        };
        value!(self, B64; "{name} {index}, {bytes}, {base}")
    }

    pub(crate) fn block_and_thread(&mut self) -> (Reg, Reg) {
        let block = value!(self, B32; "mov.u32 %ctaid.x");
        let thread = value!(self, B32; "mov.u32 %tid.x");
        if !self.wide {
            return (block, thread);
        }
        let wide_block = value!(self, B64; "cvt.u64.u32 {block}");
        let wide_thread = value!(self, B64; "cvt.u64.u32 {thread}");
        (wide_block, wide_thread)
    }

    /// Computes the quotient and the rest of an index and a divisor, a register or a number.
    pub(crate) fn quotient_and_rest(&mut self, number: Reg, divisor: impl Display) -> (Reg, Reg) {
        let quotient = index!(self; "div.u# {number}, {divisor}");
        let product = index!(self; "mul.lo.s# {quotient}, {divisor}");
        (quotient, index!(self; "sub.s# {number}, {product}"))
    }

    /// Computes the indices of `count` neighbours, given the first.
    pub(crate) fn neighbours(&mut self, first: Reg, count: usize) -> SmallVec<[Reg; 4]> {
        let others = (1..count).map(|lane| index!(self; "add.s# {first}, {lane}"));
        iter::once(first).chain(others).collect()
    }

    /// Computes `count` indices, given the first and their distance.
    pub(crate) fn steps(&mut self, first: Reg, step: Reg, count: usize) -> SmallVec<[Reg; 8]> {
        let mut all = smallvec![first];
        for turn in 1..count {
            all.push(index!(self; "add.s# {}, {step}", all[turn - 1]));
        }
        all
    }

    /// Computes whether two predicates hold.
    pub(crate) fn both(&mut self, one: Reg, two: Reg) -> Reg {
        value!(self, Predicate; "and.pred {one}, {two}")
    }
}
