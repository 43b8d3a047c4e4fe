//! NVIDIA's libraries that Millstream and other programs load, with their versions.

#![allow(unsafe_code, reason = "loads libraries and asks for their versions")]

use std::ffi::c_int;

use super::{LibraryNotFound, LibrarySpec, LoadedLibrary};

/// One of NVIDIA's libraries, with the places where it is searched for.
///
/// ```
/// use millstream_driver::libraries::NvidiaLibrary;
/// match NvidiaLibrary::NVRTC.load() {
///     Ok((found, version)) => println!("{} {version:?}", found.origin()),
///     Err(missing) => println!("{missing}"),
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NvidiaLibrary {
    spec: LibrarySpec,
    /// The function that returns the version.
    function: &'static str,
}

impl NvidiaLibrary {
    /// The compiler of CUDA C++ at run time.
    pub const NVRTC: Self = Self {
        spec: LibrarySpec {
            name: "NVRTC",
            path_variable: "MILLSTREAM_NVRTC",
            files: if cfg!(windows) {
                &[("nvrtc64_130_0.dll", ""), ("nvrtc64_120_0.dll", "")]
            } else {
                &[("libnvrtc.so.13", ""), ("libnvrtc.so.12", "")]
            },
            wheel_folders: if cfg!(windows) {
                &["nvidia/cu13/bin/x86_64", "nvidia/cuda_nvrtc/bin"]
            } else {
                &["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"]
            },
        },
        function: "nvrtcVersion",
    };
    /// The runtime library. Millstream does not use it.
    pub const RUNTIME: Self = Self {
        spec: LibrarySpec {
            name: "libcudart",
            path_variable: "",
            files: &[("libcudart.so.13", ""), ("libcudart.so.12", "")],
            wheel_folders: &["nvidia/cu13/lib", "nvidia/cuda_runtime/lib"],
        },
        function: "cudaRuntimeGetVersion",
    };
    /// The compiler of numba. Millstream does not use it.
    pub const NVVM: Self = Self {
        spec: LibrarySpec {
            name: "libNVVM",
            path_variable: "",
            files: &[("libnvvm.so.4", ""), ("libnvvm.so", "")],
            wheel_folders: &["nvidia/cu13/lib", "nvidia/cuda_nvcc/nvvm/lib64"],
        },
        function: "nvvmVersion",
    };
    /// Matrix products.
    pub const CUBLAS: Self = Self {
        spec: LibrarySpec {
            name: "cuBLAS",
            path_variable: "MILLSTREAM_CUBLAS",
            files: if cfg!(windows) {
                &[
                    ("cublas64_13.dll", "cublasLt64_13.dll"),
                    ("cublas64_12.dll", "cublasLt64_12.dll"),
                    ("cublas64_11.dll", "cublasLt64_11.dll"),
                ]
            } else {
                &[
                    ("libcublas.so.13", "libcublasLt.so.13"),
                    ("libcublas.so.12", "libcublasLt.so.12"),
                    ("libcublas.so.11", "libcublasLt.so.11"),
                ]
            },
            wheel_folders: if cfg!(windows) {
                &["nvidia/cu13/bin/x86_64", "nvidia/cublas/bin"]
            } else {
                &["nvidia/cu13/lib", "nvidia/cublas/lib"]
            },
        },
        function: "cublasGetProperty",
    };
    /// Collective operations.
    pub const NCCL: Self = Self {
        spec: LibrarySpec {
            name: "NCCL",
            path_variable: "MILLSTREAM_NCCL",
            files: &[("libnccl.so.2", "")],
            wheel_folders: &["nvidia/nccl/lib"],
        },
        function: "ncclGetVersion",
    };

    /// Returns the names and folders that are searched for.
    #[must_use]
    pub const fn spec(&self) -> &LibrarySpec {
        &self.spec
    }

    /// Loads the library and asks for its version: major and minor number, `None` if it does not
    /// tell.
    ///
    /// # Errors
    ///
    /// [`LibraryNotFound`] if no location has it.
    pub fn load(&self) -> Result<(LoadedLibrary, Option<(i32, i32)>), LibraryNotFound> {
        // SAFETY: the initialisers of NVIDIA's libraries require nothing of the program.
        let found = unsafe { self.spec.find() }?;
        let version = self.version(&found);
        Ok((found, version))
    }

    fn version(&self, found: &LoadedLibrary) -> Option<(i32, i32)> {
        type OfPart = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
        type Both = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
        type One = unsafe extern "C" fn(*mut c_int) -> c_int;
        let (mut major, mut minor, mut version) = (0, 0, 0);
        let status = match self.function {
            "cublasGetProperty" => {
                // SAFETY: this is the type of the function in `cublas_api.h`.
                let get: OfPart = unsafe { found.function(self.function) }?;
                // SAFETY: the result goes to a local.
                let status = unsafe { get(0, &raw mut major) };
                // SAFETY: as above.
                status | unsafe { get(1, &raw mut minor) }
            }
            "nvrtcVersion" | "nvvmVersion" => {
                // SAFETY: this is the type of the functions in `nvrtc.h` and `nvvm.h`.
                let get: Both = unsafe { found.function(self.function) }?;
                // SAFETY: the results go to locals.
                unsafe { get(&raw mut major, &raw mut minor) }
            }
            name => {
                // SAFETY: this is the type of the functions in `cuda_runtime_api.h` and `nccl.h`.
                let get: One = unsafe { found.function(name) }?;
                // SAFETY: the result goes to a local.
                let status = unsafe { get(&raw mut version) };
                // 12.8 is 12080; NCCL 2.28.9 is 22809.
                let scale = if name == "ncclGetVersion" { 10 } else { 1 };
                (major, minor) = (version / (1000 * scale), version / (10 * scale) % 100);
                status
            }
        };
        (status == 0).then_some((major, minor))
    }
}
