//! Rectangles of arrays: their ordering, their cost in driver calls, and rejected arguments.

use millstream::array::View2dMut;

use crate::scenarios::prelude::*;

const ROWS: usize = 40;
const COLS: usize = 50;

/// Makes an image of zeros that all streams have used, with nothing pending.
fn shared_image(streams: &[&Stream]) -> Result<Buffer<u8>> {
    let image = streams[0].zeros::<u8>(ROWS * COLS)?;
    for stream in streams {
        stream.values(&image)?;
    }
    Ok(image)
}

/// Returns the rows of an image with `left` up to column `middle`, and `right` from there on.
fn halves(middle: usize, left: u8, right: u8) -> Vec<u8> {
    let row = [vec![left; middle], vec![right; COLS - middle]].concat();
    row.repeat(ROWS)
}

#[run_by(counted_on, |harness, calls, [s1, s2, s3]|)]
pub(crate) fn a03_left_and_right_of_an_image_are_used_side_by_side() -> Result<()> {
    let mut image = shared_image(&[&s1, &s2, &s3])?;
    let gate = harness.gate(&s1);
    calls.forget();
    let (mut left, mut right) = image.view_2d_mut(ROWS, COLS)?.split_cols_mut(21);
    both(|| s1.fill_2d(&mut left, 1), || s2.fill_2d(&mut right, 2))?;
    let beside = s2.download_2d(&right)?;
    harness.assert_count(calls, "stream_wait_event", 0);
    assert_eq!(
        beside.wait()?,
        [2; ROWS * (COLS - 21)],
        "while the gate is closed"
    );
    assert_eq!(harness.opened(gate, s3.download(&image)?), halves(21, 1, 2));
    Ok(())
}

#[run_by(counted_on, |harness, calls, [s1, s2]|)]
pub(crate) fn a04_rectangles_are_ordered_exactly_where_they_overlap() -> Result<()> {
    let mut image = shared_image(&[&s1, &s2])?;
    let tile = s1.upload(&[7_u8; 10 * 10])?;
    let gate = harness.gate(&s1);
    calls.forget();
    let view = image.view_2d_mut(ROWS, COLS)?;
    s1.copy_2d(tile.view_2d(10, 10)?, view.rect_mut(20..30, 30..40)?)?;
    let view = image.view_2d(ROWS, COLS)?;
    let around = [
        (0..20, 0..COLS),
        (30..ROWS, 0..COLS),
        (0..ROWS, 0..30),
        (0..ROWS, 40..COLS),
    ];
    for (rows, cols) in around {
        let part = view.rect(rows, cols)?;
        assert_eq!(
            s2.download_2d(&part)?.wait()?,
            vec![0; part.rows() * part.cols()]
        );
        harness.assert_count(calls, "stream_wait_event", 0);
    }
    let line = s2.download(image.slice(20 * COLS..20 * COLS + 30))?;
    assert_eq!(line.wait()?, [0; 30], "a range between the rows");
    let corner = s2.download_2d(view.rect(29..31, 39..41)?)?;
    harness.assert_count(calls, "stream_wait_event", 1);
    harness.open_pending(gate, &corner);
    assert_eq!(corner.wait()?, [7, 0, 0, 0]);
    Ok(())
}

#[run_by(counted_on, |harness, _, streams: [Stream; 4]|)]
pub(crate) fn a12_tiles_are_written_on_many_streams_and_read_as_one() -> Result<()> {
    let mut image = shared_image(&[&streams[0]])?;
    let gates: Vec<_> = streams.iter().map(|stream| harness.gate(stream)).collect();
    let tiles: Vec<View2dMut<'_, u8>> = image.view_2d_mut(ROWS, COLS)?.tiles_mut(16, 16).collect();
    assert_eq!(tiles.len(), 12);
    for (number, tile) in tiles.into_iter().enumerate() {
        streams[number % 4].fill_2d(tile, number as u8)?;
    }
    let whole = harness.stream().download(&image)?;
    harness.assert_pending(&whole);
    gates.into_iter().for_each(|gate| gate.open());
    let expected: Vec<u8> = (0..ROWS * COLS)
        .map(|at| (at / COLS / 16 * 4 + at % COLS / 16) as u8)
        .collect();
    assert_eq!(whole.wait()?, expected);
    Ok(())
}

