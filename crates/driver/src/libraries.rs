//! Run-time loading of NVIDIA's other libraries, such as cuBLAS, without linking to them.
//!
//! These libraries come with a toolkit, with Python's wheels or with the system, and none of those
//! places is certain. A library is searched for in this order:
//!
//! 1. at the path in the library's own environment variable, a file or a folder, and then nowhere
//!    else;
//! 2. in the process, if other code has loaded it already;
//! 3. in Python's wheels: under `site-packages` of `VIRTUAL_ENV`, of `CONDA_PREFIX` (and in its
//!    `lib`, or `Library\bin` on Windows), and of the installation of the first `python3` in `PATH`
//!    (`python.exe` on Windows);
//! 4. where the system's loader searches;
//! 5. in the toolkit that `CUDA_HOME` or `CUDA_PATH` names.
//!
//! A loaded library is never unloaded.

#![allow(unsafe_code, reason = "loads libraries and finds their functions")]

mod layout;
mod nvidia;
mod search;

use std::{
    error::Error,
    fmt, fs,
    path::{Path, PathBuf},
};

use libloading::Library;

use crate::printable;
use layout::Layout;
pub use nvidia::NvidiaLibrary;

/// Declares the table `Functions` of a library's functions, and `Functions::find`, which looks all
/// up or returns the name of the first that is missing. The types must be those of the library's
/// header.
#[doc(hidden)]
#[macro_export]
macro_rules! library_functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        #[expect(non_snake_case, reason = "fields have the names of the library's functions")]
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            fn find(
                library: &$crate::libraries::LoadedLibrary,
            ) -> std::result::Result<Self, &'static str> {
                Ok(Self {
                    $(
                        // SAFETY: the type is that of the function of this name in the header.
                        $name: unsafe { library.function(stringify!($name)) }
                            .ok_or(stringify!($name))?,
                    )*
                })
            }
        }
    };
}

/// The names and folders of a library that [`LibrarySpec::find`] searches for.
///
/// ```
/// use millstream_driver::libraries::LibrarySpec;
///
/// let spec = LibrarySpec {
///     name: "the absent library",
///     path_variable: "MILLSTREAM_ABSENT",
///     files: &[("libabsent.so.2", "libabsenthelper.so.2")],
///     wheel_folders: &["nvidia/absent/lib"],
/// };
/// // SAFETY: no library of that name exists, so no code runs.
/// let missing = unsafe { spec.find() }.unwrap_err().to_string();
/// assert!(missing.starts_with("the absent library could not be loaded"), "{missing}");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LibrarySpec {
    /// The library's name in messages.
    pub name: &'static str,
    /// The environment variable that holds the path of the library's file or folder.
    pub path_variable: &'static str,
    /// The possible file names, in order of preference. Each is paired with the name of a companion
    /// in the same folder that must be loaded first, or with an empty name.
    pub files: &'static [(&'static str, &'static str)],
    /// The library's folders within `site-packages` of a Python that has its wheel.
    pub wheel_folders: &'static [&'static str],
}

/// A library that was found and loaded, for the rest of the process.
#[derive(Debug)]
pub struct LoadedLibrary {
    library: &'static Library,
    origin: String,
    file: Option<PathBuf>,
}

/// The error of a library that was found nowhere: every location tried, with the loader's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryNotFound {
    name: &'static str,
    path_variable: &'static str,
    tried: Vec<(String, String)>,
}

impl LibrarySpec {
    /// Loads the library from the first location that has it.
    ///
    /// # Errors
    ///
    /// [`LibraryNotFound`] if no location has it.
    ///
    /// # Safety
    ///
    /// Libraries of these names can be loaded by anyone at any time: their initialisers require
    /// nothing of the program.
    pub unsafe fn find(&self) -> Result<LoadedLibrary, LibraryNotFound> {
        let mut tried = Vec::new();
        for location in self.locations_here() {
            let name = location.to_string();
            // SAFETY: the caller vouches for libraries of these names.
            match unsafe { location.load() } {
                Ok(library) => {
                    return Ok(LoadedLibrary {
                        library: Box::leak(Box::new(library)),
                        origin: name,
                        file: location.file().map(Path::to_path_buf),
                    });
                }
                Err(message) => tried.push((name, message)),
            }
        }
        Err(LibraryNotFound {
            name: self.name,
            path_variable: self.path_variable,
            tried,
        })
    }

