//! Results: the numbers of `cudaError_t`.
//!
//! The numbers are those of the driver's `CUresult`, but for the errors that only the runtime has.

/// The result of an exported function before it becomes a number.
pub(crate) type Answer<T = ()> = Result<T, i32>;

pub(crate) const INVALID_VALUE: i32 = 1;
pub(crate) const INVALID_CONFIGURATION: i32 = 9;
pub(crate) const INVALID_PITCH: i32 = 12;
pub(crate) const INVALID_SYMBOL: i32 = 13;
pub(crate) const INVALID_CHANNEL_DESCRIPTOR: i32 = 20;
pub(crate) const INVALID_COPY_DIRECTION: i32 = 21;
pub(crate) const INVALID_FILTER_SETTING: i32 = 26;
pub(crate) const INSUFFICIENT_DRIVER: i32 = 35;
pub(crate) const NEEDS_NEWER_DRIVER: i32 = 36;
pub(crate) const MISSING_CONFIGURATION: i32 = 52;
pub(crate) const INVALID_DEVICE_FUNCTION: i32 = 98;
pub(crate) const INVALID_DEVICE: i32 = 101;
pub(crate) const NO_KERNEL_IMAGE: i32 = 209;
pub(crate) const SYMBOL_NOT_FOUND: i32 = 500;
pub(crate) const NOT_SUPPORTED: i32 = 801;
pub(crate) const UNKNOWN: i32 = 999;

pub(crate) fn refuse_if(condition: bool, code: i32) -> Answer {
    if condition { Err(code) } else { Ok(()) }
}