#[run_by(counted_on, |harness, _, [stream]|)]
fn b01_a_rectangle_of_pinned_memory_is_not_seen_before_it_has_arrived() -> Result<()> {
    let image = stream.upload(&halves(25, 3, 4))?;
    let mut pinned = harness.device.pinned::<u8>(2 * ROWS * COLS)?;
    let gate = harness.gate(&stream);
    let target = pinned.view_2d_pitched_mut(ROWS, 2, 2 * COLS)?;
    stream.copy_2d(image.view_2d(ROWS, COLS)?.rect(.., 24..26)?, target)?;
    let back = stream.download(&image)?;
    harness.open_pending(gate, &back);
    let expected: Vec<u8> = (0..2 * ROWS * COLS)
        .map(|at| [3, 4].get(at % (2 * COLS)).copied().unwrap_or(0))
        .collect();
    assert_eq!(*pinned.read()?, expected);
    // The reverse direction: a write after the copy does not affect it.
    pinned.write()?.fill(9);
    let mut narrow = stream.zeros::<u8>(ROWS * 3)?;
    stream.copy_2d(
        pinned.view_2d(ROWS, 2 * COLS)?.rect(.., 7..10)?,
        narrow.view_2d_mut(ROWS, 3)?,
    )?;
    pinned.write()?.fill(8);
    assert_eq!(stream.values(&narrow)?, [9; ROWS * 3]);
    Ok(())
}

#[run_by(counted_on, |_, calls, [stream]|)]
fn rectangle_operations_make_few_driver_calls() -> Result<()> {
    let mut image = stream.zeros::<u32>(ROWS * COLS)?;
    let mut small = stream.zeros::<u32>(10 * 10)?;
    calls.forget();
    stream.copy_2d(
        image.view_2d(ROWS, COLS)?.rect(..10, 5..15)?,
        small.view_2d_mut(10, 10)?,
    )?;
    assert_eq!(
        calls.counts().into_iter().collect::<Vec<_>>(),
        [("copy_2d_async", 1)]
    );
    calls.forget();
    stream.copy_2d(
        image.view_2d(ROWS, COLS)?.rect(3..5, ..)?,
        small.view_2d_mut(2, 50)?,
    )?;
    let gapless: Vec<_> = calls.counts().into_iter().collect();
    assert_eq!(gapless, [("copy_device_to_device_async", 1)]);
    calls.forget();
    stream.fill_2d(image.view_2d_mut(ROWS, COLS)?.rect_mut(.., ..7)?, 5)?;
    let wanted = [
        ("copy_2d_async", 5),
        ("copy_device_to_device_async", 1),
        ("memset_async", 1),
    ];
    let fill: Vec<_> = calls.counts().into_iter().collect();
    assert_eq!(fill, wanted, "1, 2, 4, … rows");
    calls.forget();
    let source = vec![6; 10 * 30];
    stream.upload_2d(
        &source,
        30,
        image.view_2d_mut(ROWS, COLS)?.rect_mut(..10, 20..)?,
    )?;
    assert_eq!(calls.count("copy_2d_async"), 1, "{:?}", calls.counts());
    assert_eq!(calls.count("copy_host_to_device_async"), 0);
    assert_eq!(stream.values(image.slice(..9 * COLS))?, {
        let row = [vec![5; 7], vec![0; 13], vec![6; 30]].concat();
        row.repeat(9)
    });
    Ok(())
}

