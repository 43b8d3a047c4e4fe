//! The layers of each crate: a module may use only the modules below it.
//!
//! `xtask/layers.txt` lists the top-level modules of a crate from the lowest to the highest. Every
//! path in the crate's sources that begins with `crate::`, or leaves its module by `super::`, is
//! resolved to a top-level module, through the re-exports of the crate's root. A path to a higher
//! module is a violation, and so is an unlisted module. Tests and `cfg(doc)` imports are excluded,
//! because users do not link them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

use super::sources::{Source, is_word};

/// The layers of one crate.
#[derive(Debug, PartialEq)]
pub(super) struct Layers {
    /// The folder of the crate's sources, ending with `/`.
    folder: String,
    /// The modules, lowest first.
    modules: Vec<String>,
}

impl Layers {
    /// Parses the layers of all crates: a line `crates/name/src/:`, then indented lines with the
    /// modules, lowest first. Lines that start with `#` are ignored.
    pub(super) fn parse(name: &str, text: &str) -> Result<Vec<Self>> {
        let mut crates: Vec<Self> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let words = line.trim();
            if words.is_empty() || words.starts_with('#') {
                continue;
            }
            if let Some(folder) = line.strip_suffix(':') {
                crates.push(Self {
                    folder: folder.to_owned(),
                    modules: Vec::new(),
                });
                continue;
            }
            let Some(last) = crates.last_mut().filter(|_| line.starts_with(' ')) else {
                bail!(
                    "{name}:{number}: expected a source folder ending with `:`, or indented modules"
                );
            };
            last.modules
                .extend(words.split_whitespace().map(str::to_owned));
        }
        Ok(crates)
    }

    /// Returns every violation in the crate's sources, as `path:line: message`.
    pub(super) fn violations(&self, sources: &[Source]) -> Vec<String> {
        let own: Vec<File<'_>> = sources
            .iter()
            .filter(|source| source.is_rust())
            .filter_map(|source| File::of(source, source.path.strip_prefix(&self.folder)?))
            .collect();
        let test_files: BTreeSet<String> = own.iter().flat_map(File::test_modules).collect();
        let exports = own
            .iter()
            .find(|file| file.module.is_empty())
            .map(File::exports)
            .unwrap_or_default();
        let mut violations = Vec::new();
        for file in own
            .iter()
            .filter(|file| !test_files.contains(&file.module.join("::")))
        {
            let Some(top) = file.module.first() else {
                continue;
            };
            let Some(rank) = self.rank(top) else {
                violations.push(format!(
                    "{}:1: `{top}` is in no layer of {}: add it to xtask/layers.txt",
                    file.path, self.folder
                ));
                continue;
            };
            for used in file.uses() {
                let target = exports.get(&used.name).unwrap_or(&used.name);
                if self.rank(target).is_some_and(|other| other > rank) {
                    violations.push(format!(
                        "{}:{}: `{}` uses `{}` of the layer `{target}` above it",
                        file.path, used.line, top, used.name
                    ));
                }
            }
        }
        violations.sort();
        violations.dedup();
        violations
    }

    fn rank(&self, module: &str) -> Option<usize> {
        self.modules.iter().position(|known| known == module)
    }
}

/// A use of a name directly below the crate's root.
struct Use {
    name: String,
    line: usize,
}

/// A token: a word, `::`, or one other character.
struct Token<'a> {
    text: &'a str,
    line: usize,
}

/// A source file, as a module.
struct File<'a> {
    path: &'a str,
    /// The module's path below the root.
    module: Vec<&'a str>,
    /// The file's tokens, without tests and imports for documentation.
    tokens: Vec<Token<'a>>,
    /// The modules declared here for tests only.
    test_modules: Vec<&'a str>,
}

impl<'a> File<'a> {
    /// Creates the module of the file at `inner` below the source folder. Programs are excluded,
    /// because they are not modules of the library.
    fn of(source: &'a Source, inner: &'a str) -> Option<Self> {
        let inner = inner.strip_suffix(".rs")?;
        let mut module: Vec<&str> = inner.split('/').collect();
        match module[..] {
            ["lib"] => module.clear(),
            ["main"] | ["bin", ..] => return None,
            [.., "mod"] => {
                module.pop();
            }
            _ => {}
        }
        let (tokens, test_modules) = without_tests(tokens(&source.code));
        Some(Self {
            path: &source.path,
            module,
            tokens,
            test_modules,
        })
    }

