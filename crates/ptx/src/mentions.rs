//! The variables and functions that function bodies mention, and whether a variable may be written.

use std::collections::BTreeMap;

use super::ast::ModuleAst;
use super::lexer::{Lexer, Token, TokenKind};

/// The names that a function's body mentions.
#[derive(Default)]
pub(super) struct Mentions<'a> {
    /// The variables by index, and whether the body may do more than load from them.
    pub(super) variables: BTreeMap<usize, bool>,
    pub(super) functions: Vec<&'a str>,
    /// The first source location: the number of the file, and the line.
    pub(super) location: Option<(u32, u32)>,
}

/// Instructions whose result is an address if an operand is one.
const ARITHMETIC: &[&str] = &[
    "mov", "cvta", "cvt", "add", "sub", "mul", "mad", "shl", "shr", "and", "or", "xor", "min",
    "max", "selp",
];

/// Instructions that only compare their operands.
const COMPARISONS: &[&str] = &["setp", "set"];

/// Scans the bodies of all functions.
pub(super) fn mentions<'a>(
    source: &'a str,
    module: &ModuleAst<'a>,
    variables: &BTreeMap<&str, usize>,
) -> BTreeMap<&'a str, Mentions<'a>> {
    let mut functions = module.functions.iter();
    let mut found = BTreeMap::new();
    let mut lexer = Lexer::new(source);
    let is_function = |name: &str| module.function(name).is_some();
    loop {
        let token = lexer.next();
        if token.kind == TokenKind::End {
            return found;
        }
        if !matches!(token.text, ".entry" | ".func") {
            continue;
        }
        let Some(function) = functions.next() else {
            return found;
        };
        // A declaration without a body ends in `;`, a body begins with `{`.
        let opening = std::iter::repeat_with(|| lexer.next())
            .find(|token| matches!(token.text, "{" | ";") || token.kind == TokenKind::End);
        if opening.is_some_and(|token| token.text == "{") {
            let mut body = Body::new(variables, &is_function);
            let start = lexer.clone();
            body.scan(&mut lexer);
            // A loop may use an address in front of the instruction that computes it.
            while std::mem::take(&mut body.has_new_address) {
                body.scan(&mut start.clone());
            }
            found.insert(function.name, body.mentions);
        }
    }
}

/// A body during the scan.
struct Body<'a, 'm> {
    variables: &'m BTreeMap<&'m str, usize>,
    is_function: &'m dyn Fn(&str) -> bool,
    mentions: Mentions<'a>,
    /// The registers that may hold an address in variables, with these variables.
    addresses: BTreeMap<&'a str, Vec<usize>>,
    /// True if an entry was added to `addresses`.
    has_new_address: bool,
}

impl<'a, 'm> Body<'a, 'm> {
    fn new(variables: &'m BTreeMap<&'m str, usize>, is_function: &'m dyn Fn(&str) -> bool) -> Self {
        Self {
            variables,
            is_function,
            mentions: Mentions::default(),
            addresses: BTreeMap::new(),
            has_new_address: false,
        }
    }

    /// Scans the body, up to its closing brace.
    fn scan(&mut self, lexer: &mut Lexer<'a>) {
        let mut depth = 1_usize;
        let mut statement: Vec<Token<'a>> = Vec::new();
        while depth > 0 {
            let token: Token<'a> = lexer.next();
            match (token.kind, token.text) {
                (TokenKind::End, _) => break,
                (TokenKind::Punctuation, ";") => {
                    self.statement(&statement);
                    statement.clear();
                    continue;
                }
                // A label.
                (TokenKind::Punctuation, ":") => {
                    statement.clear();
                    continue;
                }
                (TokenKind::Word, ".loc") => {
                    self.location(lexer, token.line);
                    continue;
                }
                (TokenKind::Punctuation, "{") => depth += 1,
                (TokenKind::Punctuation, "}") => depth -= 1,
                _ => {}
            }
            // Braces in front of an instruction are blocks, others hold the parts of a vector.
            let begins = token.kind == TokenKind::Word || token.is_punctuation('@');
            if begins || !statement.is_empty() {
                statement.push(token);
            }
        }
    }

    /// Reads a source location, which ends with its line of the text.
    fn location(&mut self, lexer: &mut Lexer<'a>, line: u32) {
        let mut number = || lexer.next().text.parse().ok();
        let location = number().zip(number());
        self.mentions.location = self.mentions.location.or(location);
        while lexer.peek().line == line && lexer.peek().kind != TokenKind::End {
            lexer.next();
        }
    }

    /// Enters the mentions of one instruction.
    fn statement(&mut self, tokens: &[Token<'a>]) {
        for token in tokens {
            if token.kind == TokenKind::Word && (self.is_function)(token.text) {
                let functions = &mut self.mentions.functions;
                if !functions.contains(&token.text) {
                    functions.push(token.text);
                }
            }
        }
        let Some((opcode, operands)) = without_guard(tokens).split_first() else {
            return;
        };
        let mut used: Vec<usize> = Vec::new();
        for token in operands {
            let own = self.variables.get(token.text).copied();
            let behind = self.addresses.get(token.text).into_iter().flatten();
            used.extend(own.into_iter().chain(behind.copied()));
        }
        if used.is_empty() {
            return;
        }
        let name = opcode.text.split('.').next().unwrap_or_default();
        let writes = match name {
            "ld" | "ldu" => false,
            _ if COMPARISONS.contains(&name) => false,
            _ if ARITHMETIC.contains(&name) => {
                self.enter_results(operands, &used);
                false
            }
            _ => true,
        };
        for variable in used {
            *self.mentions.variables.entry(variable).or_default() |= writes;
        }
    }

    /// Enters that the results of an instruction, its operands in front of the first comma, may be
    /// addresses in these variables.
    fn enter_results(&mut self, operands: &[Token<'a>], used: &[usize]) {
        let mut depth = 0_usize;
        for token in operands {
            match token.text {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                "," if depth == 0 => return,
                _ if token.kind == TokenKind::Word => {
                    let known = self.addresses.entry(token.text).or_default();
                    for &variable in used {
                        if !known.contains(&variable) {
                            known.push(variable);
                            self.has_new_address = true;
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

/// Removes the guard of an instruction: `@%p` or `@!%p`.
fn without_guard<'t, 'a>(tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    match tokens {
        [at, not, _, rest @ ..] if at.text == "@" && not.text == "!" => rest,
        [at, _, rest @ ..] if at.text == "@" => rest,
        _ => tokens,
    }
}
