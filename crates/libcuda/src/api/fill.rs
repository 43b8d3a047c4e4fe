//! Fills of bytes and of rows. The synchronous forms are enqueued on the default stream: the
//! simulated device blocks the host only for memory that the host can access (rule 12).

use millstream_driver::{DevicePtr, FillPattern, ResultCode, StreamHandle};

use crate::{
    abi::{Address, Handle},
    call::Call,
    codes::Answer,
};

/// Enqueues a fill of rows. A row is one operation, unless the rows are contiguous.
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

macro_rules! fills {
    ($($pattern:ident($value:ty):
        $plain:ident, $plain_async:ident, $rows:ident, $rows_async:ident;)*) => {$(
        /// `cuMemsetD8`, `cuMemsetD16` or `cuMemsetD32`
        pub(crate) fn $plain(call: &Call, target: Address, value: $value, count: usize) -> Answer {
            $plain_async(call, target, value, count, default_stream(call))
        }

        /// The same with `Async`.
        pub(crate) fn $plain_async(
            call: &Call,
            target: Address,
            value: $value,
            count: usize,
            stream: Handle,
        ) -> Answer {
            let pattern = FillPattern::$pattern(value);
            fill_rows(call, (target, 0), pattern, (count, 1), stream)
        }

        /// `cuMemsetD2D8`, `cuMemsetD2D16` or `cuMemsetD2D32`
        pub(crate) fn $rows(
            call: &Call,
            target: Address,
            pitch: usize,
            value: $value,
            width: usize,
            height: usize,
        ) -> Answer {
            let stream = default_stream(call);
            $rows_async(call, target, pitch, value, width, height, stream)
        }

        /// The same with `Async`.
        pub(crate) fn $rows_async(
            call: &Call,
            target: Address,
            pitch: usize,
            value: $value,
            width: usize,
            height: usize,
            stream: Handle,
        ) -> Answer {
            let pattern = FillPattern::$pattern(value);
            fill_rows(call, (target, pitch), pattern, (width, height), stream)
        }
    )*};
}

/// Returns the default stream of the call as a handle.
fn default_stream(call: &Call) -> Handle {
    let stream: StreamHandle = call.default_stream;
    stream.as_raw()
}

fills! {
    U8(u8): bytes, bytes_async, rows_of_bytes, rows_of_bytes_async;
    U16(u16): halves, halves_async, rows_of_halves, rows_of_halves_async;
    U32(u32): words, words_async, rows_of_words, rows_of_words_async;
}
