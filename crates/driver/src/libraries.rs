//! Where NVIDIA's other libraries are found at run time: what `libcuda` is not, and what nothing
//! here links to.
//!
//! A library is looked for in this order:
//!
//! 1. where an environment variable of its own says, a file or a folder, and then nowhere else;
//! 2. in the process, loaded by somebody else;
//! 3. in Python's wheels: under `site-packages` of `VIRTUAL_ENV`, of `CONDA_PREFIX` (and in its
//!    `lib`, or `Library\bin` on Windows), and of where the `python3` of `PATH` lies, or
//!    `python.exe` on Windows;
//! 4. where the system's loader looks;
//! 5. in the toolkit that `CUDA_HOME` or `CUDA_PATH` names.
//!
//! It is never unloaded.

#![allow(unsafe_code, reason = "loads libraries and finds their functions")]

mod layout;

use std::{
    error::Error,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use libloading::Library;

use layout::Layout;

/// A library to look for.
///
/// ```
/// use millstream_driver::libraries::Wanted;
///
/// let wanted = Wanted {
///     title: "a library that nobody has",
///     variable: "MILLSTREAM_NOBODYS",
///     files: &[("libnobodys.so.2", "libnobodyshelper.so.2")],
///     wheel_folders: &["nvidia/nobodys/lib"],
/// };
/// // SAFETY: nothing of that name is run.
/// let missing = unsafe { wanted.find() }.unwrap_err().to_string();
/// assert!(missing.starts_with("a library that nobody has could not be loaded"), "{missing}");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// What people call it.
    pub title: &'static str,
    /// The environment variable that says where it is.
    pub variable: &'static str,
    /// The names that its file may have, best first; each with that of a file beside it that it
    /// needs, or an empty one.
    pub files: &'static [(&'static str, &'static str)],
    /// Where it is within the `site-packages` of a Python that has its wheel.
    pub wheel_folders: &'static [&'static str],
}

/// A library that was found and loaded, for good.
///
/// ```
/// fn version(library: &millstream_driver::libraries::Found) -> String {
///     format!("{} lacks a function", library.place())
/// }
/// ```
#[derive(Debug)]
pub struct Found {
    library: &'static Library,
    place: String,
}

/// Why a library is not there: every place tried, with what was found there or what the loader
/// said.
///
/// ```
/// fn report(missing: &millstream_driver::libraries::NotFound) {
///     eprintln!("{missing}");
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFound {
    title: &'static str,
    variable: &'static str,
    tried: Vec<(String, String)>,
}

