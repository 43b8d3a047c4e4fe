//! Rule 52: pitched (two-dimensional) copies.

use millstream_driver::{Copy2d, Side2d};

use crate::conformance::prelude::*;

const HEIGHT: usize = 5;

pub(crate) fn r52(dev: &DeviceHarness) -> Observation {
    for width in [1, 3, 64, 333] {
        goes_round(dev, width, |bytes| Ok(dev.pageable(bytes, 0)))?;
    }
    goes_round(dev, 3, |bytes| {
        let host = dev.managed(bytes)?;
        dev.memory_to_free(host.address());
        Ok(host)
    })?;
    page_locked_rows_are_read_when_the_copy_runs(dev)?;
    let pageable = pageable_word(dev)?;
    no_rows_are_nothing(dev)?;
    let pitches = pitches(dev)?;
    Ok(format!(
        "in each direction; page-locked: returns; pageable: {pageable}; {pitches}"
    ))
}

/// Returns `HEIGHT` rows of `width` bytes at this pitch. Each byte encodes its row and column; the
/// padding bytes are `rest`.
fn spread(width: usize, pitch: usize, rest: u8) -> Vec<u8> {
    let mut bytes = vec![rest; HEIGHT * pitch];
    for row in 0..HEIGHT {
        for at in 0..width {
            bytes[row * pitch + at] = (31 * row + at) as u8;
        }
    }
    bytes
}

fn copy(target: Side2d, source: Side2d, width_bytes: usize, height: usize) -> Copy2d {
    Copy2d {
        source,
        target,
        width_bytes,
        height,
    }
}

/// Returns the host side of a pitched copy.
fn on_host(host: Host, pitch: usize) -> Side2d {
    Side2d::host(host.pointer.as_ptr(), pitch)
}

/// Copies from the host to the device, within the device and back, with a different pitch on each
/// side.
fn goes_round(
    dev: &DeviceHarness,
    width: usize,
    host: impl Fn(usize) -> Result<Host, DriverError>,
) -> Result<(), Failed> {
    const ROOM: usize = HEIGHT * 1024;
    let stream = dev.stream()?;
    let (up, first_pitch, second_pitch, down) = (width + 2, width + 7, width, width + 13);
    let (source, target) = (host(HEIGHT * up)?, host(HEIGHT * down)?);
    target.fill(201);
    source.write(&spread(width, up, 200));
    let (first, second) = (dev.memory(ROOM)?, dev.memory(ROOM)?);
    dev.memset_async(first, FillPattern::U8(202), ROOM, stream)?;
    dev.memset_async(second, FillPattern::U8(203), ROOM, stream)?;
    let on_first = Side2d::device(first, first_pitch);
    let on_second = Side2d::device(second.offset(5), second_pitch);
    dev.copy_2d_async(&copy(on_first, on_host(source, up), width, HEIGHT), stream)?;
    dev.copy_2d_async(&copy(on_second, on_first, width, HEIGHT), stream)?;
    dev.copy_2d_async(
        &copy(on_host(target, down), on_second, width, HEIGHT),
        stream,
    )?;
    dev.stream_synchronize(stream)?;
    check(
        target.read() == spread(width, down, 201),
        &format!("rows of {width} bytes are back, with nothing between them touched"),
    )?;
    check(
        dev.read(first, HEIGHT * first_pitch, stream)? == spread(width, first_pitch, 202),
        "what lies between the rows on the device is as it was",
    )?;
    check(
        dev.read(second, 5, stream)? == [203; 5],
        "what lies before the first row is as it was",
    )
}

fn page_locked_rows_are_read_when_the_copy_runs(dev: &DeviceHarness) -> Result<(), Failed> {
    const WIDTH: usize = 100;
    const PITCH: usize = 128;
    let (stream, memory) = (dev.stream()?, dev.memory(HEIGHT * WIDTH)?);
    let pinned = dev.pinned(HEIGHT * PITCH, 9)?;
    let on_device = || Side2d::device(memory, WIDTH);
    let gate = dev.returns(dev.gate(stream)?, || {
        dev.copy_2d_async(
            &copy(on_device(), on_host(pinned, PITCH), WIDTH, HEIGHT),
            stream,
        )
    })?;
    pinned.write(&spread(WIDTH, PITCH, 9));
    gate.open();
    check(
        dev.read(memory, HEIGHT * WIDTH, stream)? == spread(WIDTH, WIDTH, 0),
        "what was written after the call was copied, and lies together on the device",
    )?;
    let gate = dev.gate(stream)?;
    dev.memset_async(memory, FillPattern::U8(77), HEIGHT * WIDTH, stream)?;
    let gate = dev.returns(gate, || {
        dev.copy_2d_async(
            &copy(on_host(pinned, PITCH), on_device(), WIDTH, HEIGHT),
            stream,
        )
    })?;
    check(
        pinned.read() == spread(WIDTH, PITCH, 9),
        "nothing has come back",
    )?;
    gate.open();
    dev.stream_synchronize(stream)?;
    let right = pinned
        .read()
        .chunks(PITCH)
        .all(|row| row[..WIDTH] == [77; WIDTH] && row[WIDTH..] == [9; PITCH - WIDTH]);
    check(
        right,
        "the rows came back, and nothing between them changed",
    )
}

