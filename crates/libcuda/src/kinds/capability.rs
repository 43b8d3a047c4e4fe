//! Limits that depend on the compute capability alone.
//!
//! The source is the CUDA C++ Programming Guide of CUDA 13.0, section "Features and Technical
//! Specifications", table 27, for compute capabilities from 7.5; and the same table of CUDA 12's
//! guide for 7.0. The ratio of precisions is that of the results per clock and multiprocessor in
//! the guide's section "Arithmetic Instructions".

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

/// Declares limits. A row has the fields in their order.
macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident = $compute_capability:expr, $blocks:expr, $threads:expr,
       $shared_kib:expr, $shared_opt_in_kib:expr, $shared_reserved_kib:expr,
       $texture_1d_linear:expr, $single_to_double:expr;)*) => {$(
        $(#[$doc])*
        pub(super) const $name: Limits = Limits {
            compute_capability: $compute_capability,
            blocks: $blocks,
            threads: $threads,
            shared_kib: $shared_kib,
            shared_opt_in_kib: $shared_opt_in_kib,
            shared_reserved_kib: $shared_reserved_kib,
            texture_1d_linear: $texture_1d_linear,
            single_to_double: $single_to_double,
        };
    )*};
}

limits! {
    /// Compute capability 7.0. The width of a texture in linear memory is that of a published list
    /// of the attributes of a Tesla P100, because sources for 7.0 differ.
    CC_7_0 = (7, 0), 32, 2048, 96, 96, 0, 1 << 27, 64 / 32;
    /// Compute capability 7.5.
    CC_7_5 = (7, 5), 16, 1024, 64, 64, 0, 1 << 28, 64 / 2;
    /// Compute capability 8.0.
    CC_8_0 = (8, 0), 32, 2048, 164, 163, 1, 1 << 28, 64 / 32;
    /// Compute capability 8.9.
    CC_8_9 = (8, 9), 24, 1536, 100, 99, 1, 1 << 28, 128 / 2;
    /// Compute capability 9.0.
    CC_9_0 = (9, 0), 32, 2048, 228, 227, 1, 1 << 28, 128 / 64;
}
