//! Parsing of variable and parameter declarations with their initial values.

use super::ast::{Operand, ReferenceAst, Space, VariableAst};
use super::constant;
use super::error::{PtxError, PtxErrorKind};
use super::lexer::{Lexer, Token, TokenKind, unexpected};
use super::number;
use super::types::Type;

/// The maximum size of a variable, in bytes.
const VARIABLE_BYTES_MAX: usize = 1 << 32;

/// The maximum size of an initial value, in bytes.
const INITIAL_BYTES_MAX: usize = 1 << 26;

/// The maximum number of dimensions of an array.
const DIMENSIONS_MAX: usize = 8;

/// Returns the memory space that a directive names.
pub(crate) fn space(directive: &str) -> Option<Space> {
    Some(match directive {
        ".global" => Space::Global,
        ".const" => Space::Const,
        ".shared" => Space::Shared,
        ".local" => Space::Local,
        ".param" => Space::Param,
        _ => return None,
    })
}

/// Parses a formal `.param`, up to the comma or bracket after it.
pub(crate) fn formal<'a>(lexer: &mut Lexer<'a>) -> Result<VariableAst<'a>, PtxError> {
    let (mut variable, elements) = head(lexer, false)?;
    dimensions(lexer, &mut variable, elements.count())?;
    Ok(variable)
}

/// Parses a declaration of one or more variables and passes each to `each`.
pub(crate) fn variables<'a>(
    lexer: &mut Lexer<'a>,
    external: bool,
    each: &mut dyn FnMut(VariableAst<'a>),
) -> Result<(), PtxError> {
    let (mut variable, elements) = head(lexer, external)?;
    loop {
        let dimensions = dimensions(lexer, &mut variable, elements.count())?;
        if lexer.eat('=') {
            initial(
                lexer,
                &mut variable,
                &dimensions,
                elements == Elements::Wide,
            )?;
        }
        each(variable.clone());
        if !lexer.eat(',') {
            return lexer.expect(';');
        }
        let name = lexer.word("a variable's name")?;
        variable.name = name.text;
        variable.line = name.line;
        variable.initial.clear();
        variable.references.clear();
    }
}

/// The elements of a variable's type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Elements {
    /// A vector of this many elements; 1 for a scalar.
    Vector(usize),
    /// A 128-bit value (`.b128`): two halves, laid out like a vector of two.
    Wide,
}

impl Elements {
    fn count(self) -> usize {
        match self {
            Self::Vector(count) => count,
            Self::Wide => 2,
        }
    }
}

/// Parses a variable's memory space, alignment, type and name.
fn head<'a>(
    lexer: &mut Lexer<'a>,
    external: bool,
) -> Result<(VariableAst<'a>, Elements), PtxError> {
    let keyword = lexer.next();
    let space = space(keyword.text).ok_or_else(|| unexpected(keyword, "a memory space"))?;
    let mut align = None;
    let mut elements = Elements::Vector(1);
    let mut ty = None;
    let mut managed = false;
    loop {
        let token = lexer.word("a type or a name")?;
        match token.text {
            ".align" => {
                let token = lexer.peek();
                let pointer = ty.is_some();
                let bytes = number::integer(lexer)?;
                if !bytes.is_power_of_two() || bytes > 4096 {
                    return Err(unexpected(token, "a power of two up to 4096"));
                }
                // After `.ptr` the alignment is that of the memory that the pointer points to.
                if !pointer {
                    align = usize::try_from(bytes).ok();
                }
            }
            ".attribute" => {
                lexer.expect('(')?;
                let mut depth = 1_usize;
                while depth > 0 {
                    let token = lexer.next();
                    match token.text {
                        "" => return Err(unexpected(token, "`)`")),
                        "(" => depth += 1,
                        ")" => depth -= 1,
                        text => managed |= text == ".managed",
                    }
                }
            }
            ".v2" => elements = Elements::Vector(2),
            ".v4" => elements = Elements::Vector(4),
            ".b128" => (ty, elements) = (Some(Type::B64), Elements::Wide),
            // `.ptr .global .align 16` describes the target of a pointer parameter; it is a hint.
            ".ptr" | ".global" | ".const" | ".shared" | ".local" => {}
            // The instructions that use such a handle are refused.
            ".texref" | ".samplerref" | ".surfref" => ty = Some(Type::B64),
            text if text.starts_with('.') => match Type::from_name(&text[1..]) {
                Some(known) if known != Type::Pred => ty = Some(known),
                _ => {
                    return Err(
                        PtxErrorKind::Unsupported(format!("variables of type `{text}`"))
                            .at(token.line),
                    );
                }
            },
            name => {
                let ty = ty.ok_or_else(|| unexpected(token, "a type"))?;
                let align = align.unwrap_or(ty.bytes() * elements.count()).max(1);
                let variable = VariableAst {
                    space,
                    name,
                    ty,
                    size: 0,
                    align,
                    initial: Vec::new(),
                    references: Vec::new(),
                    external,
                    managed,
                    line: token.line,
                };
                return Ok((variable, elements));
            }
        }
    }
}

