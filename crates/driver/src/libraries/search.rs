//! The locations where a library is searched for, in order.

#![allow(unsafe_code, reason = "loads libraries")]

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use libloading::Library;

use super::{LibrarySpec, layout::Layout, loader_message};

/// A location to load the library from.
#[derive(Debug, PartialEq)]
pub(super) enum SearchLocation {
    /// A library of this name that the process has loaded already.
    Loaded(&'static str),
    /// This file, after its companion, if it has one.
    File(PathBuf, Option<PathBuf>),
    /// The library that the system's loader finds under this name.
    System(&'static str),
    /// A folder without the library, and the reason to report.
    Nothing(String, String),
}

impl LibrarySpec {
    /// Lists all locations to try, in order, given the environment's variables.
    pub(super) fn locations(
        &self,
        layout: Layout,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Vec<SearchLocation> {
        if let Some(value) = variable(self.path_variable) {
            return self.locations_at(Path::new(&value));
        }
        let mut locations: Vec<_> = self
            .files
            .iter()
            .map(|(name, _)| SearchLocation::Loaded(name))
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
                locations.extend(self.files_in(folder));
            }
        }
        locations.extend(
            self.files
                .iter()
                .map(|(name, _)| SearchLocation::System(name)),
        );
        for toolkit in ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable) {
            for folder in layout.toolkit_folders() {
                let folder = Path::new(&toolkit).join(folder);
                if folder.is_dir() {
                    locations.extend(self.files_in(&folder));
                }
            }
        }
        locations
    }

    /// Lists the locations at the path that the library's own variable holds: that file, or the
    /// library's files in that folder.
    fn locations_at(&self, path: &Path) -> Vec<SearchLocation> {
        if path.is_dir() {
            let found = self.files_in(path);
            if found.is_empty() {
                let names: Vec<_> = self.files.iter().map(|(name, _)| *name).collect();
                let reason = format!("has none of {}", names.join(", "));
                return vec![SearchLocation::Nothing(path.display().to_string(), reason)];
            }
            return found;
        }
        let named = self.files.iter().find(|(name, _)| path.ends_with(name));
        let companion = named.and_then(|(_, companion)| companion_in(path.parent()?, companion));
        vec![SearchLocation::File(path.to_path_buf(), companion)]
    }

    fn files_in(&self, folder: &Path) -> Vec<SearchLocation> {
        let files = self
            .files
            .iter()
            .map(|(name, companion)| (folder.join(name), companion));
        files
            .filter(|(file, _)| file.exists())
            .map(|(file, companion)| SearchLocation::File(file, companion_in(folder, companion)))
            .collect()
    }
}

/// Returns the path of the companion in the folder, if the folder has it.
fn companion_in(folder: &Path, name: &str) -> Option<PathBuf> {
    let file = folder.join(name);
    file.is_file().then_some(file)
}

impl SearchLocation {
    /// Returns the file of this location, if it is one.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path, _) => Some(path),
            _ => None,
        }
    }

    /// Returns whether the search passes over this location without loading anything.
    pub(super) fn is_skipped(&self) -> bool {
        match self {
            // SAFETY: this only looks for a library that is loaded.
            Self::Loaded(name) => unsafe { loaded_already(name) }.is_err(),
            Self::Nothing(..) => true,
            Self::File(..) | Self::System(_) => false,
        }
    }

    /// Loads the library from this location.
    ///
    /// # Safety
    ///
    /// As for [`LibrarySpec::find`].
    pub(super) unsafe fn load(&self) -> Result<Library, String> {
        let loaded = match self {
            // SAFETY: the caller vouches for the library; this one is loaded already.
            Self::Loaded(name) => unsafe { loaded_already(name) },
            Self::File(path, companion) => {
                if let Some(companion) = companion {
                    // SAFETY: the caller vouches for the library and so for its companion.
                    let companion = unsafe { Library::new(companion) }
                        .map_err(|error| loader_message(&error))?;
                    // While it stays loaded, the loader finds it by its name.
                    Box::leak(Box::new(companion));
                }
                // SAFETY: the caller vouches for the library.
                unsafe { Library::new(path) }
            }
            // SAFETY: the caller vouches for the library.
            Self::System(name) => unsafe { Library::new(*name) },
            Self::Nothing(_, reason) => return Err(reason.clone()),
        };
        loaded.map_err(|error| loader_message(&error))
    }
}

/// Returns the library of this name if the process has loaded it.
///
/// # Safety
///
/// As for [`LibrarySpec::find`].
#[cfg(unix)]
unsafe fn loaded_already(name: &str) -> Result<Library, libloading::Error> {
    let flags = libc::RTLD_NOLOAD | libc::RTLD_LAZY;
    // SAFETY: this loads nothing, so no initialiser runs.
    unsafe { libloading::os::unix::Library::open(Some(name), flags) }.map(Library::from)
}

