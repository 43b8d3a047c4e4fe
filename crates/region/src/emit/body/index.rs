//! Indices of threads, and addresses of elements.

use crate::emit::body::kernel::{BLOCK, KernelBody, Reg, RegClass, line};

impl KernelBody {
    /// Returns a register that holds the index 0 throughout the kernel.
    pub(crate) fn zero_index(&mut self) -> Reg {
        let reg = self.index_reg();
        let bits = self.bits();
        self.prologue_line(format_args!("mov.u{bits} {reg}, 0;"));
        reg
    }

    /// Computes the index of the thread in the grid.
    pub(crate) fn thread(&mut self) -> Reg {
        let [block, within] = self.regs(RegClass::B32);
        line!(self; "mov.u32 {block}, %ctaid.x;");
        line!(self; "mov.u32 {within}, %tid.x;");
        let thread = self.index_reg();
        if self.wide {
            let wide = self.reg(RegClass::B64);
            line!(self; "cvt.u64.u32 {wide}, {within};");
            line!(self; "mad.wide.u32 {thread}, {block}, {}, {wide};", BLOCK);
        } else {
            line!(self; "mad.lo.u32 {thread}, {block}, {}, {within};", BLOCK);
        }
        thread
    }

    /// Computes the address so many bytes behind another.
    pub(crate) fn address_behind(&mut self, first: Reg, bytes: usize) -> Reg {
        if bytes == 0 {
            return first;
        }
        let address = self.reg(RegClass::B64);
        line!(self; "add.s64 {address}, {first}, {bytes};");
        address
    }

    /// Computes the address of an element: `base` plus the index times the size of an element.
    pub(crate) fn element(&mut self, base: Reg, index: Reg, bytes: usize) -> Reg {
        let address = self.reg(RegClass::B64);
        if self.wide {
            line!(self; "mad.lo.u64 {address}, {index}, {bytes}, {base};");
        } else {
            line!(self; "mad.wide.u32 {address}, {index}, {bytes}, {base};");
        }
        address
    }

    /// Continues with the first thread of the block only; the others jump to a label.
    pub(crate) fn first_thread(&mut self, thread: Reg, label: &str) {
        let (bits, idle) = (self.bits(), self.predicate());
        line!(self; "setp.ne.u{bits} {idle}, {thread}, 0;");
        line!(self; "@{idle} bra {label};");
    }

    /// Returns the index of the block in its grid and that of the thread in its block.
    pub(crate) fn block_and_thread(&mut self) -> (Reg, Reg) {
        let [block, thread] = self.regs(RegClass::B32);
        line!(self; "mov.u32 {block}, %ctaid.x;");
        line!(self; "mov.u32 {thread}, %tid.x;");
        if !self.wide {
            return (block, thread);
        }
        let [wide_block, wide_thread] = self.regs(RegClass::B64);
        line!(self; "cvt.u64.u32 {wide_block}, {block};");
        line!(self; "cvt.u64.u32 {wide_thread}, {thread};");
        (wide_block, wide_thread)
    }
}
