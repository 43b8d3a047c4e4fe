//! Where operating systems, Python and conda put libraries.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

/// How an operating system's folders are laid out.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Layout {
    Unix,
    Windows,
}

impl Layout {
    /// That of this system.
    pub(super) const HERE: Self = if cfg!(windows) {
        Self::Windows
    } else {
        Self::Unix
    };

    /// The toolkit's folders with libraries.
    pub(super) fn toolkit_folders(self) -> &'static [&'static str] {
        match self {
            Self::Unix => &[
                "lib64",
                "lib",
                "targets/x86_64-linux/lib",
                "targets/sbsa-linux/lib",
            ],
            Self::Windows => &["bin/x64", "bin"],
        }
    }

    /// The folder with libraries of a conda environment.
    pub(super) fn conda_folder(self) -> &'static str {
        match self {
            Self::Unix => "lib",
            Self::Windows => "Library/bin",
        }
    }

    /// The prefix of the Python that `PATH` finds first.
    pub(super) fn python_prefix(self, path: &OsStr) -> Option<PathBuf> {
        let mut folders = std::env::split_paths(path);
        match self {
            Self::Unix => {
                let folder = folders.find(|folder| folder.join("python3").is_file())?;
                folder.parent().map(Path::to_path_buf)
            }
            Self::Windows => {
                let folder = folders.find(|folder| folder.join("python.exe").is_file())?;
                // Of a virtual environment it lies in a folder of its own.
                match folder.file_name() {
                    Some(name) if name.eq_ignore_ascii_case("Scripts") => {
                        folder.parent().map(Path::to_path_buf)
                    }
                    _ => Some(folder),
                }
            }
        }
    }

    /// The folders of installed packages below a Python's prefix, newest Python first.
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

/// The folders of installed packages below a Python's prefix, newest Python first.
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

/// 12 for `…/python3.12`, 0 for `…/python3`.
fn minor_version(path: &Path) -> u32 {
    let extension = path.extension().and_then(OsStr::to_str);
    extension.and_then(|minor| minor.parse().ok()).unwrap_or(0)
}
