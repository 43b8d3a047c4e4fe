//! Compilation of CUDA C++ at run time, by NVRTC or from the cache on disk.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use millstream_driver::nvrtc::{self, Compiled, Nvrtc, NvrtcCode, NvrtcError, Program};

use super::{Cuda, Module, disk_cache::DiskCache, includes, loaded::Parts, sha256::sha256};
use crate::{
    CompileError, Device, Result, Severity, context::DeviceState, error::parse_diagnostics,
};

impl Device {
    /// Compiles CUDA C++ for this device and loads the result.
    ///
    /// NVIDIA's compiler NVRTC does that. It needs neither a GPU nor the CUDA toolkit, and is found
    /// at run time: at the path in `MILLSTREAM_NVRTC`, in the process, in Python's wheels
    /// (`nvidia-cuda-nvrtc-cu12`, `nvidia-cuda-nvrtc`), where the system's loader searches, and in
    /// `CUDA_HOME`. For a GPU it makes machine code, so that NVRTC may be newer than the driver;
    /// the simulated device runs the PTX.
    ///
    /// CUDA's own headers (`cuda_fp16.h`) are found beside NVRTC, in the wheels of the CUDA
    /// runtime, and in `CUDA_HOME`.
    ///
    /// The result is cached in the user's folder for caches (`$XDG_CACHE_HOME/millstream/kernels`),
    /// or in that of the variable `MILLSTREAM_KERNEL_CACHE`, whose value `off` turns the cache off.
    /// The cache is keyed by all that the compilation depends on, and holds at most 512 MiB.
    ///
    /// ```
    /// use millstream::{CompileError, Cuda, Device, Error, signature};
    ///
    /// let device = Device::simulated()?;
    /// let source = Cuda::source("scale.cu", r#"
    ///     extern "C" __global__ void scale(float* x, size_t n) {
    ///         size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    ///         if (i < n) x[i] *= FACTOR;
    ///     }
    /// "#).define("FACTOR", 3);
    /// let module = match device.compile(source.without_cache()) {
    ///     Ok(module) => module,
    ///     // NVRTC is not installed here.
    ///     Err(Error::Compile(error)) if matches!(*error, CompileError::NoCompiler { .. }) => {
    ///         return Ok(());
    ///     }
    ///     Err(error) => return Err(error),
    /// };
    /// let scale = module.function::<signature!(&mut [f32], u64)>("scale")?;
    /// let stream = device.stream()?;
    /// let mut x = stream.upload(&[1.0_f32, 2.0])?;
    /// // SAFETY: the kernel accesses the first 2 elements of its array.
    /// unsafe { scale.launch(&stream, 2, (&mut x, 2)) }?;
    /// assert_eq!(stream.download(&x)?.wait()?, [3.0, 6.0]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Compile`](crate::Error::Compile) if NVRTC is not found or the source has errors;
    /// those of [`Device::module`] otherwise.
    #[track_caller]
    pub fn compile(&self, source: Cuda) -> Result<Module> {
        let device = self.state();
        device.check_alive()?;
        let (compiled, from_cache) = compile_for(device, &source)?;
        let warnings = parse_diagnostics(&compiled.log, |file, line| source.line(file, line));
        let parts = Parts {
            lowered: source
                .instantiations
                .iter()
                .cloned()
                .zip(compiled.lowered_names)
                .collect(),
            name: source.name,
            ptx: Some(compiled.ptx),
            binary: compiled.cubin,
            warnings,
            from_cache,
        };
        Module::load(device, parts)
    }
}

impl Cuda {
    /// Compiles the source to PTX without a device, without the cache and with its own options
    /// alone. Called by `millstream compile`.
    ///
    /// # Errors
    ///
    /// As [`Device::compile`]. The second value of the result is the compiler's messages.
    #[doc(hidden)]
    pub fn to_ptx(&self) -> Result<(String, Vec<crate::Diagnostic>)> {
        let nvrtc = load(self)?;
        let folders = self.include_folders(nvrtc.installation().file.as_deref());
        let compiled = run(self, &nvrtc, &folders, self.options.clone(), false);
        let compiled = compiled?;
        let warnings = parse_diagnostics(&compiled.log, |file, line| self.line(file, line));
        Ok((compiled.ptx, warnings))
    }

    /// Returns a line of the source or of a header that was given as a text.
    fn line(&self, file: &str, line: usize) -> Option<String> {
        let text = if file == self.name {
            &self.text
        } else {
            let mut headers = self.headers.iter();
            &headers.find(|(name, _)| name == file)?.1
        };
        text.lines().nth(line.checked_sub(1)?).map(str::to_owned)
    }

    /// Returns the folders in which `#include` searches, in order.
    fn include_folders(&self, nvrtc_file: Option<&Path>) -> Vec<PathBuf> {
        let own = self.folders.iter().cloned();
        own.chain(includes::cuda_folders(nvrtc_file)).collect()
    }

    /// Returns whether the options name an architecture.
    fn names_architecture(&self) -> bool {
        self.options
            .iter()
            .any(|option| option.starts_with("--gpu-architecture") || option.starts_with("-arch"))
    }

    /// Returns whether the options ask for machine code.
    fn names_real_architecture(&self) -> bool {
        self.options.iter().any(|option| {
            let is_architecture =
                option.starts_with("--gpu-architecture") || option.starts_with("-arch");
            is_architecture && option.contains("sm_")
        })
    }

