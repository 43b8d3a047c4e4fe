//! cuBLAS, loaded at run time: the functions in use and the translation of its status codes.

#![allow(unsafe_code, reason = "calls cuBLAS, which trusts its caller")]

use std::{
    ffi::{c_int, c_void},
    sync::OnceLock,
};

use millstream::__log as log;
use millstream::driver::{
    DevicePtr, DriverError, ResultCode, StreamHandle,
    libraries::{LoadedLibrary, NvidiaLibrary},
};

use crate::product::cublas::gemm::{GemmStridedBatched, GemmStridedBatchedEx, MathMode};

/// The status code `cublasStatus_t`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Status(c_int);

impl Status {
    pub(super) fn check(self, call: &'static str) -> Result<(), DriverError> {
        let (code, name) = match self.0 {
            0 => return Ok(()),
            1 => (ResultCode::NOT_INITIALIZED, "not initialised"),
            3 => (ResultCode::OUT_OF_MEMORY, "out of memory for its resources"),
            7 => (ResultCode::INVALID_VALUE, "invalid value"),
            8 => (ResultCode::UNKNOWN, "unsupported device architecture"),
            // If the execution lost the context, the next driver call reports it.
            13 => (ResultCode::UNKNOWN, "execution failed"),
            14 => (ResultCode::UNKNOWN, "internal error"),
            15 => (ResultCode::NOT_SUPPORTED, "not supported"),
            _ => (ResultCode::UNKNOWN, "unknown"),
        };
        Err(DriverError::new(call, code).with_detail(format!("cublasStatus_t {}: {name}", self.0)))
    }
}

/// The handle `cublasHandle_t`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct RawHandle(*mut c_void);

// SAFETY: cuBLAS allows a handle to be used from any thread, by one thread at a time.
unsafe impl Send for RawHandle {}

/// The functions of cuBLAS, which stays loaded.
pub(super) struct CublasApi {
    pub(super) found: LoadedLibrary,
    create: unsafe extern "C" fn(*mut RawHandle) -> Status,
    version: unsafe extern "C" fn(RawHandle, *mut c_int) -> Status,
    set_math_mode: unsafe extern "C" fn(RawHandle, MathMode) -> Status,
    set_stream: unsafe extern "C" fn(RawHandle, StreamHandle) -> Status,
    set_workspace: unsafe extern "C" fn(RawHandle, DevicePtr, usize) -> Status,
    pub(super) sgemm: GemmStridedBatched<f32>,
    pub(super) dgemm: GemmStridedBatched<f64>,
    pub(super) gemm_ex: Option<GemmStridedBatchedEx>,
}

impl CublasApi {
    /// Returns the process's cuBLAS, which the first call looks for; if there is none, that call
    /// logs it.
    pub(super) fn get() -> Option<&'static Self> {
        static LIBRARY: OnceLock<Option<CublasApi>> = OnceLock::new();
        LIBRARY.get_or_init(Self::load).as_ref()
    }

    fn load() -> Option<Self> {
        // SAFETY: the initialisers of NVIDIA's libraries of these names require nothing of their
        // loader.
        match unsafe { NvidiaLibrary::CUBLAS.spec().find() } {
            Ok(found) => {
                let place = found.origin().to_owned();
                let library = Self::of(found);
                if library.is_none() {
                    log!(
                        info,
                        place,
                        "cuBLAS is too old: matrix products use built-in kernels"
                    );
                }
                library
            }
            Err(missing) => {
                log!(info, %missing, "cuBLAS was not found: matrix products use built-in kernels");
                None
            }
        }
    }

    /// Returns the functions of a library, or `None` if one of them is missing.
    fn of(found: LoadedLibrary) -> Option<Self> {
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the type is that of the function of this name in cublas_api.h.
                unsafe { found.function($name) }
            };
        }
        Some(Self {
            create: function!("cublasCreate_v2")?,
            version: function!("cublasGetVersion_v2")?,
            set_math_mode: function!("cublasSetMathMode")?,
            set_stream: function!("cublasSetStream_v2")?,
            set_workspace: function!("cublasSetWorkspace_v2")?,
            sgemm: function!("cublasSgemmStridedBatched")?,
            dgemm: function!("cublasDgemmStridedBatched")?,
            gemm_ex: function!("cublasGemmStridedBatchedEx"),
            found,
        })
    }

    /// Creates a handle for the current context. Handles are never destroyed.
    pub(super) fn create(&self) -> Result<RawHandle, DriverError> {
        let mut handle = RawHandle(std::ptr::null_mut());
        // SAFETY: the result goes to a local.
        unsafe { (self.create)(&mut handle) }.check("cublasCreate")?;
        Ok(handle)
    }

    /// Returns the version of a library of release 12 or later, as major × 10000 + minor × 100 +
    /// patch.
    pub(super) fn version(&self, handle: RawHandle) -> Result<c_int, DriverError> {
        let mut version = 0;
        // SAFETY: handles are never destroyed, and the result goes to a local.
        unsafe { (self.version)(handle, &mut version) }.check("cublasGetVersion")?;
        Ok(version)
    }

    /// Directs the later products of the handle to `stream`, with the `bytes` at `workspace` as
    /// workspace.
    ///
    /// # Safety
    ///
    /// The stream is alive and belongs to the handle's context; no other thread uses the handle
    /// meanwhile.
    pub(super) unsafe fn set_stream_and_workspace(
        &self,
        handle: RawHandle,
        stream: StreamHandle,
        workspace: DevicePtr,
        bytes: usize,
    ) -> Result<(), DriverError> {
        // SAFETY: this function's contract.
        unsafe { (self.set_stream)(handle, stream) }.check("cublasSetStream")?;
        // SAFETY: this function's contract; only products touch the memory. This call follows that
        // for the stream, which resets the workspace.
        unsafe { (self.set_workspace)(handle, workspace, bytes) }.check("cublasSetWorkspace")
    }

    /// Sets the math mode of the handle's later products.
    ///
    /// # Safety
    ///
    /// No other thread uses the handle meanwhile.
    pub(super) unsafe fn set_math_mode(
        &self,
        handle: RawHandle,
        mode: MathMode,
    ) -> Result<(), DriverError> {
        // SAFETY: handles are never destroyed, and this function's contract.
        unsafe { (self.set_math_mode)(handle, mode) }.check("cublasSetMathMode")
    }
}
