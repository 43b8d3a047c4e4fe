//! The headers of CUDA C++: the folders in which CUDA's are, and the files that a source includes.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

use millstream_driver::nvrtc;

use super::{Cuda, compile::NOWHERE, disk_cache::read_regular, sha256::sha256};

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

/// A path that a compilation may try, with the hash of the file's content, or `None` if no file is
/// there: a file that appears is found in the place of another.
pub(super) type Dependency = (String, Option<[u8; 32]>);

/// The options that read no file and do not depend on the time, up to their `=`.
const PURE_OPTIONS: &[&str] = &[
    "--gpu-architecture",
    "-arch",
    "--define-macro",
    "--undefine-macro",
    "--std",
    "-std",
    "--use_fast_math",
    "-use_fast_math",
    "--fmad",
    "-fmad",
    "--ftz",
    "-ftz",
    "--prec-div",
    "-prec-div",
    "--prec-sqrt",
    "-prec-sqrt",
    "--maxrregcount",
    "-maxrregcount",
    "--device-debug",
    "-G",
    "--generate-line-info",
    "-lineinfo",
    "--extra-device-vectorization",
    "-extra-device-vectorization",
    "--relocatable-device-code",
    "-rdc",
    "--device-as-default-execution-space",
    "-default-device",
    "--device-int128",
    "-device-int128",
    "--restrict",
    "-restrict",
    "--disable-warnings",
    "-w",
    "--diag-suppress",
    "-diag-suppress",
    "--diag-warn",
    "-diag-warn",
    "--diag-error",
    "-diag-error",
];

/// The operators that search for a header. libcu++ calls the first by a name of its own.
const HAS_INCLUDE: [&str; 3] = ["__has_include", "__has_include_next", "_CCCL_HAS_INCLUDE"];

/// The other words whose meaning depends on more than the text.
const IMPURE_WORDS: [&str; 4] = ["__DATE__", "__TIME__", "__TIMESTAMP__", "__has_embed"];

/// Returns whether NVRTC will read only what the source's options, texts and folders name: options
/// are listed above, and no variable of the environment adds others (`NVRTC_APPEND_FLAGS`).
pub(super) fn is_pure(source: &Cuda) -> bool {
    let is_pure = |option: &String| {
        let name = option.split('=').next().unwrap_or_default();
        PURE_OPTIONS.contains(&name) || option.starts_with("-D") || option.starts_with("-U")
    };
    source.options.iter().all(is_pure)
        && !std::env::vars_os().any(|(name, _)| {
            let name = name.as_encoded_bytes();
            name.starts_with(b"NVRTC") || name.starts_with(b"EDG_")
        })
}

/// Returns the paths that a compilation may try for its headers, directly and through other files:
/// in every folder that is searched, whether the file is there or not, so that the order of the
/// search does not matter. `None` if the texts do not tell.
///
/// Headers that were given as texts search the working directory, `here`. CUDA's own headers, in
/// the folders `cuda`, are trusted not to make the words above of parts.
pub(super) fn dependencies(
    source: &Cuda,
    here: &str,
    own: &[String],
    cuda: &[String],
) -> Option<Vec<Dependency>> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut pending = vec![(source.text.clone().into_bytes(), NOWHERE.to_owned(), false)];
    for text in source.options.iter().chain(&source.instantiations) {
        pending.push((text.clone().into_bytes(), NOWHERE.to_owned(), false));
    }
    for (name, text) in &source.headers {
        pending.push((
            text.clone().into_bytes(),
            folder(&format!("{here}/{name}")),
            false,
        ));
    }
    while let Some((text, includer, is_cuda)) = pending.pop() {
        for name in included(&text, is_cuda)? {
            if source.headers.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let is_within = !name.split('/').any(|part| part == "..");
            let roots = [(&includer, is_cuda)].into_iter();
            let roots = roots.chain(own.iter().map(|folder| (folder, false)));
            let roots = roots.chain(cuda.iter().map(|folder| (folder, is_within)));
            for (root, is_cuda) in roots {
                // NVRTC searches for `vector.stdh`, too, if a name has no extension.
                let also = Path::new(&name).extension().is_none().then_some(".stdh");
                for suffix in std::iter::once("").chain(also) {
                    let path = if Path::new(&name).is_absolute() {
                        format!("{name}{suffix}")
                    } else {
                        format!("{root}/{name}{suffix}")
                    };
                    if !seen.insert(path.clone()) {
                        continue;
                    }
                    let text = contents(&path).ok()?;
                    let hash = text.as_deref().map(sha256);
                    if let Some(text) = text {
                        pending.push((text, folder(&path), is_cuda));
                    }
                    found.push((path, hash));
                }
            }
        }
    }
    found.sort();
    Some(found)
}

/// Returns the folder of a path, up to its last `/`.
fn folder(path: &str) -> String {
    path.rsplit_once('/')
        .map_or("", |(folder, _)| folder)
        .to_owned()
}

/// Returns the content of a file, or `None` if there is none.
fn contents(path: &str) -> io::Result<Option<Vec<u8>>> {
    match read_regular(Path::new(path), true) {
        Ok((_, bytes)) => Ok(Some(bytes)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(error),
        },
    }
}

