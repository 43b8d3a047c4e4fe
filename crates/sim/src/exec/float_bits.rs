//! NaNs and subnormals as a GPU has them.

/// The NaN that every single-precision operation returns.
pub(super) const NAN_32: u32 = 0x7fff_ffff;

/// Returns the bits of a result: a GPU's single-precision NaN has no payload.
#[inline(always)]
pub(super) fn canonical(value: f32) -> u32 {
    if value.is_nan() {
        NAN_32
    } else {
        value.to_bits()
    }
}

/// Flushes a subnormal to a zero of the same sign.
#[inline(always)]
pub(super) fn flush(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 {
        bits & 0x8000_0000
    } else {
        bits
    }
}

/// Returns the first NaN among the operands, made quiet, which a double-precision operation
/// propagates; `None` if no operand is a NaN.
#[inline(always)]
pub(super) fn nan_double(operands: [u64; 3]) -> Option<u64> {
    let first = operands
        .into_iter()
        .find(|bits| f64::from_bits(*bits).is_nan());
    first.map(|bits| bits | 1 << 51)
}
