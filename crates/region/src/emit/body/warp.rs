//! Warps: combinations of accumulators by shuffles, and the threads of a row.
//!
//! Several short rows share a block. Their threads combine accumulators without barriers and shared
//! memory, in an order that follows from the number of threads. All threads of a warp take part:
//! those beyond the last row compute that row again and store nothing.

use std::fmt::Display;

use smallvec::SmallVec;

use crate::{
    element::DType,
    emit::body::{
        kernel::{BLOCK, KernelBody, ParameterKey, Reg, RegClass, index, jump, line, test, value},
        reducer::{Accumulator, Reducer, assign},
    },
    expr::NodeRef,
};

pub(crate) const WARP: usize = 32;
/// The number of warps of a block, except where the rows are long.
pub(crate) const WARPS: usize = BLOCK / WARP;

/// The mask of all threads of a warp.
const ALL: &str = "0xffffffff";

#[derive(Clone, Copy)]
pub(crate) struct RowThread {
    pub(crate) row: Reg,
    /// The number of the thread among those of the row.
    pub(crate) thread: Reg,
    /// True in threads beyond the last row; `None` if there are none.
    pub(crate) beyond: Option<Reg>,
    pub(crate) threads: usize,
}

impl RowThread {
    /// Computes the row of each thread, for rows of `threads` threads. `results` has one element
    /// for each row.
    pub(crate) fn new(body: &mut KernelBody, results: &NodeRef, threads: usize) -> Self {
        if threads >= BLOCK {
            return Self::of_block(body, threads);
        }
        let number = body.thread();
        let rows = body.elements_of(ParameterKey::Named("rows"), results);
        let beyond = body.predicate();
        let [all, last, row, thread] = body.index_regs();
        let shift = threads.trailing_zeros();
        line!(body; "shr.u# {all}, {number}, {shift};");
        line!(body; "and.b# {thread}, {number}, {};", threads - 1);
        line!(body; "setp.ge.u# {beyond}, {all}, {rows};");
        line!(body; "sub.s# {last}, {rows}, 1;");
        line!(body; "min.u# {row}, {all}, {last};");
        Self {
            row,
            thread,
            beyond: Some(beyond),
            threads,
        }
    }

    /// Returns the thread of a block that computes a row with this number of threads.
    pub(crate) fn of_block(body: &mut KernelBody, threads: usize) -> Self {
        let ((row, thread), beyond) = (body.block_and_thread(), None);
        Self {
            row,
            thread,
            beyond,
            threads,
        }
    }

    pub(crate) fn has_block(self) -> bool {
        self.threads > WARP
    }

    /// Continues with the first thread of each row only; the others jump to a label.
    pub(crate) fn first_only(self, body: &mut KernelBody, label: &str) {
        jump!(body; "{label}" if "ne.u# {}, 0", self.thread);
        self.within_only(body, label);
    }

    /// Continues with the threads of rows only; those beyond the last row jump to a label.
    pub(crate) fn within_only(self, body: &mut KernelBody, label: &str) {
        if let Some(beyond) = self.beyond {
            line!(body; "@{beyond} bra {label};");
        }
    }
}

impl Reducer {
    /// Declares the shared memory in which warps combine the accumulators of a reduction.
    pub(crate) fn shared_memory(self, reduction: usize, warps: usize) -> String {
        let declare = |(slot, dtype): (usize, &DType)| {
            format!(
                "\t.shared .align 8 .b8 accumulator{reduction}_{slot}[{}];\n",
                warps * dtype.bytes()
            )
        };
        self.state_types().iter().enumerate().map(declare).collect()
    }

    /// Combines the accumulators of neighbouring threads by shuffles. The first has the result.
    pub(crate) fn combine_lanes(
        self,
        body: &mut KernelBody,
        accumulator: &Accumulator,
        threads: usize,
    ) {
        let mut distance = threads / 2;
        while distance > 0 {
            let moved = |&reg: &Reg| shuffle(body, reg, ("down", distance), threads);
            let other: Accumulator = accumulator.iter().map(moved).collect();
            self.combine(body, accumulator, &other);
            distance /= 2;
        }
    }

    /// Combines the accumulators of a row's threads. A thread has one, or several in a block that
    /// stands for a larger one. The first thread has the result in the first.
    pub(crate) fn combine_row(
        self,
        body: &mut KernelBody,
        accumulators: &[Accumulator],
        rows: RowThread,
        reduction: usize,
    ) {
        if rows.has_block() {
            self.combine_parts(body, accumulators, rows.thread, reduction);
        } else {
            self.combine_lanes(body, &accumulators[0], rows.threads);
        }
    }