/// Returns whether all dependencies have the same contents as before.
pub(super) fn unchanged(dependencies: &[Dependency]) -> bool {
    dependencies
        .iter()
        .all(|(path, hash)| contents(path).is_ok_and(|now| now.as_deref().map(sha256) == *hash))
}

/// Returns stamps of the files that differ if one of them was written in between, even if it was
/// then written back.
pub(super) fn stamps(dependencies: &[Dependency]) -> Vec<Option<String>> {
    let paths = dependencies.iter().map(|(path, _)| Path::new(path));
    paths.map(nvrtc::file_identity).collect()
}

/// Returns the headers that a text may include or ask for, also in what comments and conditions
/// exclude. `None` if it may include others, or depend on the time.
///
/// Words are read in the text as it stands, so that nothing has to be known of comments and raw
/// strings: a word in them has the same effect. Operators can also be made of parts (`a ## b`), so
/// that a word that begins one is not understood either.
fn included(text: &[u8], is_cuda: bool) -> Option<Vec<String>> {
    let text = spliced(text)?;
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let mut names = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let start = at;
        at += text[at..].iter().take_while(|byte| is_word(byte)).count();
        if at == start {
            at += 1;
            continue;
        }
        let word = std::str::from_utf8(&text[start..at]).unwrap_or_default();
        let (before, after) = (
            text[..start].trim_ascii_end(),
            text[at..].trim_ascii_start(),
        );
        let is_directive = before.ends_with(b"#") || before.ends_with(b"%:");
        match word {
            "include" | "include_next" | "import" | "embed" if is_directive => {
                let name = header_name(after).filter(|_| word.starts_with("include"));
                // A comment of CUDA's speaks of an `#include`.
                if !(name.is_none() && is_cuda && !is_first(before)) {
                    names.push(name?);
                }
            }
            "include" | "include_next" | "import" | "embed" if before.ends_with(b"*/") => {
                return None;
            }
            _ if HAS_INCLUDE.contains(&word) => {
                let operand = after.strip_prefix(b"(").map(<[u8]>::trim_ascii_start);
                match operand.and_then(header_name) {
                    Some(name) => names.push(name),
                    None if is_cuda || is_asked_for(before) => {}
                    None => return None,
                }
            }
            _ if IMPURE_WORDS.contains(&word) => return None,
            _ if !is_cuda && word.starts_with('_') => {
                let mut words = HAS_INCLUDE.iter().chain(&IMPURE_WORDS);
                if words.any(|whole| whole.starts_with(word)) {
                    return None;
                }
            }
            _ => {}
        }
    }
    Some(names)
}

/// Returns whether a text ends in `#ifdef`, `#ifndef` or `defined`: the next word is not expanded.
fn is_asked_for(before: &[u8]) -> bool {
    let before = before.strip_suffix(b"(").unwrap_or(before);
    let before = String::from_utf8_lossy(before.trim_ascii_end());
    let mut words = before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let word = words.next().unwrap_or_default();
    let directive = before.trim_end_matches(word).trim_end();
    match word {
        "defined" => !directive.ends_with("define"),
        "ifdef" | "ifndef" => directive.ends_with('#') || directive.ends_with("%:"),
        _ => false,
    }
}

/// Joins lines that end in `\`. `None` for what compilers read in different ways: zero bytes,
/// trigraphs, and blanks behind a `\`.
fn spliced(text: &[u8]) -> Option<Vec<u8>> {
    let mut joined = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match byte {
            0 => return None,
            b'?' if tail.starts_with(b"?=") || tail.starts_with(b"?/") => return None,
            b'\\' => match tail {
                [b'\n', tail @ ..] | [b'\r', b'\n', tail @ ..] => rest = tail,
                _ => {
                    let line = tail.split(|byte| *byte == b'\n').next().unwrap_or_default();
                    if tail.starts_with(b"\r") || (line.trim_ascii().is_empty() && !line.is_empty())
                    {
                        return None;
                    }
                    joined.push(b'\\');
                }
            },
            byte => joined.push(*byte),
        }
    }
    Some(joined)
}