    /// Returns the paths of the modules declared here for tests only.
    fn test_modules(&self) -> impl Iterator<Item = String> + '_ {
        self.test_modules.iter().map(|name| {
            let path: Vec<&str> = self.module.iter().copied().chain([*name]).collect();
            path.join("::")
        })
    }

    /// Returns the names that the root re-exports, each with its top-level module.
    fn exports(&self) -> BTreeMap<String, String> {
        let mut exports = BTreeMap::new();
        let mut at = 0;
        while at < self.tokens.len() {
            if self.tokens[at].text == "use" {
                let mut leaves = Vec::new();
                at = self.tree(at + 1, &mut Vec::new(), &mut leaves);
                for path in leaves {
                    let path = match path.first().map(|(word, _)| *word) {
                        Some("self" | "crate") => &path[1..],
                        _ => &path[..],
                    };
                    if let ([(module, _), ..], [.., (name, _)]) = (path, path)
                        && path.len() > 1
                    {
                        exports.insert((*name).to_owned(), (*module).to_owned());
                    }
                }
            }
            at += 1;
        }
        exports
    }

    /// Returns every name directly below the root that the file uses.
    fn uses(&self) -> Vec<Use> {
        let mut uses = Vec::new();
        for at in 0..self.tokens.len() {
            let begins_a_path = at == 0 || self.tokens[at - 1].text != "::";
            let word = self.tokens[at].text;
            if !begins_a_path || !matches!(word, "crate" | "super") {
                continue;
            }
            let mut leaves = Vec::new();
            self.tree(at, &mut Vec::new(), &mut leaves);
            uses.extend(leaves.iter().filter_map(|path| self.below_root(path)));
        }
        uses
    }

    /// Returns the name below the root that a path refers to, if it leaves the file's top-level
    /// module.
    fn below_root(&self, path: &[(&'a str, usize)]) -> Option<Use> {
        let mut depth = self.module.len();
        let mut at = 0;
        while let Some((word, _)) = path.get(at) {
            match *word {
                "crate" => depth = 0,
                "super" => depth = depth.checked_sub(1)?,
                "self" => {}
                _ => break,
            }
            at += 1;
        }
        let (name, line) = path.get(at).filter(|_| depth == 0)?;
        Some(Use {
            name: (*name).to_owned(),
            line: *line,
        })
    }

    /// Parses the path or use tree at `at` and adds each of its leaves. Returns the position after
    /// it.
    fn tree(
        &self,
        mut at: usize,
        path: &mut Vec<(&'a str, usize)>,
        leaves: &mut Vec<Vec<(&'a str, usize)>>,
    ) -> usize {
        let length = path.len();
        while let Some(token) = self.tokens.get(at) {
            if token.text == "{" {
                at = self.group(at + 1, path, leaves);
                path.truncate(length);
                return at;
            }
            if token.text != "*" && !token.text.starts_with(is_word) {
                break;
            }
            path.push((token.text, token.line));
            at += 1;
            if self.text(at) != "::" {
                break;
            }
            at += 1;
        }
        // A renamed re-export is known by its new name.
        if self.text(at) == "as"
            && let Some(renamed) = self.tokens.get(at + 1)
        {
            path.push((renamed.text, renamed.line));
            at += 2;
        }
        if path.len() > length {
            leaves.push(path.clone());
        }
        path.truncate(length);
        at
    }

    /// Parses the use trees of a group up to its `}`. Returns the position after it.
    fn group(
        &self,
        mut at: usize,
        path: &mut Vec<(&'a str, usize)>,
        leaves: &mut Vec<Vec<(&'a str, usize)>>,
    ) -> usize {
        while !matches!(self.text(at), "}" | "") {
            let next = self.tree(at, path, leaves);
            at = next.max(at + usize::from(next == at));
        }
        at + 1
    }

    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }
}

/// Splits code without comments and literals into tokens.
fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (line, text) in (1..).zip(code.lines()) {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = if is_word(first) {
                rest.find(|letter| !is_word(letter)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            tokens.push(Token {
                text: &rest[..length],
                line,
            });
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// Removes the items after `#[cfg(test)]`, `#[cfg(all(test, …))]` and `#[cfg(doc)]`, and returns
/// the names of the modules among them.
fn without_tests(tokens: Vec<Token<'_>>) -> (Vec<Token<'_>>, Vec<&str>) {
    let mut kept = Vec::new();
    let mut modules = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    let mut skips = false;
    while let Some(token) = tokens.next() {
        let is_attribute = token.text == "#" && tokens.peek().is_some_and(|next| next.text == "[");
        if is_attribute {
            let words = balanced(&mut tokens);
            let is_cfg = words.get(1).is_some_and(|word| *word == "cfg") && !words.contains(&"not");
            skips |= is_cfg && words.iter().any(|word| matches!(*word, "test" | "doc"));
            continue;
        }
        if !skips {
            kept.push(token);
            continue;
        }
        skips = false;
        let mut item = vec![token.text];
        while let Some(next) = tokens.peek() {
            match next.text {
                ";" => {
                    tokens.next();
                    break;
                }
                "{" => {
                    let is_use = item.contains(&"use");
                    balanced(&mut tokens);
                    if !is_use {
                        break;
                    }
                }
                text => {
                    item.push(text);
                    tokens.next();
                }
            }
        }
        if let Some(at) = item.iter().position(|word| *word == "mod")
            && let Some(name) = item.get(at + 1)
        {
            modules.push(*name);
        }
    }
    (kept, modules)
}

/// Consumes the tokens from an opening bracket to its closing bracket.
fn balanced<'a>(tokens: &mut impl Iterator<Item = Token<'a>>) -> Vec<&'a str> {
    let mut depth = 0_usize;
    let mut taken = Vec::new();
    for token in tokens {
        taken.push(token.text);
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYERS: &str = "# lowest first\ncrates/a/src/:\n  low middle\n  high\n";
    const ROOT: &str = "//! A.\nmod high;\nmod low;\nmod middle;\n\
                        pub use high::{Top, inner::Nested, Plain as Renamed};\n\
                        pub use low::Bottom;\n";

    /// Returns the violations of a crate with these files below the root.
    fn violations(files: &[(&str, &str)]) -> Vec<String> {
        let layers = Layers::parse("layers.txt", LAYERS).unwrap();
        let root = [("lib.rs", ROOT)];
        let sources: Vec<Source> = root
            .iter()
            .chain(files)
            .map(|(path, text)| Source::new(&format!("crates/a/src/{path}"), (*text).to_owned()))
            .collect();
        layers[0].violations(&sources)
    }

    #[test]
    fn uses_of_lower_layers_and_of_the_same_layer_are_allowed() {
        let text = "//! M.\nuse crate::{Bottom, low::{self, deep::Thing}, middle::other};\n\
                    use super::low as l;\nfn f() -> crate::low::X { super::low::f() }\n";
        assert_eq!(violations(&[("middle.rs", text)]), [""; 0]);
        let deep = "//! M.\nuse super::{sibling, super::low};\n";
        assert_eq!(violations(&[("middle/deep.rs", deep)]), [""; 0]);
    }

    #[test]
    fn each_kind_of_upward_use_is_a_violation() {
        for upward in [
            "use crate::high::f;",
            "use crate::{low::x, high};",
            "use crate::{low::{x, y}, high::{self, z}};",
            "use crate::Top;",
            "use crate::{Bottom, Nested};",
            "use crate::Renamed;",
            "use super::high;",
            "use super::{low, high::f};",
            "fn f() { crate::high::g() }",
            "fn f(x: &crate::Top) {}",
            "fn f() { let g = |x| crate::high::g(x); }",
            "mac!(move || crate::high::g());",
            "impl crate::high::Trait for X {}",
            "pub(crate) use crate::high::f;",
            "fn f() { super::high::g() }",
            "pub use super::high::*;",
        ] {
            for (path, upward) in [
                ("middle.rs", upward.to_owned()),
                ("middle/mod.rs", upward.to_owned()),
                (
                    "middle/deep.rs",
                    upward.replace("super::", "super::super::"),
                ),
            ] {
                let found = violations(&[(path, &format!("//! M.\n{upward}\n"))]);
                assert_eq!(found.len(), 1, "{path}: {upward}: {found:?}");
                assert!(
                    found[0].starts_with(&format!("crates/a/src/{path}:2: `middle` uses")),
                    "{found:?}"
                );
            }
        }
    }

    #[test]
    fn tests_and_imports_for_documentation_are_excluded() {
        let text = "//! M.\n#[cfg(doc)]\nuse crate::{high, Top};\n#[cfg(test)]\nmod tests {\n\
                    use crate::high;\n    fn f() { crate::high::f() }\n}\n\
                    #[cfg(all(test, shuttle))]\nmod model;\n";
        let model = "//! T.\nuse crate::high;\n";
        assert_eq!(
            violations(&[("middle.rs", text), ("middle/model.rs", model)]),
            [""; 0]
        );
        let kept = "//! M.\n#[cfg(not(test))]\nuse crate::high;\n#[derive(Debug)]\n\
                    struct S(crate::Top);\n";
        assert_eq!(violations(&[("middle.rs", kept)]).len(), 2);
        let after = "//! M.\n#[cfg(test)]\nuse crate::high;\nfn f() { crate::high::g() }\n";
        assert_eq!(violations(&[("middle.rs", after)]).len(), 1);
    }

    #[test]
    fn a_module_without_a_layer_is_a_violation() {
        let found = violations(&[("other.rs", "//! O.\n")]);
        assert_eq!(
            found,
            [
                "crates/a/src/other.rs:1: `other` is in no layer of crates/a/src/: \
              add it to xtask/layers.txt"
            ]
        );
    }

    #[test]
    fn an_invalid_list_is_an_error() {
        assert!(Layers::parse("layers.txt", "low middle\n").is_err());
        assert!(Layers::parse("layers.txt", "  low\n").is_err());
    }
}
