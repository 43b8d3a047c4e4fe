//! Limits that depend on the compute capability alone.
//!
//! The source is the CUDA C++ Programming Guide of CUDA 13.0, section "Features and Technical
//! Specifications", table 27, for compute capabilities from 7.5; and the same table of CUDA 12's
//! guide for 7.0. The ratio of precisions is that of the results per clock and multiprocessor in
//! the guide's section "Arithmetic Instructions".

/// The limits of a compute capability.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// The major and the minor version.
    pub(super) compute_capability: (i32, i32),
    /// The maximum number of resident blocks of a multiprocessor.
    pub(super) blocks: i32,
    /// The maximum number of resident threads of a multiprocessor.
    pub(super) threads: i32,
    /// The shared memory of a multiprocessor.
    pub(super) shared_kib: i32,
    /// The maximum shared memory of a block whose kernel has opted in to more than 48 KiB.
    pub(super) shared_opt_in_kib: i32,
    /// The shared memory of each block that the driver keeps for itself: 1 KiB from 8.0, as the
    /// guide's sections on compute capabilities 8.x and 9.0 say.
    pub(super) shared_reserved_kib: i32,
    /// The maximum width of a 1-D texture in linear memory, in elements.
    pub(super) texture_1d_linear: i32,
    /// The throughput of single precision as a multiple of that of double precision.
    pub(super) single_to_double: i32,
}

/// Compute capability 7.0. The width of a texture in linear memory is that of a published list of
/// the attributes of a Tesla P100, because sources for 7.0 differ.
pub(super) const CC_7_0: Limits = Limits {
    compute_capability: (7, 0),
    blocks: 32,
    threads: 2048,
    shared_kib: 96,
    shared_opt_in_kib: 96,
    shared_reserved_kib: 0,
    texture_1d_linear: 1 << 27,
    single_to_double: 64 / 32,
};

/// Compute capability 7.5.
pub(super) const CC_7_5: Limits = Limits {
    compute_capability: (7, 5),
    blocks: 16,
    threads: 1024,
    shared_kib: 64,
    shared_opt_in_kib: 64,
    shared_reserved_kib: 0,
    texture_1d_linear: 1 << 28,
    single_to_double: 64 / 2,
};

/// Compute capability 8.0.
pub(super) const CC_8_0: Limits = Limits {
    compute_capability: (8, 0),
    blocks: 32,
    threads: 2048,
    shared_kib: 164,
    shared_opt_in_kib: 163,
    shared_reserved_kib: 1,
    texture_1d_linear: 1 << 28,
    single_to_double: 64 / 32,
};

/// Compute capability 8.9.
pub(super) const CC_8_9: Limits = Limits {
    compute_capability: (8, 9),
    blocks: 24,
    threads: 1536,
    shared_kib: 100,
    shared_opt_in_kib: 99,
    shared_reserved_kib: 1,
    texture_1d_linear: 1 << 28,
    single_to_double: 128 / 2,
};

/// Compute capability 9.0.
pub(super) const CC_9_0: Limits = Limits {
    compute_capability: (9, 0),
    blocks: 32,
    threads: 2048,
    shared_kib: 228,
    shared_opt_in_kib: 227,
    shared_reserved_kib: 1,
    texture_1d_linear: 1 << 28,
    single_to_double: 128 / 64,
};
