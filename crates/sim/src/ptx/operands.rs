//! Reads an instruction's operands.

use super::ast::Operand;
use super::error::{PtxError, PtxErrorKind};
use super::lexer::{Lexer, TokenKind};
use super::number;
use super::parser::DEPTH_MAX;

/// Reads one operand, `depth` brackets deep.
pub(super) fn operand<'a>(lexer: &mut Lexer<'a>, depth: usize) -> Result<Operand<'a>, PtxError> {
    let token = lexer.peek();
    if depth == DEPTH_MAX {
        return Err(
            PtxErrorKind::TooLarge(format!("operands nested deeper than {DEPTH_MAX}")).at(token.line),
        );
    }
    match token.text {
        "{" => operands(lexer, '}', depth).map(Operand::Vector),
        "(" => operands(lexer, ')', depth).map(Operand::List),
        "[" => address(lexer, depth),
        "!" => {
            lexer.next();
            Ok(Operand::Not(lexer.word("a predicate")?.text))
        }
        _ if token.kind == TokenKind::Word => {
            lexer.next();
            if lexer.eat('|') {
                return Ok(Operand::Pair(token.text, lexer.word("a register")?.text));
            }
            match number::offset(lexer)? {
                0 => Ok(Operand::Name(token.text)),
                offset => Ok(Operand::NameOffset(token.text, offset)),
            }
        }
        _ => number::literal(lexer),
    }
}

/// The operands between the bracket that comes next and `close`.
fn operands<'a>(lexer: &mut Lexer<'a>, close: char, depth: usize) -> Result<Vec<Operand<'a>>, PtxError> {
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
    let (base, offset) = if token.kind == TokenKind::Word {
        lexer.next();
        (Some(token.text), number::offset(lexer)?)
    } else {
        (None, number::integer(lexer)?.cast_signed())
    };
    let address = Operand::Address { base, offset };
    let mut parts = vec![address.clone()];
    while lexer.eat(',') {
        parts.push(operand(lexer, depth + 1)?);
    }
    lexer.expect(']')?;
    // An address of a texture or tensor has coordinates, too, and fits no instruction that is known.
    Ok(if parts.len() > 1 {
        Operand::List(parts)
    } else {
        address
    })
}
