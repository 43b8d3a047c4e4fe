//! Reads a PTX text into its syntax tree: the module's level, function headers and statements.

use super::ast::{FormalAst, FunctionAst, GuardAst, InstructionAst, ModuleAst, RegistersAst, Statement};
use super::declaration::{self, space};
use super::error::{PtxError, PtxErrorKind};
use super::lexer::{Lexer, Token, TokenKind, unexpected};
use super::number;
use super::operands;
use super::types::Type;

/// How deep `{ }` blocks and operand lists may nest.
pub(super) const DEPTH_MAX: usize = 64;

/// Whether function bodies are read or stepped over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bodies {
    /// Read them.
    Read,
    /// Step over them, whatever they hold.
    Skip,
}

/// Reads the whole of `source`.
pub(crate) fn module(source: &str, bodies: Bodies) -> Result<ModuleAst<'_>, PtxError> {
    let mut lexer = Lexer::new(source);
    let mut module = ModuleAst::default();
    let mut versioned = false;
    let mut external = false;
    loop {
        let token = lexer.peek();
        match token.text {
            "" if token.kind == TokenKind::End => {
                if !versioned {
                    return Err(unexpected(token, "`.version`"));
                }
                return Ok(module);
            }
            ".version" => {
                version(&mut lexer)?;
                versioned = true;
            }
            ".target" => target(&mut lexer)?,
            ".address_size" => address_size(&mut lexer)?,
            ".file" => module.files.extend(file(&mut lexer)),
            ".loc" => skip_line(&mut lexer),
            ".pragma" => {
                lexer.next();
                lexer.next();
                lexer.expect(';')?;
            }
            ".section" => {
                while !matches!(lexer.peek().text, "{" | "") {
                    lexer.next();
                }
                skip_braces(&mut lexer)?;
            }
            ".extern" => {
                external = true;
                lexer.next();
            }
            ".visible" | ".weak" | ".common" => {
                lexer.next();
            }
            ".alias" => {
                lexer.next();
                let alias = lexer.word("a function's name")?.text;
                lexer.expect(',')?;
                module
                    .aliases
                    .push((alias, lexer.word("a function's name")?.text));
                lexer.expect(';')?;
            }
            ".entry" | ".func" => {
                module.functions.push(function(&mut lexer, bodies)?);
                external = false;
            }
            ";" => {
                lexer.next();
            }
            text if space(text).is_some() => {
                declaration::variables(&mut lexer, external, &mut |variable| {
                    module.variables.push(variable);
                })?;
                external = false;
            }
            text if text.starts_with('.') => {
                return Err(PtxErrorKind::UnsupportedDirective(text.to_owned()).at(token.line));
            }
            _ => return Err(unexpected(token, "a directive")),
        }
    }
}

fn version(lexer: &mut Lexer<'_>) -> Result<(), PtxError> {
    lexer.next();
    let token = lexer.next();
    let parts = token.text.split_once('.').and_then(|(major, minor)| {
        minor.parse::<u32>().ok()?;
        major.parse::<u32>().ok()
    });
    match parts {
        Some(major) if major <= 9 => Ok(()),
        Some(_) => Err(PtxErrorKind::UnsupportedVersion(token.text.to_owned()).at(token.line)),
        None => Err(unexpected(token, "a version")),
    }
}

fn target(lexer: &mut Lexer<'_>) -> Result<(), PtxError> {
    lexer.next();
    loop {
        let token = lexer.word("a target")?;
        let known = match token.text.strip_prefix("sm_") {
            Some(number) => {
                let digits = number.trim_end_matches(['a', 'f']);
                digits
                    .parse::<u32>()
                    .is_ok_and(|number| (10..=90).contains(&number))
            }
            None => {
                matches!(
                    token.text,
                    "debug" | "texmode_unified" | "texmode_independent" | "map_f64_to_f32"
                )
            }
        };
        if !known {
            return Err(PtxErrorKind::UnsupportedTarget(token.text.to_owned()).at(token.line));
        }
        if !lexer.eat(',') {
            return Ok(());
        }
    }
}

fn address_size(lexer: &mut Lexer<'_>) -> Result<(), PtxError> {
    lexer.next();
    let token = lexer.next();
    match token.text {
        "64" => Ok(()),
        "32" => Err(PtxErrorKind::Unsupported("32-bit addresses".to_owned()).at(token.line)),
        _ => Err(unexpected(token, "`64`")),
    }
}

/// Steps over everything on the line of the next token: `.loc` and `.file` end with their line.
fn skip_line(lexer: &mut Lexer<'_>) {
    rest_of_line(lexer);
}

/// The rest of the line of the next token, which is left out.
fn rest_of_line<'a>(lexer: &mut Lexer<'a>) -> Vec<Token<'a>> {
    let line = lexer.next().line;
    let mut rest = Vec::new();
    while lexer.peek().line == line && lexer.peek().kind != TokenKind::End {
        rest.push(lexer.next());
    }
    rest
}

