//! The variables and functions that function bodies mention, and whether a variable may be written.

use std::collections::{BTreeMap, BTreeSet};

use super::ast::ModuleAst;
use super::lexer::{Lexer, Token, TokenKind};

/// The names that a function's body mentions.
#[derive(Default)]
pub(super) struct Mentions<'a> {
    /// The variables by index, and whether the body may do more than load from them.
    pub(super) variables: BTreeMap<usize, bool>,
    pub(super) functions: BTreeSet<&'a str>,
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
            body.scan(&mut lexer);
            found.insert(function.name, body.finish());
        }
    }
}

/// A body during the scan.
struct Body<'a, 'm> {
    variables: &'m BTreeMap<&'m str, usize>,
    is_function: &'m dyn Fn(&str) -> bool,
    mentions: Mentions<'a>,
    instructions: Vec<Instruction<'a>>,
    /// The registers that may hold an address in variables, with these variables.
    addresses: BTreeMap<&'a str, BTreeSet<usize>>,
}

/// An instruction that may use an address.
struct Instruction<'a> {
    /// The names among its operands.
    names: Vec<&'a str>,
    /// The number of them that are results which may be addresses if an operand is one.
    results: usize,
    /// False if it can only load from an address, compute another one or compare it.
    writes: bool,
}

impl<'a, 'm> Body<'a, 'm> {
    fn new(variables: &'m BTreeMap<&'m str, usize>, is_function: &'m dyn Fn(&str) -> bool) -> Self {
        Self {
            variables,
            is_function,
            mentions: Mentions::default(),
            instructions: Vec::new(),
            addresses: BTreeMap::new(),
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
                self.mentions.functions.insert(token.text);
            }
        }
        let Some((opcode, operands)) = without_guard(tokens).split_first() else {
            return;
        };
        let words = operands
            .iter()
            .filter(|token| token.kind == TokenKind::Word);
        let name = opcode.text.split('.').next().unwrap_or_default();
        let computes = ARITHMETIC.contains(&name);
        let reads = matches!(name, "ld" | "ldu") || COMPARISONS.contains(&name);
        self.instructions.push(Instruction {
            names: words.map(|token| token.text).collect(),
            results: if computes { results(operands) } else { 0 },
            writes: !computes && !reads,
        });
    }

    /// Returns the variables that an instruction may use.
    fn used(&self, instruction: &Instruction<'a>) -> BTreeSet<usize> {
        let names = instruction.names.iter();
        let used = names.flat_map(|name| {
            let own = self.variables.get(name).copied();
            let behind = self.addresses.get(name).into_iter().flatten();
            own.into_iter().chain(behind.copied())
        });
        used.collect()
    }

    /// Follows addresses from register to register, and returns the mentions.
    fn finish(mut self) -> Mentions<'a> {
        let instructions = std::mem::take(&mut self.instructions);
        let mut users: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, instruction) in instructions.iter().enumerate() {
            for name in &instruction.names {
                users.entry(name).or_default().push(index);
            }
        }
        let mut open: Vec<usize> = (0..instructions.len()).rev().collect();
        while let Some(index) = open.pop() {
            let instruction = &instructions[index];
            if instruction.results == 0 {
                continue;
            }
            let used = self.used(instruction);
            for &result in &instruction.names[..instruction.results] {
                let known = self.addresses.entry(result).or_default();
                let before = known.len();
                known.extend(&used);
                // A loop may use an address in front of the instruction that computes it.
                if known.len() > before {
                    open.extend(&users[result]);
                }
            }
        }
        for instruction in &instructions {
            for variable in self.used(instruction) {
                *self.mentions.variables.entry(variable).or_default() |= instruction.writes;
            }
        }
        self.mentions
    }
}

/// Returns the number of names in front of an instruction's first comma outside of braces.
fn results(operands: &[Token<'_>]) -> usize {
    let mut depth = 0_usize;
    let in_front = operands.iter().take_while(|token| {
        depth += usize::from(token.text == "{");
        depth -= usize::from(token.text == "}" && depth > 0);
        token.text != "," || depth > 0
    });
    in_front
        .filter(|token| token.kind == TokenKind::Word)
        .count()
}

/// Removes the guard of an instruction: `@%p` or `@!%p`.
fn without_guard<'t, 'a>(tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    match tokens {
        [at, not, _, rest @ ..] if at.text == "@" && not.text == "!" => rest,
        [at, _, rest @ ..] if at.text == "@" => rest,
        _ => tokens,
    }
}
