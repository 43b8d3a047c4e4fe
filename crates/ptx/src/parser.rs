//! Parsing of PTX text into its syntax tree: the module level and function headers.

use super::ast::{FormalAst, FunctionAst, ModuleAst, RegistersAst};
use super::body::{self, BodyParser};
use super::declaration::{self, space};
use super::error::{PtxError, PtxErrorKind};
use super::header;
use super::lexer::{Lexer, TokenKind, rest_of_line, skip_line, unexpected};
use super::number;

/// The treatment of function bodies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bodies {
    /// Parse them.
    Parse,
    /// Skip them, even if they are invalid.
    Skip,
}

/// Parses the whole of `source`.
pub fn module(source: &str, bodies: Bodies) -> Result<ModuleAst<'_>, PtxError> {
    let mut lexer = Lexer::new(source);
    let mut module = ModuleAst::default();
    let mut body_parser = BodyParser::default();
    let mut external = false;
    loop {
        let token = lexer.peek();
        match token.text {
            "" if token.kind == TokenKind::End => {
                if module.header.version.is_none() {
                    return Err(unexpected(token, "`.version`"));
                }
                module.inner_variables = body_parser.variables;
                module.enter_names();
                return Ok(module);
            }
            ".version" => module.header.version(&mut lexer)?,
            ".target" => module.header.target(&mut lexer)?,
            ".address_size" => header::address_size(&mut lexer)?,
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
                let function = function(&mut lexer, bodies, &mut body_parser)?;
                module.functions.push(function);
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

/// Parses `.file 1 "name"`. Other forms and further values are ignored, and so are names with
/// control characters, which compilers write as `\033`.
fn file<'a>(lexer: &mut Lexer<'a>) -> Option<(u32, &'a str)> {
    match rest_of_line(lexer)[..] {
        [number, name, ..]
            if name.kind == TokenKind::Text && !name.text.contains(char::is_control) =>
        {
            Some((number.text.parse().ok()?, name.text))
        }
        _ => None,
    }
}

/// Skips `{ … }`, whatever it contains.
fn skip_braces(lexer: &mut Lexer<'_>) -> Result<(), PtxError> {
    lexer.expect('{')?;
    let mut depth = 1usize;
    while depth > 0 {
        let token = lexer.next();
        if token.kind == TokenKind::End {
            return Err(unexpected(token, "`}`"));
        }
        depth += usize::from(token.is_punctuation('{'));
        depth -= usize::from(token.is_punctuation('}'));
    }
    Ok(())
}

fn function<'a>(
    lexer: &mut Lexer<'a>,
    bodies: Bodies,
    body_parser: &mut BodyParser<'a>,
) -> Result<FunctionAst<'a>, PtxError> {
    let keyword = lexer.next();
    let entry = keyword.text == ".entry";
    let results = if !entry && lexer.peek().is_punctuation('(') {
        formals(lexer)?
    } else {
        Vec::new()
    };
    let name = lexer.word("a function's name")?;
    let params = if lexer.peek().is_punctuation('(') {
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
        max_registers: None,
        body: None,
        refusal: None,
        line: keyword.line,
    };
    loop {
        let token = lexer.peek();
        match token.text {
            "{" => {
                let mut start = lexer.clone();
                match bodies {
                    Bodies::Skip => skip_braces(lexer)?,
                    Bodies::Parse => match body_parser.block(lexer, 0) {
                        Ok(body) => function.body = Some(body),
                        Err(error) if error.kind.is_of_kernel() => {
                            skip_braces(&mut start).map_err(|_| error.clone())?;
                            *lexer = start;
                            function.body = Some(Vec::new());
                            function.refusal.get_or_insert(error);
                        }
                        Err(error) => return Err(error),
                    },
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
                function.max_threads = Some(
                    shape
                        .iter()
                        .fold(1, |product, n| product.saturating_mul(*n)),
                );
                if token.text == ".reqntid" {
                    function.required_block = Some(shape);
                }
            }
            // The limit of a cluster's size concerns only launches with clusters.
            ".minnctapersm" | ".maxnctapersm" | ".maxclusterrank" => {
                lexer.next();
                shape(lexer)?;
            }
            ".maxnreg" => {
                lexer.next();
                function.max_registers = Some(shape(lexer)?[0]);
            }
            ".noreturn" => {
                lexer.next();
            }
            ".reqnctapercluster" | ".explicitcluster" | ".blocksareclusters" => {
                lexer.next();
                if token.text == ".reqnctapercluster" {
                    shape(lexer)?;
                }
                let problem = format!("clusters of blocks (`{}`)", token.text);
                let error = PtxErrorKind::Unsupported(problem).at(token.line);
                function.refusal.get_or_insert(error);
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

/// Parses one to three sizes; those omitted are 1.
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
                let ty = body::register_type(lexer)?;
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
