//! Dispatch to the build of the interpreter loop that fits the processor.
#![allow(unsafe_code, reason = "calls code for optional processor features")]

use super::observer::{NoObserver, Observer};
#[cfg(target_arch = "x86_64")]
use super::processor::has_vectors;
use super::step::{self, WarpFault};
use super::warp::{Warp, WarpStatus};
use super::warp_context::WarpContext;

/// Runs the warp until it pauses, reporting its events to the observer.
///
/// An active observer takes far longer than the interpreter loop itself, so the observed loop has a
/// single build, for any processor.
pub(super) fn run<O: Observer>(
    warp: &mut Warp,
    shared: &mut WarpContext<'_, '_>,
    observer: &mut O,
) -> Result<WarpStatus, WarpFault> {
    if O::ON {
        step::run(warp, shared, observer)
    } else {
        run_unobserved(warp, shared)
    }
}

/// Runs the warp until it pauses, without an observer.
fn run_unobserved(
    warp: &mut Warp,
    shared: &mut WarpContext<'_, '_>,
) -> Result<WarpStatus, WarpFault> {
    #[cfg(target_arch = "x86_64")]
    if has_vectors() {
        // SAFETY: the processor has all the features that `run_avx2` is compiled for.
        return unsafe { run_avx2(warp, shared) };
    }
    step::run(warp, shared, &mut NoObserver)
}

/// The interpreter loop compiled for 256-bit vectors and fused multiply-add.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn run_avx2(warp: &mut Warp, shared: &mut WarpContext<'_, '_>) -> Result<WarpStatus, WarpFault> {
    step::run(warp, shared, &mut NoObserver)
}