    /// Returns the result of [`combine_row`](Self::combine_row) in every thread of the row.
    pub(crate) fn broadcast_row(
        self,
        body: &mut KernelBody,
        accumulator: &Accumulator,
        rows: RowThread,
    ) -> Accumulator {
        if rows.has_block() {
            return accumulator.clone();
        }
        let moved = |&reg: &Reg| shuffle(body, reg, ("idx", 0), rows.threads);
        accumulator.iter().map(moved).collect()
    }
}

/// The accumulators of the warps of a block, in shared memory.
pub(crate) struct WarpTotals {
    /// The number of the thread in its warp.
    pub(crate) lane: Reg,
    /// The number of the thread's warp.
    pub(crate) warp: Reg,
    /// The type of each component, the address of the first warp's, and that of this warp's.
    slots: SmallVec<[(DType, Reg, Reg); 2]>,
    /// The number of accumulators of a warp.
    pitch: usize,
}

impl WarpTotals {
    pub(crate) fn new(
        body: &mut KernelBody,
        reducer: Reducer,
        thread: Reg,
        reduction: usize,
    ) -> Self {
        let lane = index!(body; "and.b# {thread}, {}", WARP - 1);
        let warp = index!(body; "shr.u# {thread}, {}", WARP.trailing_zeros());
        let address = |(slot, &dtype): (usize, &DType)| {
            let first = value!(body, B64; "mov.u64 accumulator{reduction}_{slot}");
            (dtype, first, body.element(first, warp, dtype.bytes()))
        };
        let slots = reducer.state_types();
        let slots = slots.iter().enumerate().map(address).collect();
        Self {
            lane,
            warp,
            slots,
            pitch: 1,
        }
    }

    /// Returns the accumulators of a column of threads: a warp has one for each of [`WARP`].
    pub(crate) fn of_column(&self, body: &mut KernelBody, column: Reg) -> Self {
        let number = index!(body; "mad.lo.s# {}, {WARP}, {column}", self.warp);
        let address = |&(dtype, all, _): &(DType, Reg, Reg)| {
            let first = body.element(all, column, dtype.bytes());
            (dtype, first, body.element(all, number, dtype.bytes()))
        };
        Self {
            slots: self.slots.iter().map(address).collect(),
            pitch: WARP,
            ..*self
        }
    }

    pub(crate) fn store(&self, body: &mut KernelBody, accumulator: &Accumulator, lane: usize) {
        let is_lane = test!(body; "eq.u# {}, {lane}", self.lane);
        self.store_if(body, accumulator, is_lane);
    }

    /// Stores the accumulators that the first thread of each warp has: its own, and those of the
    /// warps that it stands for, each `distance` warps further on.
    pub(crate) fn store_parts(
        &self,
        body: &mut KernelBody,
        accumulators: &[Accumulator],
        distance: usize,
    ) {
        let is_first = test!(body; "eq.u# {}, 0", self.lane);
        for (part, accumulator) in accumulators.iter().enumerate() {
            for ((dtype, _, own), reg) in self.slots.iter().zip(accumulator) {
                let kind = RegClass::of(*dtype).move_type();
                let offset = part * distance * dtype.bytes();
                line!(body; "@{is_first} st.shared.{kind} [{own}+{offset}], {reg};");
            }
        }
    }

    /// Stores the accumulator of the threads for which a predicate holds.
    pub(crate) fn store_if(&self, body: &mut KernelBody, accumulator: &Accumulator, holds: Reg) {
        for ((dtype, _, own), reg) in self.slots.iter().zip(accumulator) {
            let kind = RegClass::of(*dtype).move_type();
            line!(body; "@{holds} st.shared.{kind} [{own}], {reg};");
        }
    }

    pub(crate) fn load(&self, body: &mut KernelBody, warp: usize) -> Accumulator {
        let load = |&(dtype, first, _): &(DType, Reg, Reg)| {
            let class = RegClass::of(dtype);
            let (reg, offset) = (body.reg(class), warp * self.pitch * dtype.bytes());
            line!(body; "ld.shared.{} {reg}, [{first}+{offset}];", class.move_type());
            reg
        };
        self.slots.iter().map(load).collect()
    }
}

