//! Installations of NVRTC and versions of files, told apart without reading them.

use std::{
    fs,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

/// An installation of NVRTC, told apart from others without loading it.
///
/// ```
/// use millstream_driver::nvrtc;
/// let (before, loaded) = (nvrtc::installation(), nvrtc::load());
/// if let (Some(before), Ok(loaded)) = (before, loaded) {
///     assert_eq!(before, *loaded.installation());
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// A text that differs between any two installations, from the files of the library and its
    /// built-in headers. `None` if the library's file is not known.
    pub identity: Option<String>,
    /// The library's file, if its path is known.
    pub file: Option<PathBuf>,
}

impl Installation {
    /// Describes the installation of a file, with the files beside it whose names begin with
    /// `builtins`.
    pub(super) fn of(file: Option<PathBuf>, builtins: &str) -> Self {
        let beside = file.as_deref().and_then(Path::parent).map(fs::read_dir);
        let mut parts: Vec<_> = beside
            .into_iter()
            .flatten()
            .flat_map(|entries| entries.flatten())
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(builtins))
            .map(|entry| file_identity(&entry.path()))
            .collect();
        parts.push(file.as_deref().and_then(file_identity));
        parts.sort();
        let identity = parts.into_iter().collect::<Option<Vec<_>>>();
        Self {
            identity: identity.map(|parts| parts.join(" ")),
            file,
        }
    }
}

/// Returns the path, length and times of a file, and on Unix its number, as a text. `None` if it
/// cannot be read. A program can set the time of modification, but not that of the last change.
#[must_use]
pub fn file_identity(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    #[cfg(unix)]
    let changed = {
        use std::os::unix::fs::MetadataExt;
        let (seconds, ns) = (metadata.ctime(), metadata.ctime_nsec());
        (metadata.dev(), metadata.ino(), seconds, ns)
    };
    #[cfg(not(unix))]
    let changed = ();
    let (bytes, ns) = (metadata.len(), modified.as_nanos());
    Some(format!("{path:?} {bytes} {ns} {changed:?}"))
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_of_equal_length_and_time_has_another_identity() {
        let path = std::env::temp_dir().join(format!("millstream-identity-{}", std::process::id()));
        fs::write(&path, "one").expect("a file is written");
        let first = file_identity(&path).expect("it exists");
        let time = fs::metadata(&path).and_then(|metadata| metadata.modified());
        std::thread::sleep(Duration::from_millis(20));
        fs::write(&path, "two").expect("a file is written");
        let file = fs::File::options().append(true).open(&path);
        file.and_then(|file| file.set_modified(time?))
            .expect("its time is set");
        let second = file_identity(&path).expect("it exists");
        fs::remove_file(&path).expect("a file is removed");
        assert_ne!(first, second);
        assert_eq!(file_identity(&path), None);
    }
}
