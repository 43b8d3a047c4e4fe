//! Compilation of CUDA C++ at run time, by NVRTC or from the cache on disk.

use std::{fmt::Write as _, sync::Arc};

use millstream_driver::nvrtc::{self, Compiled, Nvrtc, NvrtcCode, NvrtcError, Program};

use super::{
    Cuda, Module,
    disk_cache::DiskCache,
    includes::{self, Folders},
    loaded::Parts,
    sha256::sha256,
};
use crate::{
    Device, Result,
    context::DeviceState,
    error::parse_diagnostics,
    error::{CompileError, Severity},
};

/// A path that cannot be a folder. The source is compiled under the name of a file in it, so that
/// NVRTC searches for headers neither in the folder of the source's name nor in the working
/// directory.
pub(super) const NOWHERE: &str = "/dev/null";

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
    /// The result is cached in the user's folder for caches, `$XDG_CACHE_HOME/millstream/kernels`,
    /// or in that of the variable `MILLSTREAM_KERNEL_CACHE`, whose value `off` turns the cache off.
    /// The cache is keyed by all that the compilation depends on, with the content of every header
    /// and the working directory, which is in line tables. It holds at most 512 MiB. A compilation
    /// is not cached if it may depend on more: `#include` of a macro, `__DATE__`, `__TIME__`,
    /// `__has_include` of a macro, names made by `##` that may be one of these, options that name
    /// files (`-I`, `--pre-include`, `--pch`; [`Cuda::include_folder`] is cached), other rare
    /// options, and the variable `NVRTC_APPEND_FLAGS`. The folder must be the user's own, and
    /// neither it nor those above it may be writable by others; it is not used otherwise.
    ///
    /// ```
    /// use millstream::{Cuda, Device, Error, signature, error::CompileError};
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
    #[doc(alias("nvrtcCompileProgram", "compile_ptx", "RawModule"))]
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
    pub fn to_ptx(&self) -> Result<(String, Vec<crate::error::Diagnostic>)> {
        let nvrtc = load(self)?;
        let folders = Folders::of(self, nvrtc.installation().file.as_deref());
        let compiled = run(self, &nvrtc, &folders, self.options.clone(), false)?;
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
    fn key(&self, device: &DeviceState, identity: &str, folders: &Folders) -> [u8; 32] {
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
        list(&[env!("CARGO_PKG_VERSION"), identity, &target]);
        list(&[&self.name, &self.text, &folders.here]);
        list(&as_strs(&self.options));
        list(&as_strs(&self.instantiations));
        let folders = folders.list.iter().map(|(folder, _)| folder.as_str());
        list(&folders.collect::<Vec<_>>());
        for (name, text) in &self.headers {
            list(&[name, text]);
        }
        sha256(&bytes)
    }
}

fn as_strs(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

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
    let cache = DiskCache::of(&source.cache).filter(|_| includes::is_pure(source));
    // A hit must not load NVRTC, which takes longer than loading the kernel.
    if let (Some(cache), Some(installation)) = (&cache, nvrtc::installation())
        && let Some(identity) = &installation.identity
    {
        let folders = Folders::of(source, installation.file.as_deref());
        if let Some(compiled) = cache.load(&source.key(device, identity, &folders)) {
            return Ok((compiled, true));
        }
    }
    let nvrtc = load(source)?;
    let installation = nvrtc.installation();
    let folders = Folders::of(source, installation.file.as_deref());
    let entry = cache
        .filter(|_| !folders.here.is_empty())
        .zip(installation.identity.as_ref())
        .and_then(|(cache, identity)| {
            let dependencies = includes::dependencies(source, &folders)?;
            let stamps = includes::stamps(&dependencies);
            Some((
                cache,
                source.key(device, identity, &folders),
                dependencies,
                stamps,
            ))
        });
    let (options, cubin) = options(device, source, &nvrtc)?;
    let compiled = run(source, &nvrtc, &folders, options, cubin)?;
    if let Some((cache, key, dependencies, stamps)) = entry
        // A file that was changed meanwhile may have been read in either state.
        && includes::unchanged(&dependencies)
        && includes::stamps(&dependencies) == stamps
        && includes::working_directory() == folders.here
    {
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
        let architectures = nvrtc
            .architectures()
            .map_err(|cause| failed(source, cause))?;
        // An older NVRTC compiles for the newest architecture that it knows, and the driver
        // compiles the PTX for the device's.
        cubin &= architectures.contains(&own);
        let older = architectures
            .iter()
            .copied()
            .filter(|&number| number <= own);
        let newest = older.max();
        let kind = if cubin { "sm" } else { "compute" };
        options.push(format!(
            "--gpu-architecture={kind}_{}",
            newest.unwrap_or(own)
        ));
    }
    options.push("--generate-line-info".to_owned());
    Ok((options, cubin))
}

/// Compiles the source. Messages and line tables have the source's own name.
fn run(
    source: &Cuda,
    nvrtc: &Nvrtc,
    folders: &Folders,
    mut options: Vec<String>,
    cubin: bool,
) -> Result<Compiled, Arc<CompileError>> {
    for (folder, _) in &folders.list {
        options.push(format!("--include-path={folder}"));
    }
    let name = format!("{NOWHERE}/source.cu");
    let text = format!("#line 1 \"{}\"\n{}", escaped(&source.name), source.text);
    let program = Program {
        name: &name,
        source: &text,
        headers: &source.headers,
        options: &options,
        name_expressions: &source.instantiations,
        cubin,
    };
    let restored = |log: String| log.replace(&name, &source.name);
    match nvrtc.compile(&program) {
        Ok(compiled) => Ok(Compiled {
            log: restored(compiled.log),
            ..compiled
        }),
        Err(cause) => {
            let log = restored(cause.log);
            Err(rejected(source, folders, NvrtcError { log, ..cause }))
        }
    }
}

/// Writes a name as the characters of a string literal of C++.
fn escaped(name: &str) -> String {
    let mut escaped = String::new();
    for c in name.chars() {
        // Writing to a text cannot fail.
        let _ = match c {
            // `??/` is a trigraph.
            '"' | '\\' | '?' => write!(escaped, "\\{c}"),
            c if c.is_ascii_control() => write!(escaped, "\\{:03o}", u32::from(c)),
            c => write!(escaped, "{c}"),
        };
    }
    escaped
}

fn failed(source: &Cuda, cause: NvrtcError) -> Arc<CompileError> {
    let source_name = source.name.clone();
    Arc::new(CompileError::Failed { source_name, cause })
}

/// Turns a failed compilation into an error about the source, if the log says so.
fn rejected(source: &Cuda, folders: &Folders, cause: NvrtcError) -> Arc<CompileError> {
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
            folders: folders
                .list
                .iter()
                .map(|(folder, _)| folder.into())
                .collect(),
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
