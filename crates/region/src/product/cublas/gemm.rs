//! cuBLAS's functions for batches of matrix products, with the types and modes of their arithmetic.

#![allow(unsafe_code, reason = "calls cuBLAS, which trusts its caller")]

use std::ffi::{c_int, c_longlong, c_void};

use millstream::driver::{DevicePtr, DriverError};

use crate::{
    element::DType,
    product::{
        ProductPrecision,
        cublas::library::{CublasApi, RawHandle, Status},
    },
};

/// The math mode of a handle, `cublasMath_t`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct MathMode(c_int);

impl MathMode {
    /// `CUBLAS_PEDANTIC_MATH`: products and sums in the precision of the elements, regardless of
    /// environment variables about TF32 and emulation.
    const PEDANTIC: Self = Self(2);
    /// `CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION`: tensor cores, and
    /// all sums in the compute type.
    const WIDE_SUMS: Self = Self(16);
}

/// The type of elements, `cudaDataType`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct DataType(c_int);

impl DataType {
    /// `CUDA_R_32F`.
    const F32: Self = Self(0);
    /// `CUDA_R_16F`.
    const F16: Self = Self(2);
    /// `CUDA_R_16BF`.
    const BF16: Self = Self(14);
}

/// The type of products and sums, `cublasComputeType_t`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct ComputeType(c_int);

impl ComputeType {
    /// `CUBLAS_COMPUTE_32F`.
    const F32: Self = Self(68);
    /// `CUBLAS_COMPUTE_32F_FAST_TF32`: sums in `f32` of products of elements that are reduced to
    /// TF32.
    const TF32: Self = Self(77);
}

/// `CUBLAS_GEMM_DEFAULT` of `cublasGemmAlgo_t`: cuBLAS chooses the kernel.
const DEFAULT_ALGORITHM: c_int = -1;

/// The transposition of a factor, `cublasOperation_t`.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transpose {
    /// `CUBLAS_OP_N`, no transposition.
    No = 0,
    /// `CUBLAS_OP_T`, transposition.
    Yes = 1,
}

/// The arguments of a batch of products of column-major matrices, `c[z] = op(a[z]) · op(b[z])`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gemm {
    pub(super) m: c_int,
    pub(super) n: c_int,
    pub(super) k: c_int,
    pub(super) a: GemmFactor,
    pub(super) b: GemmFactor,
    pub(super) c: DevicePtr,
    pub(super) batches: c_int,
}

/// A factor of a product: its transposition, its leading dimension, and the distance between the
/// matrices of the batch, in elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct GemmFactor {
    pub(super) transpose: Transpose,
    pub(super) address: DevicePtr,
    pub(super) leading: c_int,
    pub(super) stride: c_longlong,
}

