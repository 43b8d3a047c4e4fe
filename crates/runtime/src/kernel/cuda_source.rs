//! `Cuda`: a source in CUDA C++ to compile at run time, with its macros, headers and options.

use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// CUDA C++ to compile by [`Device::compile`](crate::Device::compile), with its options.
///
/// ```
/// use millstream::Cuda;
///
/// let source = Cuda::source("scale.cu", "#include \"shape.h\"\n__global__ void scale() {}")
///     .define("TILE", 16)
///     .header("shape.h", "struct Shape { int width, height; };")
///     .option("--use_fast_math");
/// assert_eq!(source.name(), "scale.cu");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Cuda {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) options: Vec<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) folders: Vec<PathBuf>,
    pub(super) instantiations: Vec<String>,
    pub(super) cache: CacheChoice,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CacheChoice {
    /// The user's folder, or `MILLSTREAM_KERNEL_CACHE`.
    Default,
    Folder(PathBuf),
    Off,
}

impl Cuda {
    /// Creates a source from its text. `name` stands for it in messages; headers are not searched
    /// for in its folder, nor in the working directory.
    pub fn source(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
            options: Vec::new(),
            headers: Vec::new(),
            folders: Vec::new(),
            instantiations: Vec::new(),
            cache: CacheChoice::Default,
        }
    }

    /// Reads a source from a file. Headers beside it are found.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the file cannot be read.
    pub fn file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = read(path)?;
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let source = Self::source(path.display().to_string(), text);
        Ok(source.include_folder(folder.unwrap_or(Path::new("."))))
    }

    /// Defines a macro, as `-D name=value` does.
    pub fn define(self, name: &str, value: impl std::fmt::Display) -> Self {
        self.option(format!("--define-macro={name}={value}"))
    }

    /// Adds a header by its text: `#include "name"` and `#include <name>` find it before any file.
    pub fn header(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.headers.push((name.into(), text.into()));
        self
    }

    /// Adds a folder in which `#include` searches, before those of CUDA that are found by
    /// themselves.
    pub fn include_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folders.push(folder.into());
        self
    }

    /// Adds an option of NVRTC, such as `--std=c++17` or `--use_fast_math`. An
    /// `--gpu-architecture` takes the place of the device's.
    pub fn option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }

    /// Instantiates a template, such as `scale<float>`; also names any other kernel as it is
    /// written in C++, such as `images::blur`. [`Module::function`](crate::Module::function) finds
    /// the kernel under this name.
    pub fn instantiate(mut self, kernel: impl Into<String>) -> Self {
        self.instantiations.push(kernel.into());
        self
    }

    /// Compiles without the cache on disk.
    pub fn without_cache(mut self) -> Self {
        self.cache = CacheChoice::Off;
        self
    }

    /// Caches the result in this folder instead of the user's.
    pub fn cache_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = CacheChoice::Folder(folder.into());
        self
    }

    /// Returns the name of the source.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// PTX to load by [`Device::module`](crate::Device::module).
#[derive(Clone, Debug)]
#[must_use]
pub struct Ptx {
    pub(super) name: String,
    pub(super) text: String,
}

impl Ptx {
    /// Creates PTX from its text. `name` stands for it in messages.
    pub fn text(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
        }
    }

    /// Reads PTX from a file.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the file cannot be read.
    pub fn file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Ok(Self::text(path.display().to_string(), read(path)?))
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        Error::unavailable(format_args!("cannot read {}: {error}", path.display()))
    })
}
