//! Parsing of number literals.

use super::ast::Operand;
use super::error::PtxError;
use super::lexer::{Lexer, Token, TokenKind, unexpected};

pub(crate) fn integer(lexer: &mut Lexer<'_>) -> Result<u64, PtxError> {
    let token = lexer.next();
    match parse(token) {
        Some(Operand::Int(value)) if token.kind == TokenKind::Number => Ok(value),
        _ => Err(unexpected(token, "an integer")),
    }
}

/// Parses a number without a sign.
pub(crate) fn parse<'a>(token: Token<'_>) -> Option<Operand<'a>> {
    let text = token.text;
    if let Some(digits) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F")) {
        return (digits.len() == 8)
            .then(|| u32::from_str_radix(digits, 16).ok())
            .flatten()
            .map(Operand::F32);
    }
    if let Some(digits) = text.strip_prefix("0d").or_else(|| text.strip_prefix("0D")) {
        return (digits.len() == 16)
            .then(|| u64::from_str_radix(digits, 16).ok())
            .flatten()
            .map(Operand::F64);
    }
    let whole = text.strip_suffix('U').unwrap_or(text);
    if let Some(digits) = whole
        .strip_prefix("0x")
        .or_else(|| whole.strip_prefix("0X"))
    {
        return u64::from_str_radix(digits, 16).ok().map(Operand::Int);
    }
    if let Some(digits) = whole
        .strip_prefix("0b")
        .or_else(|| whole.strip_prefix("0B"))
    {
        return u64::from_str_radix(digits, 2).ok().map(Operand::Int);
    }
    if text.contains(['.', 'e', 'E']) {
        return text
            .parse::<f64>()
            .ok()
            .map(|value| Operand::F64(value.to_bits()));
    }
    if whole.len() > 1 && whole.starts_with('0') {
        return u64::from_str_radix(&whole[1..], 8).ok().map(Operand::Int);
    }
    whole.parse().ok().map(Operand::Int)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Operand<'_>> {
        parse(Lexer::new(text).next())
    }

    #[test]
    fn every_kind_of_literal_is_parsed() {
        assert_eq!(read("0"), Some(Operand::Int(0)));
        assert_eq!(read("42U"), Some(Operand::Int(42)));
        assert_eq!(read("0x1F"), Some(Operand::Int(31)));
        assert_eq!(read("0b101"), Some(Operand::Int(5)));
        assert_eq!(read("017"), Some(Operand::Int(15)));
        assert_eq!(read("18446744073709551615"), Some(Operand::Int(u64::MAX)));
        assert_eq!(read("0f3F800000"), Some(Operand::F32(0x3f80_0000)));
        assert_eq!(
            read("0d3FF0000000000000"),
            Some(Operand::F64(0x3ff0_0000_0000_0000))
        );
        assert_eq!(read("1.5e1"), Some(Operand::F64(15f64.to_bits())));
        assert_eq!(read(".5"), Some(Operand::F64(0.5f64.to_bits())));
        for wrong in ["0f3F", "0x", "18446744073709551616", "1x", "-", "09", "x"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
