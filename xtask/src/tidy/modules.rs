//! The modules of a crate, and the modules that each of them uses.
//!
//! A use is a path, or a leaf of a `use` tree. It is resolved through re-exports, `use`
//! declarations and globs to the module that defines the item. Tests and `cfg(doc)` imports are
//! excluded, because users do not link them.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::{Source, is_word};

/// The maximum number of `use` declarations through which a path is resolved.
const RESOLVED_MAX: usize = 16;

/// The modules of a crate, by their paths below the root. The path of the root is empty.
pub(super) struct Modules<'a>(BTreeMap<String, Module<'a>>);

#[derive(Debug)]
pub(super) struct Use<'a> {
    pub(super) file: &'a str,
    pub(super) line: usize,
    pub(super) user: &'a str,
    /// The module that defines the used item.
    pub(super) used: &'a str,
    /// True if the module only exports the item.
    pub(super) is_export: bool,
}

/// A module: a file, or a part of one.
#[derive(Default)]
struct Module<'a> {
    /// The path of the file; empty for a module whose file is not known.
    file: &'a str,
    is_whole_file: bool,
    /// The names of the items that it defines.
    items: BTreeSet<&'a str>,
    declarations: Vec<Leaf<'a>>,
    /// The paths elsewhere in the module.
    paths: Vec<Leaf<'a>>,
    /// The words elsewhere in the module.
    words: BTreeSet<&'a str>,
}

/// A path, or a leaf of a `use` tree.
#[derive(Clone)]
struct Leaf<'a> {
    words: Vec<&'a str>,
    line: usize,
    /// The name that a declaration gives to the item: `*` for all items.
    name: &'a str,
    is_public: bool,
}

/// A token: a word, `::`, or one other character.
#[derive(Clone, Copy)]
struct Token<'a> {
    text: &'a str,
    line: usize,
}

impl<'a> Modules<'a> {
    /// Finds the modules of the crate with this source folder, which ends with `/`. Programs are
    /// excluded, because they are not modules of the library.
    pub(super) fn of(folder: &str, sources: &'a [Source]) -> Self {
        let (mut modules, mut tests) = (Self(BTreeMap::new()), Vec::new());
        for source in sources.iter().filter(|source| source.is_rust()) {
            let inner = source.path.strip_prefix(folder);
            let Some(inner) = inner.and_then(|inner| inner.strip_suffix(".rs")) else {
                continue;
            };
            let mut names: Vec<&str> = inner.split('/').collect();
            match names[..] {
                ["main"] | ["bin", ..] => continue,
                ["lib"] | [.., "mod"] => {
                    names.pop();
                }
                _ => {}
            }
            let (tokens, test_modules) = without_tests(tokens(&source.code));
            let path = names.join("::");
            tests.extend(test_modules.into_iter().map(|name| child(&path, name)));
            modules.add(&source.path, &path, &tokens);
            modules.0.entry(path).or_default().is_whole_file = true;
        }
        let is_test = |path: &str| {
            let mut tests = tests
                .iter()
                .filter_map(|test| path.strip_prefix(test.as_str()));
            tests.any(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        modules.0.retain(|path, _| !is_test(path));
        modules
    }

    fn add(&mut self, file: &'a str, path: &str, tokens: &[Token<'a>]) {
        let mut module = Module {
            file,
            ..Module::default()
        };
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
        let mut at = 0;
        while at < tokens.len() {
            let (word, next) = (text(at), text(at + 1));
            match word {
                "mod" if matches!(text(at + 2), ";" | "{") => {
                    let inner = child(path, next);
                    if text(at + 2) == "{" {
                        let mut rest = tokens[at + 2..].iter().copied();
                        let length = balanced(&mut rest).len();
                        self.add(file, &inner, &tokens[at + 3..at + 1 + length]);
                        at += 2 + length;
                    } else {
                        self.0.entry(inner).or_default();
                        at += 3;
                    }
                    continue;
                }
                "use" => {
                    let is_public = at > 0 && matches!(text(at - 1), "pub" | ")");
                    let first = module.declarations.len();
                    at = tree(tokens, at + 1, &mut Vec::new(), &mut module.declarations);
                    for leaf in &mut module.declarations[first..] {
                        leaf.is_public = is_public;
                    }
                    continue;
                }
                "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" => {
                    module.items.insert(next);
                }
                "macro_rules" => {
                    module.items.insert(text(at + 2));
                }
                _ => {}
            }
            let is_visibility = at > 2 && text(at - 3) == "pub" && text(at - 1) == "in";
            let is_first = at == 0 || text(at - 1) != "::";
            if is_first && next == "::" && !is_visibility {
                tree(tokens, at, &mut Vec::new(), &mut module.paths);
            }
            if word.starts_with(is_word) {
                module.words.insert(word);
            }
            at += 1;
        }
        self.0.insert(path.to_owned(), module);
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &'a str)> {
        let files = self.0.iter().filter(|(_, module)| module.is_whole_file);
        files.map(|(path, module)| (path.as_str(), module.file))
    }

    pub(super) fn uses(&self) -> Vec<Use<'_>> {
        let mut uses = Vec::new();
        for (user, module) in &self.0 {
            let mut add = |line, used: Option<&str>, is_export| {
                let used = used.and_then(|used| self.0.get_key_value(used));
                if let Some((used, _)) = used.filter(|(used, _)| *used != user) {
                    uses.push(Use {
                        file: module.file,
                        line,
                        user,
                        used,
                        is_export,
                    });
                }
            };
            for leaf in &module.declarations {
                let used = self.resolve(user, &leaf.words, RESOLVED_MAX);
                add(
                    leaf.line,
                    used,
                    leaf.is_public && !module.words.contains(leaf.name),
                );
                if leaf.name == "*" {
                    for word in &module.words {
                        add(leaf.line, self.exported(used, word, RESOLVED_MAX), false);
                    }
                }
            }
            for leaf in &module.paths {
                add(
                    leaf.line,
                    self.resolve(user, &leaf.words, RESOLVED_MAX),
                    false,
                );
            }
        }
        uses
    }