#[run_by(counted_on, |harness, calls, [stream]|)]
fn b13_rectangles_that_do_not_fit_are_typed_errors_and_enqueue_nothing() -> Result<()> {
    let mut a = stream.zeros::<[u8; 3]>(12)?;
    let mut b = stream.zeros::<[u8; 3]>(12)?;
    let elsewhere = Device::simulated()?;
    let mut foreign = elsewhere.stream()?.zeros::<[u8; 3]>(12)?;
    let mut pinned = harness.device.pinned::<[u8; 3]>(12)?;
    let other_pinned = harness.device.pinned::<[u8; 3]>(12)?;
    calls.forget();

    let size = UsageErrorKind::View2dSize {
        rows: 3,
        cols: 5,
        len: 12,
    };
    assert_eq!(problem(a.view_2d(3, 5)), size);
    assert_eq!(problem(pinned.view_2d_mut(3, 5)), size);
    assert_is!(
        problem(a.view_2d(usize::MAX, 2)),
        UsageErrorKind::View2dSize { .. }
    );
    let pitch = UsageErrorKind::View2dPitch {
        rows: 3,
        cols: 3,
        pitch: 5,
        len: 12,
    };
    assert_eq!(problem(a.view_2d_pitched(3, 3, 5)), pitch);
    let far = problem(a.view_2d_pitched_mut(3, 1, usize::MAX));
    assert_is!(far, UsageErrorKind::View2dPitch { .. });
    let close = UsageErrorKind::View2dRows { cols: 3, pitch: 2 };
    assert_eq!(problem(pinned.view_2d_pitched(3, 3, 2)), close);
    let rect = UsageErrorKind::Rect {
        rows: 1..4,
        cols: 0..4,
        view_rows: 3,
        view_cols: 4,
    };
    assert_eq!(problem(a.view_2d(3, 4)?.rect(1..4, ..)), rect);
    assert_eq!(problem(a.view_2d_mut(3, 4)?.rect_mut(1..=3, ..)), rect);
    let (start, end) = (3, 1);
    let reversed = problem(a.view_2d(3, 4)?.rect(.., start..end));
    assert_is!(reversed, UsageErrorKind::Rect { .. });

    let shape = UsageErrorKind::Shape {
        source_rows: 3,
        source_cols: 4,
        target_rows: 4,
        target_cols: 3,
    };
    assert_eq!(
        problem(stream.copy_2d(a.view_2d(3, 4)?, b.view_2d_mut(4, 3)?)),
        shape
    );
    let other = problem(stream.copy_2d(a.view_2d(3, 4)?, foreign.view_2d_mut(3, 4)?));
    assert_is!(other, UsageErrorKind::OtherDevice { operand: 1, .. });
    let other = problem(stream.fill_2d(foreign.view_2d_mut(3, 4)?, [1; 3]));
    assert_is!(other, UsageErrorKind::OtherDevice { operand: 0, .. });
    let host = problem(stream.copy_2d(other_pinned.view_2d(3, 4)?, pinned.view_2d_mut(3, 4)?));
    assert_eq!(host, UsageErrorKind::BothOnHost);
    let on_host = UsageErrorKind::OnHost { operand: 0 };
    assert_eq!(
        problem(stream.fill_2d(pinned.view_2d_mut(3, 4)?, [1; 3])),
        on_host
    );
    assert_eq!(problem(stream.download_2d(pinned.view_2d(3, 4)?)), on_host);
    let short = problem(stream.upload_2d(&[[0; 3]; 11], 4, b.view_2d_mut(3, 4)?));
    assert_eq!(
        short.to_string(),
        "3 rows of 4 elements with a pitch of 4 elements do not fit in an array of 11 elements"
    );
    let narrow = problem(stream.upload_2d(&[[0; 3]; 12], 3, b.view_2d_mut(3, 4)?));
    assert_eq!(narrow, UsageErrorKind::View2dRows { cols: 4, pitch: 3 });
    calls.assert_none();

    stream.upload_2d(&[[7; 3]; 12], 4, a.view_2d_mut(3, 4)?)?;
    stream.copy_2d(a.view_2d(3, 4)?, b.view_2d_mut(3, 4)?)?;
    stream.copy_2d(
        b.view_2d(3, 4)?.rect(.., 1..3)?,
        pinned.view_2d_mut(3, 4)?.rect_mut(.., ..2)?,
    )?;
    assert_eq!(pinned.read()?[4..8], [[7; 3], [7; 3], [0; 3], [0; 3]]);
    Ok(())
}

