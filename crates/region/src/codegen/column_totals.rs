//! Totals of the tiles of columns, which several blocks scan.
//!
//! They are published and combined as those of the tiles of a row (`look_back.rs`): in groups of 32
//! tiles and sections of 32 groups, in an order that follows from the tile's number alone. All
//! warps take part: each reads an eighth of the totals of a group or section. Each lane waits for
//! the totals of its own column, so that no total is handed from one lane to another without a
//! barrier.

use smallvec::SmallVec;

use super::{
    body::{KernelBody, ParameterKey, Reg, RegClass, line},
    look_back::{Published, part_of},
    reducer::Accumulator,
    scan::ScanGenerator,
    scan_columns::{TileThread, Tiling},
    warp::{WARP, WARPS, WarpTotals, copy},
};

/// The number of totals of a group or section that each warp reads.
const TOTALS_PER_WARP: usize = WARP / WARPS;

impl ScanGenerator<'_> {
    /// Publishes the totals of the tile and waits for those before it. Returns the combination of
    /// all elements of the thread's column before the tile.
    pub(super) fn carry(
        &self,
        body: &mut KernelBody,
        tiling: &Tiling,
        own: &TileThread,
        (published, [first, second]): (&Published, [&WarpTotals; 2]),
        own_total: &Accumulator,
    ) -> Accumulator {
        let (bits, width) = (body.bits(), tiling.width);
        let identity = self.reducer.identity(body);
        let mut parameter =
            |name, value: usize| body.index_parameter(ParameterKey::Named(name), value as i64);
        let tiles = parameter("tiles", tiling.totals.tiles);
        let groups = parameter("groups", tiling.totals.groups);
        let of_line = parameter("totals", tiling.totals.count());
        let mut new = || body.index_reg();
        let (of_tile, of_group, of_section) = (new(), new(), new());
        line!(body, "mul.lo.s{bits} {of_tile}, {}, {of_line};", own.line);
        line!(body, "add.s{bits} {of_group}, {of_tile}, {tiles};");
        line!(body, "add.s{bits} {of_section}, {of_group}, {groups};");
        line!(body, "add.s{bits} {of_tile}, {of_tile}, {};", own.tile);
        let publishes = body.reg(RegClass::Predicate);
        line!(
            body,
            "setp.lt.u{bits} {publishes}, {}, {width};",
            own.thread
        );
        let publish = |body: &mut KernelBody, total: &Accumulator, number: Reg, holds: Reg| {
            let at = body.index_reg();
            line!(
                body,
                "mad.lo.s{bits} {at}, {number}, {width}, {};",
                own.column
            );
            published.publish(body, total, at, holds);
        };
        publish(body, own_total, of_tile, publishes);

        let (group, in_group, ends_group) = part_of(body, own.tile);
        line!(body, "sub.s{bits} {of_tile}, {of_tile}, {in_group};");
        line!(body, "add.s{bits} {of_group}, {of_group}, {group};");
        let carry = copy(body, &identity);
        let before_tile = (of_tile, in_group);
        self.combine_published(body, own, (published, second), before_tile, &carry, width);
        let total = copy(body, &carry);
        self.reducer.combine(body, &total, own_total);
        line!(body, "and.pred {ends_group}, {ends_group}, {publishes};");
        publish(body, &total, of_group, ends_group);

        let (section, in_section, ends_section) = part_of(body, group);
        line!(body, "sub.s{bits} {of_group}, {of_group}, {in_section};");
        line!(body, "add.s{bits} {of_section}, {of_section}, {section};");
        let (has_section, before, at) = (
            body.reg(RegClass::Predicate),
            body.index_reg(),
            body.index_reg(),
        );
        line!(body, "setp.ne.u{bits} {has_section}, {section}, 0;");
        line!(body, "sub.s{bits} {before}, {of_section}, 1;");
        line!(
            body,
            "mad.lo.s{bits} {at}, {before}, {width}, {};",
            own.column
        );
        let sections = &published.wait_for(body, &[(at, has_section)], &identity)[0];
        let before_group = (of_group, in_section);
        self.combine_published(body, own, (published, first), before_group, sections, width);
        self.reducer.combine(body, &carry, sections);
        self.reducer.combine(body, &total, sections);
        line!(
            body,
            "and.pred {ends_section}, {ends_section}, {ends_group};"
        );
        publish(body, &total, of_section, ends_section);
        carry
    }

    /// Combines the first `count` published totals of the thread's column from `first` on, at most
    /// [`WARP`], into an accumulator. Each warp reads some of them, and hands on their combination
    /// in shared memory.
    fn combine_published(
        &self,
        body: &mut KernelBody,
        own: &TileThread,
        (published, totals): (&Published, &WarpTotals),
        (first, count): (Reg, Reg),
        accumulator: &Accumulator,
        width: usize,
    ) {
        let bits = body.bits();
        let identity = self.reducer.identity(body);
        let has_column = body.reg(RegClass::Predicate);
        line!(body, "setp.lt.u{bits} {has_column}, {}, {width};", own.lane);
        let place = |number: usize| {
            let (slot, at) = (body.index_reg(), body.index_reg());
            let is_read = body.reg(RegClass::Predicate);
            let warp = totals.warp;
            line!(
                body,
                "mad.lo.s{bits} {slot}, {warp}, {TOTALS_PER_WARP}, {number};"
            );
            line!(body, "setp.lt.u{bits} {is_read}, {slot}, {count};");
            line!(body, "and.pred {is_read}, {is_read}, {has_column};");
            line!(body, "add.s{bits} {slot}, {slot}, {first};");
            line!(
                body,
                "mad.lo.s{bits} {at}, {slot}, {width}, {};",
                own.column
            );
            (at, is_read)
        };
        let places: SmallVec<[(Reg, Reg); TOTALS_PER_WARP]> =
            (0..TOTALS_PER_WARP).map(place).collect();
        let read = published.wait_for(body, &places, &identity);
        for other in &read[1..] {
            self.reducer.combine(body, &read[0], other);
        }
        totals.store_if(body, &read[0], has_column);
        line!(body, "bar.sync 0;");
        let (_, all) = totals.combine_warps(body, self.reducer, &identity);
        self.reducer.combine(body, accumulator, &all);
    }
}
