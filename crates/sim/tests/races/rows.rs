//! Races of pitched copies, and races between several devices.

use millstream_driver::{Copy2d, Side2d};

use crate::races::prelude::*;

/// Enqueues two copies of 4 rows of 8 bytes at a pitch of 32 bytes to one array on two streams.
fn two_rectangles(sim: &SimHarness, shift: u64) {
    let (one, other) = (sim.stream(), sim.stream());
    let (memory, source) = (zeros(sim, BYTES), zeros(sim, BYTES));
    for (stream, shift) in [(one, 0), (other, shift)] {
        let copy = Copy2d {
            source: Side2d::device(source, 8),
            target: Side2d::device(memory.offset(shift), 32),
            width_bytes: 8,
            height: 4,
        };
        sim.copy_2d_async(&copy, stream).unwrap();
    }
}

#[test]
fn gaps_between_rows_are_not_accessed() {
    clean(|sim| two_rectangles(sim, 8));
    expect("rows", |sim| two_rectangles(sim, 5));
}
