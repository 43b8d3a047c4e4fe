//! Rows that a part of a warp computes: as many threads as a short row has elements, at most 32.
//!
//! Several rows share a block. Their threads combine accumulators by shuffles, without barriers and
//! shared memory, in an order that follows from the number of threads. All threads of a warp take
//! part: those beyond the last row compute that row again and store nothing.

use super::{
    body::{BLOCK, KernelBody, ParameterKey, Reg, RegClass, line},
    reduce::block_and_thread,
    reducer::{Accumulator, Reducer},
};

/// The mask of all threads of a warp.
const ALL: &str = "0xffffffff";

/// A thread, and the row that it belongs to.
#[derive(Clone, Copy)]
pub(super) struct RowThread {
    pub(super) row: Reg,
    /// The number of the thread among those of the row.
    pub(super) thread: Reg,
    /// True in threads beyond the last row; `None` if there are none.
    pub(super) beyond: Option<Reg>,
    /// The number of threads of a row.
    pub(super) threads: usize,
}

impl RowThread {
    /// Computes the row of each thread, of a row with so many threads each.
    pub(super) fn new(body: &mut KernelBody, rows: usize, threads: usize) -> Self {
        if threads == BLOCK {
            let (row, thread) = block_and_thread(body);
            return Self {
                row,
                thread,
                beyond: None,
                threads,
            };
        }
        let number = body.thread();
        let rows = body.index_parameter(ParameterKey::Named("rows"), rows as i64);
        let (bits, beyond) = (body.bits(), body.reg(RegClass::Predicate));
        let mut new = || body.index_reg();
        let (all, last, row, thread) = (new(), new(), new(), new());
        let shift = threads.trailing_zeros();
        line!(body, "shr.u{bits} {all}, {number}, {shift};");
        line!(body, "and.b{bits} {thread}, {number}, {};", threads - 1);
        line!(body, "setp.ge.u{bits} {beyond}, {all}, {rows};");
        line!(body, "sub.s{bits} {last}, {rows}, 1;");
        line!(body, "min.u{bits} {row}, {all}, {last};");
        Self {
            row,
            thread,
            beyond: Some(beyond),
            threads,
        }
    }

    /// Continues with the first thread of each row only; the others jump to a label.
    pub(super) fn first_only(self, body: &mut KernelBody, label: &str) {
        let (bits, idle) = (body.bits(), body.reg(RegClass::Predicate));
        line!(body, "setp.ne.u{bits} {idle}, {}, 0;", self.thread);
        line!(body, "@{idle} bra {label};");
        self.within_only(body, label);
    }

    /// Continues with the threads of rows only; those beyond the last row jump to a label.
    pub(super) fn within_only(self, body: &mut KernelBody, label: &str) {
        if let Some(beyond) = self.beyond {
            line!(body, "@{beyond} bra {label};");
        }
    }
}

impl Reducer {
    /// Declares the shared memory in which the threads of a row combine the accumulators of the
    /// reduction with this number, if they need any.
    pub(super) fn row_memory(self, rows: RowThread, reduction: usize) -> String {
        if rows.threads == BLOCK {
            self.shared_memory(reduction)
        } else {
            String::new()
        }
    }

    /// Combines the accumulators of a row's threads. The first of them has the result.
    pub(super) fn combine_row(
        self,
        body: &mut KernelBody,
        accumulator: &Accumulator,
        rows: RowThread,
        reduction: usize,
    ) {
        if rows.threads == BLOCK {
            self.combine_block(body, accumulator, rows.thread, reduction);
            return;
        }
        let mut distance = rows.threads / 2;
        while distance > 0 {
            let moved = |&reg: &Reg| shuffle(body, reg, ("down", distance), rows.threads);
            let other: Accumulator = accumulator.iter().map(moved).collect();
            self.combine(body, accumulator, &other);
            distance /= 2;
        }
    }

    /// Returns the result of [`combine_row`](Self::combine_row) in every thread of the row.
    pub(super) fn broadcast_row(
        self,
        body: &mut KernelBody,
        accumulator: &Accumulator,
        rows: RowThread,
        reduction: usize,
    ) -> Accumulator {
        if rows.threads == BLOCK {
            return self.broadcast_block(body, reduction);
        }
        let moved = |&reg: &Reg| shuffle(body, reg, ("idx", 0), rows.threads);
        accumulator.iter().map(moved).collect()
    }
}

/// Moves a value between neighbouring threads, of which so many are a row: `down` by a distance, or
/// from the one with a number (`idx`).
fn shuffle(body: &mut KernelBody, value: Reg, (mode, lane): (&str, usize), threads: usize) -> Reg {
    let segments = ((32 - threads) << 8) | 31;
    let word = |body: &mut KernelBody, value: Reg, class: RegClass| {
        let moved = body.reg(class);
        line!(
            body,
            "shfl.sync.{mode}.b32 {moved}, {value}, {lane}, {segments}, {ALL};"
        );
        moved
    };
    match value.class {
        RegClass::B64 | RegClass::F64 => {
            let mut new = || body.reg(RegClass::B32);
            let (low, high) = (new(), new());
            line!(body, "mov.b64 {{{low}, {high}}}, {value};");
            let low = word(body, low, RegClass::B32);
            let high = word(body, high, RegClass::B32);
            let moved = body.reg(value.class);
            line!(body, "mov.b64 {moved}, {{{low}, {high}}};");
            moved
        }
        class => word(body, value, class),
    }
}
