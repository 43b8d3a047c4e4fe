//! The table of driver functions: the symbol of each version, and the CUDA version that introduced
//! it.
//!
//! The headers give both halves separately. `cudaTypedefs.h` has a type for each version, as
//! `PFN_cuMemAlloc_v3020`: since CUDA 3.2. `cuda.h` gives the symbols: the first version of
//! `cuMemAlloc` has the plain name and the second is `cuMemAlloc_v2`. The n-th type therefore
//! belongs to the n-th symbol. A variant for the per-thread default stream, as
//! `PFN_cuMemcpy_v7000_ptds`, belongs to the newest version that is not newer than itself. All that
//! `cuda.h` declares or defines as macros is compared with the result.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, Result, bail, ensure};

use super::headers::Headers;

/// The suffixes of the variants for the per-thread default stream: of synchronous functions, and of
/// functions that take a stream.
const PER_THREAD: [&str; 2] = ["_ptds", "_ptsz"];

#[derive(Debug, PartialEq)]
struct Version {
    /// The CUDA version that introduced it: 3020 for CUDA 3.2.
    since: u32,
    /// The suffix of the variant for the per-thread default stream; empty for the legacy variant.
    suffix: String,
    /// The types of the parameters.
    parameters: Vec<String>,
    /// The exported symbol.
    symbol: String,
}

/// The versions of each function: the legacy variants and then the others, each from the oldest to
/// the newest.
type Functions = BTreeMap<String, Vec<Version>>;

/// Returns the generated file.
pub(super) fn table(headers: &Headers) -> Result<String> {
    let mut functions = functions(&headers.types)?;
    for (name, versions) in &mut functions {
        name_symbols(name, versions)?;
    }
    compare(&headers.declarations, &functions)?;
    let mut text = headers.opening("#", "The functions of the driver API.")?;
    for (name, versions) in &functions {
        for version in versions {
            let (symbol, since) = (&version.symbol, version.since);
            writeln!(text, "{name} {symbol} {since} {}", version.parameters.len())?;
        }
    }
    Ok(text)
}

/// Parses the function pointer types. The symbols are left empty.
fn functions(types: &str) -> Result<Functions> {
    let mut functions = Functions::new();
    for declaration in types.split("(CUDAAPI *PFN_").skip(1) {
        let (name, rest) = declaration
            .split_once(")(")
            .context("a function pointer type has no parameters")?;
        let (parameters, _) = rest
            .split_once(");")
            .with_context(|| format!("the parameters of {name} do not end"))?;
        let (base, version) = name
            .rsplit_once("_v")
            .with_context(|| format!("the type {name} has no version"))?;
        let digits = version.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let suffix = &version[digits.len()..];
        ensure!(
            suffix.is_empty() || PER_THREAD.contains(&suffix),
            "the type {name} has an unknown suffix"
        );
        functions.entry(base.to_owned()).or_default().push(Version {
            since: digits.parse().with_context(|| format!("type {name}"))?,
            suffix: suffix.to_owned(),
            parameters: parameters_of(parameters),
            symbol: String::new(),
        });
    }
    for versions in functions.values_mut() {
        versions.sort_by(|a, b| (&a.suffix, a.since).cmp(&(&b.suffix, b.since)));
    }
    Ok(functions)
}

fn parameters_of(list: &str) -> Vec<String> {
    let types: Vec<String> = list.split(',').map(type_of).collect();
    if types == ["void"] { Vec::new() } else { types }
}

/// Returns the type of a parameter, which ends where the parameter's name starts. A type of one
/// word has no name after it. Versions of types are removed, because the headers write
/// `CUmemLocation` and `CUmemLocation_v1` for one type.
fn type_of(parameter: &str) -> String {
    let words = parameter.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let unnamed = words.trim_end_matches(is_name).trim_end();
    let kept = if unnamed.is_empty() { &words } else { unnamed };
    kept.replace(" *", "*")
        .replace("_v1", "")
        .replace("_v2", "")
}

fn name_symbols(name: &str, versions: &mut [Version]) -> Result<()> {
    let legacy = versions.partition_point(|version| version.suffix.is_empty());
    let (legacy, per_thread) = versions.split_at_mut(legacy);
    for (index, version) in legacy.iter_mut().enumerate() {
        version.symbol = if index == 0 {
            name.to_owned()
        } else {
            format!("{name}_v{}", index + 1)
        };
    }
    for version in per_thread {
        let same = legacy
            .iter()
            .rfind(|other| other.since <= version.since)
            .with_context(|| format!("{name}{} has no legacy variant", version.suffix))?;
        ensure!(
            same.parameters == version.parameters,
            "{} takes {:?}, but since CUDA {} its per-thread variant takes {:?}",
            same.symbol,
            same.parameters,
            version.since,
            version.parameters
        );
        version.symbol = format!("{}{}", same.symbol, version.suffix);
    }
    for pair in versions.windows(2) {
        ensure!(
            pair[0].suffix != pair[1].suffix || pair[0].since < pair[1].since,
            "two types of {name} have one version"
        );
    }
    Ok(())
}