/// `.file 1 "name"`: what stands there otherwise is of no use to anyone.
fn file<'a>(lexer: &mut Lexer<'a>) -> Option<(u32, &'a str)> {
    match rest_of_line(lexer)[..] {
        [number, name, ..] if name.kind == TokenKind::Text => Some((number.text.parse().ok()?, name.text)),
        _ => None,
    }
}

/// `.loc 1 20 5`, and what it was put in place of, which is left out.
fn location<'a>(lexer: &mut Lexer<'a>) -> Option<Statement<'a>> {
    match rest_of_line(lexer)[..] {
        [file, line, ..] => Some(Statement::Location(
            file.text.parse().ok()?,
            line.text.parse().ok()?,
        )),
        _ => None,
    }
}

/// Steps over `{ … }`, whatever it holds.
fn skip_braces(lexer: &mut Lexer<'_>) -> Result<(), PtxError> {
    lexer.expect('{')?;
    let mut depth = 1usize;
    while depth > 0 {
        let token = lexer.next();
        if token.kind == TokenKind::End {
            return Err(unexpected(token, "`}`"));
        }
        depth += usize::from(token.is_mark('{'));
        depth -= usize::from(token.is_mark('}'));
    }
    Ok(())
}

fn function<'a>(lexer: &mut Lexer<'a>, bodies: Bodies) -> Result<FunctionAst<'a>, PtxError> {
    let keyword = lexer.next();
    let entry = keyword.text == ".entry";
    let results = if !entry && lexer.peek().is_mark('(') {
        formals(lexer)?
    } else {
        Vec::new()
    };
    let name = lexer.word("a function's name")?;
    let params = if lexer.peek().is_mark('(') {
        formals(lexer)?
    } else {
        Vec::new()
    };
    let mut function = FunctionAst {
        name: name.text,
        entry,
        results,
        params,
        max_threads: None,
        required_block: None,
        body: None,
        line: keyword.line,
    };
    loop {
        let token = lexer.peek();
        match token.text {
            "{" => {
                match bodies {
                    Bodies::Read => function.body = Some(block(lexer, 0)?),
                    Bodies::Skip => skip_braces(lexer)?,
                }
                return Ok(function);
            }
            ";" => {
                lexer.next();
                return Ok(function);
            }
            ".maxntid" | ".reqntid" => {
                lexer.next();
                let shape = shape(lexer)?;
                function.max_threads = Some(shape.iter().fold(1, |product, n| product.saturating_mul(*n)));
                if token.text == ".reqntid" {
                    function.required_block = Some(shape);
                }
            }
            ".minnctapersm" | ".maxnctapersm" | ".maxnreg" => {
                lexer.next();
                shape(lexer)?;
            }
            ".noreturn" => {
                lexer.next();
            }
            ".reqnctapercluster" | ".explicitcluster" | ".blocksareclusters" | ".maxclusterrank" => {
                let problem = format!("clusters of blocks (`{}`)", token.text);
                return Err(PtxErrorKind::Unsupported(problem).at(token.line));
            }
            ".pragma" => {
                lexer.next();
                lexer.next();
                lexer.expect(';')?;
            }
            text if text.starts_with('.') => {
                return Err(PtxErrorKind::UnsupportedDirective(text.to_owned()).at(token.line));
            }
            _ => return Err(unexpected(token, "`{`")),
        }
    }
}

/// One to three sizes; those left out are 1.
fn shape(lexer: &mut Lexer<'_>) -> Result<[u32; 3], PtxError> {
    let mut shape = [1; 3];
    for (axis, size) in shape.iter_mut().enumerate() {
        if axis > 0 && !lexer.eat(',') {
            break;
        }
        let token = lexer.peek();
        *size = u32::try_from(number::integer(lexer)?).map_err(|_| unexpected(token, "a size"))?;
    }
    Ok(shape)
}

fn formals<'a>(lexer: &mut Lexer<'a>) -> Result<Vec<FormalAst<'a>>, PtxError> {
    lexer.expect('(')?;
    let mut formals = Vec::new();
    if lexer.eat(')') {
        return Ok(formals);
    }
    loop {
        let token = lexer.peek();
        match token.text {
            ".param" => formals.push(FormalAst::Memory(declaration::formal(lexer)?)),
            ".reg" => {
                lexer.next();
                let ty = register_type(lexer)?;
                let name = lexer.word("a register's name")?;
                formals.push(FormalAst::Register(RegistersAst {
                    ty,
                    name: name.text,
                    count: None,
                    line: name.line,
                }));
            }
            _ => return Err(unexpected(token, "`.param`")),
        }
        if !lexer.eat(',') {
            lexer.expect(')')?;
            return Ok(formals);
        }
    }
}