/// One way to have the library.
#[derive(Debug, PartialEq)]
enum Place {
    /// What has this name and is loaded already.
    Loaded(&'static str),
    /// This file, behind the one that it needs.
    File(PathBuf, Option<PathBuf>),
    /// What the system's loader has under this name.
    System(&'static str),
    /// Nothing, for this reason.
    Nothing(String, String),
}

impl Wanted {
    /// Loads the library from the first place that has it.
    ///
    /// # Errors
    ///
    /// If no place has it; the error lists them all.
    ///
    /// # Safety
    ///
    /// Libraries of these names can be loaded by anyone at any time: their initialisers ask nothing
    /// of their loader.
    pub unsafe fn find(&self) -> Result<Found, NotFound> {
        let mut tried = Vec::new();
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        for place in self.places(Layout::HERE, &variable) {
            let name = place.to_string();
            // SAFETY: the caller vouches for libraries of these names.
            match unsafe { place.load() } {
                Ok(library) => {
                    return Ok(Found {
                        library: Box::leak(Box::new(library)),
                        place: name,
                    });
                }
                Err(message) => tried.push((name, message)),
            }
        }
        Err(NotFound {
            title: self.title,
            variable: self.variable,
            tried,
        })
    }

    /// All places to look at, best first, by what the environment says.
    fn places(&self, layout: Layout, variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<Place> {
        if let Some(value) = variable(self.variable) {
            return self.places_at(Path::new(&value));
        }
        let mut places: Vec<_> = self
            .files
            .iter()
            .map(|(name, _)| Place::Loaded(name))
            .collect();
        let conda = variable("CONDA_PREFIX").map(PathBuf::from);
        let python = variable("PATH").and_then(|path| layout.python_prefix(&path));
        let prefixes = [
            variable("VIRTUAL_ENV").map(PathBuf::from),
            conda.clone(),
            python,
        ];
        let mut folders = Vec::new();
        for prefix in prefixes.into_iter().flatten() {
            for packages in layout.site_packages(&prefix) {
                folders.extend(
                    self.wheel_folders
                        .iter()
                        .map(|folder| packages.join(folder)),
                );
            }
            if conda.as_ref() == Some(&prefix) {
                folders.push(prefix.join(layout.conda_folder()));
            }
        }
        for (at, folder) in folders.iter().enumerate() {
            if folder.is_dir() && !folders[..at].contains(folder) {
                places.extend(self.files_in(folder));
            }
        }
        places.extend(self.files.iter().map(|(name, _)| Place::System(name)));
        for toolkit in ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable) {
            for folder in layout.toolkit_folders() {
                let folder = Path::new(&toolkit).join(folder);
                if folder.is_dir() {
                    places.extend(self.files_in(&folder));
                }
            }
        }
        places
    }

    /// The file that the library's own variable names, or those in the folder that it names.
    fn places_at(&self, path: &Path) -> Vec<Place> {
        if path.is_dir() {
            let found = self.files_in(path);
            if found.is_empty() {
                let names: Vec<_> = self.files.iter().map(|(name, _)| *name).collect();
                let reason = format!("has none of {}", names.join(", "));
                return vec![Place::Nothing(path.display().to_string(), reason)];
            }
            return found;
        }
        let named = self.files.iter().find(|(name, _)| path.ends_with(name));
        let companion = named.and_then(|(_, companion)| companion_in(path.parent()?, companion));
        vec![Place::File(path.to_path_buf(), companion)]
    }

    /// The library's files in this folder.
    fn files_in(&self, folder: &Path) -> Vec<Place> {
        let files = self
            .files
            .iter()
            .map(|(name, companion)| (folder.join(name), companion));
        files
            .filter(|(file, _)| file.exists())
            .map(|(file, companion)| Place::File(file, companion_in(folder, companion)))
            .collect()
    }
}

/// The file of this name in the folder, if there is one.
fn companion_in(folder: &Path, name: &str) -> Option<PathBuf> {
    let file = folder.join(name);
    file.is_file().then_some(file)
}

impl Place {
    /// Loads what is there.
    ///
    /// # Safety
    ///
    /// As for [`Wanted::find`].
    unsafe fn load(&self) -> Result<Library, String> {
        let loaded = match self {
            // SAFETY: the caller vouches for the library; this one is loaded already.
            Self::Loaded(name) => unsafe { loaded_already(name) },
            Self::File(path, companion) => {
                if let Some(companion) = companion {
                    // SAFETY: the caller vouches for the library and so for what it needs.
                    let companion =
                        unsafe { Library::new(companion) }.map_err(|error| words_of(&error))?;
                    // The loader finds it by its name as long as it stays.
                    Box::leak(Box::new(companion));
                }
                // SAFETY: the caller vouches for the library.
                unsafe { Library::new(path) }
            }
            // SAFETY: the caller vouches for the library.
            Self::System(name) => unsafe { Library::new(*name) },
            Self::Nothing(_, reason) => return Err(reason.clone()),
        };
        loaded.map_err(|error| words_of(&error))
    }
}

/// The loader's own words are the error's source; the error itself says only that a load failed.
pub(crate) fn words_of(error: &libloading::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

/// The library of this name if the process has it.
///
/// # Safety
///
/// As for [`Wanted::find`].
#[cfg(unix)]
unsafe fn loaded_already(name: &str) -> Result<Library, libloading::Error> {
    let flags = libc::RTLD_NOLOAD | libc::RTLD_LAZY;
    // SAFETY: nothing is loaded, so nothing runs.
    unsafe { libloading::os::unix::Library::open(Some(name), flags) }.map(Library::from)
}

/// The library of this name if the process has it.
///
/// # Safety
///
/// As for [`Wanted::find`].
#[cfg(windows)]
unsafe fn loaded_already(name: &str) -> Result<Library, libloading::Error> {
    libloading::os::windows::Library::open_already_loaded(name).map(Library::from)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loaded(name) => write!(f, "{name} loaded by others"),
            Self::File(path, _) => path.display().fmt(f),
            Self::System(name) => write!(f, "{name} by the system's loader"),
            Self::Nothing(name, _) => f.write_str(name),
        }
    }
}

impl Found {
    /// Where it was found.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The function of this name, or nothing if the library has none.
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

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} could not be loaded (", self.title)?;
        for (place, message) in &self.tried {
            write!(f, "tried {place}: {message}; ")?;
        }
        write!(f, "{} can name its file or folder)", self.variable)
    }
}