#[run_by(counted_on, |harness, _, [stream]|)]
fn b15_rectangles_without_elements_and_of_single_rows_and_columns() -> Result<()> {
    let mut empty = stream.upload::<u16>(&[])?;
    let mut numbers = stream.upload(&[1_u16, 2, 3, 4, 5, 6])?;
    let mut pinned = harness.device.pinned::<u16>(0)?;
    for (rows, cols) in [(0, 0), (0, 7), (7, 0), (usize::MAX, 0)] {
        stream.copy_2d(empty.view_2d(rows, cols)?, pinned.view_2d_mut(rows, cols)?)?;
        stream.fill_2d(empty.view_2d_mut(rows, cols)?, 1)?;
        stream.upload_2d(&[], 0, empty.view_2d_mut(rows, cols)?)?;
        assert_eq!(
            stream.download_2d(empty.view_2d(rows, cols)?)?.wait()?,
            [0; 0]
        );
        assert_eq!(empty.view_2d_mut(rows, cols)?.tiles_mut(2, 2).count(), 0);
    }
    let nothing = numbers.view_2d(2, 3)?.rect(1..1, 2..)?;
    assert_eq!(stream.download_2d(nothing)?.wait()?, [0; 0]);
    let far = empty.view_2d_pitched_mut(1 << 40, 0, usize::MAX)?;
    let (low, high) = far.rect_mut(1 << 39.., ..)?.split_rows_mut(5);
    assert!(low.is_empty() && high.is_empty() && low.pitch() > 1 << 40);

    let row = numbers.view_2d_pitched(1, 2, usize::MAX)?;
    assert_eq!(stream.download_2d(row)?.wait()?, [1, 2]);
    stream.fill_2d(numbers.view_2d_mut(2, 3)?.rect_mut(.., 1..2)?, 9)?;
    let column = numbers.view_2d(2, 3)?.rect(.., 1..=1)?;
    assert_eq!(stream.download_2d(column)?.wait()?, [9, 9]);
    let (none, all) = numbers.view_2d_mut(3, 2)?.split_cols_mut(0);
    assert!(none.is_empty());
    stream.fill_2d(all, 4)?;
    assert_eq!(stream.values(&numbers)?, [4; 6]);
    Ok(())
}

#[run_by(counted_on, |_, _, [stream]|)]
fn disjoint_rectangles_of_one_array_can_be_copied() -> Result<()> {
    let mut image = stream.upload(&halves(25, 1, 2))?;
    let (left, mut right) = image.view_2d_mut(ROWS, COLS)?.split_cols_mut(25);
    stream.copy_2d(&left, &mut right)?;
    assert_eq!(stream.values(&image)?, halves(25, 1, 1));
    Ok(())
}

#[run_by(once, |harness|)]
fn b15_rows_further_apart_than_the_driver_copies_at_once() -> Result<()> {
    const PITCH: usize = 1 << 31;
    // Sizes do not depend on the schedule, and there is not enough memory to repeat this under
    // each.
    let stream = harness.device.stream()?;
    let mut far = stream.zeros::<u8>(PITCH + 4)?;
    stream.upload_2d(&[1, 2, 3, 4], 2, far.view_2d_pitched_mut(2, 2, PITCH)?)?;
    stream.fill_2d(far.slice_mut(2..).view_2d_pitched_mut(2, 1, PITCH)?, 5)?;
    let view = far.view_2d_pitched(2, 4, PITCH)?;
    assert_eq!(stream.download_2d(view)?.wait()?, [1, 2, 5, 0, 3, 4, 5, 0]);
    Ok(())
}