/// Returns the library of this name if the process has loaded it.
///
/// # Safety
///
/// As for [`LibrarySpec::find`].
#[cfg(windows)]
unsafe fn loaded_already(name: &str) -> Result<Library, libloading::Error> {
    libloading::os::windows::Library::open_already_loaded(name).map(Library::from)
}

impl fmt::Display for SearchLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loaded(name) => write!(f, "{name}, already loaded in this process"),
            Self::File(path, _) => path.display().fmt(f),
            Self::System(name) => write!(f, "{name} with the system's loader"),
            Self::Nothing(name, _) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, process};

    use super::*;

    const SPEC: LibrarySpec = LibrarySpec {
        name: "a library",
        path_variable: "WHERE",
        files: &[("liba.so.2", "libb.so.2"), ("liba.so.1", "")],
        wheel_folders: &["nvidia/cu/lib", "nvidia/a/lib"],
    };

    /// A temporary folder with empty files, removed on drop.
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

        fn locations(&self, variables: &[(&str, &str)]) -> Vec<SearchLocation> {
            self.locations_of(SPEC, Layout::Unix, variables)
        }

        fn locations_of(
            &self,
            spec: LibrarySpec,
            layout: Layout,
            variables: &[(&str, &str)],
        ) -> Vec<SearchLocation> {
            spec.locations(layout, &|name| {
                let found = variables.iter().find(|(variable, _)| *variable == name);
                found.map(|(_, path)| self.0.join(path).into_os_string())
            })
        }

        fn file(&self, path: &str, companion: Option<&str>) -> SearchLocation {
            SearchLocation::File(self.0.join(path), companion.map(|path| self.0.join(path)))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            // A folder that cannot be removed remains among the temporary files.
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn locations_are_tried_in_the_documented_order() {
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
        let locations = folder.locations(&[
            ("VIRTUAL_ENV", "venv"),
            ("CONDA_PREFIX", "conda"),
            ("PATH", "usr/bin"),
            ("CUDA_PATH", "cuda"),
        ]);
        let cu = "venv/lib/python3.11/site-packages/nvidia/cu/lib";
        assert_eq!(
            locations,
            [
                SearchLocation::Loaded("liba.so.2"),
                SearchLocation::Loaded("liba.so.1"),
                folder.file(&format!("{cu}/liba.so.2"), Some(&format!("{cu}/libb.so.2"))),
                folder.file(
                    "venv/lib/python3.9/site-packages/nvidia/a/lib/liba.so.1",
                    None
                ),
                folder.file("conda/lib/liba.so.1", None),
                folder.file("usr/lib/python3/dist-packages/nvidia/a/lib/liba.so.2", None),
                SearchLocation::System("liba.so.2"),
                SearchLocation::System("liba.so.1"),
                folder.file("cuda/lib64/liba.so.1", None),
            ]
        );
    }

    #[test]
    fn windows_folders_are_searched_on_windows() {
        const SPEC: LibrarySpec = LibrarySpec {
            name: "a library",
            path_variable: "WHERE",
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
        let locations =
            |variables: &[(&str, &str)]| folder.locations_of(SPEC, Layout::Windows, variables);
        let loaded = SearchLocation::Loaded("a64_2.dll");
        let system = SearchLocation::System("a64_2.dll");
        let all = locations(&[
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
        let scripts = locations(&[("PATH", "other/Scripts")]);
        let packages = folder.file("other/Lib/site-packages/nvidia/a/bin/a64_2.dll", None);
        assert!(scripts.contains(&packages), "{scripts:?}");
    }

    #[test]
    fn the_librarys_own_variable_excludes_all_other_locations() {
        let folder = Folder::with(
            "variable",
            &[
                "here/liba.so.1",
                "venv/lib/python3.9/site-packages/nvidia/a/lib/liba.so.1",
            ],
        );
        let others = ("VIRTUAL_ENV", "venv");
        assert_eq!(
            folder.locations(&[("WHERE", "here"), others]),
            [folder.file("here/liba.so.1", None)]
        );
        assert_eq!(
            folder.locations(&[("WHERE", "here/other.so"), others]),
            [folder.file("here/other.so", None)]
        );
        let empty = folder.locations(&[("WHERE", "venv"), others]);
        let [SearchLocation::Nothing(_, reason)] = &empty[..] else {
            panic!("a folder without the library: {empty:?}");
        };
        assert_eq!(reason, "has none of liba.so.2, liba.so.1");
    }

    #[test]
    fn a_file_that_is_no_library_is_an_error_that_names_the_file() {
        let folder = Folder::with("broken", &["liba.so.1"]);
        let [location] = &folder.locations(&[("WHERE", "")])[..] else {
            panic!("one file");
        };
        // SAFETY: an empty file has nothing that could run.
        let message = unsafe { location.load() }.expect_err("an empty file is no library");
        assert!(message.contains("liba.so.1"), "{message}");
    }
}