fn pageable_word(dev: &DeviceHarness) -> Result<String, Failed> {
    const WIDTH: usize = 100;
    let (stream, memory) = (dev.stream()?, dev.memory(HEIGHT * WIDTH)?);
    let on_device = || Side2d::device(memory, WIDTH);
    let (source, target) = (
        dev.pageable(HEIGHT * WIDTH, 4),
        dev.pageable(HEIGHT * WIDTH, 0),
    );
    let up = dev.either(dev.gate(stream)?, || {
        dev.copy_2d_async(
            &copy(on_device(), on_host(source, WIDTH), WIDTH, HEIGHT),
            stream,
        )
    })?;
    source.fill(5);
    let up_word = up.word();
    drop(up);
    check(
        dev.holds(memory, 4, HEIGHT * WIDTH, stream)?,
        "the source was read before the return",
    )?;
    let down = dev.either(dev.gate(stream)?, || {
        dev.copy_2d_async(
            &copy(on_host(target, WIDTH), on_device(), WIDTH, HEIGHT),
            stream,
        )
    })?;
    let down_word = down.word();
    if let CallOutcome::Returned(gate) = down {
        check(target.is(0), "nothing has arrived")?;
        gate.open();
    }
    dev.stream_synchronize(stream)?;
    check(target.is(4), "the copy has run")?;
    let other = dev.pageable(HEIGHT * WIDTH, 0);
    let between = dev.either(dev.gate(stream)?, || {
        let between = copy(on_host(other, WIDTH), on_host(target, WIDTH), WIDTH, HEIGHT);
        dev.copy_2d_async(&between, stream)
    })?;
    check(other.is(4), "complete on return")?;
    let between = between.word();
    Ok(format!("{up_word} up, {down_word} down, {between} between"))
}

fn no_rows_are_nothing(dev: &DeviceHarness) -> Result<(), Failed> {
    let nowhere = Side2d::device(DevicePtr::from_raw(0), 0);
    let stream = dev.stream()?;
    for (width, height) in [(0, HEIGHT), (10, 0)] {
        dev.copy_2d_async(&copy(nowhere, nowhere, width, height), stream)?;
    }
    Ok(dev.stream_synchronize(stream)?)
}

/// Tries pitches that are documented as too short or too long, and the longest valid pitch.
fn pitches(dev: &DeviceHarness) -> Result<String, Failed> {
    const WIDTH: usize = 10;
    let stream = dev.stream()?;
    let longest = usize::try_from(dev.attribute(DeviceAttribute::MAX_PITCH)?)?;
    // Enough memory for two rows of the shortest pitch that is too long.
    let spare = dev.memory_to_keep(longest + 4096)?;
    let memory = dev.memory(4096)?;
    let here = Side2d::device(memory, WIDTH);
    let mut short = Vec::new();
    for pitch in [0, WIDTH - 1] {
        for (name, target, source) in [
            ("source", here, Side2d::device(spare, pitch)),
            ("target", Side2d::device(spare, pitch), here),
        ] {
            let answer = dev.copy_2d_async(&copy(target, source, WIDTH, 2), stream);
            short.push(format!(
                "{pitch} of a {name}: {}",
                dev.taken_or_code(answer)
            ));
        }
    }
    dev.memset_async(spare, FillPattern::U8(1), WIDTH, stream)?;
    let second_row = spare.offset(longest as u64);
    dev.memset_async(second_row, FillPattern::U8(1), WIDTH + 1, stream)?;
    let mut answers = Vec::new();
    for (pitch, height) in [(longest, 2), (longest + 1, 1), (longest + 1, 2)] {
        let side = Side2d::device(spare, pitch);
        let answer = dev.copy_2d_async(&copy(here, side, WIDTH, height), stream);
        answers.push(dev.taken_or_code(answer));
    }
    dev.stream_synchronize(stream)?;
    check(answers[0] == "taken", "a pitch of MAX_PITCH is taken")?;
    if answers[1..]
        == [
            ResultCode::INVALID_VALUE.to_string(),
            ResultCode::INVALID_VALUE.to_string(),
        ]
    {
        check(
            dev.read(memory, 2 * WIDTH, StreamHandle::LEGACY)? == [1; 2 * WIDTH],
            "and copied",
        )?;
    }
    Ok(format!(
        "for rows of {WIDTH} a pitch of {}; of MAX_PITCH: taken; of one more: {} for one row, {} \
         for two",
        short.join(", "),
        answers[1],
        answers[2]
    ))
}
