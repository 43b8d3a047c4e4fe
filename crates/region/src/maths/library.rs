//! A parser of the checked-in PTX: its functions and tables, and their dependencies.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::OnceLock,
};

use crate::maths::exact;

/// The PTX that NVRTC compiles from `kernels/maths.cu`.
const PTX: &str = include_str!("../../kernels/maths.ptx");

/// A function or a table of the PTX.
#[derive(Debug)]
pub(super) struct PtxItem {
    /// The PTX text, which ends with a line break. Functions are local to their module.
    pub(super) text: String,
    /// The names of the items that must precede it.
    pub(super) needs: Vec<&'static str>,
    /// The size of the result in bits; 0 for a table.
    pub(super) result: u32,
    /// The size of each parameter in bits.
    pub(super) parameters: Vec<u32>,
    /// The lines of [`PtxItem::straight_line`], once they were asked for.
    straight_line: OnceLock<Option<String>>,
}

/// All functions and tables, by name.
#[derive(Debug)]
pub(super) struct PtxLibrary {
    pub(super) items: BTreeMap<&'static str, PtxItem>,
}

/// Returns the library, which the first call parses.
pub(super) fn library() -> &'static PtxLibrary {
    static LIBRARY: OnceLock<PtxLibrary> = OnceLock::new();
    LIBRARY.get_or_init(|| PtxLibrary::read(PTX))
}

impl PtxItem {
    fn new(text: String, result: u32, parameters: Vec<u32>) -> Self {
        Self {
            text,
            needs: Vec::new(),
            result,
            parameters,
            straight_line: OnceLock::new(),
        }
    }

    /// Returns the number of instructions of a function: neither moves, which name constants in
    /// PTX, nor accesses to its parameters.
    pub(super) fn instructions(&self) -> usize {
        let is_instruction = |line: &str| {
            let mut words = words(line).filter(|word| !word.starts_with('%'));
            let opcode = words.next().unwrap_or("");
            let other = [".", "mov", "ld.param", "st.param", "ret"];
            line.starts_with('\t') && !other.iter().any(|start| opcode.starts_with(start))
        };
        let (_head, body) = self.text.split_once('{').unwrap_or_default();
        body.lines().filter(|line| is_instruction(line)).count()
    }

    /// Returns the lines of a function that takes its arguments from registers `argument0` and so
    /// on and leaves its result in `result`, if they can be straight: a branch over some
    /// instructions makes them conditional, and a call becomes the lines of the called function.
    pub(super) fn straight_line(&self) -> Option<&str> {
        let lines = self.straight_line.get_or_init(|| {
            let (_, body) = self.text.split_once("\n{\n")?;
            StraightLine::default().of(self, body.strip_suffix("}\n")?)
        });
        lines.as_deref()
    }
}

/// The straight lines of a function so far.
#[derive(Default)]
struct StraightLine {
    text: String,
    /// The condition of the instructions up to a label.
    condition: Option<(String, String)>,
    /// True within the braces of a call, which has one argument.
    is_call: bool,
    argument: String,
    called: String,
}

/// The maximum number of statements of such a function: more are not worth the kernel's length.
const STRAIGHT_MAX: usize = 100;

impl StraightLine {
    fn of(mut self, item: &PtxItem, body: &str) -> Option<String> {
        let mut lines = body.lines().peekable();
        while let Some(line) = lines.next() {
            if line == "\t{" && lines.peek()?.ends_with(" argument0;") {
                self.is_call = true;
            } else if line == "\t}" && self.is_call {
                self.is_call = false;
            } else {
                self.add(item, line)?;
            }
        }
        let statements = self.text.matches(';').count();
        (self.condition.is_none() && statements <= STRAIGHT_MAX).then_some(self.text)
    }

    fn add(&mut self, item: &PtxItem, line: &str) -> Option<()> {
        let mut operands = line.split([',', ';']).map(str::trim);
        let mut next = || operands.next();
        let opcode = line.split_whitespace().next().unwrap_or_default();
        match opcode {
            // Behind a return under a condition, the other threads would go on.
            "ret;" if self.condition.is_some() => return None,
            "" | "ret;" => {}
            load if load.starts_with("ld.param") => {
                let target = next()?.split_whitespace().nth(1)?;
                if self.is_call {
                    return self.call(target);
                }
                let name = next()?.trim_matches(['[', ']']);
                let number: usize = name.rsplit_once("_param_")?.1.parse().ok()?;
                let bits = item.parameters.get(number)?;
                self.push(&format!("\tmov.b{bits} {target}, argument{number};"));
            }
            store if store.starts_with("st.param") => {
                next();
                let value = next()?;
                match self.is_call {
                    true => value.clone_into(&mut self.argument),
                    false => self.push(&format!("\tmov.b{} result, {value};", item.result)),
                }
            }
            ".param" => {}
            call if call.starts_with("call") => {
                line.split(", ").nth(1)?.clone_into(&mut self.called);
            }
            condition if condition.starts_with("@%") && self.condition.is_none() => {
                let label = line.split_once("bra")?.1.trim().trim_end_matches(';');
                let predicate = format!("@!{}", &condition[1..]);
                self.condition = Some((predicate, format!("{label}:")));
            }
            label if label.starts_with('$') => {
                let (_, end) = self.condition.take()?;
                (end == label).then_some(())?;
            }
            branch if branch.starts_with('@') || branch.starts_with("bra") => return None,
            _ => self.push(line),
        }
        Some(())
    }

