//! Scans along another axis than the last. A column is what lies along that axis; neighbouring
//! threads have neighbouring columns, so that they access neighbouring memory.
//!
//! A thread scans a short column, or any column where there are very many, in the order of the
//! elements. Otherwise a block scans a tile of at most 32 columns. A warp has neighbouring rows of
//! the tile, and each of its lanes every row or, where fewer than 17 columns lie beside each other,
//! every second, fourth, eighth or sixteenth of them. A lane loads all its elements into shared
//! memory, and the block combines them to one total for each column (`column_totals.rs`).
//!
//! Tiles are numbered across the columns first, so that the tiles above have lower numbers.

use std::ops::Range;

use smallvec::SmallVec;

use crate::{
    emit::{
        body::{
            Accumulator, BLOCK, Kernel, KernelBody, Reg, RegClass, WARP, WARPS, WarpTotals, copy,
            index, jump, line, shuffle, test, value,
        },
        passes::GeneratedPasses,
        scan::{
            look_back::{RowTotals, next_tile},
            neighbours::if_inside,
            published::arrays_of_totals,
            rows::ScanGenerator,
            shared_elements::SharedElements,
        },
    },
    schedule::machine::COLUMN_LOADS,
};

/// The division of an array into tiles of columns.
pub(crate) struct Tiling {
    /// The number of elements of a column, and that of columns beside each other.
    count: usize,
    columns: usize,
    /// The number of columns of a tile, a power of two.
    pub(crate) width: usize,
    /// The number of tiles beside each other.
    across: usize,
    /// The number of lines of tiles. A line is a tile wide and as long as the columns.
    lines: usize,
    /// The number of elements of a column that a thread keeps.
    items: usize,
    pub(crate) totals: RowTotals,
}

impl Tiling {
    /// Returns the tiles of this width, whose threads keep `items` elements each.
    fn new(
        elements: usize,
        (count, columns): (usize, usize),
        (width, items): (usize, usize),
    ) -> Self {
        let across = columns.div_ceil(width);
        let rows_at_once = WARPS * (WARP / width);
        Self {
            count,
            columns,
            width,
            across,
            lines: elements / (count * columns) * across,
            items,
            totals: RowTotals::new(count.div_ceil(rows_at_once * items)),
        }
    }

    /// Returns the number of lanes of a warp that have one column, each some of its rows.
    fn lanes_per_column(&self) -> usize {
        WARP / self.width
    }

    fn rows_per_warp(&self) -> usize {
        self.items * self.lanes_per_column()
    }

    /// Returns whether the columns have several tiles.
    fn is_shared(&self) -> bool {
        self.totals.tiles > 1
    }
}

pub(crate) struct TileThread {
    pub(crate) thread: Reg,
    pub(crate) lane: Reg,
    /// The number of the tile along its line, and that of the line.
    pub(crate) tile: Reg,
    pub(crate) line: Reg,
    /// The number of the column in the tile.
    pub(crate) column: Reg,
    /// The first row in the whole column.
    row: Reg,
    /// The linear index of the first element of the column, or of the last column beyond it.
    base: Reg,
    /// The numbers of elements of a column, and of columns beside each other.
    count: Reg,
    columns: Reg,
    /// False in threads beyond the last column.
    has_column: Reg,
}

