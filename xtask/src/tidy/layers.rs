//! The layers of each crate: a module may use only the modules below it.
//!
//! `xtask/layers.txt` lists the top-level modules of a crate from the lowest to the highest. A use
//! of a higher module is a violation, and so is an unlisted module.

use anyhow::{Result, bail};

use super::{modules::Modules, sources::Source};

#[derive(Debug, PartialEq)]
pub(super) struct Layers {
    /// The folder of the crate's sources, ending with `/`.
    pub(super) folder: String,
    /// The modules, lowest first.
    pub(super) modules: Vec<String>,
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
        let modules = Modules::of(&self.folder, sources);
        let top = |path: &str| path.split("::").next().unwrap_or_default().to_owned();
        let mut violations = Vec::new();
        for (path, file) in modules.files().filter(|(path, _)| !path.is_empty()) {
            let top = top(path);
            if self.rank(&top).is_none() {
                violations.push(format!(
                    "{file}:1: `{top}` is in no layer of {}: add it to xtask/layers.txt",
                    self.folder
                ));
            }
        }
        for used in modules.uses() {
            let (user, target) = (top(used.user), top(used.used));
            if let (Some(rank), Some(other)) = (self.rank(&user), self.rank(&target))
                && other > rank
            {
                violations.push(format!(
                    "{}:{}: `{user}` uses `{}` of the layer `{target}` above it",
                    used.file, used.line, used.used
                ));
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