    /// Returns the key of the cache for a compilation by this installation.
    fn key(
        &self,
        device: &DeviceState,
        installation: &nvrtc::Installation,
        folders: &[PathBuf],
    ) -> [u8; 32] {
        let (major, minor) = device.limits.compute_capability;
        let target = format!("{major}.{minor} {}", device.is_simulated);
        let mut bytes = Vec::new();
        let mut list = |parts: &[&str]| {
            bytes.extend((parts.len() as u64).to_le_bytes());
            for part in parts {
                bytes.extend((part.len() as u64).to_le_bytes());
                bytes.extend(part.as_bytes());
            }
        };
        list(&[env!("CARGO_PKG_VERSION"), &installation.identity, &target]);
        list(&[&self.name, &self.text]);
        list(&as_strs(&self.options));
        list(&as_strs(&self.instantiations));
        let folders = folders.iter().map(|folder| folder.display().to_string());
        list(&as_strs(&folders.collect::<Vec<_>>()));
        for (name, text) in &self.headers {
            list(&[name, text]);
        }
        sha256(&bytes)
    }
}

/// Borrows texts.
fn as_strs(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

/// Loads NVRTC.
fn load(source: &Cuda) -> Result<Arc<Nvrtc>, Arc<CompileError>> {
    nvrtc::load().map_err(|cause| {
        let source_name = source.name.clone();
        Arc::new(CompileError::NoCompiler { source_name, cause })
    })
}

/// Compiles a source for a device, or takes it from the cache. Returns whether it comes from there.
pub(super) fn compile_for(device: &DeviceState, source: &Cuda) -> Result<(Compiled, bool)> {
    Ok(compiled(device, source)?)
}

/// Returns the compiled source and whether it comes from the cache.
fn compiled(device: &DeviceState, source: &Cuda) -> Result<(Compiled, bool), Arc<CompileError>> {
    let cache = DiskCache::of(&source.cache);
    // A hit must not load NVRTC, which takes longer than loading the kernel.
    if let (Some(cache), Some(installation)) = (&cache, nvrtc::installation()) {
        let folders = source.include_folders(installation.file.as_deref());
        if let Some(found) = cache.load(&source.key(device, &installation, &folders)) {
            return Ok((found, true));
        }
    }
    let nvrtc = load(source)?;
    let installation = nvrtc.installation();
    let folders = source.include_folders(installation.file.as_deref());
    let dependencies = cache
        .as_ref()
        .and_then(|_| includes::dependencies(&source.text, &source.headers, &folders));
    let (options, cubin) = options(device, source, &nvrtc)?;
    let compiled = run(source, &nvrtc, &folders, options, cubin)?;
    if let (Some(cache), Some(dependencies)) = (cache, dependencies)
        // A file that was changed meanwhile may have been read in either state.
        && includes::unchanged(&dependencies)
    {
        let key = source.key(device, installation, &folders);
        cache.store(&key, &compiled, &dependencies);
    }
    Ok((compiled, false))
}

/// Returns the options for a device, and whether they give machine code.
fn options(
    device: &DeviceState,
    source: &Cuda,
    nvrtc: &Nvrtc,
) -> Result<(Vec<String>, bool), Arc<CompileError>> {
    let mut options = source.options.clone();
    let mut cubin = !device.is_simulated;
    if source.names_architecture() {
        cubin &= source.names_real_architecture();
    } else {
        let (major, minor) = device.limits.compute_capability;
        let own = 10 * major + minor;
        let known = nvrtc
            .architectures()
            .map_err(|cause| failed(source, cause))?;
        // An older NVRTC compiles for the newest architecture that it knows, and the driver
        // compiles the PTX for the device's.
        cubin &= known.contains(&own);
        let newest = known.iter().copied().filter(|&known| known <= own).max();
        let kind = if cubin { "sm" } else { "compute" };
        options.push(format!(
            "--gpu-architecture={kind}_{}",
            newest.unwrap_or(own)
        ));
    }
    options.push("--generate-line-info".to_owned());
    Ok((options, cubin))
}

/// Compiles the source.
fn run(
    source: &Cuda,
    nvrtc: &Nvrtc,
    folders: &[PathBuf],
    mut options: Vec<String>,
    cubin: bool,
) -> Result<Compiled, Arc<CompileError>> {
    let folders_as_options = folders
        .iter()
        .map(|folder| format!("--include-path={}", folder.display()));
    options.extend(folders_as_options);
    let program = Program {
        name: &source.name,
        source: &source.text,
        headers: &source.headers,
        options: &options,
        name_expressions: &source.instantiations,
        cubin,
    };
    nvrtc
        .compile(&program)
        .map_err(|cause| rejected(source, folders, cause))
}

fn failed(source: &Cuda, cause: NvrtcError) -> Arc<CompileError> {
    let source_name = source.name.clone();
    Arc::new(CompileError::Failed { source_name, cause })
}

/// Turns a failed compilation into an error about the source, if the log says so.
fn rejected(source: &Cuda, folders: &[PathBuf], cause: NvrtcError) -> Arc<CompileError> {
    let mut diagnostics = parse_diagnostics(&cause.log, |file, line| source.line(file, line));
    let source_name = source.name.clone();
    let missing = diagnostics
        .iter()
        .enumerate()
        .find_map(|(at, diagnostic)| Some((at, missing_header(&diagnostic.message)?.to_owned())));
    if let Some((at, header)) = missing {
        return Arc::new(CompileError::MissingHeader {
            source_name,
            header,
            folders: folders.to_vec(),
            diagnostic: diagnostics.swap_remove(at),
        });
    }
    let has_error = diagnostics
        .iter()
        .any(|diagnostic| diagnostic.severity == Severity::Error);
    if cause.code == NvrtcCode::COMPILATION && has_error {
        return Arc::new(CompileError::Source {
            source_name,
            diagnostics,
        });
    }
    failed(source, cause)
}

/// Returns the header that a message says is missing: `could not open source file "cuda_fp16.h"`.
fn missing_header(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("open source file \"")?;
    rest.split('"').next()
}