fn register_type(lexer: &mut Lexer<'_>) -> Result<Type, PtxError> {
    named_register_type(lexer.word("a register type")?)
}

fn named_register_type(token: Token<'_>) -> Result<Type, PtxError> {
    match Type::from_name(token.text.trim_start_matches('.')) {
        Some(ty) => Ok(ty),
        None => Err(PtxErrorKind::Unsupported(format!("registers of type `{}`", token.text)).at(token.line)),
    }
}

fn block<'a>(lexer: &mut Lexer<'a>, depth: usize) -> Result<Vec<Statement<'a>>, PtxError> {
    if depth == DEPTH_MAX {
        let line = lexer.peek().line;
        return Err(PtxErrorKind::TooLarge(format!("blocks nested deeper than {DEPTH_MAX}")).at(line));
    }
    lexer.expect('{')?;
    let mut statements = Vec::new();
    loop {
        let token = lexer.peek();
        match token.text {
            "}" => {
                lexer.next();
                return Ok(statements);
            }
            "{" => statements.push(Statement::Block(block(lexer, depth + 1)?)),
            ";" => {
                lexer.next();
            }
            "@" => {
                lexer.next();
                let negated = lexer.eat('!');
                let predicate = lexer.word("a predicate")?.text;
                let opcode = lexer.word("an instruction")?;
                statements.push(instruction(lexer, opcode, Some(GuardAst { predicate, negated }))?);
            }
            text if text == ".reg" || text.starts_with(".reg.") => registers(lexer, &mut statements)?,
            ".loc" => statements.extend(location(lexer)),
            ".file" => skip_line(lexer),
            ".pragma" => {
                lexer.next();
                lexer.next();
                lexer.expect(';')?;
            }
            text if space(text).is_some() => {
                declaration::variables(lexer, false, &mut |variable| {
                    statements.push(Statement::Variable(variable));
                })?;
            }
            text if text.starts_with('.') => {
                return Err(PtxErrorKind::UnsupportedDirective(text.to_owned()).at(token.line));
            }
            _ => {
                let word = lexer.word("a statement")?;
                if lexer.eat(':') {
                    label(lexer, word, &mut statements)?;
                } else {
                    statements.push(instruction(lexer, word, None)?);
                }
            }
        }
    }
}

/// What stands behind `name:`.
fn label<'a>(
    lexer: &mut Lexer<'a>,
    name: Token<'a>,
    statements: &mut Vec<Statement<'a>>,
) -> Result<(), PtxError> {
    let token = lexer.peek();
    match token.text {
        ".branchtargets" => {
            lexer.next();
            let mut targets = Vec::new();
            loop {
                targets.push(lexer.word("a label")?.text);
                if !lexer.eat(',') {
                    break;
                }
            }
            lexer.expect(';')?;
            statements.push(Statement::BranchTargets(name.text, targets));
        }
        // What a call through a pointer may reach: any function whose address is taken is ready for it.
        ".callprototype" | ".calltargets" => {
            while !matches!(lexer.peek().text, ";" | "") {
                lexer.next();
            }
            lexer.expect(';')?;
        }
        _ => statements.push(Statement::Label(name.text, name.line)),
    }
    Ok(())
}

fn registers<'a>(lexer: &mut Lexer<'a>, statements: &mut Vec<Statement<'a>>) -> Result<(), PtxError> {
    let keyword = lexer.next();
    // Assembly written by hand may lack the blank of `.reg .b16`.
    let ty = match keyword.text.strip_prefix(".reg.") {
        Some(name) => named_register_type(Token {
            text: name,
            ..keyword
        })?,
        None => register_type(lexer)?,
    };
    loop {
        let name = lexer.word("a register's name")?;
        let count = if lexer.eat('<') {
            let token = lexer.peek();
            let count = u32::try_from(number::integer(lexer)?);
            lexer.expect('>')?;
            Some(count.map_err(|_| unexpected(token, "a count"))?)
        } else {
            None
        };
        statements.push(Statement::Registers(RegistersAst {
            ty,
            name: name.text,
            count,
            line: name.line,
        }));
        if !lexer.eat(',') {
            return lexer.expect(';');
        }
    }
}

fn instruction<'a>(
    lexer: &mut Lexer<'a>,
    opcode: Token<'a>,
    guard: Option<GuardAst<'a>>,
) -> Result<Statement<'a>, PtxError> {
    let mut operands = Vec::new();
    if !lexer.peek().is_mark(';') {
        loop {
            operands.push(operands::operand(lexer, 0)?);
            if !lexer.eat(',') {
                break;
            }
        }
    }
    lexer.expect(';')?;
    Ok(Statement::Instruction(InstructionAst {
        line: opcode.line,
        guard,
        opcode: opcode.text,
        operands,
    }))
}
