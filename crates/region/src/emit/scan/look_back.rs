//! Scans of rows that several blocks share, in one pass.
//!
//! A block loads one tile into shared memory and combines it to one total, without keeping the
//! steps. Once the total of all tiles before it in the row is known, each warp scans its elements
//! from there, one vector of each thread at a time. So a block needs few registers for many
//! elements, and other blocks of the multiprocessor hide the time until that total is known.
//!
//! The totals are combined in an order that follows from the tile's number alone: 32 tiles are a
//! group, and 32 groups a section. Before a tile come all sections before its own, the groups
//! before its own in the section, and the tiles before it in the group. The last tile of each
//! section publishes the total up to there, so that only sections form a chain.
//!
//! Threads beyond the end of the row load its last elements. All elements of the row precede them,
//! so no result depends on them, and no tile reads the totals of the last.
//!
//! A block takes the next tile from a counter. It waits only for tiles with lower numbers, whose
//! blocks have started, and none of these waits for a higher one. Totals are asked for before the
//! groups of neighbours are scanned, so that most have arrived when the block begins to wait.

use smallvec::SmallVec;

use crate::{
    emit::{
        body::{
            Accumulator, BLOCK, Kernel, KernelBody, Reg, RegClass, WARP, WARPS, WarpTotals, copy,
            index, jump, line, shuffle, test, value,
        },
        passes::GeneratedPasses,
        scan::{
            neighbours::{if_inside, neighbours},
            published::{Published, arrays_of_totals},
            rows::{ScanGenerator, lanes_of},
            shared_elements::SharedElements,
        },
    },
    schedule::machine::SCANNED_EARLY_MAX,
};

/// The published totals of a row: those of its tiles, of its groups and of its sections.
pub(crate) struct RowTotals {
    pub(crate) tiles: usize,
    pub(crate) groups: usize,
    sections: usize,
}

impl RowTotals {
    pub(crate) fn new(tiles: usize) -> Self {
        let groups = tiles.div_ceil(WARP);
        Self {
            tiles,
            groups,
            sections: groups.div_ceil(WARP),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.tiles + self.groups + self.sections
    }
}

impl ScanGenerator<'_> {
    /// Returns one pass in which several blocks share each row. A thread keeps `items` elements,
    /// and uses so few registers that `blocks` blocks fit.
    pub(crate) fn one_pass(
        &self,
        count: usize,
        rows: usize,
        (items, blocks): (usize, usize),
    ) -> GeneratedPasses {
        let tiles = count.div_ceil(BLOCK * items);
        let of_row = RowTotals::new(tiles);
        let totals = rows * of_row.count();
        let temporaries = arrays_of_totals(&self.reducer.state_types(), totals);
        let kernel = self.one_pass_kernel((count, items), &of_row, blocks);
        GeneratedPasses::one_with(temporaries, kernel, rows * tiles * BLOCK)
    }

    fn one_pass_kernel(
        &self,
        (length, items): (usize, usize),
        of_row: &RowTotals,
        blocks: usize,
    ) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        body.blocks_min = Some(blocks);
        let (_, thread) = body.block_and_thread();
        let published = self.published(&mut body);
        let (number, is_first) = next_tile(&mut body, &published, thread);
        let count = body.named("count", length);
        let tiles = body.named("tiles", of_row.tiles);
        let groups = body.named("groups", of_row.groups);
        let of_row = body.named("totals", of_row.count());
        let [row, before_row, tile, first, end, base] = body.index_regs();
        line!(body; "div.u# {row}, {number}, {tiles};");
        line!(body; "mul.lo.s# {before_row}, {row}, {tiles};");
        line!(body; "sub.s# {number}, {number}, {before_row};");
        line!(body; "mul.lo.s# {tile}, {number}, {};", BLOCK * items);
        line!(body; "add.s# {end}, {tile}, {};", BLOCK * items);
        line!(body; "min.u# {end}, {end}, {count};");
        line!(body; "mul.lo.s# {base}, {row}, {count};");
        let identity = self.reducer.identity(&mut body);
        let totals = WarpTotals::new(&mut body, self.reducer, thread, 0);
        let lanes = lanes_of(length);
        let stride = WARP * lanes;
        let (warp, lane) = (totals.warp, totals.lane);
        line!(body; "mad.lo.s# {first}, {warp}, {}, {tile};", WARP * items);
        line!(body; "mad.lo.s# {first}, {lane}, {lanes}, {first};");
        let place = (first, end, base);
        let read = |body: &mut KernelBody, at, lanes| self.values(body, at, lanes);
        let neighbours = neighbours(&mut body, place, (items / lanes, stride), lanes, read);
        let class = RegClass::of(self.source.dtype);
        let shared_elements = SharedElements::new(&mut body, thread, class, lanes);
        let running = copy(&mut body, &identity);
        for (turn, of_thread) in neighbours.iter().enumerate() {
            shared_elements.store(&mut body, turn, &of_thread.elements);
            self.combine_all(&mut body, &running, &of_thread.elements);
        }
        self.reducer.combine_lanes(&mut body, &running, WARP);
        totals.store(&mut body, &running, 0);
        line!(body; "bar.sync 0;");
        let (before, own) = totals.combine_warps(&mut body, self.reducer, &identity);

