//! Scans of rows that several blocks share, in one pass.
//!
//! A block loads one tile into registers and combines it to one total, without keeping the steps.
//! Once the total of all tiles before it in the row is known, each warp scans its elements from
//! there, one vector of each thread at a time. So a block needs few registers for many elements,
//! which hides the time until that total is known, and neighbouring threads access neighbouring
//! memory.
//!
//! The totals are combined in an order that follows from the tile's number alone, so that floats
//! have the same bits on every run: 32 tiles are a group, and 32 groups a section. Before a tile
//! come all sections before its own, the groups before its own in the section, and the tiles before
//! it in the group. The last tile of each section publishes the total up to there, so that only
//! sections form a chain; a warp reads the totals of the groups and those of the tiles at once.
//!
//! # Progress
//!
//! A block takes the next tile from a counter. It waits only for tiles with lower numbers, whose
//! blocks have started, and none of these waits for a higher one. A total is published by a release
//! store of its flag, after its components, and read after an acquire load. The flags and the
//! counter are zeroed before each launch.

use smallvec::{SmallVec, smallvec};

use super::{
    body::{BLOCK, Kernel, KernelBody, KernelParameter, ParameterKey, Reg, RegClass, line},
    neighbours::{if_inside, neighbours, replace_outside},
    passes::{GeneratedPasses, Pass, PassOutput, Temporary},
    reduce::block_and_thread,
    reducer::Accumulator,
    scan::{LANES, ScanGenerator, Segmentation},
    warp::{WARP, WARPS, WarpTotals, copy, shuffle},
};
use crate::element::DType;

/// The size of the elements that a thread keeps in registers, in bytes.
const ITEMS_BYTES: usize = 128;
/// The largest number of elements that a thread keeps.
const ITEMS_MAX: usize = 32;

/// The number of blocks of a multiprocessor: more have too few registers for their elements, and
/// fewer have too little in flight.
const BLOCKS_MIN: usize = 4;

/// The size of a flag and of the counter in bytes.
pub(super) const FLAG_BYTES: usize = size_of::<u32>();

/// The published totals of a row: those of its tiles, of its groups and of its sections.
pub(super) struct RowTotals {
    pub(super) tiles: usize,
    pub(super) groups: usize,
    sections: usize,
}

impl RowTotals {
    pub(super) fn new(tiles: usize) -> Self {
        let groups = tiles.div_ceil(WARP);
        Self {
            tiles,
            groups,
            sections: groups.div_ceil(WARP),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.tiles + self.groups + self.sections
    }
}

/// The published totals of all rows, in device memory.
pub(super) struct Published {
    /// The address and the size in bytes of each component of the first total.
    pub(super) components: SmallVec<[(Reg, usize); 2]>,
    /// The address of the counter, which precedes the flags.
    pub(super) counter: Reg,
    /// The number of the thread in its warp.
    lane: Reg,
    is_first_lane: Reg,
}

impl ScanGenerator<'_> {
    /// Returns one pass in which several blocks share each row.
    pub(super) fn one_pass(&self, count: usize, rows: usize) -> GeneratedPasses {
        let slots = self.reducer.state_types();
        let items = self.items_in_registers();
        let segmentation = Segmentation {
            count,
            segment: BLOCK * items,
            segments: count.div_ceil(BLOCK * items),
            items,
        };
        let of_row = RowTotals::new(segmentation.segments);
        let totals = rows * of_row.count();
        let mut temporaries: SmallVec<[Temporary; 2]> = slots
            .iter()
            .map(|slot| Temporary::of(totals, *slot))
            .collect();
        temporaries.push(Temporary {
            bytes: (1 + totals) * FLAG_BYTES,
            is_zeroed: true,
        });
        GeneratedPasses {
            passes: smallvec![Pass {
                kernel: self.one_pass_kernel(segmentation, &of_row),
                threads: (rows * segmentation.segments * BLOCK).into(),
                writes: PassOutput::OutputsAndTemporaries(0..temporaries.len()),
                reads: 0..0,
            }],
            temporaries,
        }
    }

