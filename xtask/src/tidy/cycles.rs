//! Import cycles: modules that use each other, directly or through others.
//!
//! `xtask/cycles.txt` lists the crates that are checked. In each of them, the strongly connected
//! components of the modules, at any depth, have three modules at most: a reader of one module of
//! a larger component has to know all of them. A module that only declares and exports others is in
//! no cycle.

use std::collections::BTreeMap;

use super::{
    modules::{Modules, Use},
    sources::Source,
};

/// The maximum number of modules that use each other.
const MODULES_MAX: usize = 3;

/// Returns every larger cycle of a crate, and each use in it, as `path:line: message`. `folder` is
/// the folder of the crate's sources, which ends with `/`.
pub(super) fn violations(folder: &str, sources: &[Source]) -> Vec<String> {
    let modules = Modules::of(folder, sources);
    let mut uses = modules.uses();
    uses.retain(|used| !used.is_export);
    let mut violations = Vec::new();
    for members in components(&uses) {
        if members.len() <= MODULES_MAX {
            continue;
        }
        let count = members.len();
        for used in &uses {
            if members.contains(&used.user) && members.contains(&used.used) {
                violations.push(format!(
                    "{}:{}: `{}` uses `{}` in a cycle of {count} modules: {}",
                    used.file,
                    used.line,
                    used.user,
                    used.used,
                    members.join(", ")
                ));
            }
        }
    }
    violations.sort();
    violations.dedup();
    violations
}

/// Returns the strongly connected components of the modules, by Tarjan's algorithm.
fn components<'a>(uses: &[Use<'a>]) -> Vec<Vec<&'a str>> {
    let mut search = Search::default();
    for used in uses {
        search.used.entry(used.user).or_default().push(used.used);
    }
    for used in uses {
        search.visit(used.user);
    }
    search.components
}

/// A depth-first search for strongly connected components.
#[derive(Default)]
struct Search<'a> {
    used: BTreeMap<&'a str, Vec<&'a str>>,
    /// The number of each visited module, which is the greatest once its component is complete.
    numbers: BTreeMap<&'a str, usize>,
    /// The visited modules whose components are not complete.
    open: Vec<&'a str>,
    components: Vec<Vec<&'a str>>,
}

impl<'a> Search<'a> {
    /// Visits a module. Returns the least number of an open module that it leads to.
    fn visit(&mut self, module: &'a str) -> usize {
        if let Some(&number) = self.numbers.get(module) {
            return number;
        }
        let number = self.numbers.len();
        self.numbers.insert(module, number);
        let first = self.open.len();
        self.open.push(module);
        let mut least = number;
        for used in self.used.get(module).cloned().unwrap_or_default() {
            least = least.min(self.visit(used));
        }
        if least == number {
            let mut members = self.open.split_off(first);
            members.sort_unstable();
            for member in &members {
                self.numbers.insert(member, usize::MAX);
            }
            self.components.push(members);
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the violations in a crate with these modules, whose root declares them.
    fn violations(files: &[(&str, &str)]) -> Vec<String> {
        let source = |&(path, text): &(&str, &str)| {
            Source::new(&format!("crates/a/src/{path}.rs"), text.to_owned())
        };
        let sources: Vec<Source> = files.iter().map(source).collect();
        super::violations("crates/a/src/", &sources)
    }

    #[test]
    fn a_cycle_of_four_modules_is_a_violation_however_they_name_each_other() {
        for closing in [
            "use crate::one::First;",
            "use super::super::one::{self, First};",
            "fn f() -> crate::one::First { g() }",
            "use crate::one;\nfn f() { one::g() }",
            "use crate::{other, root_name::Thing};\nfn f() { crate::First::new() }",
            "use crate::facade::Exported;",
            "use crate::facade::Renamed as Again;",
            "use crate::facade::inline::Inner;",
            "use crate::facade;\nfn f(x: facade::Exported) {}",
            "use crate::{self as root};\nfn f(x: root::First) {}",
            "use crate::*;\nfn f(x: First) {}",
            "pub use crate::First;\nfn f(x: First) {}",
        ] {
            let files = [
                (
                    "lib",
                    "pub use one::First;\nmod one;\nmod facade;\nmod deep;\n",
                ),
                (
                    "facade/mod",
                    "pub use crate::one::First as Exported;\nmod part;\n\
                  pub use crate::one::First as Renamed;\n\
                  pub mod inline { pub use crate::one::Inner; }\n",
                ),
                (
                    "facade/part",
                    "use crate::deep::last::Last;\npub struct Part;\n",
                ),
                (
                    "one",
                    "use crate::two::Second;\npub struct First;\npub struct Inner;\n",
                ),
                (
                    "two",
                    "use crate::facade::part;\npub struct Second;\nfn f() { part::g() }\n",
                ),
                (
                    "deep/mod",
                    "pub(crate) mod last;\npub(crate) use last::Last;\n",
                ),
                ("deep/last", closing),
            ];
            let found = violations(&files);
            assert!(
                found.iter().any(|found| found
                    .ends_with("in a cycle of 4 modules: deep::last, facade::part, one, two")),
                "{closing}: {found:?}"
            );
            assert!(found.iter().any(|found| {
                found.starts_with("crates/a/src/deep/last.rs:")
                    && found.contains(": `deep::last` uses `one` in")
            }));
            let mut open = files;
            open[6].1 = "use crate::facade::Other;\n#[cfg(test)]\nmod tests {\n\
                         use crate::First;\n}\n";
            assert_eq!(violations(&open), [""; 0]);
        }
    }

    #[test]
    fn three_modules_may_use_each_other_below_a_facade_that_exports_all() {
        let facade = "mod a;\nmod b;\nmod c;\nmod d;\npub use a::A;\npub use b::B;\n\
                      pub(crate) use {c::C, d::*};\n";
        let files = [
            ("x/mod", facade),
            ("lib", "mod x;\n"),
            ("x/a", "use crate::x::{B, D};\npub struct A;\n"),
            ("x/b", "use super::C;\npub struct B;\n"),
            ("x/c", "use super::{A, D};\npub struct C;\n"),
            ("x/d", "pub struct D;\n"),
        ];
        assert_eq!(violations(&files), [""; 0]);
        // A facade that uses its modules is one of them.
        let mut using = files;
        let facade = format!("{facade}pub fn f(a: A) {{}}\n");
        using[0].1 = &facade;
        using[5].1 = "use super::f;\npub struct D;\n";
        assert!(
            violations(&using)[0].ends_with("in a cycle of 5 modules: x, x::a, x::b, x::c, x::d")
        );
    }
}
