//! The text and the parameters of the built-in kernels for sorts and searches.

use bytemuck::{Pod, Zeroable};
use millstream::kernel::{ModuleSource, Param, Signature};

use crate::{
    element::DType,
    product::{scalar, signature, slice},
};

/// How the words of a type become keys: see `Format` in `sort.cuh`.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Format {
    zero: u64,
    flip: u64,
    sign: u64,
    infinity: u64,
    magnitude: u64,
    descending: u64,
}

impl Format {
    pub(crate) fn of(dtype: DType, is_descending: bool) -> Self {
        let all = u64::MAX >> (64 - 8 * dtype.bytes());
        let sign = all ^ (all >> 1);
        let unsigned = Self {
            infinity: all,
            magnitude: all,
            descending: if is_descending { all } else { 0 },
            ..Self::default()
        };
        let infinity = match dtype {
            DType::Bool | DType::U8 | DType::U16 | DType::U32 | DType::U64 => return unsigned,
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => return Self { sign, ..unsigned },
            DType::F16 => u64::from(half::f16::INFINITY.to_bits()),
            DType::Bf16 => u64::from(half::bf16::INFINITY.to_bits()),
            DType::F32 => u64::from(f32::INFINITY.to_bits()),
            DType::F64 => f64::INFINITY.to_bits(),
        };
        Self {
            zero: sign,
            flip: all ^ sign,
            sign,
            infinity,
            magnitude: all ^ sign,
            ..unsigned
        }
    }
}

/// The parameter that describes a launch: see `Plan` in `sort.cuh`.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawPlan {
    pub(crate) format: Format,
    pub(crate) rows: u64,
    pub(crate) length: u64,
    pub(crate) stored: u64,
    pub(crate) words: [u64; 2],
    pub(crate) positions: [u64; 2],
    pub(crate) parts: u64,
    pub(crate) portion: u64,
    pub(crate) candidates: u64,
    pub(crate) pass: u32,
    pub(crate) passes: u32,
    pub(crate) gives_positions: u32,
    pub(crate) counts_equal: u32,
}

/// The kernels, in the order of [`KERNELS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderKernel {
    Histogram,
    Words,
    Positions,
    Rows,
    Select,
    Reselect,
    Search,
}

const SOURCE: Param = slice("source", false);
const OUT: Param = slice("out", true);
const TEMPORARY: Param = slice("temporary", true);
const WORDS: Param = slice("words", true);
const PLAN: Param = scalar::<RawPlan>("plan");

/// The kernels of each width, as declared in `sort.cuh`.
const KERNELS: &[Signature] = &[
    signature("sort_histogram", &[SOURCE, WORDS, PLAN]),
    signature("sort_words", &[SOURCE, OUT, TEMPORARY, WORDS, PLAN]),
    signature("sort_positions", &[SOURCE, OUT, TEMPORARY, WORDS, PLAN]),
    signature("sort_rows", &[SOURCE, OUT, PLAN]),
    signature("sort_select", &[SOURCE, OUT, TEMPORARY, PLAN]),
    signature("sort_reselect", &[SOURCE, OUT, TEMPORARY, PLAN]),
    signature(
        "sort_search",
        &[slice("sorted", false), slice("values", false), OUT, PLAN],
    ),
];

macro_rules! module {
    ($name:literal) => {{
        static SOURCE: ModuleSource = ModuleSource {
            module: $name,
            origin: concat!("../../../kernels/", $name, ".ptx"),
            declared: concat!(file!(), ":", line!()),
            ptx: include_str!(concat!("../../../kernels/", $name, ".ptx")),
            cuda: None,
            kernels: KERNELS,
            variables: &[],
        };
        &SOURCE
    }};
}

/// Returns the PTX module for elements of a type.
pub(crate) fn source(dtype: DType) -> &'static ModuleSource {
    match dtype.bytes() {
        1 => module!("sort_8"),
        2 => module!("sort_16"),
        4 => module!("sort_32"),
        _ => module!("sort_64"),
    }
}