impl Error for NotFound {}

#[cfg(test)]
mod tests {
    use std::{fs, process};

    use super::*;

    const WANTED: Wanted = Wanted {
        title: "a library",
        variable: "WHERE",
        files: &[("liba.so.2", "libb.so.2"), ("liba.so.1", "")],
        wheel_folders: &["nvidia/cu/lib", "nvidia/a/lib"],
    };

    /// A folder with empty files at these paths, removed when it is dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn with(name: &str, files: &[&str]) -> Self {
            let root = std::env::temp_dir().join(format!("millstream-{name}-{}", process::id()));
            for file in files {
                let file = root.join(file);
                fs::create_dir_all(file.parent().expect("a folder")).expect("a folder is made");
                fs::write(file, "").expect("a file is written");
            }
            Self(root)
        }

        fn places(&self, variables: &[(&str, &str)]) -> Vec<Place> {
            self.places_of(WANTED, Layout::Unix, variables)
        }

        fn places_of(
            &self,
            wanted: Wanted,
            layout: Layout,
            variables: &[(&str, &str)],
        ) -> Vec<Place> {
            wanted.places(layout, &|name| {
                let found = variables.iter().find(|(variable, _)| *variable == name);
                found.map(|(_, path)| self.0.join(path).into_os_string())
            })
        }

        fn file(&self, path: &str, companion: Option<&str>) -> Place {
            Place::File(self.0.join(path), companion.map(|path| self.0.join(path)))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            // What is left lies among temporary files.
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn places_are_tried_in_the_order_that_is_promised() {
        let folder = Folder::with(
            "order",
            &[
                "venv/lib/python3.9/site-packages/nvidia/a/lib/liba.so.1",
                "venv/lib/python3.11/site-packages/nvidia/cu/lib/liba.so.2",
                "venv/lib/python3.11/site-packages/nvidia/cu/lib/libb.so.2",
                "conda/lib/liba.so.1",
                "usr/bin/python3",
                "usr/lib/python3/dist-packages/nvidia/a/lib/liba.so.2",
                "cuda/lib64/liba.so.1",
            ],
        );
        let places = folder.places(&[
            ("VIRTUAL_ENV", "venv"),
            ("CONDA_PREFIX", "conda"),
            ("PATH", "usr/bin"),
            ("CUDA_PATH", "cuda"),
        ]);
        let cu = "venv/lib/python3.11/site-packages/nvidia/cu/lib";
        assert_eq!(
            places,
            [
                Place::Loaded("liba.so.2"),
                Place::Loaded("liba.so.1"),
                folder.file(&format!("{cu}/liba.so.2"), Some(&format!("{cu}/libb.so.2"))),
                folder.file(
                    "venv/lib/python3.9/site-packages/nvidia/a/lib/liba.so.1",
                    None
                ),
                folder.file("conda/lib/liba.so.1", None),
                folder.file("usr/lib/python3/dist-packages/nvidia/a/lib/liba.so.2", None),
                Place::System("liba.so.2"),
                Place::System("liba.so.1"),
                folder.file("cuda/lib64/liba.so.1", None),
            ]
        );
    }

    #[test]
    fn windows_has_its_own_folders() {
        const WANTED: Wanted = Wanted {
            title: "a library",
            variable: "WHERE",
            files: &[("a64_2.dll", "b64_2.dll")],
            wheel_folders: &["nvidia/a/bin"],
        };
        let folder = Folder::with(
            "windows",
            &[
                "venv/Lib/site-packages/nvidia/a/bin/a64_2.dll",
                "conda/Library/bin/a64_2.dll",
                "conda/Library/bin/b64_2.dll",
                "python/python.exe",
                "python/Lib/site-packages/nvidia/a/bin/a64_2.dll",
                "other/Scripts/python.exe",
                "other/Lib/site-packages/nvidia/a/bin/a64_2.dll",
                "cuda/bin/a64_2.dll",
                "cuda/bin/x64/a64_2.dll",
            ],
        );
        let places =
            |variables: &[(&str, &str)]| folder.places_of(WANTED, Layout::Windows, variables);
        let (loaded, system) = (Place::Loaded("a64_2.dll"), Place::System("a64_2.dll"));
        let all = places(&[
            ("VIRTUAL_ENV", "venv"),
            ("CONDA_PREFIX", "conda"),
            ("PATH", "python"),
            ("CUDA_PATH", "cuda"),
        ]);
        assert_eq!(
            all,
            [
                loaded,
                folder.file("venv/Lib/site-packages/nvidia/a/bin/a64_2.dll", None),
                folder.file(
                    "conda/Library/bin/a64_2.dll",
                    Some("conda/Library/bin/b64_2.dll")
                ),
                folder.file("python/Lib/site-packages/nvidia/a/bin/a64_2.dll", None),
                system,
                folder.file("cuda/bin/x64/a64_2.dll", None),
                folder.file("cuda/bin/a64_2.dll", None),
            ]
        );
        let scripts = places(&[("PATH", "other/Scripts")]);
        let packages = folder.file("other/Lib/site-packages/nvidia/a/bin/a64_2.dll", None);
        assert!(scripts.contains(&packages), "{scripts:?}");
    }

    #[test]
    fn a_variable_of_its_own_is_the_last_word() {
        let folder = Folder::with(
            "variable",
            &[
                "here/liba.so.1",
                "venv/lib/python3.9/site-packages/nvidia/a/lib/liba.so.1",
            ],
        );
        let others = ("VIRTUAL_ENV", "venv");
        assert_eq!(
            folder.places(&[("WHERE", "here"), others]),
            [folder.file("here/liba.so.1", None)]
        );
        assert_eq!(
            folder.places(&[("WHERE", "here/other.so"), others]),
            [folder.file("here/other.so", None)]
        );
        let empty = folder.places(&[("WHERE", "venv"), others]);
        let [Place::Nothing(_, reason)] = &empty[..] else {
            panic!("a folder without the library: {empty:?}");
        };
        assert_eq!(reason, "has none of liba.so.2, liba.so.1");
    }

    #[test]
    fn what_is_no_library_is_an_error_that_says_where_it_was() {
        let folder = Folder::with("broken", &["liba.so.1"]);
        let [place] = &folder.places(&[("WHERE", "")])[..] else {
            panic!("one file");
        };
        // SAFETY: an empty file has nothing that could run.
        let message = unsafe { place.load() }.expect_err("an empty file is no library");
        assert!(message.contains("liba.so.1"), "{message}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_that_the_process_has_is_found_there_and_its_functions_with_it() {
        const C: Wanted = Wanted {
            title: "the C library",
            variable: "MILLSTREAM_NO_SUCH_VARIABLE",
            files: &[("libc.so.6", "")],
            wheel_folders: &[],
        };
        // SAFETY: it is loaded already.
        let found = unsafe { C.find() }.expect("every process has it");
        assert_eq!(found.place(), "libc.so.6 loaded by others");
        type Abs = unsafe extern "C" fn(i32) -> i32;
        // SAFETY: that is its type.
        let abs: Abs = unsafe { found.function("abs") }.expect("it has abs");
        // SAFETY: it asks nothing of its argument but to have a positive counterpart.
        assert_eq!(unsafe { abs(-3) }, 3);
        // SAFETY: there is none.
        assert!(unsafe { found.function::<Abs>("millstream_no_such_function") }.is_none());
    }
}