        let of_tile = index!(body; "mul.lo.s# {row}, {of_row}");
        let of_group = index!(body; "add.s# {of_tile}, {tiles}");
        let of_section = index!(body; "add.s# {of_group}, {groups}");
        line!(body; "add.s# {of_tile}, {of_tile}, {number};");
        published.publish(&mut body, &own, of_tile, is_first);
        let (group, within_group, ends_group) = part_of(&mut body, number);
        let (section, within_section, ends_section) = part_of(&mut body, group);
        line!(body; "sub.s# {of_tile}, {of_tile}, {within_group};");
        line!(body; "add.s# {of_group}, {of_group}, {group};");
        line!(body; "add.s# {of_section}, {of_section}, {section};");
        let (has_section, one) = (body.predicate(), body.index_reg());
        let first_group = index!(body; "sub.s# {of_group}, {within_section}");
        line!(body; "setp.ne.u# {has_section}, {section}, 0;");
        line!(body; "selp.b# {one}, 1, 0, {has_section};");
        let section_before = index!(body; "sub.s# {of_section}, {one}");
        // Only threads of the first warp have numbers below these counts.
        let mut request = |places: &[(Reg, Reg)]| {
            let places: SmallVec<[(Reg, Reg); 2]> = places
                .iter()
                .map(|&place| total_of_lane(&mut body, thread, place))
                .collect();
            published.request(&mut body, &places, &identity)
        };
        let in_group = request(&[(of_tile, within_group)]);
        let before_group = request(&[(first_group, within_section), (section_before, one)]);
        let mut scanned: Vec<Accumulator> = Vec::new();
        if neighbours.len() <= SCANNED_EARLY_MAX {
            for turn in 0..neighbours.len() {
                let elements = shared_elements.load(&mut body, turn);
                scanned.push(self.scan_group(&mut body, &totals, &elements, &identity));
            }
        }

        // The first warp combines what precedes the tile.
        jump!(body; "CARRIED" if "ge.u# {thread}, {WARP}");
        let receive = |body: &mut KernelBody, requested| {
            let received = published.receive(body, requested, &identity);
            for total in &received {
                self.reducer.combine_lanes(body, total, WARP);
            }
            received
        };
        let carry = receive(&mut body, &in_group).remove(0);
        let total = copy(&mut body, &carry);
        self.reducer.combine(&mut body, &total, &own);
        line!(body; "and.pred {ends_group}, {ends_group}, {is_first};");
        published.publish(&mut body, &total, of_group, ends_group);
        let [groups_before, sections] = &receive(&mut body, &before_group)[..] else {
            unreachable!("there is a total for each place");
        };
        self.reducer.combine(&mut body, sections, groups_before);
        self.reducer.combine(&mut body, &carry, sections);
        self.reducer.combine(&mut body, &total, sections);
        line!(body; "and.pred {ends_section}, {ends_section}, {ends_group};");
        published.publish(&mut body, &total, of_section, ends_section);
        let mut shared = self.reducer.shared_memory(0, WARPS);
        shared.push_str(&SharedElements::declaration(class, items));
        shared.push_str("\t.shared .align 4 .b32 tile;\n");
        for (slot, reg) in carry.iter().enumerate() {
            shared.push_str(&format!("\t.shared .align 8 .b8 carry{slot}[8];\n"));
            let kind = reg.class.move_type();
            line!(body; "@{is_first} st.shared.{kind} [carry{slot}], {reg};");
        }
        body.label("CARRIED");
        line!(body; "bar.sync 0;");
        for (slot, reg) in carry.iter().enumerate() {
            let kind = reg.class.move_type();
            line!(body; "ld.shared.{kind} {reg}, [carry{slot}];");
        }
        self.reducer.combine(&mut body, &before, &carry);
        let position = index!(body; "add.s# {first}, {base}");
        let first_result = self.result_address(&mut body, position);
        for turn in 0..neighbours.len() {
            // Found again from the first, so that fewer registers are in use over the wait.
            let at = index!(body; "add.s# {first}, {}", turn * stride);
            let inside = test!(body; "lt.u# {at}, {end}");
            let elements = shared_elements.load(&mut body, turn);
            let with_front = match scanned.get(turn) {
                Some(scanned) => scanned.clone(),
                None => self.scan_group(&mut body, &totals, &elements, &identity),
            };
            let step = totals.before_in_warp(&mut body, &with_front, &identity, 1);
            self.reducer.combine(&mut body, &step, &before);
            let after = |&value| {
                self.combine_all(&mut body, &step, &[value]);
                copy(&mut body, &step)
            };
            let results: Vec<_> = elements.iter().map(after).collect();
            let bytes = turn * stride * self.node.dtype.bytes();
            let address = value!(body, B64; "add.s64 {first_result}, {bytes}");
            if_inside(&mut body, inside, |body| {
                self.store_results_to(body, &results, address);
            });
            let last = ("idx", WARP - 1);
            let moved = |&reg: &Reg| shuffle(&mut body, reg, last, WARP);
            let total: Accumulator = with_front.iter().map(moved).collect();
            self.reducer.combine(&mut body, &before, &total);
        }
        self.finish(body, &shared)
    }

    /// Combines a thread's elements into an accumulator.
    pub(crate) fn combine_all(&self, body: &mut KernelBody, running: &Accumulator, values: &[Reg]) {
        for &value in values {
            let element = self.reducer.lift(body, value, |body| body.index_reg());
            self.reducer.combine(body, running, &element);
        }
    }

    /// Combines a thread's neighbours of a turn. Returns the combination of the lanes up to it.
    fn scan_group(
        &self,
        body: &mut KernelBody,
        totals: &WarpTotals,
        elements: &[Reg],
        identity: &Accumulator,
    ) -> Accumulator {
        let group = copy(body, identity);
        self.combine_all(body, &group, elements);
        totals.scan_lanes(body, self.reducer, &group, identity, 1)
    }
}