/// Parses array dimensions such as `[4][3]`, if any, and sets the variable's size. The first
/// dimension may be empty, which is returned as 0.
fn dimensions(
    lexer: &mut Lexer<'_>,
    variable: &mut VariableAst<'_>,
    vector: usize,
) -> Result<Vec<usize>, PtxError> {
    let mut dimensions = Vec::new();
    while lexer.peek().is_punctuation('[') {
        let token = lexer.next();
        if lexer.eat(']') && dimensions.is_empty() {
            dimensions.push(0);
            continue;
        }
        let count =
            usize::try_from(number::integer(lexer)?).map_err(|_| unexpected(token, "a size"))?;
        lexer.expect(']')?;
        dimensions.push(count);
        if dimensions.len() > DIMENSIONS_MAX {
            return Err(
                PtxErrorKind::TooLarge(format!("more than {DIMENSIONS_MAX} dimensions"))
                    .at(token.line),
            );
        }
    }
    if vector > 1 {
        dimensions.push(vector);
    }
    // An array with an empty first dimension gets its size from its initial value. The other
    // dimensions are checked here all the same.
    let elements = dimensions
        .iter()
        .try_fold(1usize, |product, count| product.checked_mul(*count.max(&1)));
    let bytes = elements.and_then(|elements| elements.checked_mul(variable.ty.bytes()));
    variable.size = bytes
        .filter(|bytes| *bytes <= VARIABLE_BYTES_MAX)
        .ok_or_else(|| {
            PtxErrorKind::TooLarge(format!(
                "`{}` has more than {VARIABLE_BYTES_MAX} bytes",
                variable.name
            ))
            .at(variable.line)
        })?;
    if dimensions.contains(&0) {
        variable.size = 0;
    }
    Ok(dimensions)
}

/// Parses the initial value after `=`.
fn initial<'a>(
    lexer: &mut Lexer<'a>,
    variable: &mut VariableAst<'a>,
    dimensions: &[usize],
    wide: bool,
) -> Result<(), PtxError> {
    let mut found = Initial {
        wide,
        ..Initial::default()
    };
    fill(lexer, variable.ty, dimensions, &mut found)?;
    let Initial {
        bytes, references, ..
    } = found;
    if dimensions.first() == Some(&0) {
        variable.size = bytes.len();
    }
    if bytes.len() > variable.size {
        let problem = format!(
            "the initial value of `{}` has {} bytes, more than the variable's {}",
            variable.name,
            bytes.len(),
            variable.size
        );
        return Err(PtxErrorKind::TooLarge(problem).at(variable.line));
    }
    variable.initial = bytes;
    variable.references = references;
    Ok(())
}

/// The part of an initial value that has been parsed.
#[derive(Default)]
struct Initial<'a> {
    bytes: Vec<u8>,
    references: Vec<ReferenceAst<'a>>,
    /// Set for 128-bit values, of which each constant gives the lower half; the upper half is zero.
    wide: bool,
}

