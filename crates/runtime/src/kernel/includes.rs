//! The headers of CUDA C++: the folders in which CUDA's are, and the files that a source includes.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    io, iter,
    path::{self, Path, PathBuf},
};

use millstream_driver::nvrtc;

use super::{Cuda, compile::NOWHERE, disk_cache::read_regular, sha256::sha256};

/// The folders of a compilation, as absolute paths.
pub(super) struct Folders {
    /// The working directory; empty if its path is not UTF-8 or cannot be told.
    pub(super) here: String,
    /// The folders in which `#include` searches, in order; true for those of CUDA's own headers.
    pub(super) list: Vec<(String, bool)>,
}

impl Folders {
    /// Returns the folders of a source, then those of CUDA.
    pub(super) fn of(source: &Cuda, nvrtc_file: Option<&Path>) -> Self {
        let own = source.folders.iter().map(|folder| (folder.clone(), false));
        let cuda = cuda_folders(nvrtc_file);
        let all = own.chain(cuda.into_iter().map(|folder| (folder, true)));
        let absolute = |(folder, is_cuda): (PathBuf, bool)| {
            let absolute = path::absolute(folder.join(".")).unwrap_or(folder);
            (absolute.display().to_string(), is_cuda)
        };
        Self {
            here: working_directory(),
            list: all.map(absolute).collect(),
        }
    }
}

/// Returns the path of the working directory; empty if it is not UTF-8 or cannot be told.
pub(super) fn working_directory() -> String {
    let here = std::env::current_dir().ok();
    let here = here.and_then(|here| here.into_os_string().into_string().ok());
    here.unwrap_or_default()
}