/// Returns whether a `#` at the end of a text is the first character of its line.
fn is_first(text: &[u8]) -> bool {
    let line = text
        .rsplit(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    line.trim_ascii_start().len() == 1
}

/// Returns the name of a header at the beginning of a text, if it is written out.
fn header_name(text: &[u8]) -> Option<String> {
    let (quote, rest) = text.split_first()?;
    let end = match quote {
        b'"' => b'"',
        b'<' => b'>',
        _ => return None,
    };
    let name = rest.split(|byte| *byte == end).next()?;
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b'\\' || *byte == b' ';
    let is_plain = !name.is_empty() && name.iter().all(is_plain) && name.len() < rest.len();
    is_plain.then(|| String::from_utf8_lossy(name).into_owned())
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

    #[test]
    fn files_are_followed_and_other_places_must_stay_empty() {
        let folder = Folder::new("followed");
        folder.write(
            "b/one.h",
            "#pragma once\n  #  include <two>\n#include \"given.h\"\n",
        );
        folder.write(
            "b/two",
            "#include \"one.h\"\n#if __has_include(<c.h>)\n#endif",
        );
        let source = Cuda::source("k.cu", "#include \"one.h\"\nint x;");
        let source = source.header("given.h", "#include \"d.h\"");
        let own = [folder.path("a"), folder.path("b")];
        let found = dependencies(&source, &folder.path("here"), &own, &[]).expect("no macros");
        let paths: Vec<_> = found
            .iter()
            .filter_map(|(path, hash)| Some((path.strip_prefix(&folder.path(""))?, hash.is_some())))
            .collect();
        let expected = [
            ("a/c.h", false),
            ("a/d.h", false),
            ("a/one.h", false),
            ("a/two", false),
            ("a/two.stdh", false),
            ("b/c.h", false),
            ("b/d.h", false),
            ("b/one.h", true),
            ("b/two", true),
            ("b/two.stdh", false),
            ("here/d.h", false),
        ];
        assert_eq!(paths, expected);
        assert!(unchanged(&found));
        folder.write("a/two", "");
        assert!(!unchanged(&found), "another folder has the header now");
    }

    #[test]
    fn a_header_is_changed_by_its_content_alone() {
        let folder = Folder::new("changed");
        folder.write("one.h", "1");
        let source = Cuda::source("k.cu", "#include <one.h>");
        let own = [folder.path("")];
        let found = dependencies(&source, "/", &own, &[]).expect("no macros");
        let before = stamps(&found);
        folder.write("one.h", "2");
        assert!(!unchanged(&found));
        std::thread::sleep(std::time::Duration::from_millis(20));
        folder.write("one.h", "1");
        assert!(unchanged(&found));
        assert!(
            cfg!(not(unix)) || stamps(&found) != before,
            "it was another meanwhile"
        );
    }

    #[test]
    fn headers_are_found_however_their_directive_is_spelled() {
        let found = |text: &str| included(text.as_bytes(), false);
        for text in [
            "#include <a.h>",
            "%:include \"a.h\"",
            "#inc\\\nlude \"a.h\"",
            "#include \"a\\\r\n.h\"",
            "# \tinclude_next<a.h> // rest",
            "// #include <a.h>",
            "#if __has_include ( <a.h> )",
            "#if defined(__has_include) && __has_include(\"a.h\")",
            "#ifdef __has_include\n#if __has_in\\\nclude(\"a.h\")",
        ] {
            assert_eq!(found(text), Some(vec!["a.h".to_owned()]), "{text}");
        }
        for text in [
            "int include;",
            "// includes",
            "#includes",
            "#if defined __has_include",
        ] {
            assert_eq!(found(text), Some(Vec::new()), "{text}");
        }
    }

    #[test]
    fn texts_that_may_read_other_files_or_the_clock_are_not_understood() {
        for text in [
            "#include H",
            "#include /**/ <a.h>",
            "# /**/ include <a.h>",
            "/* \n */ include <a.h>",
            "#import <a.h>",
            "#include \"a\\b.h\"",
            "#include \"a",
            "??=include <a.h>",
            "#inc??/\nlude <a.h>",
            "#inc\\ \nlude <a.h>",
            "#inc\0lude <a.h>",
            "#if __has_include(H)",
            "#define A __has_include",
            "#define ifdef __has_include",
            "#define undefined __has_include",
            "#if _CCCL_HAS_INCLUDE(H)",
            "__DATE__",
            "x$__TIME__",
            "__TIMEST\\\nAMP__",
            "CAT(__DA, TE__)",
            "CAT(_, _TIME__)",
            "CAT(__has_, include)(<a.h>)",
        ] {
            assert_eq!(included(text.as_bytes(), false), None, "{text}");
        }
        let of_cuda = "#define _CCCL_HAS_INCLUDE(_X) __has_include(_X)\n// an #include of it";
        assert_eq!(included(of_cuda.as_bytes(), true), Some(Vec::new()));
        assert_eq!(included(b"#include H", true), None);
    }

    #[test]
    fn options_that_read_files_are_not_cached() {
        let is_pure = |option: &str| is_pure(&Cuda::source("k.cu", "").option(option));
        for option in [
            "--std=c++17",
            "-DA=1",
            "--use_fast_math",
            "-G",
            "--define-macro=A",
        ] {
            assert!(is_pure(option), "{option}");
        }
        for option in [
            "-I.",
            "--include-path=.",
            "--pre-include=a.h",
            "-include",
            "--pch",
            "a.h",
        ] {
            assert!(!is_pure(option), "{option}");
        }
    }

    #[test]
    fn a_named_pipe_is_not_waited_for() {
        let folder = Folder::new("pipe");
        let path = folder.path("pipe.h");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        if made.is_ok_and(|status| status.success()) {
            let source = Cuda::source("k.cu", "#include \"pipe.h\"");
            assert_eq!(dependencies(&source, "/", &[folder.path("")], &[]), None);
        }
    }
}