/// Parses one value, or the values of one dimension in braces, and appends them to `found`.
fn fill<'a>(
    lexer: &mut Lexer<'a>,
    ty: Type,
    dimensions: &[usize],
    found: &mut Initial<'a>,
) -> Result<(), PtxError> {
    let Some((count, inner)) = dimensions.split_first() else {
        return value(lexer, ty, found);
    };
    if found.wide && inner.is_empty() {
        return value(lexer, ty, found);
    }
    let start = found.bytes.len();
    let stride = inner.iter().product::<usize>() * ty.bytes();
    lexer.expect('{')?;
    let mut written = 0;
    while !lexer.eat('}') {
        if written > 0 {
            lexer.expect(',')?;
        }
        // The inner braces are optional.
        if lexer.peek().is_punctuation('{') {
            fill(lexer, ty, inner, found)?;
            written += 1;
            let filled = (start + written * stride).min(INITIAL_BYTES_MAX + 1);
            found.bytes.resize(filled, 0);
        } else {
            value(lexer, ty, found)?;
            written = (found.bytes.len() - start).div_ceil(stride.max(1));
        }
        if found.bytes.len() > INITIAL_BYTES_MAX {
            let problem = format!("an initial value of more than {INITIAL_BYTES_MAX} bytes");
            return Err(PtxErrorKind::TooLarge(problem).at(lexer.peek().line));
        }
        if *count > 0 && written > *count {
            return Err(unexpected(lexer.peek(), "fewer values"));
        }
    }
    Ok(())
}

fn value<'a>(lexer: &mut Lexer<'a>, ty: Type, found: &mut Initial<'a>) -> Result<(), PtxError> {
    scalar(lexer, ty, found)?;
    if found.wide {
        found.bytes.extend([0; 8]);
    }
    Ok(())
}

fn scalar<'a>(lexer: &mut Lexer<'a>, ty: Type, found: &mut Initial<'a>) -> Result<(), PtxError> {
    let token: Token<'_> = lexer.peek();
    if token.kind == TokenKind::Word {
        return reference(lexer, ty, 0, found);
    }
    let value = constant::constant(lexer)?;
    if let Operand::Int(mask) = value
        && lexer.eat('(')
    {
        // `0xFF00(name)` selects these bits of the address.
        reference(lexer, ty, mask.trailing_zeros() & 63, found)?;
        return lexer.expect(')');
    }
    let bits = match (value, ty) {
        (Operand::Int(value), _) if !ty.is_float() => value,
        (Operand::F32(bits), Type::F32 | Type::B32) => u64::from(bits),
        (Operand::F32(bits), Type::F64) => f64::from(f32::from_bits(bits)).to_bits(),
        (Operand::F64(bits), Type::F64 | Type::B64) => bits,
        (Operand::F64(bits), Type::F32) => u64::from((f64::from_bits(bits) as f32).to_bits()),
        _ => return Err(unexpected(token, &format!("a value of type {}", ty.name()))),
    };
    found
        .bytes
        .extend_from_slice(&bits.to_le_bytes()[..ty.bytes()]);
    Ok(())
}

/// Parses an address: `name`, `name+4`, `generic(name)` or `generic(name)+4`. Its bytes in the
/// value are zero until the loader inserts the address.
fn reference<'a>(
    lexer: &mut Lexer<'a>,
    ty: Type,
    shift: u32,
    found: &mut Initial<'a>,
) -> Result<(), PtxError> {
    let mut token = lexer.word("a name")?;
    let mut addend = 0;
    // Generic addresses equal the addresses in the state space, except for shared memory, whose
    // addresses are no constants.
    if token.text == "generic" {
        lexer.expect('(')?;
        token = lexer.word("a name")?;
        addend += constant::offset(lexer)?;
        lexer.expect(')')?;
    }
    addend += constant::offset(lexer)?;
    if !ty.is_integer() {
        return Err(unexpected(token, &format!("a value of type {}", ty.name())));
    }
    found.references.push(ReferenceAst {
        name: token.text,
        addend,
        offset: found.bytes.len(),
        bytes: ty.bytes(),
        shift,
        line: token.line,
    });
    found.bytes.resize(found.bytes.len() + ty.bytes(), 0);
    Ok(())
}