impl ScanGenerator<'_> {
    /// Generates the kernel that scans columns. A block has a tile of neighbouring columns, and its
    /// threads keep `items` elements each. A multiprocessor has registers for `blocks` blocks.
    pub(crate) fn columns(
        &self,
        (count, columns): (usize, usize),
        (width, items): (usize, usize),
        blocks: usize,
    ) -> GeneratedPasses {
        let tiling = &Tiling::new(self.node.elements, (count, columns), (width, items));
        let kernel = self.block_per_tile(tiling, blocks);
        let threads = tiling.lines * tiling.totals.tiles * BLOCK;
        if !tiling.is_shared() {
            return GeneratedPasses::one(kernel, threads);
        }
        let totals = tiling.lines * tiling.totals.count() * tiling.width;
        let temporaries = arrays_of_totals(&self.reducer.state_types(), totals);
        GeneratedPasses::one_with(temporaries, kernel, threads)
    }

    pub(crate) fn thread_per_column(&self, count: usize, columns: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let thread = body.thread();
        let beyond = body.predicate();
        let all = body.named("threads", self.node.elements / count);
        let (count, columns) = (body.named("count", count), body.named("columns", columns));
        jump!(body, beyond; "DONE" if "ge.u# {thread}, {all}");
        // The columns before those that lie beside this one have all their elements before it.
        let before = index!(body; "div.u# {thread}, {columns}");
        line!(body; "mul.lo.s# {before}, {before}, {columns};");
        let rows = index!(body; "sub.s# {count}, 1");
        let at = index!(body; "mad.lo.s# {before}, {rows}, {thread}");
        let row = index!(body; "mov.b# 0");
        let running = self.reducer.identity(&mut body);
        for (label, next, at_once) in [("LOOP", "REST", COLUMN_LOADS), ("REST", "DONE", 1)] {
            body.label(label);
            let last = index!(body; "add.s# {row}, {}", at_once - 1);
            jump!(body, beyond; "{next}" if "ge.u# {last}, {count}");
            let places = body.steps(at, columns, at_once);
            let values = self.values_at(&mut body, &places);
            for (&place, value) in places.iter().zip(values) {
                let element = self.lifted(&mut body, value);
                self.reducer.combine(&mut body, &running, &element);
                self.store_results(&mut body, std::slice::from_ref(&running), place);
            }
            let behind = places[at_once - 1];
            line!(body; "add.s# {at}, {behind}, {columns};");
            line!(body; "add.s# {row}, {row}, {at_once};");
            line!(body; "bra {label};");
        }
        body.label("DONE");
        self.finish(body, "")
    }

    fn block_per_tile(&self, tiling: &Tiling, blocks: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        body.blocks_min = Some(blocks);
        let (block, thread) = body.block_and_thread();
        let mut shared = self.reducer.shared_memory(0, WARPS * WARP);
        let published = tiling.is_shared().then(|| {
            shared.push_str(&self.reducer.shared_memory(1, WARPS * WARP));
            shared.push_str("\t.shared .align 4 .b32 tile;\n");
            self.published(&mut body)
        });
        let number = match &published {
            Some(published) => next_tile(&mut body, published, thread).0,
            None => block,
        };
        let identity = self.reducer.identity(&mut body);
        let all = [0, 1].map(|number| {
            (number == 0 || tiling.is_shared())
                .then(|| WarpTotals::new(&mut body, self.reducer, thread, number))
        });
        let first = all[0].as_ref().expect("the block has totals");
        let own = self.tile_thread(&mut body, tiling, thread, number, first);
        let totals = all.map(|all| all.map(|all| all.of_column(&mut body, own.column)));
        let [Some(of_tile), of_group] = totals else {
            unreachable!("the block has totals");
        };

        let class = RegClass::of(self.source.dtype);
        let shared_elements = SharedElements::new(&mut body, thread, class, 1);
        shared.push_str(&SharedElements::declaration(class, tiling.items));
        let running = copy(&mut body, &identity);
        for first in (0..tiling.items).step_by(COLUMN_LOADS) {
            let turns = first..tiling.items.min(first + COLUMN_LOADS);
            let values = self.values_of_tile(&mut body, tiling, &own, turns.clone());
            for (turn, value) in turns.zip(&values) {
                shared_elements.store(&mut body, turn, std::slice::from_ref(value));
            }
            self.combine_all(&mut body, &running, &values);
        }
        let (reducer, width) = (self.reducer, tiling.width);
        let running = of_tile.scan_lanes(&mut body, reducer, &running, &identity, width);
        let ends_warp = test!(body; "ge.u# {}, {}", own.lane, WARP - width);
        of_tile.store_if(&mut body, &running, ends_warp);
        line!(body; "bar.sync 0;");
        let (before, all) = of_tile.combine_warps(&mut body, reducer, &identity);
        if let (Some(published), Some(of_group)) = (&published, &of_group) {
            let totals = [&of_tile, of_group];
            let carry = self.carry(&mut body, tiling, &own, (published, totals), &all);
            reducer.combine(&mut body, &before, &carry);
        }

        let at = index!(body; "mad.lo.s# {}, {}, {}", own.row, own.columns, own.base);
        let rows_at_once = tiling.lanes_per_column();
        let step = index!(body; "mul.lo.s# {}, {rows_at_once}", own.columns);
        // The last lane that has the same column, for a shuffle.
        let column = value!(body, B32; "cvt.u32.u# {}", own.column);
        let last_lane = value!(body, B32; "add.u32 {column}, {}", WARP - tiling.width);
        for turn in 0..tiling.items {
            let row = index!(body; "add.s# {}, {}", own.row, turn * tiling.lanes_per_column());
            let inside = test!(body; "lt.u# {row}, {}", own.count);
            line!(body; "and.pred {inside}, {inside}, {};", own.has_column);
            let value = shared_elements.load(&mut body, turn)[0];
            let element = self.lifted(&mut body, value);
            let result = if width == WARP {
                reducer.combine(&mut body, &before, &element);
                copy(&mut body, &before)
            } else {
                let up_to = of_tile.scan_lanes(&mut body, reducer, &element, &identity, width);
                let result = copy(&mut body, &before);
                reducer.combine(&mut body, &result, &up_to);
                let last = ("idx", last_lane);
                let moved = |&reg: &Reg| shuffle(&mut body, reg, last, WARP);
                let total: Accumulator = up_to.iter().map(moved).collect();
                reducer.combine(&mut body, &before, &total);
                result
            };
            if_inside(&mut body, inside, |body| {
                self.store_results(body, std::slice::from_ref(&result), at);
            });
            line!(body; "add.s# {at}, {at}, {step};");
        }
        self.finish(body, &shared)
    }

    /// Computes the place of a thread.
    fn tile_thread(
        &self,
        body: &mut KernelBody,
        tiling: &Tiling,
        thread: Reg,
        number: Reg,
        totals: &WarpTotals,
    ) -> TileThread {
        let count = body.named("count", tiling.count);
        let columns = body.named("columns", tiling.columns);
        let (across, lines) = (
            body.named("across", tiling.across),
            body.named("lines", tiling.lines),
        );
        let (width, has_column) = (tiling.width, body.predicate());
        let [tile, line, before, column, row, base] = body.index_regs();
        line!(body; "div.u# {tile}, {number}, {lines};");
        line!(body; "mul.lo.s# {before}, {tile}, {lines};");
        line!(body; "sub.s# {line}, {number}, {before};");
        let outer = index!(body; "div.u# {line}, {across}");
        line!(body; "mul.lo.s# {before}, {outer}, {across};");
        let first = index!(body; "sub.s# {line}, {before}");
        line!(body; "and.b# {column}, {}, {};", totals.lane, width - 1);
        line!(body; "mad.lo.s# {first}, {first}, {width}, {column};");
        line!(body; "setp.lt.u# {has_column}, {first}, {columns};");
        let last = index!(body; "sub.s# {columns}, 1");
        line!(body; "min.u# {first}, {first}, {last};");
        line!(body; "mul.lo.s# {base}, {outer}, {count};");
        line!(body; "mad.lo.s# {base}, {base}, {columns}, {first};");
        let shift = width.trailing_zeros();
        let rest = index!(body; "shr.u# {}, {shift}", totals.lane);
        let of_warp = tiling.rows_per_warp();
        line!(body; "mad.lo.s# {row}, {}, {of_warp}, {rest};", totals.warp);
        line!(body; "mad.lo.s# {row}, {tile}, {}, {row};", WARPS * of_warp);
        TileThread {
            thread,
            lane: totals.lane,
            tile,
            line,
            column,
            row,
            base,
            count,
            columns,
            has_column,
        }
    }

    /// Loads a thread's elements of some turns; the last one of the column for those beyond the
    /// end, on which no result depends, because they follow all elements of the column.
    fn values_of_tile(
        &self,
        body: &mut KernelBody,
        tiling: &Tiling,
        own: &TileThread,
        turns: Range<usize>,
    ) -> Vec<Reg> {
        let last = index!(body; "sub.s# {}, 1", own.count);
        let place = |turn: usize| {
            let [row, place] = body.index_regs();
            let ahead = turn * tiling.lanes_per_column();
            line!(body; "add.s# {row}, {}, {ahead};", own.row);
            line!(body; "min.u# {row}, {row}, {last};");
            line!(body; "mad.lo.s# {place}, {row}, {}, {};", own.columns, own.base);
            place
        };
        let places: SmallVec<[Reg; 32]> = turns.map(place).collect();
        self.values_at(body, &places)
    }
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::{Array2, Axis};

    use crate::{Array, plan::only_kernel, run::texts::generate};

    #[test]
    fn threads_or_blocks_scan_columns_by_their_height_and_number() {
        let device = Device::simulated().unwrap();
        for (shape, threads, temporaries) in [
            // A thread for each column: few rows, or many columns.
            ((64, 3000), 3000, 0),
            ((65, 1 << 17), 1 << 17, 0),
            // A block for each 32 columns.
            ((65, 3000), 94 * 256, 0),
            ((256, 40), 2 * 256, 0),
            // Tiles of 256 rows and 32 columns, and of 4,096 rows and 2 columns.
            ((257, 40), 2 * 2 * 256, 1),
            ((10_000, 2), 3 * 256, 1),
        ] {
            let x = Array::from_host(&device, &Array2::<f32>::zeros(shape)).unwrap();
            let generated = generate(&only_kernel(x.cumsum(Axis(0)).node()));
            let [pass] = &generated.passes[..] else {
                panic!("{} passes", generated.passes.len());
            };
            let numbers = (pass.threads, generated.temporaries.len());
            assert_eq!(numbers, (threads.into(), temporaries), "{shape:?}");
        }
    }
}
