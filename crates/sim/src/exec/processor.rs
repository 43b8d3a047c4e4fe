//! The optional features of the processor that the interpreter is compiled for.
#![cfg(target_arch = "x86_64")]

/// Returns whether the processor has all of avx2, fma, bmi1, bmi2, lzcnt and popcnt.
#[inline(always)]
pub(super) fn has_vectors() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("fma")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
        && std::arch::is_x86_feature_detected!("lzcnt")
        && std::arch::is_x86_feature_detected!("popcnt")
}
