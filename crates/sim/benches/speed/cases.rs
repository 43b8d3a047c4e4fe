//! The cases of the benchmark: kernels with their launches.

/// An argument of a kernel.
#[derive(Clone, Copy)]
pub(crate) enum Arg {
    /// An array of this many bytes.
    Array(usize),
    Word(u32),
    Float(f32),
    Double(f64),
}

/// A launch of a kernel.
pub(crate) struct Case {
    /// The PTX file, without its extension, from the folder of the benchmark or of `kernels`.
    pub(crate) file: &'static str,
    pub(crate) kernel: &'static str,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) args: &'static [Arg],
    /// The number of launches timed together.
    pub(crate) repeats: u32,
}

use Arg::{Array, Double, Float, Word};

const MIB: Arg = Array(1 << 20);
const MIB_32: Arg = Array(1 << 25);

impl Case {
    /// Returns the name of the kernel in its module.
    pub(crate) fn entry(&self) -> &'static str {
        match self.kernel {
            "vecadd_32" | "launch" | "start" => "vecadd",
            kernel => kernel,
        }
    }
}

/// The benchmarked launches, each of some millions of thread-instructions.
pub(crate) const CASES: [Case; 28] = [
    case(
        "nbody",
        "nbody",
        [4, 1, 1],
        [128, 1, 1],
        &[Array(8192), Array(8192), Word(512), Float(0.01)],
    ),
    case(
        "mandel",
        "mandel",
        [8, 8, 1],
        [16, 16, 1],
        &[
            Array(65536),
            Word(128),
            Word(128),
            Float(-2.0),
            Float(-1.25),
            Float(0.02),
            Word(100),
        ],
    ),
    case(
        "mandel",
        "mandel_d",
        [8, 8, 1],
        [16, 16, 1],
        &[
            Array(16384),
            Word(128),
            Word(128),
            Double(-2.0),
            Double(-1.25),
            Double(0.02),
            Word(100),
        ],
    ),
    case(
        "matmul",
        "matmul",
        [8, 8, 1],
        [16, 16, 1],
        &[
            Array(65536),
            Array(65536),
            Array(65536),
            Word(128),
            Word(128),
            Word(128),
        ],
    ),
    case(
        "stencil",
        "stencil",
        [32, 16, 1],
        [16, 16, 1],
        &[
            Array(524_288),
            Array(524_288),
            Word(512),
            Word(256),
            Float(0.1),
        ],
    ),
    flat(
        "histogram",
        "histogram",
        64,
        &[Array(262_144), Array(1024), Word(262_144)],
    ),
    flat(
        "histogram",
        "cas_max",
        16,
        &[Array(16_384), Array(16), Word(4096)],
    ),
    flat(
        "reduce",
        "reduce",
        64,
        &[Array(2_097_152), Array(4), Word(524_288)],
    ),
    case(
        "transpose",
        "transpose",
        [16, 16, 1],
        [32, 8, 1],
        &[Array(1_048_576), Array(1_048_576), Word(512), Word(512)],
    ),
    flat(
        "saxpy",
        "saxpy",
        1024,
        &[
            Word(262_144),
            Float(2.0),
            Array(1_048_576),
            Array(1_048_576),
        ],
    ),
    flat(
        "photo",
        "luminance",
        1024,
        &[Array(786_432), Array(262_144), Word(262_144)],
    ),
    case(
        "photo",
        "blur_rows",
        [16, 32, 1],
        [32, 8, 1],
        &[Array(131_072), Array(262_144), Word(512), Word(256)],
    ),
    case(
        "photo",
        "blur_columns",
        [16, 32, 1],
        [32, 8, 1],
        &[Array(262_144), Array(131_072), Word(512), Word(256)],
    ),
    case(
        "photo",
        "sobel",
        [16, 32, 1],
        [32, 8, 1],
        &[Array(131_072), Array(131_072), Word(512), Word(256)],
    ),
    flat(
        "photo",
        "histogram256",
        64,
        &[Array(262_144), Array(1024), Word(262_144)],
    ),
    flat("speed", "vecadd", 1024, &[MIB, MIB, MIB, Word(1 << 18)]),
    flat(
        "speed",
        "vecadd_32",
        32_768,
        &[MIB_32, MIB_32, MIB_32, Word(1 << 23)],
    ),
    flat("speed", "chain", 1024, &[MIB, MIB, Word(1 << 18)]),
    flat("speed", "fma32", 64, &[MIB, Word(64)]),
    flat("speed", "fma64", 64, &[MIB, Word(64)]),
    flat("speed", "gather", 64, &[MIB, MIB, Word(32), Word(1 << 18)]),
    flat("speed", "divergent", 64, &[MIB, Word(64)]),
    flat("speed", "exponentials", 64, &[MIB, MIB, Word(1 << 14)]),
    flat("speed", "powers", 64, &[MIB, MIB, Word(1 << 14)]),
    flat("speed", "sines", 64, &[MIB, MIB, Word(1 << 14)]),
    flat("speed", "fast", 64, &[MIB, MIB, Word(1 << 14)]),
    Case {
        repeats: 256,
        ..case(
            "speed",
            "launch",
            [1, 1, 1],
            [32, 1, 1],
            &[MIB, MIB, MIB, Word(32)],
        )
    },
    flat("speed", "start", 1, &[MIB, MIB, MIB, Word(32)]),
];

const fn case(
    file: &'static str,
    kernel: &'static str,
    grid: [u32; 3],
    block: [u32; 3],
    args: &'static [Arg],
) -> Case {
    Case {
        file,
        kernel,
        grid,
        block,
        args,
        repeats: 1,
    }
}

/// Creates a case with blocks of 256 threads.
const fn flat(file: &'static str, kernel: &'static str, blocks: u32, args: &'static [Arg]) -> Case {
    case(file, kernel, [blocks, 1, 1], [256, 1, 1], args)
}
