//! The text and the parameters of the built-in kernels for matrix products.

use millstream::kernel::{ModuleSource, Param, ParamKind, Signature};

use crate::{
    element::DType,
    product::launch_plan::{BuiltinKernel, RawShape},
};

pub(crate) const fn slice(name: &'static str, writable: bool) -> Param {
    Param {
        name,
        kind: ParamKind::Slice { writable },
    }
}

pub(crate) const fn scalar<T>(name: &'static str) -> Param {
    Param {
        name,
        kind: ParamKind::Scalar {
            size: size_of::<T>(),
            align: align_of::<T>(),
        },
    }
}

const PRODUCT: &[Param] = &[
    slice("a", false),
    slice("b", false),
    slice("out", true),
    scalar::<RawShape>("shape"),
];

const SUM: &[Param] = &[
    slice("parts", false),
    slice("out", true),
    scalar::<u64>("batches"),
    scalar::<u64>("splits"),
    scalar::<u64>("length"),
    scalar::<u64>("lanes"),
];

pub(crate) const fn signature(name: &'static str, params: &'static [Param]) -> Signature {
    Signature { name, params }
}

/// The kernels of each element type, as declared in `product.cuh`.
const KERNELS: &[Signature] = &[
    signature("product_wide_tiles", PRODUCT),
    signature("product_tiles", PRODUCT),
    signature("product_rows", PRODUCT),
    signature("product_columns", PRODUCT),
    signature("product_short_rows", PRODUCT),
    signature("product_sum", SUM),
];

/// The kernels for tensor cores, as declared in `product_tensor.cuh`.
const TENSOR_KERNELS: &[Signature] = &[
    signature("product_tensor_rows_columns", PRODUCT),
    signature("product_tensor_rows_rows", PRODUCT),
    signature("product_tensor_columns_columns", PRODUCT),
    signature("product_tensor_columns_rows", PRODUCT),
];

macro_rules! sources {
    (
        $(#[$doc:meta])* $function:ident $kernels:ident:
        $($($dtype:ident)|+ => $name:literal $ptx:literal)*
    ) => {
        $(#[$doc])*
        fn $function(dtype: DType) -> &'static ModuleSource {
            match dtype {
                $($(DType::$dtype)|+ => {
                    static SOURCE: ModuleSource = ModuleSource {
                        module: $name,
                        origin: $ptx,
                        declared: concat!(file!(), ":", line!()),
                        ptx: include_str!($ptx),
                        cuda: None,
                        kernels: $kernels,
                        variables: &[],
                    };
                    &SOURCE
                })*
                _ => unreachable!("{dtype:?} has no such matrix products of its own"),
            }
        }
    };
}

/// Returns the PTX module with a kernel for an element type, and the number of the kernel in it.
pub(crate) fn source(dtype: DType, kernel: BuiltinKernel) -> (&'static ModuleSource, usize) {
    match kernel.is_tensor() {
        true => (tensor_module(dtype), kernel as usize - KERNELS.len()),
        false => (module(dtype), kernel as usize),
    }
}

sources! {
    /// The kernels for tensor cores.
    tensor_module TENSOR_KERNELS:
    F16 => "product_tensor_f16" "../../kernels/product_tensor_f16.ptx"
    Bf16 => "product_tensor_bf16" "../../kernels/product_tensor_bf16.ptx"
}

sources! {
    /// The other kernels. Integers that wrap around have the same bits with and without a sign.
    module KERNELS:
    F16 => "product_f16" "../../kernels/product_f16.ptx"
    Bf16 => "product_bf16" "../../kernels/product_bf16.ptx"
    F32 => "product_f32" "../../kernels/product_f32.ptx"
    F64 => "product_f64" "../../kernels/product_f64.ptx"
    I32 | U32 => "product_i32" "../../kernels/product_i32.ptx"
    I64 | U64 => "product_i64" "../../kernels/product_i64.ptx"
    I8 | U8 => "product_u8" "../../kernels/product_u8.ptx"
}
