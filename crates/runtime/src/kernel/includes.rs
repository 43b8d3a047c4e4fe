//! The headers of CUDA C++: the folders in which CUDA's are, and the files that a source includes.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use millstream_driver::nvrtc;

/// The time after a file's modification within which its time stamp does not prove that it is
/// unchanged: a second write may have the same one.
const STAMP_UNCERTAIN: Duration = Duration::from_secs(2);

/// Returns the folders with CUDA's own headers: beside NVRTC's file, and in the toolkit.
pub(super) fn cuda_folders(nvrtc_file: Option<&Path>) -> Vec<PathBuf> {
    let mut candidates = Vec::new();
    if let Some(folder) = nvrtc_file.and_then(Path::parent) {
        // `nvidia/cu13/lib` has `nvidia/cu13/include` beside it; `nvidia/cuda_nvrtc/lib` has the
        // headers of the runtime in `nvidia/cuda_runtime/include`; a toolkit has `lib64` beside
        // `include`.
        for up in folder.ancestors().skip(1).take(3) {
            candidates.push(up.join("include"));
            candidates.push(up.join("cuda_runtime/include"));
            candidates.push(up.join("cuda_cccl/include"));
        }
    }
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        if let Some(home) = std::env::var_os(variable).filter(|value| !value.is_empty()) {
            candidates.push(Path::new(&home).join("include"));
        }
    }
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in candidates {
        // The folder of NVRTC's wheel has only nvrtc.h.
        let is_cuda = ["cuda_fp16.h", "cuda", "cooperative_groups.h"]
            .iter()
            .any(|name| folder.join(name).exists());
        if is_cuda && !folders.contains(&folder) {
            // Since CUDA 13 the headers of libcu++ are in a folder of their own.
            let cccl = folder.join("cccl");
            folders.push(folder);
            if cccl.is_dir() {
                folders.push(cccl);
            }
        }
    }
    folders
}

/// A file that a compilation depends on, by path; with its identity, or `None` if there is none,
/// which would otherwise be found in the place of another.
pub(super) type Dependency = (PathBuf, Option<String>);

/// Returns the files that a source may include, directly and through other files: in every folder
/// that is searched, whether the file is there or not, so that the order of the search does not
/// matter. `None` if that cannot be told: an `#include` whose operand is a macro, or a file that
/// was changed just now.
pub(super) fn dependencies(
    text: &str,
    headers: &[(String, String)],
    folders: &[PathBuf],
) -> Option<Vec<Dependency>> {
    let mut found = Vec::new();
    let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
    let mut pending: Vec<(String, Option<PathBuf>)> = vec![(text.to_owned(), None)];
    for (_, header) in headers {
        pending.push((header.clone(), None));
    }
    while let Some((text, folder)) = pending.pop() {
        for name in included(&text)? {
            if headers.iter().any(|(known, _)| known == name) {
                continue;
            }
            for folder in folder.iter().chain(folders) {
                let place = folder.join(name);
                if !seen.insert(place.clone()) {
                    continue;
                }
                let identity = nvrtc::file_identity(&place).filter(|_| place.is_file());
                if identity.is_some() {
                    if !is_settled(&place) {
                        return None;
                    }
                    let text = fs::read(&place).ok()?;
                    let text = String::from_utf8_lossy(&text).into_owned();
                    pending.push((text, place.parent().map(Path::to_path_buf)));
                }
                found.push((place, identity));
            }
        }
    }
    found.sort();
    Some(found)
}

/// Returns whether all dependencies are as they were.
pub(super) fn unchanged(dependencies: &[Dependency]) -> bool {
    dependencies
        .iter()
        .all(|(path, identity)| nvrtc::file_identity(path) == *identity)
}

/// Returns whether a file was last changed long enough ago.
fn is_settled(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    let age = modified.map(|modified| SystemTime::now().duration_since(modified));
    matches!(age, Ok(Ok(age)) if age > STAMP_UNCERTAIN)
}

/// Returns the operands of the `#include` directives of a text, also if conditions
/// exclude. `None` if one is a macro.
fn included(text: &str) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    for line in text.lines() {
        let Some(directive) = line.trim_start().strip_prefix('#') else {
            continue;
        };
        let Some(operand) = directive.trim_start().strip_prefix("include") else {
            continue;
        };
        let operand = operand.trim_start();
        let closing = match operand.chars().next() {
            Some('"') => '"',
            Some('<') => '>',
            // `#include_next`, or a macro.
            _ => return None,
        };
        names.push(operand[1..].split(closing).next()?);
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A temporary folder, removed on drop.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("millstream-includes-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir_all(&folder).expect("a folder is made");
            Self(folder)
        }

        /// Writes a file that was changed long ago.
        fn write(&self, name: &str, text: &str) {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder is made");
            fs::write(&path, text).expect("a file is written");
            let file = fs::File::options()
                .write(true)
                .open(&path)
                .expect("it opens");
            let past = SystemTime::now() - Duration::from_secs(100);
            file.set_modified(past).expect("its time is set");
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            // A folder that cannot be removed remains among the temporary files.
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_are_followed_and_other_places_must_stay_empty() {
        let folder = Folder::new("followed");
        folder.write(
            "b/one.h",
            "#pragma once\n  #  include <two.h>\n#include \"given.h\"\n",
        );
        folder.write("b/two.h", "#include \"one.h\"\n");
        let folders = [folder.0.join("a"), folder.0.join("b")];
        let headers = [("given.h".to_owned(), String::new())];
        let found = dependencies("#include \"one.h\"\nint x;", &headers, &folders);
        let found = found.expect("no macros");
        let paths: Vec<_> = found
            .iter()
            .map(|(path, identity)| {
                (
                    path.strip_prefix(&folder.0).expect("within"),
                    identity.is_some(),
                )
            })
            .collect();
        let expected = [
            ("a/one.h", false),
            ("a/two.h", false),
            ("b/one.h", true),
            ("b/two.h", true),
        ];
        assert_eq!(
            paths,
            expected.map(|(path, exists)| (Path::new(path), exists))
        );
        assert!(unchanged(&found));
        folder.write("a/two.h", "");
        assert!(!unchanged(&found), "another folder has the header now");
    }

    #[test]
    fn a_changed_header_changes_the_dependencies() {
        let folder = Folder::new("changed");
        folder.write("one.h", "1");
        let folders = [folder.0.clone()];
        let found = dependencies("#include <one.h>", &[], &folders).expect("no macros");
        folder.write("one.h", "12");
        assert!(!unchanged(&found));
    }

    #[test]
    fn what_cannot_be_told_has_no_dependencies() {
        assert_eq!(
            dependencies("#define H <a.h>\n#include H\n", &[], &[]),
            None
        );
        assert_eq!(
            dependencies("int x; // #include H", &[], &[]),
            Some(Vec::new())
        );
        let folder = Folder::new("fresh");
        fs::write(folder.0.join("one.h"), "").expect("a file is written");
        let found = dependencies("#include <one.h>", &[], std::slice::from_ref(&folder.0));
        assert_eq!(
            found, None,
            "the file may be written again with the same time"
        );
    }
}