    /// Returns the file that [`find`](Self::find) tries first, without loading it. `None` if the
    /// process has loaded the library already, or if only the system's loader may find it.
    #[must_use]
    pub fn first_file(&self) -> Option<PathBuf> {
        let mut locations = self.locations_here().into_iter();
        let first = locations.find(|location| !location.is_skipped())?;
        first.file().map(Path::to_path_buf)
    }

    /// Creates the error for a library that was loaded but lacks functions.
    pub(crate) fn lacking(&self, origin: &str, functions: &str) -> LibraryNotFound {
        LibraryNotFound {
            name: self.name,
            path_variable: self.path_variable,
            tried: vec![(origin.to_owned(), format!("it has no {functions}"))],
        }
    }

    /// Lists the locations to try on this machine.
    fn locations_here(&self) -> Vec<search::SearchLocation> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        self.locations(Layout::HERE, &variable)
    }
}

/// Returns the loader's message for an error. libloading puts it into the error's source; the error
/// itself says only that loading failed.
pub(crate) fn loader_message(error: &libloading::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

impl LoadedLibrary {
    /// Returns the location from which the library was loaded.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the library's file, unless the system's loader found it, or the process had loaded
    /// it already.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Loads the files in the library's folder whose names begin with `prefix`: libraries that it
    /// loads by name, which the loader finds once they are loaded. A file that cannot be loaded is
    /// skipped.
    ///
    /// # Safety
    ///
    /// As for [`LibrarySpec::find`], for libraries of these names.
    pub unsafe fn load_beside(&self, prefix: &str) {
        let folder = self.file.as_deref().and_then(Path::parent);
        let Some(entries) = folder.and_then(|folder| fs::read_dir(folder).ok()) else {
            return;
        };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                // SAFETY: the caller vouches for libraries of these names.
                if let Ok(library) = unsafe { Library::new(entry.path()) } {
                    // While it stays loaded, the loader finds it by its name.
                    Box::leak(Box::new(library));
                }
            }
        }
    }

    /// Returns the function of this name, or `None` if the library has none.
    ///
    /// # Safety
    ///
    /// `F` is the type of a function pointer, and the function has that type.
    #[must_use]
    pub unsafe fn function<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: the caller vouches for the type.
        let symbol = unsafe { self.library.get::<F>(name) };
        symbol.ok().map(|function| *function)
    }
}

impl fmt::Display for LibraryNotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} could not be loaded (", self.name)?;
        for (location, message) in &self.tried {
            let tried = format!("tried {location}: {message}; ");
            f.write_str(&printable(&tried))?;
        }
        match self.path_variable {
            "" => f.write_str("install its package)"),
            variable => write!(f, "set {variable} to its file or folder)"),
        }
    }
}

impl Error for LibraryNotFound {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_the_process_has_loaded_is_found_with_its_functions() {
        const C: LibrarySpec = LibrarySpec {
            name: "the C library",
            path_variable: "MILLSTREAM_NO_SUCH_VARIABLE",
            files: &[("libc.so.6", "")],
            wheel_folders: &[],
        };
        // SAFETY: the C library is loaded already.
        let found = unsafe { C.find() }.expect("every process has it");
        assert_eq!(found.origin(), "libc.so.6, already loaded in this process");
        type Abs = unsafe extern "C" fn(i32) -> i32;
        // SAFETY: `abs` has this type.
        let abs: Abs = unsafe { found.function("abs") }.expect("it has abs");
        // SAFETY: `abs` requires only that its argument has a positive counterpart.
        assert_eq!(unsafe { abs(-3) }, 3);
        // SAFETY: no function of this name exists.
        assert!(unsafe { found.function::<Abs>("millstream_no_such_function") }.is_none());
    }

    #[test]
    fn a_path_that_was_tried_moves_no_cursor_of_a_terminal() {
        let error = LibraryNotFound {
            name: "NVRTC",
            path_variable: "MILLSTREAM_NVRTC",
            tried: vec![("/\x1b[2J".to_owned(), "no \x1b[2J".to_owned())],
        };
        assert!(!error.to_string().contains('\x1b'), "{error}");
    }
}