    /// Returns the module that defines the item at a path in a module; `None` for other crates and
    /// for local names.
    fn resolve(&self, module: &str, path: &[&str], depth: usize) -> Option<&str> {
        let (&first, rest) = path.split_first()?;
        match first {
            "crate" => self.item("", rest, depth),
            "self" => self.item(module, rest, depth),
            "super" => {
                let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
                match rest {
                    ["super", ..] => self.resolve(parent, rest, depth),
                    _ => self.item(parent, rest, depth),
                }
            }
            _ if self.0.contains_key(&child(module, first)) => self.item(module, path, depth),
            _ => self.declared(module, path, depth),
        }
    }

    /// Returns the module that defines the item at a path that starts in a module.
    fn item(&self, module: &str, path: &[&str], depth: usize) -> Option<&str> {
        let (known, _) = self.0.get_key_value(module)?;
        let Some((&first, rest)) = path.split_first() else {
            return Some(known);
        };
        if first == "self" {
            return self.item(module, rest, depth);
        }
        let inner = child(module, first);
        if self.0.contains_key(&inner) {
            return self.item(&inner, rest, depth);
        }
        self.declared(module, path, depth).or(Some(known))
    }

    /// Returns the module that defines the item at a path that starts with a name that a `use`
    /// declaration of a module gives.
    fn declared(&self, module: &str, path: &[&str], depth: usize) -> Option<&str> {
        let (depth, (&first, rest)) = (depth.checked_sub(1)?, path.split_first()?);
        let known = self.0.get(module)?;
        if let Some(leaf) = known.declarations.iter().find(|leaf| leaf.name == first) {
            let mut whole = leaf.words.clone();
            whole.extend(rest);
            return self.resolve(module, &whole, depth);
        }
        if known.items.contains(first) {
            return None;
        }
        let mut globs = known.declarations.iter().filter(|leaf| leaf.name == "*");
        globs.find_map(|leaf| self.exported(self.resolve(module, &leaf.words, depth), first, depth))
    }

    /// Returns the module that defines a name which a glob of this module gives.
    fn exported(&self, module: Option<&str>, name: &str, depth: usize) -> Option<&str> {
        let (module, known) = self.0.get_key_value(module?)?;
        if known.items.contains(name) {
            return Some(module);
        }
        let inner = self.0.get_key_value(&child(module, name));
        inner
            .map(|(inner, _)| inner.as_str())
            .or_else(|| self.declared(module, &[name], depth))
    }
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}::{name}")
    }
}

/// Parses the path or `use` tree at `at` and adds each of its leaves. Returns the position after
/// it.
fn tree<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    path: &mut Vec<&'a str>,
    leaves: &mut Vec<Leaf<'a>>,
) -> usize {
    let text = |at: usize| tokens.get(at).map_or("", |token: &Token<'a>| token.text);
    let (length, mut line) = (path.len(), 0);
    while let Some(token) = tokens.get(at) {
        if token.text == "{" {
            at += 1;
            while !matches!(text(at), "}" | "") {
                let next = tree(tokens, at, path, leaves);
                at = next.max(at + usize::from(next == at));
            }
            path.truncate(length);
            return at + 1;
        }
        if token.text != "*" && !token.text.starts_with(is_word) {
            break;
        }
        path.push(token.text);
        line = token.line;
        at += 1;
        if text(at) != "::" {
            break;
        }
        at += 1;
    }
    if path.len() > length {
        let mut words = path.clone();
        let mut name = words.pop().unwrap_or_default();
        match name {
            "*" => {}
            "self" if !words.is_empty() => name = words[words.len() - 1],
            _ => words.push(name),
        }
        if text(at) == "as" {
            name = text(at + 1);
            at += 2;
        }
        leaves.push(Leaf {
            words,
            line,
            name,
            is_public: false,
        });
    }
    path.truncate(length);
    at
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