    fn one_pass_kernel(&self, segmentation: Segmentation, of_row: &RowTotals) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        body.blocks_min = Some(BLOCKS_MIN);
        let bits = body.bits();
        let (_, thread) = block_and_thread(&mut body);
        let published = self.published(&mut body, thread);
        let number = next_tile(&mut body, &published, thread);
        let mut parameter =
            |name, value: usize| body.index_parameter(ParameterKey::Named(name), value as i64);
        let count = parameter("count", segmentation.count);
        let tiles = parameter("tiles", of_row.tiles);
        let groups = parameter("groups", of_row.groups);
        let of_row = parameter("totals", of_row.count());
        let mut new = || body.index_reg();
        let (row, before_row, tile, first, end, base) = (new(), new(), new(), new(), new(), new());
        line!(body, "div.u{bits} {row}, {number}, {tiles};");
        line!(body, "mul.lo.s{bits} {before_row}, {row}, {tiles};");
        line!(body, "sub.s{bits} {number}, {number}, {before_row};");
        line!(
            body,
            "mul.lo.s{bits} {tile}, {number}, {};",
            segmentation.tile()
        );
        line!(body, "add.s{bits} {end}, {tile}, {};", segmentation.tile());
        line!(body, "min.u{bits} {end}, {end}, {count};");
        line!(body, "mul.lo.s{bits} {base}, {row}, {count};");
        let identity = self.reducer.identity(&mut body);
        let totals = WarpTotals::new(&mut body, self.reducer, thread, 0);
        let lanes = if segmentation.count.is_multiple_of(LANES) {
            LANES
        } else {
            1
        };
        let (items, stride) = (segmentation.items, WARP * lanes);
        let (warp, lane) = (totals.warp, totals.lane);
        line!(
            body,
            "mad.lo.s{bits} {first}, {warp}, {}, {tile};",
            WARP * items
        );
        line!(body, "mad.lo.s{bits} {first}, {lane}, {lanes}, {first};");
        let place = (first, end, base);
        let read = |body: &mut KernelBody, at, lanes| self.values(body, at, lanes);
        let neighbours = neighbours(&mut body, place, (items / lanes, stride), lanes, read);
        let running = copy(&mut body, &identity);
        for of_thread in &neighbours {
            let inside = of_thread.inside;
            self.combine_inside(&mut body, &running, &of_thread.elements, inside, &identity);
        }
        self.reducer.combine_lanes(&mut body, &running, WARP);
        totals.store(&mut body, &running, 0);
        line!(body, "bar.sync 0;");
        let (before, own) = totals.combine_warps(&mut body, self.reducer, &identity);