/// The type of a function for batches, and a function that calls one, with the arguments of both
/// kinds: those for elements of any type take the type of each matrix, and two more at the end.
macro_rules! strided_batched {
    (
        $type:ident $(<$T:ident>)?, $(#[$doc:meta])* $call:ident,
        scalars: $scalar:ty, $([$dtype:ident: $data_type:ty])?, $($end:ident: $end_type:ty),*
    ) => {
        pub(super) type $type $(<$T>)? = unsafe extern "C" fn(
            handle: RawHandle,
            a_transpose: Transpose,
            b_transpose: Transpose,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: *const $scalar,
            a: DevicePtr,
            $(a_type: $data_type,)?
            a_leading: c_int,
            a_stride: c_longlong,
            b: DevicePtr,
            $(b_type: $data_type,)?
            b_leading: c_int,
            b_stride: c_longlong,
            beta: *const $scalar,
            c: DevicePtr,
            $(c_type: $data_type,)?
            c_leading: c_int,
            c_stride: c_longlong,
            batches: c_int,
            $($end: $end_type),*
        ) -> Status;

        $(#[$doc])*
        unsafe fn $call $(<$T>)? (
            function: $type $(<$T>)?,
            handle: RawHandle,
            gemm: &Gemm,
            (alpha, beta): (*const $scalar, *const $scalar),
            $($dtype: $data_type,)?
            $($end: $end_type),*
        ) -> Status {
            // SAFETY: this function's contract. The call reads both scalars before it returns,
            // because a new handle takes them from host memory.
            unsafe {
                function(
                    handle,
                    gemm.a.transpose,
                    gemm.b.transpose,
                    gemm.m,
                    gemm.n,
                    gemm.k,
                    alpha,
                    gemm.a.address,
                    $($dtype,)?
                    gemm.a.leading,
                    gemm.a.stride,
                    gemm.b.address,
                    $($dtype,)?
                    gemm.b.leading,
                    gemm.b.stride,
                    beta,
                    gemm.c,
                    $($dtype,)?
                    gemm.m,
                    // The matrices of the product are contiguous.
                    c_longlong::from(gemm.m) * c_longlong::from(gemm.n),
                    gemm.batches,
                    $($end),*
                )
            }
        }
    };
}

strided_batched!(
    GemmStridedBatched<T>,
    /// Calls a function for one element type. The factors of the product and of the old elements of
    /// `c` are `alpha` and `beta`.
    ///
    /// # Safety
    ///
    /// As for [`GemmFunction::call`]; both factors are readable.
    typed, scalars: T,,
);

strided_batched!(
    GemmStridedBatchedEx,
    /// Calls the function for elements of any type.
    ///
    /// # Safety
    ///
    /// As for [`GemmFunction::call`]; the elements are of type `dtype`, and both factors are
    /// readable and of the type of the sums.
    untyped, scalars: c_void, [dtype: DataType], compute_type: ComputeType, algorithm: c_int
);

/// The function of cuBLAS for one element type.
#[derive(Clone, Copy)]
pub(super) enum GemmFunction {
    F32(GemmStridedBatched<f32>),
    F64(GemmStridedBatched<f64>),
    /// Floats of 16 bits, multiplied and added as `f32`, or `f32`, multiplied as TF32.
    Any(GemmStridedBatchedEx, DataType, ComputeType),
}

impl GemmFunction {
    /// Returns the function for products of this type and precision on GPUs of this compute
    /// capability, or `None` if there is none.
    pub(super) fn of(
        library: &CublasApi,
        dtype: DType,
        precision: ProductPrecision,
        capability: (i32, i32),
    ) -> Option<Self> {
        // Earlier GPUs have no instructions for bf16 and TF32.
        let has_newer_types = capability >= (8, 0);
        let half = |dtype| Some(Self::Any(library.gemm_ex?, dtype, ComputeType::F32));
        Some(match dtype {
            DType::F32 => match library.gemm_ex {
                Some(function) if precision == ProductPrecision::Tf32 && has_newer_types => {
                    Self::Any(function, DataType::F32, ComputeType::TF32)
                }
                _ => Self::F32(library.sgemm),
            },
            DType::F64 => Self::F64(library.dgemm),
            DType::F16 => half(DataType::F16)?,
            DType::Bf16 if has_newer_types => half(DataType::BF16)?,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F32(_) => "cublasSgemmStridedBatched",
            Self::F64(_) => "cublasDgemmStridedBatched",
            Self::Any(..) => "cublasGemmStridedBatchedEx",
        }
    }

    /// Enqueues the products on the handle's stream.
    ///
    /// # Safety
    ///
    /// The handle's context is current, and no other thread uses the handle meanwhile. When the
    /// products run, the factors are readable and `c` is writable as far as the sizes and distances
    /// say, and so is the handle's workspace.
    pub(super) unsafe fn call(
        self,
        library: &CublasApi,
        handle: RawHandle,
        gemm: &Gemm,
    ) -> Result<(), DriverError> {
        let mode = match self {
            Self::F32(_) | Self::F64(_) => MathMode::PEDANTIC,
            Self::Any(..) => MathMode::WIDE_SUMS,
        };
        // SAFETY: this function's contract.
        unsafe { library.set_math_mode(handle, mode) }?;
        let status = match self {
            // SAFETY: this function's contract.
            Self::F32(function) => unsafe { typed(function, handle, gemm, (&1.0, &0.0)) },
            // SAFETY: this function's contract.
            Self::F64(function) => unsafe { typed(function, handle, gemm, (&1.0, &0.0)) },
            Self::Any(function, dtype, compute) => {
                let (one, zero) = (1.0_f32, 0.0_f32);
                let scalars = ((&raw const one).cast(), (&raw const zero).cast());
                let algorithm = DEFAULT_ALGORITHM;
                // SAFETY: this function's contract; the elements are of the type, the sums `f32`.
                unsafe { untyped(function, handle, gemm, scalars, dtype, compute, algorithm) }
            }
        };
        status.check(self.name())
    }
}
