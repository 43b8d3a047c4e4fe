//! The translation of nvcc's arguments.

use std::{ffi::OsString, fs, path::Path};

use crate::folder;

/// The oldest architecture that CUDA 13 compiles for.
const OLDEST: u32 = 75;
/// The depth of files of options that name each other.
const DEPTH_MAX: usize = 16;

/// Options whose value is an architecture or a list of them.
const ARCHITECTURES: &str = "-arch --gpu-architecture -code --gpu-code -gencode --generate-code";
const RUNTIMES: &str = "-cudart --cudart";
/// Options for the library of device functions that kernels call: Millstream has its own.
const DEVICE_RUNTIMES: &str = "-cudadevrt --cudadevrt";
const FILES: &str = "-optf --options-file";
/// Options for machine code, which mean nothing for PTX.
const DROPPED: &str = "-dlto --dlink-time-opt -lcudadevrt";
const CUBIN: &str = "-cubin --cubin";
/// Options whose value may look like one of the options above.
const WITH_VALUE: &str = "-Xcompiler --compiler-options -Xlinker --linker-options -Xptxas \
    --ptxas-options -Xcudafe -Xnvlink -o --output-file";
fn is(list: &str, argument: &str) -> bool {
    list.split_whitespace().any(|name| name == argument)
}

/// Returns the arguments with PTX and the shared runtime library; `folder` is that for the linker.
/// Fails if a file of options cannot be read.
pub(crate) fn translate(given: Vec<OsString>, folder: &Path) -> Result<Vec<OsString>, String> {
    let mut plain = Vec::new();
    expand(given, &mut plain, 0)?;
    let (mut kept, mut architectures) = (Vec::new(), String::new());
    let mut runtime = "shared";
    let mut rest = plain.into_iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy().into_owned();
        if let Some(value) = value_of(&text, ARCHITECTURES, &mut rest) {
            architectures += &format!(" {value}");
        } else if let Some(value) = value_of(&text, RUNTIMES, &mut rest) {
            runtime = if value == "none" { "none" } else { "shared" };
        } else if value_of(&text, DEVICE_RUNTIMES, &mut rest).is_some() {
        } else if is(WITH_VALUE, &text) {
            kept.push(argument);
            kept.extend(rest.next());
        } else if is(CUBIN, &text) {
            // The simulated driver loads PTX in the place of a cubin.
            kept.push("--ptx".into());
        } else if Path::new(&argument).file_name() == Some(folder::STATIC.as_ref()) {
            kept.push(folder.join(folder::STATIC).into());
        } else if !is(DROPPED, &text) {
            kept.push(argument);
        }
    }
    let oldest = oldest(&architectures);
    kept.push(format!("-gencode=arch=compute_{oldest},code=compute_{oldest}").into());
    let mut search = OsString::from("-L");
    search.push(folder);
    kept.extend([
        "-cudadevrt=none".into(),
        "-cudart".into(),
        runtime.into(),
        search,
    ]);
    Ok(kept)
}

/// Returns the value of one of these options, which follows after `=` or as the next argument.
fn value_of(
    argument: &str,
    names: &str,
    rest: &mut impl Iterator<Item = OsString>,
) -> Option<String> {
    if is(names, argument) {
        let value = rest.next().unwrap_or_default();
        return Some(value.to_string_lossy().into_owned());
    }
    let (name, value) = argument.split_once('=')?;
    is(names, name).then(|| value.to_owned())
}

/// Returns the oldest architecture among those of options, such as `75` or `90a`. Without one, and
/// for those of a GPU or of nvcc, it is the oldest of all.
fn oldest(architectures: &str) -> String {
    let words = architectures.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let named = words.filter_map(|word| {
        let (kind, name) = word.split_once('_')?;
        let digits = name.trim_end_matches(|letter: char| letter.is_alphabetic());
        let number = digits.parse::<u32>().ok()?;
        is("compute sm lto", kind).then_some((number, name))
    });
    match named.min() {
        Some((number, name)) if number >= OLDEST => name.to_owned(),
        _ => OLDEST.to_string(),
    }
}

/// Replaces files of options by what they contain.
fn expand(given: Vec<OsString>, plain: &mut Vec<OsString>, depth: usize) -> Result<(), String> {
    let mut rest = given.into_iter();
    while let Some(argument) = rest.next() {
        let Some(files) = value_of(&argument.to_string_lossy(), FILES, &mut rest) else {
            plain.push(argument);
            continue;
        };
        for file in files.split(',') {
            let contents = fs::read_to_string(file);
            let contents = contents.map_err(|error| format!("cannot read {file}: {error}"))?;
            if depth == DEPTH_MAX {
                return Err(format!("{file}: files of options name each other"));
            }
            expand(words(&contents), plain, depth + 1)?;
        }
    }
    Ok(())
}

/// Splits text into arguments at spaces outside of quotes. A backslash quotes the next letter.
pub(crate) fn words(text: &str) -> Vec<OsString> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(letters.next()),
            (_, Some(end)) if letter == end => quote = None,
            ('"' | '\'', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (_, None) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.into_iter().chain(word).map(OsString::from).collect()
}
