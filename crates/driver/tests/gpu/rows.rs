//! Copies of rows that lie a pitch apart (rule 52).

#![allow(unsafe_code, reason = "the seam's methods trust their caller")]

use millstream_driver::{Copy2d, DevicePtr, Driver, FillPattern, ResultCode, Side2d};

use crate::rig::{Gpu, Outcome, check};

const HEIGHT: usize = 5;

/// `HEIGHT` rows of `width` bytes a pitch apart, each byte telling row and place; what lies between is `rest`.
fn spread(width: usize, pitch: usize, rest: u8) -> Vec<u8> {
    let mut bytes = vec![rest; HEIGHT * pitch];
    for row in 0..HEIGHT {
        for at in 0..width {
            bytes[row * pitch + at] = (31 * row + at) as u8;
        }
    }
    bytes
}

fn enqueue(gpu: &Gpu, target: Side2d, source: Side2d, width_bytes: usize) -> Outcome {
    let copy = Copy2d {
        source,
        target,
        width_bytes,
        height: HEIGHT,
    };
    // SAFETY: the tests pass rows in memory of their own, and synchronise before they touch or free it.
    Ok(unsafe { gpu.cuda.copy_2d_async(gpu.context, &copy, gpu.stream) }?)
}

fn fill(gpu: &Gpu, target: DevicePtr, value: u8, bytes: usize) -> Outcome {
    let pattern = FillPattern::U8(value);
    // SAFETY: the tests pass an allocation of at least this size.
    Ok(unsafe {
        gpu.cuda
            .memset_async(gpu.context, target, pattern, bytes, gpu.stream)
    }?)
}

/// Up from the host, across the device and down again, with other pitches on every side.
pub(crate) fn rows_are_copied_in_each_direction(gpu: &Gpu) -> Outcome {
    const ROOM: usize = HEIGHT * 1024;
    for width in [1, 3, 64, 333] {
        let (up, first_pitch, second_pitch, down) = (width + 2, width + 7, width, width + 13);
        let mut source = spread(width, up, 200);
        let mut target = vec![201; HEIGHT * down];
        let (first, second) = (gpu.alloc(ROOM)?, gpu.alloc(ROOM)?);
        fill(gpu, first, 202, ROOM)?;
        fill(gpu, second, 203, ROOM)?;
        let second_start = second.offset(5);
        let on_first = Side2d::device(first, first_pitch);
        let on_second = Side2d::device(second_start, second_pitch);
        enqueue(gpu, on_first, Side2d::host(source.as_mut_ptr(), up), width)?;
        enqueue(gpu, on_second, on_first, width)?;
        enqueue(gpu, Side2d::host(target.as_mut_ptr(), down), on_second, width)?;
        gpu.synchronize()?;
        check(
            target == spread(width, down, 201),
            &format!("rows of {width} bytes are back, with nothing between them touched"),
        )?;
        check(
            gpu.read::<u8>(first, HEIGHT * first_pitch)? == spread(width, first_pitch, 202),
            "what lies between the rows on the device is as it was",
        )?;
        check(
            gpu.read::<u8>(second, 5)? == [203; 5],
            "what lies before the first row is as it was",
        )?;
        gpu.free(first)?;
        gpu.free(second)?;
    }
    gpu.synchronize()
}

pub(crate) fn page_locked_rows_are_read_when_the_copy_runs(gpu: &Gpu) -> Outcome {
    const WIDTH: usize = 100;
    const PITCH: usize = 128;
    let Gpu { cuda, context, .. } = gpu;
    // SAFETY: the context is retained, and the size is not 0.
    let pinned = unsafe { cuda.host_alloc(*context, HEIGHT * PITCH) }?;
    let rows = spread(WIDTH, PITCH, 9);
    // SAFETY: the memory has this size, and no work uses it yet.
    unsafe {
        pinned
            .as_ptr()
            .copy_from_nonoverlapping(rows.as_ptr(), rows.len())
    };
    let device = gpu.alloc(HEIGHT * WIDTH)?;
    let on_device = Side2d::device(device, WIDTH);
    enqueue(gpu, on_device, Side2d::host(pinned.as_ptr(), PITCH), WIDTH)?;
    check(
        gpu.read::<u8>(device, HEIGHT * WIDTH)? == spread(WIDTH, WIDTH, 0),
        "the rows lie together on the device",
    )?;
    fill(gpu, device, 77, HEIGHT * WIDTH)?;
    enqueue(gpu, Side2d::host(pinned.as_ptr(), PITCH), on_device, WIDTH)?;
    gpu.synchronize()?;
    // SAFETY: the memory has this size and is written whole, and no work uses it any more.
    let back = unsafe { std::slice::from_raw_parts(pinned.as_ptr(), HEIGHT * PITCH) };
    let right = back
        .chunks(PITCH)
        .all(|row| row[..WIDTH] == [77; WIDTH] && row[WIDTH..] == [9; PITCH - WIDTH]);
    // SAFETY: freed once, nothing uses it any more.
    unsafe { cuda.host_free(*context, pinned) }?;
    gpu.free(device)?;
    check(right, "the rows came back, and nothing between them changed")
}

pub(crate) fn short_pitches_are_refused_and_no_rows_are_nothing(gpu: &Gpu) -> Outcome {
    let device = gpu.alloc(4096)?;
    let (short, long) = (Side2d::device(device, 9), Side2d::device(device.offset(2048), 10));
    for (target, source) in [(short, long), (long, short)] {
        let copy = Copy2d {
            source,
            target,
            width_bytes: 10,
            height: HEIGHT,
        };
        // SAFETY: all rows lie in the allocation; that the pitch is too short is what the call is to say.
        let refused = unsafe { gpu.cuda.copy_2d_async(gpu.context, &copy, gpu.stream) };
        check(
            refused.is_err_and(|e| e.call() == "cuMemcpy2DAsync" && e.code() == ResultCode::INVALID_VALUE),
            "a pitch shorter than the width",
        )?;
    }
    let nowhere = Side2d::device(DevicePtr::from_raw(0), 0);
    for (width_bytes, height) in [(0, HEIGHT), (10, 0)] {
        let copy = Copy2d {
            source: nowhere,
            target: nowhere,
            width_bytes,
            height,
        };
        // SAFETY: there is no byte to copy.
        unsafe { gpu.cuda.copy_2d_async(gpu.context, &copy, gpu.stream) }?;
    }
    gpu.free(device)?;
    gpu.synchronize()
}