    /// Appends an instruction, a declaration or a brace.
    fn push(&mut self, line: &str) {
        match &self.condition {
            Some((condition, _)) if !line.trim_start().starts_with(['.', '{', '}']) => {
                self.text += &format!("\t{condition} {}\n", line.trim_start());
            }
            _ => self.text.extend([line, "\n"]),
        }
    }

    /// Appends the lines of the called function, of one argument of 32 bits. They have no
    /// condition, but the move of the result does.
    fn call(&mut self, target: &str) -> Option<()> {
        let lines = library().items.get(&*self.called)?.straight_line()?;
        let argument = &self.argument;
        self.text += &format!(
            "\t{{\n\t.reg .b32 given, returned;\n\tmov.b32 given, {argument};\n\t{{\n\
             \t.reg .b32 argument0, result;\n\tmov.b32 argument0, given;\n\
             \t{{\n{lines}\t}}\n\tmov.b32 returned, result;\n\t}}\n"
        );
        self.push(&format!("\tmov.b32 {target}, returned;"));
        self.text += "\t}\n";
        Some(())
    }
}

impl PtxLibrary {
    /// Splits NVRTC's output into items: a declaration begins at the start of a line, a table ends
    /// with that line, and a function ends with a brace at the start of a line.
    fn read(ptx: &'static str) -> Self {
        let mut items = BTreeMap::new();
        let mut rest = ptx;
        while let Some(line) = rest.split_inclusive('\n').next() {
            let through = |end: &str| rest.find(end).map_or(rest.len(), |at| at + end.len());
            let is_function = line.starts_with(".visible .func") || line.starts_with(".func");
            // The first line of a prototype ends with its name, and that of a definition with a
            // parenthesis.
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

    /// Appends the names of an item and of its dependencies that are not in the list, dependencies
    /// first.
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

/// Parses one piece of the file; returns `None` unless it is a function with a body or a table.
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
    let text = exact::replace_approximate(text);
    Some((name, PtxItem::new(text, result, bits(head))))
}

/// Splits PTX into words: names, directives, opcodes and numbers.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.');
    text.split(move |c| !is_part(c))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_of_the_file_is_parsed_with_its_type() {
        let library = library();
        let declared = PTX.matches(".visible .func").count();
        let public = library.items.keys().filter(|name| name.starts_with("ms_"));
        assert_eq!(public.count(), declared);
        let type_of = |name: &str| {
            let item = &library.items[name];
            (item.result, &item.parameters[..])
        };
        assert_eq!(type_of("ms_exp_f32"), (32, &[32][..]));
        assert_eq!(type_of("ms_powi_f64"), (64, &[64, 32][..]));
        assert_eq!(type_of("ms_normal_f32"), (32, &[64, 64][..]));
        assert_eq!(type_of("__cudart_i2opi_d").0, 0);
    }

    #[test]
    fn instructions_are_counted_without_moves_and_parameters() {
        let count = |name: &str| library().items[name].instructions();
        assert_eq!((count("ms_exp_f32"), count("ms_round_f32")), (24, 4));
        assert_eq!(count("__cudart_i2opi_d"), 0);
    }

    #[test]
    fn dependencies_precede_their_users() {
        let library = library();
        let mut order = Vec::new();
        library.collect("ms_tan_f64", &mut order);
        library.collect("ms_sin_f64", &mut order);
        let place = |name: &str| order.iter().position(|other| *other == name).unwrap();
        assert!(place("__cudart_i2opi_d") < place("__internal_trig_reduction_slowpathd"));
        assert!(place("__internal_trig_reduction_slowpathd") < place("ms_tan_f64"));
        assert!(place("__cudart_sin_cos_coeffs") < place("ms_sin_f64"));
        assert_eq!(order.len(), 5, "{order:?}");
    }

    #[test]
    fn items_are_local_and_complete() {
        for (name, item) in &library().items {
            assert!(!item.text.contains(".visible"), "{name}");
            assert!(item.text.ends_with('\n'), "{name}");
            let is_closed = item.text.ends_with("}\n") || item.result == 0;
            assert!(is_closed, "{name}");
        }
    }
}
