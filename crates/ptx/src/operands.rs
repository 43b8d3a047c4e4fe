//! Parsing of an instruction's operands.

use super::ast::Operand;
use super::constant;
use super::error::{PtxError, PtxErrorKind};
use super::lexer::{DEPTH_MAX, Lexer, Token, TokenKind, unexpected};

/// Parses one operand inside `depth` brackets.
pub(super) fn operand<'a>(lexer: &mut Lexer<'a>, depth: usize) -> Result<Operand<'a>, PtxError> {
    let token = lexer.peek();
    if depth == DEPTH_MAX {
        return Err(
            PtxErrorKind::TooLarge(format!("operands nested deeper than {DEPTH_MAX}"))
                .at(token.line),
        );
    }
    match token.text {
        "{" => operands(lexer, '}', depth).map(Operand::Vector),
        "(" if matches!(second(lexer).text, ".s64" | ".u64") => constant::constant(lexer),
        "(" => {
            let list = operands(lexer, ')', depth)?;
            match list.as_slice() {
                // A constant in brackets may be the first operand of an expression.
                [first @ (Operand::Int(_) | Operand::F64(_))] => {
                    let first = first.clone();
                    let whole = constant::continue_constant(lexer, first.clone())?;
                    let unchanged = whole == first;
                    Ok(if unchanged {
                        Operand::List(list)
                    } else {
                        whole
                    })
                }
                _ => Ok(Operand::List(list)),
            }
        }
        "[" => address(lexer, depth),
        "!" | "-" if is_name(second(lexer)) => {
            lexer.next();
            let name = lexer.next().text;
            Ok(if token.text == "!" {
                Operand::Not(name)
            } else {
                Operand::Negated(name)
            })
        }
        _ if is_name(token) => {
            lexer.next();
            if lexer.eat('|') {
                return Ok(Operand::Pair(token.text, lexer.word("a register")?.text));
            }
            // The address of an array's first element; those of others depend on its type.
            if lexer.eat('[') {
                let index = lexer.peek();
                if constant::constant(lexer)? != Operand::Int(0) {
                    return Err(unexpected(index, "the index 0"));
                }
                lexer.expect(']')?;
            }
            match constant::offset(lexer)? {
                0 => Ok(Operand::Name(token.text)),
                offset => Ok(Operand::NameOffset(token.text, offset)),
            }
        }
        _ => constant::constant(lexer),
    }
}

/// Returns the token after the next one without consuming either.
fn second<'a>(lexer: &Lexer<'a>) -> Token<'a> {
    let mut ahead = lexer.clone();
    ahead.next();
    ahead.next()
}

/// Returns whether a word is a name; `WARP_SZ` is a constant.
fn is_name(token: Token<'_>) -> bool {
    token.kind == TokenKind::Word && token.text != "WARP_SZ"
}

/// Parses the operands between the next bracket and `close`.
fn operands<'a>(
    lexer: &mut Lexer<'a>,
    close: char,
    depth: usize,
) -> Result<Vec<Operand<'a>>, PtxError> {
    lexer.next();
    let mut operands = Vec::new();
    if lexer.eat(close) {
        return Ok(operands);
    }
    loop {
        operands.push(operand(lexer, depth + 1)?);
        if !lexer.eat(',') {
            lexer.expect(close)?;
            return Ok(operands);
        }
    }
}

fn address<'a>(lexer: &mut Lexer<'a>, depth: usize) -> Result<Operand<'a>, PtxError> {
    lexer.expect('[')?;
    let token = lexer.peek();
    let (base, offset) = if is_name(token) {
        lexer.next();
        (Some(token.text), constant::offset(lexer)?)
    } else {
        match constant::constant(lexer)? {
            Operand::Int(value) => (None, value.cast_signed()),
            _ => return Err(unexpected(token, "an integer")),
        }
    };
    let address = Operand::Address { base, offset };
    let mut parts = vec![address.clone()];
    while lexer.eat(',') {
        parts.push(operand(lexer, depth + 1)?);
    }
    lexer.expect(']')?;
    // The address of a texture or tensor has coordinates too. No supported instruction takes one.
    Ok(if parts.len() > 1 {
        Operand::List(parts)
    } else {
        address
    })
}
