//! Rule 52: pitched (two-dimensional) copies.

use crate::rules::prelude::*;

const WIDTH: usize = 3;
const HEIGHT: usize = 4;

fn host(side: Host, pitch_bytes: usize) -> Side2d {
    Side2d::host(side.pointer.as_ptr(), pitch_bytes)
}

fn rows(target: Side2d, source: Side2d) -> Copy2d {
    Copy2d {
        source,
        target,
        width_bytes: WIDTH,
        height: HEIGHT,
    }
}

/// Returns `HEIGHT` rows at this pitch: byte `at` of row `row` is `of(row, at)`, and the padding
/// bytes are `rest`.
fn spread(pitch: usize, rest: u8, of: impl Fn(usize, usize) -> u8) -> Vec<u8> {
    let mut bytes = vec![rest; (HEIGHT - 1) * pitch + WIDTH];
    for row in 0..HEIGHT {
        for at in 0..WIDTH {
            bytes[row * pitch + at] = of(row, at);
        }
    }
    bytes
}

#[test]
fn r52_it_is_one_operation() {
    let sim = SimHarness::new(SimConfig::new().timeline(true));
    let stream = sim.stream();
    let (pinned, memory) = (sim.pinned(64), sim.mem_alloc(64).unwrap());
    sim.copy_2d_async(&rows(Side2d::device(memory, 16), host(pinned, 16)), stream)
        .unwrap();
    sim.stream_synchronize(stream).unwrap();
    let spans = sim.gpu.timeline();
    assert_eq!(spans.len(), 1);
    assert_eq!(spans[0].what, "copy (PinnedToDevice, 4 rows of 3 bytes)");
}

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn r52_every_row_must_lie_in_the_one_allocation() {
    let (memory, after) = (sim.mem_alloc(64).unwrap(), sim.mem_alloc(64).unwrap());
    let pinned = sim.pinned(64);
    let good = host(pinned, 3);
    let apart = (after.as_raw() - memory.as_raw()) as usize;
    let invalid = ResultCode::INVALID_VALUE;
    for (side, words) in [
        (
            Side2d::device(memory.offset(2), 20),
            ["row 3 of 4, a pitch of 20 bytes", "reach 1 byte beyond"],
        ),
        (
            Side2d::device(memory, 62),
            ["row 1 of 4", "reach 1 byte beyond"],
        ),
        (
            Side2d::device(memory, 100),
            ["row 1 of 4", "behind the end of"],
        ),
        (
            Side2d::device(memory, apart),
            ["row 1 of 4", "other memory"],
        ),
        (
            Side2d::device(DevicePtr::from_raw(8), 3),
            ["row 0 of 4", "the null pointer"],
        ),
    ] {
        sim.copy_2d_async(&rows(side, good), stream).fails(invalid);
        sim.assert_reported(ReportKind::OutOfBounds, &words);
        sim.copy_2d_async(&rows(good, side), stream).fails(invalid);
        sim.assert_reported(ReportKind::OutOfBounds, &words);
    }
    let beyond = host(pinned.part(2, 62), 20);
    sim.copy_2d_async(&rows(beyond, Side2d::device(memory, 3)), stream)
        .fails(invalid);
    sim.assert_reported(
        ReportKind::PartlyRegistered,
        &["row 3 of 4", "only partly page-locked"],
    );
    sim.assert_nothing_enqueued();
    sim.copy_2d_async(&rows(Side2d::device(memory, 20), good), stream)
        .expect("the last row ends inside");
    sim.copy_2d_async(&rows(Side2d::device(memory.offset(1), 20), good), stream)
        .expect("the last row ends with the allocation");
}