/// Returns the folders with CUDA's own headers: beside NVRTC's file, and in the toolkit.
fn cuda_folders(nvrtc_file: Option<&Path>) -> Vec<PathBuf> {
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

/// A path that a compilation may try, with the hash of the file's content, or `None` if no file is
/// there: a file that appears is found in the place of another.
pub(super) type Dependency = (String, Option<[u8; 32]>);

/// The largest number of paths that a compilation may try. Headers that include each other by `../`
/// would have infinitely many.
const PATHS_MAX: usize = 20_000;

/// The options that read no file and do not depend on the time, up to their `=`, without the first
/// `-` if there are two.
const PURE_OPTIONS: &str = "-gpu-architecture -arch -define-macro -undefine-macro -std \
    -use_fast_math -fmad -ftz -prec-div -prec-sqrt -maxrregcount -device-debug -G \
    -generate-line-info -lineinfo -extra-device-vectorization -relocatable-device-code -rdc \
    -device-as-default-execution-space -default-device -device-int128 -restrict \
    -disable-warnings -w -diag-suppress -diag-warn -diag-error";

/// The words whose meaning depends on more than the text. The first three search for a header:
/// NVRTC has two of them, and libcu++ defines the third.
const IMPURE_WORDS: [&str; 7] = [
    "__has_include",
    "__has_include_next",
    "_CCCL_HAS_INCLUDE",
    "__has_embed",
    "__DATE__",
    "__TIME__",
    "__TIMESTAMP__",
];

/// Returns whether NVRTC will read only the texts and folders of the source: all its options are
/// listed above, and `NVRTC_APPEND_FLAGS` adds none.
pub(super) fn is_pure(source: &Cuda) -> bool {
    let is_pure = |option: &String| {
        let name = option.split('=').next().unwrap_or_default();
        let short = name.strip_prefix('-').filter(|name| name.starts_with('-'));
        let name = short.unwrap_or(name);
        let is_macro = name.starts_with("-D") || name.starts_with("-U");
        is_macro || PURE_OPTIONS.split(' ').any(|known| known == name)
    };
    let adds_options = |(name, _): (OsString, OsString)| {
        let name = name.as_encoded_bytes();
        name.starts_with(b"NVRTC") || name.starts_with(b"EDG_")
    };
    source.options.iter().all(is_pure) && !std::env::vars_os().any(adds_options)
}

/// Returns the paths that a compilation may try for its headers, directly and through other files:
/// every searched folder, whether the file is there or not, so that the order of the search does
/// not matter. `None` if the texts do not tell.
///
/// Headers that were given as texts search the working directory. CUDA's own headers are trusted
/// not to build the words above out of parts.
pub(super) fn dependencies(source: &Cuda, folders: &Folders) -> Option<Vec<Dependency>> {
    let mut dependencies = Vec::new();
    let mut seen = BTreeSet::new();
    let source_texts = iter::once(&source.text).chain(&source.options);
    let source_texts = source_texts.chain(&source.instantiations);
    let source_texts = source_texts.map(|text| (text.clone().into_bytes(), NOWHERE.into(), false));
    let mut pending: Vec<(Vec<u8>, PathBuf, bool)> = source_texts.collect();
    for (name, text) in &source.headers {
        let place = Path::new(&folders.here).join(name);
        pending.push((text.clone().into_bytes(), parent(&place), false));
    }
    while let Some((text, includer, is_cuda)) = pending.pop() {
        for name in included(&text, is_cuda)? {
            if source.headers.iter().any(|(known, _)| *known == name) {
                continue;
            }
            // NVRTC searches for `vector.stdh`, too, if a name has no extension.
            let has_extension = Path::new(&name).extension().is_some();
            let suffixes: &[&str] = if has_extension { &[""] } else { &["", ".stdh"] };
            let is_within = !name.split('/').any(|part| part == "..");
            let searched = folders.list.iter();
            let searched = searched.map(|(root, of_cuda)| (Path::new(root), *of_cuda && is_within));
            for (root, is_cuda) in iter::once((&*includer, is_cuda)).chain(searched) {
                for suffix in suffixes {
                    let path = root.join(format!("{name}{suffix}"));
                    if !seen.insert(path.clone()) {
                        continue;
                    }
                    if seen.len() > PATHS_MAX {
                        return None;
                    }
                    let text = contents(&path).ok()?;
                    dependencies.push((path.display().to_string(), text.as_deref().map(sha256)));
                    pending.extend(text.map(|text| (text, parent(&path), is_cuda)));
                }
            }
        }
    }
    dependencies.sort();
    Some(dependencies)
}

fn parent(path: &Path) -> PathBuf {
    path.parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Returns the content of a file, or `None` if there is none.
fn contents(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match read_regular(path, true) {
        Ok((_, bytes)) => Ok(Some(bytes)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(error),
        },
    }
}

/// Returns whether all dependencies have the same contents as before.
pub(super) fn unchanged(dependencies: &[Dependency]) -> bool {
    dependencies.iter().all(|(path, hash)| {
        contents(Path::new(path)).is_ok_and(|now| now.as_deref().map(sha256) == *hash)
    })
}

/// Returns stamps of the files that differ if one of them was written in between, even if it was
/// then written back.
pub(super) fn stamps(dependencies: &[Dependency]) -> Vec<Option<String>> {
    let paths = dependencies.iter().map(|(path, _)| Path::new(path));
    paths.map(nvrtc::file_identity).collect()
}

/// Returns the headers that a text may include or ask for. `None` if it may include others, or
/// depend on the time.
///
/// Words count wherever they stand, also in comments, raw strings and excluded conditions.
/// Operators can be built out of parts (`a ## b`), so a word that begins one counts too.
fn included(text: &[u8], is_cuda: bool) -> Option<Vec<String>> {
    let text = String::from_utf8_lossy(text)
        .replace("\r\n", "\n")
        .replace("\\\n", "");
    // Compilers read zero bytes, trigraphs and blanks behind a `\` in different ways.
    let odd = "\0|??=|??/|\\ |\\\t|\\\r|\\\x0b|\\\x0c";
    if odd.split('|').any(|odd| text.contains(odd)) {
        return None;
    }
    let mut names = Vec::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        let at = text.len() - rest.len() + start;
        let (before, word) = (text[..at].trim_end(), &text[at..]);
        let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, after) = word.split_at(end.unwrap_or(word.len()));
        rest = after;
        let after = after.trim_start();
        let is_hash = before.ends_with('#') || before.ends_with("%:");
        match word {
            "include" | "include_next" if is_hash => names.push(header_name(after)?),
            // `import` and `embed` are directives of newer languages.
            "include" | "include_next" | "import" | "embed"
                if is_hash || before.ends_with("*/") =>
            {
                return None;
            }
            _ => {
                let searches = IMPURE_WORDS[..3].contains(&word);
                let operand = after.strip_prefix('(').map(str::trim_start);
                let is_part = |whole: &&str| *whole == word || !is_cuda && whole.starts_with(word);
                if let Some(name) = operand.and_then(header_name).filter(|_| searches) {
                    names.push(name);
                } else if !(is_cuda && searches) && IMPURE_WORDS.iter().any(is_part) {
                    return None;
                }
            }
        }
    }
    Some(names)
}

