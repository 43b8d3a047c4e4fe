//! Totals of the tiles of columns, combined as those of the tiles of a row (`look_back.rs`).
//!
//! Each warp reads an eighth of the totals of a group or section, all at once. Each lane waits for
//! the totals of its own column, so that no lane hands on a total without a barrier.

use smallvec::SmallVec;

use crate::emit::{
    body::{Accumulator, KernelBody, Reg, WARP, WARPS, WarpTotals, copy, index, line, test},
    scan::{
        columns::{TileThread, Tiling},
        look_back::part_of,
        published::{Published, Requested},
        rows::ScanGenerator,
    },
};

/// The number of totals of a group or section that each warp reads.
const TOTALS_PER_WARP: usize = WARP / WARPS;

impl ScanGenerator<'_> {
    /// Publishes the totals of the tile and waits for those before it. Returns the combination of
    /// all elements of the thread's column before the tile.
    pub(crate) fn carry(
        &self,
        body: &mut KernelBody,
        tiling: &Tiling,
        own: &TileThread,
        (published, [first_totals, second_totals]): (&Published, [&WarpTotals; 2]),
        own_total: &Accumulator,
    ) -> Accumulator {
        let width = tiling.width;
        let identity = self.reducer.identity(body);
        let tiles = body.named("tiles", tiling.totals.tiles);
        let groups = body.named("groups", tiling.totals.groups);
        let of_line = body.named("totals", tiling.totals.count());
        let of_tile = index!(body; "mul.lo.s# {}, {of_line}", own.line);
        let of_group = index!(body; "add.s# {of_tile}, {tiles}");
        let of_section = index!(body; "add.s# {of_group}, {groups}");
        line!(body; "add.s# {of_tile}, {of_tile}, {};", own.tile);
        let publishes = test!(body; "lt.u# {}, {width}", own.thread);
        let publish = |body: &mut KernelBody, total: &Accumulator, number: Reg, holds: Reg| {
            let at = index!(body; "mad.lo.s# {number}, {width}, {}", own.column);
            published.publish(body, total, at, holds);
        };
        publish(body, own_total, of_tile, publishes);

        let (group, in_group, ends_group) = part_of(body, own.tile);
        line!(body; "sub.s# {of_tile}, {of_tile}, {in_group};");
        line!(body; "add.s# {of_group}, {of_group}, {group};");
        let (section, in_section, ends_section) = part_of(body, group);
        let [first_group, before] = body.index_regs();
        line!(body; "sub.s# {first_group}, {of_group}, {in_section};");
        line!(body; "add.s# {of_section}, {of_section}, {section};");
        let has_section = test!(body; "ne.u# {section}, 0");
        line!(body; "sub.s# {before}, {of_section}, 1;");
        let at = index!(body; "mad.lo.s# {before}, {width}, {}", own.column);
        let mut request = |(first, count)| {
            let places = places_of_warp(body, own, (first, count), first_totals.warp, width);
            published.request(body, &places, &identity)
        };
        let in_group = request((of_tile, in_group));
        let before_group = request((first_group, in_section));
        let before_section = published.request(body, &[(at, has_section)], &identity);

        let carry = copy(body, &identity);
        let has_column = test!(body; "lt.u# {}, {width}", own.lane);
        let combine = |body: &mut KernelBody, requested, totals, into: &Accumulator| {
            self.combine_received(body, (published, totals), requested, has_column, into);
        };
        combine(body, &in_group, second_totals, &carry);
        let total = copy(body, &carry);
        self.reducer.combine(body, &total, own_total);
        line!(body; "and.pred {ends_group}, {ends_group}, {publishes};");
        publish(body, &total, of_group, ends_group);

        let sections = &published.receive(body, &before_section, &identity)[0];
        combine(body, &before_group, first_totals, sections);
        self.reducer.combine(body, &carry, sections);
        self.reducer.combine(body, &total, sections);
        line!(body; "and.pred {ends_section}, {ends_section}, {ends_group};");
        publish(body, &total, of_section, ends_section);
        carry
    }

    /// Waits for the requested totals of the thread's column, which the warps share, and combines
    /// them into an accumulator. Each warp hands on their combination in shared memory.
    fn combine_received(
        &self,
        body: &mut KernelBody,
        (published, totals): (&Published, &WarpTotals),
        requested: &Requested,
        has_column: Reg,
        accumulator: &Accumulator,
    ) {
        let identity = self.reducer.identity(body);
        let read = published.receive(body, requested, &identity);
        for other in &read[1..] {
            self.reducer.combine(body, &read[0], other);
        }
        totals.store_if(body, &read[0], has_column);
        line!(body; "bar.sync 0;");
        let (_, all) = totals.combine_warps(body, self.reducer, &identity);
        self.reducer.combine(body, accumulator, &all);
    }
}

/// Returns the places of the totals of a thread's column that its warp reads, of the first `count`
/// from `first` on, at most [`WARP`], and whether the thread reads each.
fn places_of_warp(
    body: &mut KernelBody,
    own: &TileThread,
    (first, count): (Reg, Reg),
    warp: Reg,
    width: usize,
) -> SmallVec<[(Reg, Reg); TOTALS_PER_WARP]> {
    let has_column = test!(body; "lt.u# {}, {width}", own.lane);
    let place = |number: usize| {
        let slot = index!(body; "mad.lo.s# {warp}, {TOTALS_PER_WARP}, {number}");
        let is_read = test!(body; "lt.u# {slot}, {count}");
        line!(body; "and.pred {is_read}, {is_read}, {has_column};");
        line!(body; "add.s# {slot}, {slot}, {first};");
        let at = index!(body; "mad.lo.s# {slot}, {width}, {}", own.column);
        (at, is_read)
    };
    (0..TOTALS_PER_WARP).map(place).collect()
}
