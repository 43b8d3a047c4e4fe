//! The folders in which operating systems, Python and conda install libraries.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

/// The folder layout of an operating system.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Layout {
    Unix,
    Windows,
}

impl Layout {
    /// The layout of the system that this is compiled for.
    pub(super) const HERE: Self = if cfg!(windows) {
        Self::Windows
    } else {
        Self::Unix
    };

    /// Returns the folders with libraries within a CUDA toolkit.
    pub(super) fn toolkit_folders(self) -> &'static [&'static str] {
        match self {
            Self::Unix => &[
                "lib64",
                "lib",
                "targets/x86_64-linux/lib",
                "targets/sbsa-linux/lib",
                "nvvm/lib64",
            ],
            Self::Windows => &["bin/x64", "bin"],
        }
    }

    /// Returns the folder with libraries within a conda environment.
    pub(super) fn conda_folder(self) -> &'static str {
        match self {
            Self::Unix => "lib",
            Self::Windows => "Library/bin",
        }
    }

    /// Returns the installation prefix of the first Python in `PATH`.
    pub(super) fn python_prefix(self, path: &OsStr) -> Option<PathBuf> {
        let mut folders = std::env::split_paths(path);
        match self {
            Self::Unix => {
                let folder = folders.find(|folder| folder.join("python3").is_file())?;
                folder.parent().map(Path::to_path_buf)
            }
            Self::Windows => {
                let folder = folders.find(|folder| folder.join("python.exe").is_file())?;
                // In a virtual environment the interpreter lies in the folder `Scripts`.
                match folder.file_name() {
                    Some(name) if name.eq_ignore_ascii_case("Scripts") => {
                        folder.parent().map(Path::to_path_buf)
                    }
                    _ => Some(folder),
                }
            }
        }
    }

    /// Lists the folders of installed packages below a Python's prefix, newest Python first.
    pub(super) fn site_packages(self, prefix: &Path) -> Vec<PathBuf> {
        match self {
            Self::Unix => site_packages(prefix),
            Self::Windows => {
                let packages = prefix.join("Lib/site-packages");
                packages.is_dir().then_some(packages).into_iter().collect()
            }
        }
    }
}

/// Lists the folders of installed packages on Unix, newest Python first.
fn site_packages(prefix: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for library in ["lib", "lib64", "local/lib"] {
        let Ok(entries) = fs::read_dir(prefix.join(library)) else {
            continue;
        };
        let versions = entries.flatten().map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().and_then(OsStr::to_str);
            name.is_some_and(|name| name.starts_with("python3"))
        });
        let mut versions: Vec<_> = versions.collect();
        versions.sort_by_key(|path| std::cmp::Reverse(minor_version(path)));
        for version in versions {
            for packages in ["site-packages", "dist-packages"] {
                let packages = version.join(packages);
                if packages.is_dir() {
                    found.push(packages);
                }
            }
        }
    }
    found
}

/// Parses the minor version in a path: 12 for `…/python3.12`, 0 for `…/python3`.
fn minor_version(path: &Path) -> u32 {
    let extension = path.extension().and_then(OsStr::to_str);
    extension.and_then(|minor| minor.parse().ok()).unwrap_or(0)
}