/// Returns the name of a header at the beginning of a text, if it is written out.
fn header_name(text: &str) -> Option<String> {
    let end = match text.chars().next()? {
        '"' => '"',
        '<' => '>',
        _ => return None,
    };
    let (name, _) = text[1..].split_once(end)?;
    let is_plain = |c: char| (c.is_ascii_graphic() && c != '\\') || c == ' ';
    (!name.is_empty() && name.chars().all(is_plain)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

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

        fn path(&self, name: &str) -> String {
            self.0.join(name).display().to_string()
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder is made");
            fs::write(&path, text).expect("a file is written");
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            // A folder that cannot be removed remains among the temporary files.
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Returns the folders of a search in these, none of them CUDA's.
    fn folders(here: String, list: &[String]) -> Folders {
        let list = list.iter().map(|folder| (folder.clone(), false));
        let list = list.collect();
        Folders { here, list }
    }

    #[test]
    fn files_are_followed_and_other_places_must_stay_empty() {
        let folder = Folder::new("followed");
        let one = "#pragma once\n  #  include <two>\n#include \"given.h\"\n";
        folder.write("b/one.h", one);
        folder.write("b/two", "#include \"one.h\"\n#if __has_include(<c.h>)");
        let source = Cuda::source("k.cu", "#include \"one.h\"\nint x;");
        let source = source.header("given.h", "#include \"d.h\"");
        let own = [folder.path("a"), folder.path("b")];
        let found = dependencies(&source, &folders(folder.path("here"), &own));
        let found = found.expect("no macros");
        let within = |(path, hash): &Dependency| {
            let path = path.strip_prefix(&folder.path(""))?;
            Some(format!("{path}{}", if hash.is_some() { "+" } else { "" }))
        };
        let paths: Vec<_> = found.iter().filter_map(within).collect();
        let expected = "a/c.h a/d.h a/one.h a/two a/two.stdh b/c.h b/d.h b/one.h+ b/two+ \
                        b/two.stdh here/d.h";
        assert_eq!(paths.join(" "), expected);
        assert!(unchanged(&found));
        folder.write("a/two", "");
        assert!(!unchanged(&found), "another folder has the header now");
    }

    #[test]
    fn a_header_is_changed_by_its_content_alone() {
        let folder = Folder::new("changed");
        folder.write("one.h", "1");
        let source = Cuda::source("k.cu", "#include <one.h>");
        let search = folders("/".into(), &[folder.path("")]);
        let found = dependencies(&source, &search).expect("no macros");
        let before = stamps(&found);
        folder.write("one.h", "2");
        assert!(!unchanged(&found));
        std::thread::sleep(std::time::Duration::from_millis(20));
        folder.write("one.h", "1");
        assert!(unchanged(&found));
        assert_ne!(stamps(&found), before, "it was another meanwhile");
        let made = std::process::Command::new("mkfifo")
            .arg(folder.path("pipe.h"))
            .status();
        let source = Cuda::source("k.cu", "#include \"pipe.h\"");
        // Named pipes are not waited for.
        assert!(made.is_err() || dependencies(&source, &search).is_none());
    }

    #[test]
    fn headers_that_include_each_other_by_paths_that_grow_come_to_an_end() {
        let folder = Folder::new("cycle");
        let text = "#include \"../a/one.h\"\n#include \"../b/one.h\"";
        folder.write("a/one.h", text);
        folder.write("b/one.h", text);
        let source = Cuda::source("k.cu", "#include <one.h>");
        let search = folders("/".into(), &[folder.path("a")]);
        assert!(dependencies(&source, &search).is_none());
    }

    #[test]
    fn headers_are_found_however_their_directive_is_spelled() {
        let texts = "#include <a.h>|%:include \"a.h\"|#inc\\\nlude \"a.h\"|// #include <a.h>|\
                     #include \"a\\\r\n.h\"|# \tinclude_next<a.h> x|#if __has_include ( <a.h> )|\
                     #if __has_in\\\nclude(\"a.h\")";
        for text in texts.split('|') {
            let found = included(text.as_bytes(), false);
            assert_eq!(found, Some(vec!["a.h".to_owned()]), "{text}");
        }
        let others = "int include; // includes\n#includes _DATE__ x__DATE__";
        assert_eq!(included(others.as_bytes(), false), Some(Vec::new()));
    }

    #[test]
    fn texts_that_may_read_other_files_or_the_clock_are_not_understood() {
        let texts = "#include H|#include /**/ <a.h>|# /**/ include <a.h>|/* \n */ include <a.h>|\
                     #import <a.h>|#include \"a\\b.h\"|#include \"a|??=include <a.h>|\
                     #inc??/\nlude <a.h>|#inc\\ \nlude <a.h>|#inc\0lude <a.h>|\
                     #if __has_include(H)|#define A __has_include|#if _CCCL_HAS_INCLUDE(H)|\
                     __DATE__|x$__TIME__|__TIMEST\\\nAMP__|CAT(__DA, TE__)|CAT(_, _TIME__)|\
                     CAT(__has_, include)(<a.h>)";
        for text in texts.split('|') {
            assert_eq!(included(text.as_bytes(), false), None, "{text}");
        }
        let of_cuda = b"#define _CCCL_HAS_INCLUDE(_X) __has_include(_X)";
        assert_eq!(included(of_cuda, true), Some(Vec::new()));
        assert_eq!(included(b"#include H", true), None);
    }

    #[test]
    fn options_that_read_files_are_not_cached() {
        let is_pure = |option: &str| is_pure(&Cuda::source("k.cu", "").option(option));
        let mut pure = "--std=c++17 -DA=1 -std=c++17 -G --define-macro=A".split(' ');
        assert!(pure.all(is_pure));
        let mut others = "-I. --include-path=. --pre-include=a.h -include --pch a.h".split(' ');
        assert!(!others.any(is_pure));
    }
}
