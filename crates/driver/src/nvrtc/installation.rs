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
    /// A text that differs between any two installations: the path, length and time of the
    /// library's file, or the version if the file is not known.
    pub identity: String,
    /// The library's file, if its path is known.
    pub file: Option<PathBuf>,
}

/// Returns the path, length and modification time of a file as a text, or `None` if it cannot be
/// read.
#[must_use]
pub fn file_identity(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let (bytes, ns) = (metadata.len(), modified.as_nanos());
    Some(format!("{} {bytes} {ns}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_of_a_file_changes_with_its_contents_length() {
        let path = std::env::temp_dir().join(format!("millstream-identity-{}", std::process::id()));
        fs::write(&path, "one").expect("a file is written");
        let first = file_identity(&path).expect("it exists");
        fs::write(&path, "three").expect("a file is written");
        let second = file_identity(&path).expect("it exists");
        fs::remove_file(&path).expect("a file is removed");
        assert_ne!(first, second);
        assert_eq!(file_identity(&path), None);
    }
}
