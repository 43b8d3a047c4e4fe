//! The checked-in PTX, taken apart: functions and tables, and what each of them needs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::OnceLock,
};

use super::exact;

/// What NVRTC makes of `kernels/maths.cu`.
const PTX: &str = include_str!("../../kernels/maths.ptx");

/// A function or a table.
#[derive(Debug)]
pub(super) struct PtxItem {
    /// Its PTX, with a line break at the end. A function is not visible outside of its module.
    pub(super) text: String,
    /// The names of what must stand in front of it.
    pub(super) needs: Vec<&'static str>,
    /// Bits of its result: 0 for a table.
    pub(super) result: u32,
    /// Bits of its parameters.
    pub(super) parameters: Vec<u32>,
}

/// All of them, by name.
#[derive(Debug)]
pub(super) struct PtxLibrary {
    pub(super) items: BTreeMap<&'static str, PtxItem>,
}

/// The library, read when it is first asked for.
pub(super) fn library() -> &'static PtxLibrary {
    static LIBRARY: OnceLock<PtxLibrary> = OnceLock::new();
    LIBRARY.get_or_init(|| PtxLibrary::read(PTX))
}

impl PtxLibrary {
    /// Takes apart what NVRTC wrote: declarations begin at the start of a line, tables end with it
    /// and functions with a brace at the start of one.
    fn read(ptx: &'static str) -> Self {
        let mut items = BTreeMap::new();
        let mut rest = ptx;
        while let Some(line) = rest.split_inclusive('\n').next() {
            let through = |end: &str| rest.find(end).map_or(rest.len(), |at| at + end.len());
            let is_function = line.starts_with(".visible .func") || line.starts_with(".func");
            // Behind a prototype's name the line ends without a bracket.
            let bytes = match is_function {
                true if line.ends_with("(\n") => through("\n}\n"),
                true => through("\n;\n"),
                false => line.len(),
            };
            let (text, behind) = rest.split_at(bytes);
            rest = behind;
            if let Some((name, item)) = item(text) {
                items.insert(name, item);
            }
        }
        let names: Vec<&'static str> = items.keys().copied().collect();
        for (name, item) in &mut items {
            let known = |word: &str| names.binary_search(&word).ok().map(|at| names[at]);
            let mentioned: BTreeSet<&'static str> = words(&item.text).filter_map(known).collect();
            item.needs = mentioned
                .into_iter()
                .filter(|other| other != name)
                .collect();
        }
        Self { items }
    }

    /// The names of an item and of all that it needs, each once, what is needed first.
    pub(super) fn collect(&self, name: &'static str, found: &mut Vec<&'static str>) {
        if found.contains(&name) {
            return;
        }
        for needed in &self.items[name].needs {
            self.collect(needed, found);
        }
        found.push(name);
    }
}

/// The function or table that a piece of the file is, if it is one.
fn item(text: &'static str) -> Option<(&'static str, PtxItem)> {
    let text = text.strip_prefix(".visible ").unwrap_or(text);
    if let Some(table) = text.strip_prefix(".global") {
        let name =
            words(table).find(|word| !word.starts_with('.') && word.parse::<u32>().is_err())?;
        return Some((name, PtxItem::new(text.to_owned(), 0, Vec::new())));
    }
    let function = text.strip_prefix(".func")?;
    let (head, _body) = function.split_once("\n{")?;
    let (result, head) = head.split_once(')')?;
    let name = words(head).next()?;
    let bits = |text: &str| -> Vec<u32> {
        let types = words(text).filter_map(|word| word.strip_prefix(".b"));
        types.filter_map(|bits| bits.parse().ok()).collect()
    };
    let result = bits(result).first().copied()?;
    Some((
        name,
        PtxItem::new(exact::replace_approximate(text), result, bits(head)),
    ))
}

impl PtxItem {
    fn new(text: String, result: u32, parameters: Vec<u32>) -> Self {
        Self {
            text,
            needs: Vec::new(),
            result,
            parameters,
        }
    }
}

/// The words of PTX: names, directives, opcodes, numbers.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.');
    text.split(move |c| !is_part(c))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_of_the_file_is_found_with_its_type() {
        let library = library();
        let declared = PTX.matches(".visible .func").count();
        let public = library.items.keys().filter(|name| name.starts_with("ms_"));
        assert_eq!(public.count(), declared);
        let item = |name: &str| &library.items[name];
        assert_eq!(
            (item("ms_exp_f32").result, &*item("ms_exp_f32").parameters),
            (32, &[32][..])
        );
        assert_eq!(
            (item("ms_powi_f64").result, &*item("ms_powi_f64").parameters),
            (64, &[64, 32][..])
        );
        assert_eq!(
            (
                item("ms_normal_f32").result,
                &*item("ms_normal_f32").parameters
            ),
            (32, &[64, 64][..])
        );
        assert_eq!(item("__cudart_i2opi_d").result, 0);
    }

    #[test]
    fn what_is_needed_stands_in_front() {
        let library = library();
        let mut found = Vec::new();
        library.collect("ms_tan_f64", &mut found);
        library.collect("ms_sin_f64", &mut found);
        let place = |name: &str| found.iter().position(|other| *other == name).unwrap();
        assert!(place("__cudart_i2opi_d") < place("__internal_trig_reduction_slowpathd"));
        assert!(place("__internal_trig_reduction_slowpathd") < place("ms_tan_f64"));
        assert!(place("__cudart_sin_cos_coeffs") < place("ms_sin_f64"));
        assert_eq!(found.len(), 5, "{found:?}");
    }

    #[test]
    fn nothing_but_a_table_is_left_visible_or_unread() {
        for (name, item) in &library().items {
            assert!(!item.text.contains(".visible"), "{name}");
            assert!(item.text.ends_with('\n'), "{name}");
            let is_closed = item.text.ends_with("}\n") || item.result == 0;
            assert!(is_closed, "{name}");
        }
    }
}