/// Moves a value between the threads of a row: `down` or `up` by a distance, or from one thread by
/// its number (`idx`). Distance and number may be in a register.
pub(crate) fn shuffle(
    body: &mut KernelBody,
    value: Reg,
    (mode, lane): (&str, impl Display + Copy),
    threads: usize,
) -> Reg {
    // `up` stops at the first thread, the others at the last.
    let end = if mode == "up" { 0 } else { WARP - 1 };
    let segments = ((WARP - threads) << 8) | end;
    let word = |body: &mut KernelBody, value: Reg, class: RegClass| {
        let moved = body.reg(class);
        line!(body; "shfl.sync.{mode}.b32 {moved}, {value}, {lane}, {segments}, {ALL};");
        moved
    };
    match value.class {
        RegClass::B64 | RegClass::F64 => {
            let [low, high] = body.regs(RegClass::B32);
            line!(body; "mov.b64 {{{low}, {high}}}, {value};");
            let low = word(body, low, RegClass::B32);
            let high = word(body, high, RegClass::B32);
            value!(body, of value.class; "mov.b64 {{{low}, {high}}}")
        }
        class => word(body, value, class),
    }
}

impl WarpTotals {
    /// Scans the accumulators of a block: those of each warp, and those of the warps in their
    /// order. Returns the combination of those before
    /// this thread, and that of all threads. All threads must reach it.
    pub(crate) fn scan(
        &self,
        body: &mut KernelBody,
        reducer: Reducer,
        accumulator: &Accumulator,
        identity: &Accumulator,
    ) -> (Accumulator, Accumulator) {
        let with_front = self.scan_lanes(body, reducer, accumulator, identity, 1);
        self.store(body, &with_front, WARP - 1);
        line!(body; "bar.sync 0;");
        let (before, all) = self.combine_warps(body, reducer, identity);
        let front = self.before_in_warp(body, &with_front, identity, 1);
        reducer.combine(body, &before, &front);
        // All threads have read before any of them writes for the next tile.
        line!(body; "bar.sync 0;");
        (before, all)
    }

    /// Scans the accumulators of every `step`th thread of a warp by shuffles (Hillis and Steele's
    /// algorithm), for a power of two. Returns the combination of those up to this thread.
    pub(crate) fn scan_lanes(
        &self,
        body: &mut KernelBody,
        reducer: Reducer,
        accumulator: &Accumulator,
        identity: &Accumulator,
        step: usize,
    ) -> Accumulator {
        let with_front = copy(body, accumulator);
        let mut distance = step;
        while distance < WARP {
            let front = self.before_in_warp(body, &with_front, identity, distance);
            reducer.combine(body, &with_front, &front);
            distance *= 2;
        }
        with_front
    }

    /// Combines the stored accumulators in order. Returns that of the warps before, and of all.
    pub(crate) fn combine_warps(
        &self,
        body: &mut KernelBody,
        reducer: Reducer,
        identity: &Accumulator,
    ) -> (Accumulator, Accumulator) {
        let (before, all) = (copy(body, identity), copy(body, identity));
        let is_own = body.predicate();
        for warp in 0..WARPS {
            line!(body; "setp.eq.u# {is_own}, {}, {warp};", self.warp);
            for (own, all) in before.iter().zip(&all) {
                let kind = own.class.move_type();
                line!(body; "selp.{kind} {own}, {all}, {own}, {is_own};");
            }
            let total = self.load(body, warp);
            reducer.combine(body, &all, &total);
        }
        (before, all)
    }

    /// Returns the accumulator of the thread `distance` before this one in its warp, or the
    /// identity if there is none.
    pub(crate) fn before_in_warp(
        &self,
        body: &mut KernelBody,
        accumulator: &Accumulator,
        identity: &Accumulator,
        distance: usize,
    ) -> Accumulator {
        let is_there = test!(body; "ge.u# {}, {distance}", self.lane);
        let moved = |(&reg, none): (&Reg, &Reg)| {
            let front = shuffle(body, reg, ("up", distance), WARP);
            let kind = reg.class.move_type();
            line!(body; "selp.{kind} {front}, {front}, {none}, {is_there};");
            front
        };
        accumulator.iter().zip(identity).map(moved).collect()
    }
}

pub(crate) fn copy(body: &mut KernelBody, accumulator: &Accumulator) -> Accumulator {
    let new: Accumulator = accumulator.iter().map(|reg| body.reg(reg.class)).collect();
    assign(body, &new, accumulator);
    new
}