#[run_by(each_schedule, |sim|)]
fn r52_freed_memory_is_found_when_the_rows_are_copied() {
    let (owner, other) = (sim.stream(), sim.stream());
    let memory = sim.mem_alloc_async(64, owner).unwrap();
    sim.stream_synchronize(owner).unwrap();
    let pinned = sim.pinned(64);
    let hold = sim.hold(other);
    sim.copy_2d_async(&rows(Side2d::device(memory, 7), host(pinned, 3)), other)
        .unwrap();
    sim.mem_free_async(memory, owner).unwrap();
    sim.stream_synchronize(owner).unwrap();
    hold.release();
    sim.stream_synchronize(other)
        .fails(ResultCode::ILLEGAL_ADDRESS);
    sim.assert_reported(
        ReportKind::CopyFault,
        &["4 rows of 3 bytes", "after the end of"],
    );
}

#[run_by(with_stream, |sim, stream|)]
fn r52_pitches_that_are_too_short_or_too_long_are_refused() {
    let memory = sim.mem_alloc(64).unwrap();
    let pinned = sim.pinned(64);
    let attribute = sim.gpu.device_attribute(DEVICE, DeviceAttribute::MAX_PITCH);
    let too_long = attribute.unwrap() as usize + 1;
    for (pitch, why) in [
        (0, "a pitch of 0 bytes for rows of 3"),
        (2, "a pitch of 2 bytes for rows of 3"),
        (too_long, "of at most 2147483647"),
    ] {
        for copy in [
            rows(Side2d::device(memory, pitch), host(pinned, 3)),
            rows(Side2d::device(memory, 3), host(pinned, pitch)),
        ] {
            sim.copy_2d_async(&copy, stream)
                .fails(ResultCode::INVALID_VALUE);
            sim.assert_reported(ReportKind::BadArgument, &[why]);
        }
    }
    let tall = |height| {
        let copy = Copy2d {
            height,
            ..rows(Side2d::device(memory, 3), host(pinned, 3))
        };
        sim.copy_2d_async(&copy, stream)
            .fails(ResultCode::INVALID_VALUE);
    };
    tall(1 << 62);
    sim.assert_reported(ReportKind::OutOfBounds, &["row 21 of 4611686018427387904"]);
    tall(usize::MAX);
    sim.assert_reported(ReportKind::BadArgument, &["leave the address space"]);
}

#[run_by(with_stream, |sim, stream|)]
fn r52_rows_that_overlap_are_reported_and_rows_that_interleave_are_not() {
    let memory = sim.mem_alloc(64).unwrap();
    sim.fill(memory, 0, 64, stream);
    let from_to = |target: u64, target_pitch, source: u64, source_pitch| {
        let target = Side2d::device(memory.offset(target), target_pitch);
        let source = Side2d::device(memory.offset(source), source_pitch);
        sim.copy_2d_async(&rows(target, source), stream).unwrap();
        sim.gpu.reports().len()
    };
    assert_eq!(from_to(3, 6, 0, 6), 0, "the columns of one matrix");
    assert_eq!(from_to(0, 6, 3, 6), 0, "the other way round");
    assert_eq!(from_to(40, 6, 0, 6), 0, "apart");
    assert_eq!(from_to(2, 6, 0, 6), 1);
    assert_eq!(from_to(0, 6, 2, 6), 2);
    assert_eq!(
        from_to(30, 5, 0, 15),
        3,
        "the third row of the one, the first of the other"
    );
    sim.assert_reported(ReportKind::Overlap, &["12 bytes"]);
}

#[run_by(each_schedule_with(SimConfig::new().devices(2)), |sim|)]
fn r52_rows_go_between_devices() {
    let other = sim.on_device(1);
    let stream = sim.stream();
    let (here, there) = (sim.mem_alloc(64).unwrap(), other.mem_alloc(64).unwrap());
    sim.fill(here, 6, 64, stream);
    sim.fill(there, 1, 64, stream);
    sim.copy_2d_async(
        &rows(Side2d::device(there, 4), Side2d::device(here, 9)),
        stream,
    )
    .unwrap();
    assert_eq!(sim.read(there, 15, stream), spread(4, 1, |_, _| 6));
    sim.assert_clean();
}
