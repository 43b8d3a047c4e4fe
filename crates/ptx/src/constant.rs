//! Parsing and evaluation of constant expressions: `16*2`, `1 << 4`, `(WARP_SZ - 1) & ~3`.
//!
//! By the PTX ISA reference ("Constant Expressions") integers have 64 bits, and are signed unless
//! they have the suffix `U` or need the top bit. Floating-point numbers can be added, subtracted,
//! multiplied and divided.

use super::ast::Operand;
use super::error::{PtxError, PtxErrorKind};
use super::lexer::{DEPTH_MAX, Lexer, Token, TokenKind, unexpected};
use super::number;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Signed(i64),
    Unsigned(u64),
    /// The bits of an f32, on which no operation is defined.
    Single(u32),
    Double(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binary {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Shl,
    Shr,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

/// The operators with their precedence; higher binds tighter. Operators of two characters precede
/// the operators that they start with.
const BINARY: [(&str, Binary, u8); 18] = [
    ("||", Binary::Or, 1),
    ("&&", Binary::And, 2),
    ("==", Binary::Eq, 6),
    ("!=", Binary::Ne, 6),
    ("<<", Binary::Shl, 8),
    (">>", Binary::Shr, 8),
    ("<=", Binary::Le, 7),
    (">=", Binary::Ge, 7),
    ("|", Binary::BitOr, 3),
    ("^", Binary::BitXor, 4),
    ("&", Binary::BitAnd, 5),
    ("<", Binary::Lt, 7),
    (">", Binary::Gt, 7),
    ("+", Binary::Add, 9),
    ("-", Binary::Sub, 9),
    ("*", Binary::Mul, 10),
    ("/", Binary::Div, 10),
    ("%", Binary::Rem, 10),
];

pub(crate) fn constant<'a>(lexer: &mut Lexer<'_>) -> Result<Operand<'a>, PtxError> {
    let value = expression(lexer, 0)?;
    Ok(operand(value))
}

/// Parses the rest of a constant whose first operand, if it is a number, has been parsed already.
pub(crate) fn continue_constant<'a>(
    lexer: &mut Lexer<'_>,
    first: Operand<'a>,
) -> Result<Operand<'a>, PtxError> {
    let value = match first {
        Operand::Int(value) => integer(value, false),
        Operand::F64(bits) => Value::Double(f64::from_bits(bits)),
        _ => return Ok(first),
    };
    let value = binary(lexer, value, 0, 0)?;
    conditional(lexer, value, 0).map(operand)
}

/// Parses an address offset: `+4`, `+-4`, `-4`, `+4*3`, or nothing (0).
pub(crate) fn offset(lexer: &mut Lexer<'_>) -> Result<i64, PtxError> {
    let token = lexer.peek();
    if !token.is_punctuation('+') && !token.is_punctuation('-') {
        return Ok(0);
    }
    let value = binary(lexer, Value::Signed(0), 9, 0)?;
    match value {
        Value::Signed(value) => Ok(value),
        Value::Unsigned(value) => Ok(value.cast_signed()),
        _ => Err(unexpected(token, "an integer")),
    }
}

fn operand<'a>(value: Value) -> Operand<'a> {
    match value {
        Value::Signed(value) => Operand::Int(value.cast_unsigned()),
        Value::Unsigned(value) => Operand::Int(value),
        Value::Single(bits) => Operand::F32(bits),
        Value::Double(value) => Operand::F64(value.to_bits()),
    }
}

fn integer(value: u64, unsigned: bool) -> Value {
    match i64::try_from(value) {
        Ok(value) if !unsigned => Value::Signed(value),
        _ => Value::Unsigned(value),
    }
}

fn expression(lexer: &mut Lexer<'_>, depth: usize) -> Result<Value, PtxError> {
    let first = unary(lexer, depth)?;
    let value = binary(lexer, first, 0, depth)?;
    conditional(lexer, value, depth)
}

/// Parses `? a : b` after a condition, if it follows.
fn conditional(lexer: &mut Lexer<'_>, condition: Value, depth: usize) -> Result<Value, PtxError> {
    let token = lexer.peek();
    if !lexer.eat('?') {
        return Ok(condition);
    }
    let a = expression(lexer, depth + 1)?;
    lexer.expect(':')?;
    let b = expression(lexer, depth + 1)?;
    Ok(if truth(condition, token)? { a } else { b })
}

/// Parses the operators of at least the precedence `least` after a value.
fn binary(
    lexer: &mut Lexer<'_>,
    mut left: Value,
    least: u8,
    depth: usize,
) -> Result<Value, PtxError> {
    loop {
        let token = lexer.peek();
        let Some((text, f, level)) = operator(lexer).filter(|(.., level)| *level >= least) else {
            return Ok(left);
        };
        lexer.skip(text);
        let right = unary(lexer, depth)?;
        let right = binary(lexer, right, level + 1, depth)?;
        left = apply(f, left, right, token)?;
    }
}