/// Fails unless the table has every function that the headers declare, and unless each macro that
/// gives a function's name to its current version names a symbol of the table.
fn compare(declarations: &str, functions: &Functions) -> Result<()> {
    let symbols: BTreeSet<&str> = functions
        .values()
        .flatten()
        .map(|version| version.symbol.as_str())
        .collect();
    let words = declarations
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for declaration in words.split("CUresult CUDAAPI ").skip(1) {
        let name = declaration.split('(').next().unwrap_or("").trim();
        ensure!(symbols.contains(name), "no type for the function {name}");
    }
    for line in declarations.lines() {
        let line: Vec<&str> = line.split_whitespace().collect();
        let ["#define", name, meaning] = line[..] else {
            continue;
        };
        if !functions.contains_key(name) {
            continue;
        }
        for symbol in expansions(meaning)? {
            ensure!(
                symbols.contains(symbol.as_str()),
                "{name} means {symbol}, which has no type"
            );
        }
    }
    Ok(())
}

/// Returns the symbols that a macro of a function's name stands for: one with the legacy default
/// stream and, if there is a variant, one with the per-thread default stream.
fn expansions(meaning: &str) -> Result<Vec<String>> {
    let (suffix, inner) = match meaning.split_once('(') {
        None => return Ok(vec![meaning.to_owned()]),
        Some(("__CUDA_API_PTDS", inner)) => (PER_THREAD[0], inner),
        Some(("__CUDA_API_PTSZ", inner)) => (PER_THREAD[1], inner),
        Some(_) => bail!("unknown macro {meaning}"),
    };
    let symbol = inner.trim_end_matches(')');
    Ok(vec![symbol.to_owned(), format!("{symbol}{suffix}")])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Function pointer types as the headers declare them.
    const TYPES: &str = "
        typedef CUresult (CUDAAPI *PFN_cuInit_v2000)(unsigned int Flags);
        typedef CUresult (CUDAAPI *PFN_cuSync_v13000)(CUcontext ctx);
        typedef CUresult (CUDAAPI *PFN_cuSync_v2000)(void);
        typedef CUresult (CUDAAPI *PFN_cuCopy_v7000_ptds)(CUdeviceptr_v2 dst, size_t  count);
        typedef CUresult (CUDAAPI *PFN_cuCopy_v3020)(CUdeviceptr_v2 dst, size_t count);
        typedef CUresult (CUDAAPI *PFN_cuCopy_v2000)(CUdeviceptr_v1 dst, unsigned int count);";

    fn named(types: &str) -> Result<Functions> {
        let mut functions = functions(types)?;
        for (name, versions) in &mut functions {
            name_symbols(name, versions)?;
        }
        Ok(functions)
    }

    fn symbols<'a>(functions: &'a Functions, name: &str) -> Vec<(u32, &'a str, usize)> {
        functions[name]
            .iter()
            .map(|it| (it.since, it.symbol.as_str(), it.parameters.len()))
            .collect()
    }

    #[test]
    fn the_nth_version_has_the_nth_symbol() {
        let functions = named(TYPES).unwrap();
        assert_eq!(symbols(&functions, "cuInit"), [(2000, "cuInit", 1)]);
        assert_eq!(
            symbols(&functions, "cuSync"),
            [(2000, "cuSync", 0), (13_000, "cuSync_v2", 1)]
        );
    }

    #[test]
    fn a_per_thread_variant_belongs_to_the_newest_version_before_it() {
        let functions = named(TYPES).unwrap();
        assert_eq!(
            symbols(&functions, "cuCopy"),
            [
                (2000, "cuCopy", 2),
                (3020, "cuCopy_v2", 2),
                (7000, "cuCopy_v2_ptds", 2)
            ]
        );
    }

    #[test]
    fn a_per_thread_variant_with_other_parameters_is_an_error() {
        let types = TYPES.replace("size_t  count", "int count");
        let error = named(&types).unwrap_err().to_string();
        assert!(error.contains("cuCopy_v2 takes"), "{error}");
        let error = named("(CUDAAPI *PFN_cuA_v7000_ptsz)(void);").unwrap_err();
        assert!(error.to_string().contains("no legacy variant"), "{error}");
    }

    #[test]
    fn declarations_and_macros_are_compared() {
        let functions = named(TYPES).unwrap();
        compare("#define cuCopy __CUDA_API_PTDS(cuCopy_v2)", &functions).unwrap();
        compare("CUresult CUDAAPI\n  cuSync_v2(CUcontext ctx);", &functions).unwrap();
        for (wrong, message) in [
            (
                "CUresult CUDAAPI cuOther(int a);",
                "no type for the function cuOther",
            ),
            ("#define cuSync cuSync_v3", "cuSync means cuSync_v3"),
            (
                "#define cuSync __CUDA_API_PTSZ(cuSync_v2)",
                "cuSync_v2_ptsz",
            ),
            ("#define cuSync OTHER(cuSync)", "unknown macro"),
        ] {
            let error = compare(wrong, &functions).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