        // The first warp combines what precedes the tile.
        let others = body.reg(RegClass::Predicate);
        line!(body, "setp.ge.u{bits} {others}, {thread}, {WARP};");
        line!(body, "@{others} bra CARRIED;");
        let mut new = || body.index_reg();
        let (of_tile, of_group, of_section) = (new(), new(), new());
        line!(body, "mul.lo.s{bits} {of_tile}, {row}, {of_row};");
        line!(body, "add.s{bits} {of_group}, {of_tile}, {tiles};");
        line!(body, "add.s{bits} {of_section}, {of_group}, {groups};");
        line!(body, "add.s{bits} {of_tile}, {of_tile}, {number};");
        published.publish(&mut body, &own, of_tile, published.is_first_lane);
        let (group, within_group, ends_group) = part_of(&mut body, number);
        line!(body, "sub.s{bits} {of_tile}, {of_tile}, {within_group};");
        line!(body, "add.s{bits} {of_group}, {of_group}, {group};");
        let before_tile = (of_tile, within_group);
        let [carry] = self.preceding(&mut body, &published, [before_tile], &identity);
        let total = copy(&mut body, &carry);
        self.reducer.combine(&mut body, &total, &own);
        line!(
            body,
            "and.pred {ends_group}, {ends_group}, {};",
            published.is_first_lane
        );
        published.publish(&mut body, &total, of_group, ends_group);
        let (section, within_section, ends_section) = part_of(&mut body, group);
        line!(
            body,
            "sub.s{bits} {of_group}, {of_group}, {within_section};"
        );
        line!(body, "add.s{bits} {of_section}, {of_section}, {section};");
        let (has_section, one) = (body.reg(RegClass::Predicate), body.index_reg());
        let section_before = body.index_reg();
        line!(body, "setp.ne.u{bits} {has_section}, {section}, 0;");
        line!(body, "selp.b{bits} {one}, 1, 0, {has_section};");
        line!(body, "sub.s{bits} {section_before}, {of_section}, {one};");
        let before_group = (of_group, within_section);
        let before_section = (section_before, one);
        let places = [before_group, before_section];
        let [groups_before, sections] = self.preceding(&mut body, &published, places, &identity);
        self.reducer.combine(&mut body, &sections, &groups_before);
        self.reducer.combine(&mut body, &carry, &sections);
        self.reducer.combine(&mut body, &total, &sections);
        line!(
            body,
            "and.pred {ends_section}, {ends_section}, {ends_group};"
        );
        published.publish(&mut body, &total, of_section, ends_section);
        let mut shared = self.reducer.shared_memory(0, WARPS);
        shared.push_str("\t.shared .align 4 .b32 tile;\n");
        for (slot, reg) in carry.iter().enumerate() {
            shared.push_str(&format!("\t.shared .align 8 .b8 carry{slot}[8];\n"));
            let kind = reg.class.move_type();
            let first = published.is_first_lane;
            line!(body, "@{first} st.shared.{kind} [carry{slot}], {reg};");
        }
        body.label("CARRIED");
        line!(body, "bar.sync 0;");
        for (slot, reg) in carry.iter().enumerate() {
            let kind = reg.class.move_type();
            line!(body, "ld.shared.{kind} {reg}, [carry{slot}];");
        }
        self.reducer.combine(&mut body, &before, &carry);
        let position = body.index_reg();
        line!(body, "add.s{bits} {position}, {first}, {base};");
        let first_result = self.result_address(&mut body, position);
        for (turn, of_thread) in neighbours.iter().enumerate() {
            // Found again from the first, so that fewer registers are in use over the wait.
            let (at, inside) = (body.index_reg(), body.reg(RegClass::Predicate));
            line!(body, "add.s{bits} {at}, {first}, {};", turn * stride);
            line!(body, "setp.lt.u{bits} {inside}, {at}, {end};");
            let group = copy(&mut body, &identity);
            self.combine_inside(&mut body, &group, &of_thread.elements, inside, &identity);
            let with_front = totals.scan_lanes(&mut body, self.reducer, &group, &identity, 1);
            let step = totals.before_in_warp(&mut body, &with_front, &identity, 1);
            self.reducer.combine(&mut body, &step, &before);
            let after = |&value| {
                let element = self.lifted(&mut body, value);
                self.reducer.combine(&mut body, &step, &element);
                copy(&mut body, &step)
            };
            let results: Vec<_> = of_thread.elements.iter().map(after).collect();
            let address = body.reg(RegClass::B64);
            let bytes = turn * stride * self.node.dtype.bytes();
            line!(body, "add.s64 {address}, {first_result}, {bytes};");
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

    /// Returns the number of elements that a thread keeps in registers.
    pub(super) fn items_in_registers(&self) -> usize {
        (ITEMS_BYTES / self.source.dtype.bytes()).min(ITEMS_MAX)
    }

    /// Combines a thread's neighbours into an accumulator, unless they are beyond the end.
    pub(super) fn combine_inside(
        &self,
        body: &mut KernelBody,
        running: &Accumulator,
        values: &[Reg],
        inside: Reg,
        identity: &Accumulator,
    ) {
        for &value in values {
            let element = self.lifted(body, value);
            replace_outside(body, &element, identity, inside);
            self.reducer.combine(body, running, &element);
        }
    }

    /// Declares the addresses of the published totals.
    pub(super) fn published(&self, body: &mut KernelBody, thread: Reg) -> Published {
        let first = self.kernel.outputs.len();
        let mut address = |slot: usize| {
            body.address(ParameterKey::Output(first + slot), || {
                KernelParameter::Output(first + slot)
            })
        };
        let slots = self.reducer.state_types();
        let sized = |(slot, dtype): (usize, &DType)| (address(slot), dtype.bytes());
        let components = slots.iter().enumerate().map(sized).collect();
        let counter = address(slots.len());
        let (bits, is_first_lane) = (body.bits(), body.reg(RegClass::Predicate));
        line!(body, "setp.eq.u{bits} {is_first_lane}, {thread}, 0;");
        Published {
            components,
            counter,
            lane: thread,
            is_first_lane,
        }
    }

    /// Combines totals at several places: at each the first `count` from `first` on, at most one
    /// for each lane of the warp. Waits for all of them together. The first lane has the results.
    fn preceding<const N: usize>(
        &self,
        body: &mut KernelBody,
        published: &Published,
        places: [(Reg, Reg); N],
        identity: &Accumulator,
    ) -> [Accumulator; N] {
        let bits = body.bits();
        let places = places.map(|(first, count)| {
            let (at, is_read) = (body.index_reg(), body.reg(RegClass::Predicate));
            line!(
                body,
                "setp.lt.u{bits} {is_read}, {}, {count};",
                published.lane
            );
            line!(body, "add.s{bits} {at}, {first}, {};", published.lane);
            (at, is_read)
        });
        let loaded = published.wait_for(body, &places, identity);
        for combined in &loaded {
            self.reducer.combine_lanes(body, combined, WARP);
        }
        loaded.try_into().expect("one total for each place")
    }
}

impl Published {
    /// Waits for totals, each of which a thread needs if a predicate holds. Returns them, or the
    /// identity.
    pub(super) fn wait_for(
        &self,
        body: &mut KernelBody,
        places: &[(Reg, Reg)],
        identity: &Accumulator,
    ) -> Vec<Accumulator> {
        let flag_of = |&(at, is_read): &(Reg, Reg)| {
            let address = body.element(self.counter, at, FLAG_BYTES);
            let flag = body.reg(RegClass::B32);
            line!(body, "mov.u32 {flag}, 1;");
            (is_read, address, flag)
        };
        let flags: SmallVec<[(Reg, Reg, Reg); 4]> = places.iter().map(flag_of).collect();
        let (label, is_missing) = (
            format!("WAIT{}", body.label_number()),
            body.reg(RegClass::Predicate),
        );
        let all = body.reg(RegClass::B32);
        body.label(&label);
        for (is_read, address, flag) in &flags {
            line!(
                body,
                "@{is_read} ld.acquire.gpu.global.u32 {flag}, [{address}+{FLAG_BYTES}];"
            );
        }
        line!(body, "mov.u32 {all}, 1;");
        for (_, _, flag) in &flags {
            line!(body, "and.b32 {all}, {all}, {flag};");
        }
        line!(body, "setp.eq.u32 {is_missing}, {all}, 0;");
        line!(body, "@{is_missing} bra {label};");
        let load = |&(at, is_read): &(Reg, Reg)| {
            let total = copy(body, identity);
            for (&(base, bytes), &reg) in self.components.iter().zip(&total) {
                let address = body.element(base, at, bytes);
                let kind = reg.class.move_type();
                line!(body, "@{is_read} ld.global.{kind} {reg}, [{address}];");
            }
            total
        };
        places.iter().map(load).collect()
    }