/// Returns the next operator without consuming it.
fn operator(lexer: &mut Lexer<'_>) -> Option<(&'static str, Binary, u8)> {
    let rest = lexer.rest();
    BINARY.into_iter().find(|(text, ..)| rest.starts_with(text))
}

fn unary(lexer: &mut Lexer<'_>, depth: usize) -> Result<Value, PtxError> {
    let token = lexer.peek();
    if depth == DEPTH_MAX {
        let problem = format!("constants nested deeper than {DEPTH_MAX}");
        return Err(PtxErrorKind::TooLarge(problem).at(token.line));
    }
    match token.text {
        "+" | "-" | "~" | "!" => {
            lexer.next();
            let value = unary(lexer, depth + 1)?;
            match (token.text, value) {
                ("+", value) => Ok(value),
                ("-", Value::Signed(value)) => Ok(Value::Signed(value.wrapping_neg())),
                ("-", Value::Unsigned(value)) => Ok(Value::Unsigned(value.wrapping_neg())),
                ("-", Value::Single(bits)) => Ok(Value::Single(bits ^ 1 << 31)),
                ("-", Value::Double(value)) => Ok(Value::Double(-value)),
                ("~", Value::Signed(value)) => Ok(Value::Signed(!value)),
                ("~", Value::Unsigned(value)) => Ok(Value::Unsigned(!value)),
                ("!", value) => Ok(Value::Signed(i64::from(!truth(value, token)?))),
                _ => Err(unexpected(token, "an integer")),
            }
        }
        "(" => {
            lexer.next();
            let cast = lexer.peek().text;
            if matches!(cast, ".s64" | ".u64") {
                lexer.next();
                lexer.expect(')')?;
                return match (cast, unary(lexer, depth + 1)?) {
                    (".s64", Value::Unsigned(value)) => Ok(Value::Signed(value.cast_signed())),
                    (".u64", Value::Signed(value)) => Ok(Value::Unsigned(value.cast_unsigned())),
                    (_, value @ (Value::Signed(_) | Value::Unsigned(_))) => Ok(value),
                    _ => Err(unexpected(token, "an integer")),
                };
            }
            let value = expression(lexer, depth + 1)?;
            lexer.expect(')')?;
            Ok(value)
        }
        "WARP_SZ" => {
            lexer.next();
            Ok(Value::Signed(32))
        }
        _ => {
            lexer.next();
            literal(token)
        }
    }
}

fn literal(token: Token<'_>) -> Result<Value, PtxError> {
    if token.kind != TokenKind::Number {
        return Err(unexpected(token, "an operand"));
    }
    match number::parse(token) {
        Some(Operand::Int(value)) => Ok(integer(value, token.text.ends_with('U'))),
        Some(Operand::F32(bits)) => Ok(Value::Single(bits)),
        Some(Operand::F64(bits)) => Ok(Value::Double(f64::from_bits(bits))),
        _ => Err(unexpected(token, "a number")),
    }
}

fn truth(value: Value, token: Token<'_>) -> Result<bool, PtxError> {
    match value {
        Value::Signed(value) => Ok(value != 0),
        Value::Unsigned(value) => Ok(value != 0),
        _ => Err(unexpected(token, "an integer")),
    }
}

fn apply(f: Binary, a: Value, b: Value, token: Token<'_>) -> Result<Value, PtxError> {
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => match f {
            Binary::Add => Ok(Value::Double(a + b)),
            Binary::Sub => Ok(Value::Double(a - b)),
            Binary::Mul => Ok(Value::Double(a * b)),
            Binary::Div => Ok(Value::Double(a / b)),
            _ => Err(unexpected(token, "`;`")),
        },
        (Value::Signed(a), Value::Signed(b)) => signed(f, a, b, token),
        (Value::Signed(a), Value::Unsigned(b)) if matches!(f, Binary::Shl | Binary::Shr) => {
            signed(f, a, b.cast_signed(), token)
        }
        (Value::Signed(a), Value::Unsigned(b)) => unsigned(f, a.cast_unsigned(), b, token),
        (Value::Unsigned(a), Value::Signed(b)) => unsigned(f, a, b.cast_unsigned(), token),
        (Value::Unsigned(a), Value::Unsigned(b)) => unsigned(f, a, b, token),
        _ => Err(unexpected(token, "`;`")),
    }
}

fn signed(f: Binary, a: i64, b: i64, token: Token<'_>) -> Result<Value, PtxError> {
    let zero = || unexpected(token, "a divisor other than 0");
    Ok(Value::Signed(match f {
        Binary::Div if b == 0 => return Err(zero()),
        Binary::Rem if b == 0 => return Err(zero()),
        Binary::Div => a.wrapping_div(b),
        Binary::Rem => a.wrapping_rem(b),
        Binary::Shr => a >> b.clamp(0, 63),
        Binary::Lt => i64::from(a < b),
        Binary::Le => i64::from(a <= b),
        Binary::Gt => i64::from(a > b),
        Binary::Ge => i64::from(a >= b),
        f => return Ok(apply_common(f, a.cast_unsigned(), b.cast_unsigned(), true)),
    }))
}