/// Returns the place of a lane's total among `count` from `first` on, and whether it exists.
fn total_of_lane(body: &mut KernelBody, lane: Reg, (first, count): (Reg, Reg)) -> (Reg, Reg) {
    let is_read = test!(body; "lt.u# {lane}, {count}");
    let at = index!(body; "add.s# {first}, {lane}");
    (at, is_read)
}

/// Takes the next tile. Returns its number, and a predicate that holds in the first thread.
pub(crate) fn next_tile(body: &mut KernelBody, published: &Published, thread: Reg) -> (Reg, Reg) {
    let counter = published.counter;
    let (first, taken) = (body.predicate(), body.reg(RegClass::B32));
    line!(body; "setp.eq.u# {first}, {thread}, 0;");
    line!(body; "@{first} atom.relaxed.gpu.global.add.u32 {taken}, [{counter}], 1;");
    line!(body; "@{first} st.shared.u32 [tile], {taken};");
    line!(body; "bar.sync 0;");
    line!(body; "ld.shared.u32 {taken}, [tile];");
    if thread.class == RegClass::B32 {
        return (taken, first);
    }
    let wide = value!(body, B64; "cvt.u64.u32 {taken}");
    (wide, first)
}

/// Divides by the lanes of a warp. Returns quotient, rest, and whether the rest is the last.
pub(crate) fn part_of(body: &mut KernelBody, number: Reg) -> (Reg, Reg, Reg) {
    let quotient = index!(body; "shr.u# {number}, {}", WARP.trailing_zeros());
    let rest = index!(body; "and.b# {number}, {}", WARP - 1);
    let is_last = test!(body; "eq.u# {rest}, {}", WARP - 1);
    (quotient, rest, is_last)
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::{Array1, Axis};

    use crate::{Array, plan::only_kernel, run::texts::generate};

    #[test]
    fn a_row_of_many_tiles_is_scanned_by_one_kernel() {
        let device = Device::simulated().unwrap();
        let x = Array::from_host(&device, &Array1::<f32>::zeros(300_000)).unwrap();
        let generated = generate(&only_kernel(x.cumsum(Axis(0)).node()));
        let [pass] = &generated.passes[..] else {
            panic!("{} passes", generated.passes.len());
        };
        // 37 tiles, in 2 groups, in 1 section; a counter precedes the words.
        let [words] = &generated.temporaries[..] else {
            panic!("{} temporaries", generated.temporaries.len());
        };
        assert_eq!((words.bytes, words.is_zeroed), (41 * 8, true));
        assert_eq!(pass.threads, (37 * 256).into());
    }
}