    /// Publishes a total in the threads for which a predicate holds.
    pub(super) fn publish(
        &self,
        body: &mut KernelBody,
        total: &Accumulator,
        at: Reg,
        is_published: Reg,
    ) {
        for (&(base, bytes), &reg) in self.components.iter().zip(total) {
            let address = body.element(base, at, bytes);
            let kind = reg.class.move_type();
            line!(body, "@{is_published} st.global.{kind} [{address}], {reg};");
        }
        let address = body.element(self.counter, at, FLAG_BYTES);
        let one = body.reg(RegClass::B32);
        line!(body, "mov.u32 {one}, 1;");
        line!(
            body,
            "@{is_published} st.release.gpu.global.u32 [{address}+{FLAG_BYTES}], {one};"
        );
    }
}

/// Takes the next tile, the number of which all threads get.
pub(super) fn next_tile(body: &mut KernelBody, published: &Published, thread: Reg) -> Reg {
    let (first, counter) = (published.is_first_lane, published.counter);
    let taken = body.reg(RegClass::B32);
    line!(
        body,
        "@{first} atom.relaxed.gpu.global.add.u32 {taken}, [{counter}], 1;"
    );
    line!(body, "@{first} st.shared.u32 [tile], {taken};");
    line!(body, "bar.sync 0;");
    line!(body, "ld.shared.u32 {taken}, [tile];");
    if thread.class == RegClass::B32 {
        return taken;
    }
    let wide = body.reg(RegClass::B64);
    line!(body, "cvt.u64.u32 {wide}, {taken};");
    wide
}

/// Divides a number by the lanes of a warp. Returns the quotient, the rest, and whether the number
/// is the last with this quotient.
pub(super) fn part_of(body: &mut KernelBody, number: Reg) -> (Reg, Reg, Reg) {
    let bits = body.bits();
    let (quotient, rest) = (body.index_reg(), body.index_reg());
    let is_last = body.reg(RegClass::Predicate);
    line!(
        body,
        "shr.u{bits} {quotient}, {number}, {};",
        WARP.trailing_zeros()
    );
    line!(body, "and.b{bits} {rest}, {number}, {};", WARP - 1);
    line!(body, "setp.eq.u{bits} {is_last}, {rest}, {};", WARP - 1);
    (quotient, rest, is_last)
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::{Array1, Axis};

    use crate::{Array, codegen::generate, fuse::only_kernel};

    #[test]
    fn a_row_of_many_tiles_is_scanned_by_one_kernel() {
        let device = Device::simulated().unwrap();
        let x = Array::from_host(&device, &Array1::<f32>::zeros(300_000)).unwrap();
        let generated = generate(&only_kernel(x.cumsum(Axis(0)).node()));
        let [pass] = &generated.passes[..] else {
            panic!("{} passes", generated.passes.len());
        };
        // 37 tiles, in 2 groups, in 1 section; a counter precedes the flags.
        let bytes: Vec<_> = generated.temporaries.iter().map(|of| of.bytes).collect();
        assert_eq!(bytes, [40 * 8, 41 * 4]);
        assert_eq!(pass.threads, (37 * 256).into());
        assert!(generated.temporaries[1].is_zeroed);
    }
}
