//! Copies of rows, and several devices.

use millstream_driver::{Copy2d, FillPattern, Side2d};
use millstream_sim::SimConfig;

use crate::{
    expect::{clean, expect, expect_with},
    kernels::{BYTES, zeros},
    rig::Rig,
};

/// Two copies of 4 rows of 8 bytes, 32 bytes apart, to the same array from two streams.
fn two_rectangles(rig: &Rig, shift: u64) {
    let (one, other) = (rig.stream(), rig.stream());
    let (memory, source) = (zeros(rig, BYTES), zeros(rig, BYTES));
    for (stream, shift) in [(one, 0), (other, shift)] {
        let copy = Copy2d {
            source: Side2d::device(source, 8),
            target: Side2d::device(memory.offset(shift), 32),
            width_bytes: 8,
            height: 4,
        };
        rig.copy_2d_async(&copy, stream).unwrap();
    }
}

#[test]
fn what_lies_between_rows_is_nobody_s() {
    clean(|rig| two_rectangles(rig, 8));
    expect("rows", |rig| two_rectangles(rig, 5));
}

#[test]
fn an_event_orders_the_streams_of_two_devices() {
    let two = |rig: &Rig, waits: bool| {
        let there = rig.on_device(1);
        let (near, far) = (rig.stream(), there.stream());
        let (memory, copy) = (zeros(rig, BYTES), there.mem_alloc(BYTES).unwrap());
        rig.memset_async(memory, FillPattern::U8(1), BYTES, near)
            .unwrap();
        if waits {
            there.stream_wait_event(far, rig.recorded(near)).unwrap();
        }
        there.copy_unified_async(copy, memory, BYTES, far).unwrap();
        there.stream_synchronize(far).unwrap();
    };
    let devices = || SimConfig::new().devices(2);
    expect_with(devices(), "devices", |rig| two(rig, false));
    let rig = Rig::new(devices());
    two(&rig, true);
    rig.assert_clean();
}