fn unsigned(f: Binary, a: u64, b: u64, token: Token<'_>) -> Result<Value, PtxError> {
    let zero = || unexpected(token, "a divisor other than 0");
    let truth = |value| Ok(Value::Signed(i64::from(value)));
    match f {
        Binary::Div => Ok(Value::Unsigned(a.checked_div(b).ok_or_else(zero)?)),
        Binary::Rem => Ok(Value::Unsigned(a.checked_rem(b).ok_or_else(zero)?)),
        Binary::Shr => Ok(Value::Unsigned(if b > 63 { 0 } else { a >> b })),
        Binary::Lt => truth(a < b),
        Binary::Le => truth(a <= b),
        Binary::Gt => truth(a > b),
        Binary::Ge => truth(a >= b),
        f => Ok(apply_common(f, a, b, false)),
    }
}

/// Applies an operator that is the same for signed and unsigned integers.
fn apply_common(f: Binary, a: u64, b: u64, signed: bool) -> Value {
    let truth = |value| Value::Signed(i64::from(value));
    let bits = match f {
        Binary::Or => return truth(a != 0 || b != 0),
        Binary::And => return truth(a != 0 && b != 0),
        Binary::Eq => return truth(a == b),
        Binary::Ne => return truth(a != b),
        Binary::BitOr => a | b,
        Binary::BitXor => a ^ b,
        Binary::BitAnd => a & b,
        Binary::Shl if b > 63 => 0,
        Binary::Shl => a << b,
        Binary::Sub => a.wrapping_sub(b),
        Binary::Mul => a.wrapping_mul(b),
        _ => a.wrapping_add(b),
    };
    if signed {
        Value::Signed(bits.cast_signed())
    } else {
        Value::Unsigned(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Operand<'_>> {
        let mut lexer = Lexer::new(text);
        let value = constant(&mut lexer).ok()?;
        (lexer.next().kind == TokenKind::End).then_some(value)
    }

    #[test]
    fn operators_have_the_precedence_of_c() {
        for (text, value) in [
            ("(3+4)*2", 14),
            ("3+4*2", 11),
            ("1<<4|3", 19),
            ("100 / 7 % 4 & 3 | 8 ^ 1", 11),
            ("10 - 3 - 2", 5),
            ("- -5", 5),
            ("-(-5)", 5),
            ("+5", 5),
            ("~0 & 0xff", 255),
            ("!0 + !7", 1),
            ("5 > 3 ? 1 : 2", 1),
            ("0 ? 1 : 0 ? 2 : 3", 3),
            ("1 == 1 && 2 != 2 || 4 >= 4", 1),
            ("WARP_SZ*2", 64),
            ("-8 >> 1", -4),
            ("-7 / 2", -3),
            ("1 << 64", 0),
        ] {
            assert_eq!(
                read(text),
                Some(Operand::Int(i64::cast_unsigned(value))),
                "{text}"
            );
        }
    }

    #[test]
    fn an_unsigned_operand_makes_the_result_unsigned() {
        for (text, value) in [
            ("-8 / 2U", (u64::MAX - 7) / 2),
            ("(.u64) -1 >> 63", 1),
            ("(.s64) 0xFFFFFFFFFFFFFFFF >> 63", u64::MAX),
            ("0xFFFFFFFFFFFFFFFF > 1", 1),
            ("-1 > 1", 0),
            ("-1 < 1U", 0),
            ("-8 >> 1U", (-4i64).cast_unsigned()),
        ] {
            assert_eq!(read(text), Some(Operand::Int(value)), "{text}");
        }
    }

    #[test]
    fn floats_are_evaluated_and_invalid_expressions_rejected() {
        assert_eq!(read("1.5+2.5*2.0"), Some(Operand::F64(6.5f64.to_bits())));
        assert_eq!(read("-.5"), Some(Operand::F64((-0.5f64).to_bits())));
        assert_eq!(read("-0f3F800000"), Some(Operand::F32(0xbf80_0000)));
        for wrong in [
            "1/0",
            "5U % 0",
            "1 +",
            "(1",
            "1.5 & 1.0",
            "1 + 1.5",
            "0f3F800000 + 1.0",
            "~1.5",
            "1 ? 2",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        let deep = "-".repeat(100_000) + "1";
        assert_eq!(read(&deep), None);
        let deep = "(".repeat(100_000) + "1";
        assert_eq!(read(&deep), None);
        let long = "1".to_owned() + &"+1".repeat(100_000);
        assert_eq!(read(&long), Some(Operand::Int(100_001)));
    }
}
