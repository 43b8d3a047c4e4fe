//! `cargo xtask driver-page`: writes the page that lists the functions of the driver API, and says
//! which of them the simulated device has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, Result, bail};

use crate::process;

const PAGE: &str = "docs/driver-functions.md";

/// The table of all functions, which `cargo xtask cuda-table` generates.
const TABLE: &str = "crates/libcuda/src/versions/table.txt";

/// The list of the symbols that are not implemented.
const REFUSED: &str = "crates/libcuda/src/refused.rs";

const OPENING: &str = "\
# Functions of the drop-in driver

`crates/libcuda` exports every function of CUDA 13.5's driver API. This page is written by
`cargo xtask driver-page`.

";

/// The groups of functions that are not implemented, with words that their names contain. A
/// function is in the first group with a word of its name.
const GROUPS: &str = "\
Graphics libraries: GL VDPAU Graphics
Graphs and capture: Graph Capture UserObject
Arrays, textures and surfaces: Array Tex Surf AtoA AtoD AtoH DtoA HtoA
Green contexts: GreenCtx DevResource DevSmResource
Multicast: Multicast
Logical endpoints and fabrics: LogicalEndpoint Fabric Clique
Tensor maps: TensorMap
Sharing between processes: Ipc Shareable PoolExport PoolImport
External memory and semaphores: External NvSci
Virtual memory management: MemAddress MemCreate MemMap MemUnmap MemRelease MemSetAccess \
    MemGetAccess Allocation HandleForAddressRange
Operations of streams on memory: WaitValue WriteValue BatchMemOp
Batches and decompression: Batch
Clusters and cooperative launches: Cluster Cooperative
Checkpoints, core dumps and logs: Checkpoint Coredump Logs
Others: cu";

struct Symbol<'a> {
    /// The CUDA version that introduced it.
    since: u32,
    name: &'a str,
}

pub(crate) fn run() -> Result<()> {
    let text = page(&process::read(TABLE)?, &process::read(REFUSED)?)?;
    std::fs::write(process::root().join(PAGE), text)
        .with_context(|| format!("cannot write {PAGE}"))?;
    println!("{PAGE} written");
    Ok(())
}

/// Returns the page for the table of all functions and the list of refused symbols.
fn page(table: &str, refused: &str) -> Result<String> {
    let functions = functions(table)?;
    let refused = refused_symbols(refused)?;
    let is_refused = |symbol: &Symbol<'_>| refused.contains(symbol.name);
    let mut implemented = String::new();
    let mut groups: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let mut count = 0;
    for (name, symbols) in &functions {
        let present: Vec<String> = symbols
            .iter()
            .filter(|symbol| !is_refused(symbol))
            .map(|symbol| format!("`{}` ({})", symbol.name, version(symbol.since)))
            .collect();
        if present.is_empty() {
            groups.entry(group(name)).or_default().push(name);
            continue;
        }
        count += 1;
        let absent: Vec<String> = symbols
            .iter()
            .filter(|symbol| is_refused(symbol))
            .map(|symbol| format!("`{}`", symbol.name))
            .collect();
        writeln!(
            implemented,
            "| `{name}` | {} | {} |",
            present.join(", "),
            absent.join(", ")
        )?;
    }
    let mut text = OPENING.to_owned();
    writeln!(
        text,
        "## Implemented\n\n\
         {count} of {} functions. Each symbol is followed by the CUDA version that introduced it;\n\
         symbols that end with `_ptds` or `_ptsz` use the default stream of the calling thread.\n\n\
         | function | symbols | refused versions |\n|---|---|---|\n{implemented}\n\
         ## Refused\n\n\
         These functions return `CUDA_ERROR_NOT_SUPPORTED` and say their name once on standard \
         error.",
        functions.len()
    )?;
    for (index, names) in groups {
        let (heading, _) = groups_of_names().nth(index).context("no such group")?;
        write!(text, "\n### {heading}\n\n")?;
        text += &wrapped(&names);
    }
    Ok(text)
}

fn functions(table: &str) -> Result<BTreeMap<&str, Vec<Symbol<'_>>>> {
    let mut functions: BTreeMap<&str, Vec<Symbol<'_>>> = BTreeMap::new();
    for row in table.lines().filter(|row| !row.starts_with('#')) {
        let [function, name, since, _] = row.split(' ').collect::<Vec<_>>()[..] else {
            bail!("{TABLE}: not a row: {row}");
        };
        let since = since.parse();
        let since = since.with_context(|| format!("{TABLE}: the version of {name}"))?;
        let symbols = functions.entry(function).or_default();
        symbols.push(Symbol { since, name });
    }
    Ok(functions)
}

fn refused_symbols(source: &str) -> Result<BTreeSet<&str>> {
    let (_, list) = source
        .split_once("\nrefused! {")
        .with_context(|| format!("{REFUSED} has no list"))?;
    let (list, _) = list
        .split_once('}')
        .with_context(|| format!("the list of {REFUSED} does not end"))?;
    Ok(list.split_whitespace().collect())
}

/// Returns the headings of the groups, each with its words.
fn groups_of_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    GROUPS.lines().filter_map(|line| line.split_once(": "))
}

/// Returns the index of a function's group.
fn group(name: &str) -> usize {
    let has_word = |(_, words): (_, &str)| words.split(' ').any(|word| name.contains(word));
    groups_of_names().position(has_word).unwrap_or_default()
}

/// Formats the number of a CUDA version, as 12.4 for 12040.
fn version(number: u32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

/// Formats names as one paragraph with lines of at most 100 columns.
fn wrapped(names: &[&str]) -> String {
    let mut text = String::new();
    let mut columns = 0;
    for (index, name) in names.iter().enumerate() {
        let end = if index + 1 == names.len() { "" } else { "," };
        let word = format!("`{name}`{end}");
        if columns > 0 && columns + 1 + word.len() > 100 {
            text.push('\n');
            columns = 0;
        } else if columns > 0 {
            text.push(' ');
            columns += 1;
        }
        columns += word.len();
        text += &word;
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUNCTIONS: &str = "\
# The functions
cuCopy cuCopy 2000 2
cuCopy cuCopy_v2 3020 2
cuCopy cuCopy_v2_ptds 7000 2
cuGraphCreate cuGraphCreate 10000 2
cuOther cuOther 12040 0
";

    #[test]
    fn the_page_is_that_of_the_lists() {
        let expected = page(
            &process::read(TABLE).unwrap(),
            &process::read(REFUSED).unwrap(),
        );
        assert!(
            process::read(PAGE).unwrap() == expected.unwrap(),
            "the lists have changed: run `cargo xtask driver-page`"
        );
    }

    #[test]
    fn implemented_and_refused_symbols_are_told_apart() {
        let page = page(
            FUNCTIONS,
            "\nrefused! {\n cuCopy cuGraphCreate\n cuOther\n}",
        )
        .unwrap();
        assert!(page.contains("1 of 3 functions"), "{page}");
        let line = "| `cuCopy` | `cuCopy_v2` (3.2), `cuCopy_v2_ptds` (7.0) | `cuCopy` |\n";
        assert!(page.contains(line), "{page}");
        assert!(page.contains("### Graphs and capture\n\n`cuGraphCreate`\n"));
        assert!(page.ends_with("### Others\n\n`cuOther`\n"), "{page}");
    }

    #[test]
    fn long_lists_are_wrapped() {
        let names = ["cuGraphExternalSemaphoresWaitNode"; 3];
        let name = "`cuGraphExternalSemaphoresWaitNode`";
        assert_eq!(wrapped(&names), format!("{name}, {name},\n{name}\n"));
    }
}
