//! Fills of bytes and of rows. The synchronous forms are enqueued on the default stream: the
//! simulated device blocks the host only for memory that the host can access (rule 12).

use millstream_driver::{DevicePtr, FillPattern, ResultCode};

use crate::{
    abi::{Address, Handle},
    call::Call,
    codes::Answer,
    export::exports,
};

/// Enqueues a fill of rows; stream 0 is the default stream of the call. A row is one operation,
/// unless the rows are contiguous.
fn fill_rows(
    call: &Call,
    (target, pitch): (Address, usize),
    pattern: FillPattern,
    (width, height): (usize, usize),
    stream: Handle,
) -> Answer {
    let (context, stream) = call.stream(stream)?;
    let process = call.process()?;
    let row_bytes = width.checked_mul(pattern.size());
    let row_bytes = row_bytes.ok_or(ResultCode::INVALID_VALUE)?;
    if height > 1 && (pitch < row_bytes || !pitch.is_multiple_of(pattern.size())) {
        return Err(ResultCode::INVALID_VALUE);
    }
    let (count, rows) = if pitch == row_bytes || height <= 1 {
        (width.checked_mul(height), 1)
    } else {
        (Some(width), height)
    };
    let count = count.ok_or(ResultCode::INVALID_VALUE)?;
    for row in 0..rows {
        let first = DevicePtr::from_raw(target.wrapping_add((row * pitch) as u64));
        process.memset_async(context, first, pattern, count, stream)?;
    }
    Ok(())
}

/// Exports the functions of each type of elements: a fill of one row and one of several, and both
/// with a stream. Behind each symbol is that for per-thread default streams.
macro_rules! fills {
    ($($ty:ident $pattern:ident
       [$row:ident $row_ptds:ident] [$row_async:ident $row_ptsz:ident]
       [$rows:ident $rows_ptds:ident] [$rows_async:ident $rows_ptsz:ident])*) => {
        exports! {$(
            [$row, $row_ptds per_thread]
            fn _(call, target: Address, value: $ty, count: usize) {
                fill_rows(call, (target, 0), FillPattern::$pattern(value), (count, 1), 0)
            }

            [$row_async, $row_ptsz per_thread]
            fn _(call, target: Address, value: $ty, count: usize, stream: Handle) {
                fill_rows(call, (target, 0), FillPattern::$pattern(value), (count, 1), stream)
            }

            [$rows, $rows_ptds per_thread]
            fn _(call, target: Address, pitch: usize, value: $ty, width: usize, height: usize) {
                let pattern = FillPattern::$pattern(value);
                fill_rows(call, (target, pitch), pattern, (width, height), 0)
            }

            [$rows_async, $rows_ptsz per_thread]
            fn _(
                call, target: Address, pitch: usize, value: $ty, width: usize, height: usize,
                stream: Handle
            ) {
                let pattern = FillPattern::$pattern(value);
                fill_rows(call, (target, pitch), pattern, (width, height), stream)
            }
        )*}
    };
}

fills! {
    u8 U8
        [cuMemsetD8_v2 cuMemsetD8_v2_ptds] [cuMemsetD8Async cuMemsetD8Async_ptsz]
        [cuMemsetD2D8_v2 cuMemsetD2D8_v2_ptds] [cuMemsetD2D8Async cuMemsetD2D8Async_ptsz]
    u16 U16
        [cuMemsetD16_v2 cuMemsetD16_v2_ptds] [cuMemsetD16Async cuMemsetD16Async_ptsz]
        [cuMemsetD2D16_v2 cuMemsetD2D16_v2_ptds] [cuMemsetD2D16Async cuMemsetD2D16Async_ptsz]
    u32 U32
        [cuMemsetD32_v2 cuMemsetD32_v2_ptds] [cuMemsetD32Async cuMemsetD32Async_ptsz]
        [cuMemsetD2D32_v2 cuMemsetD2D32_v2_ptds] [cuMemsetD2D32Async cuMemsetD2D32Async_ptsz]
}
