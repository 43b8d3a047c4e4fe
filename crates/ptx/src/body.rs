//! Parsing of function bodies: statements, declarations in them, and instructions.

use super::ast::{
    GuardAst, InstructionAst, Operand, RegisterType, RegistersAst, Statement, VariableAst,
};
use super::declaration::{self, space};
use super::error::{PtxError, PtxErrorKind};
use super::lexer::{DEPTH_MAX, Lexer, Token, rest_of_line, skip_line, unexpected};
use super::number;
use super::operands;
use super::types::Type;

/// A parser of the bodies of a module's functions.
#[derive(Debug, Default)]
pub(super) struct BodyParser<'a> {
    /// The variables in global and constant memory that bodies declare.
    pub(super) variables: Vec<VariableAst<'a>>,
    /// The vector registers in scope, innermost last, together with the scalar registers declared
    /// after the first vector.
    vectors: Vec<RegistersAst<'a>>,
}

impl<'a> BodyParser<'a> {
    /// Parses a block `{ … }` at nesting depth `depth`.
    pub(super) fn block(
        &mut self,
        lexer: &mut Lexer<'a>,
        depth: usize,
    ) -> Result<Vec<Statement<'a>>, PtxError> {
        if depth == DEPTH_MAX {
            let line = lexer.peek().line;
            let problem = format!("blocks nested deeper than {DEPTH_MAX}");
            return Err(PtxErrorKind::TooLarge(problem).at(line));
        }
        lexer.expect('{')?;
        let outer = self.vectors.len();
        let mut statements = Vec::new();
        loop {
            let token = lexer.peek();
            match token.text {
                "}" => {
                    lexer.next();
                    self.vectors.truncate(outer);
                    return Ok(statements);
                }
                "{" => statements.push(Statement::Block(self.block(lexer, depth + 1)?)),
                ";" => {
                    lexer.next();
                }
                "@" => {
                    lexer.next();
                    let negated = lexer.eat('!');
                    let predicate = lexer.word("a predicate")?.text;
                    let opcode = lexer.word("an instruction")?;
                    let guard = GuardAst { predicate, negated };
                    statements.push(self.instruction(lexer, opcode, Some(guard))?);
                }
                ".reg" => self.registers(lexer, &mut statements)?,
                ".loc" => statements.extend(location(lexer)),
                ".file" => skip_line(lexer),
                ".pragma" => {
                    lexer.next();
                    lexer.next();
                    lexer.expect(';')?;
                }
                text if space(text).is_some() => self.variables(lexer, &mut statements)?,
                text if text.starts_with('.') => {
                    let directive = text.to_owned();
                    return Err(PtxErrorKind::UnsupportedDirective(directive).at(token.line));
                }
                _ => {
                    let word = lexer.word("a statement")?;
                    if lexer.eat(':') {
                        label(lexer, word, &mut statements)?;
                    } else {
                        statements.push(self.instruction(lexer, word, None)?);
                    }
                }
            }
        }
    }

    /// Parses a declaration of variables. Variables in global and constant memory exist once per
    /// module, so they are collected for the module, and the statement refers to them by index.
    fn variables(
        &mut self,
        lexer: &mut Lexer<'a>,
        statements: &mut Vec<Statement<'a>>,
    ) -> Result<(), PtxError> {
        declaration::variables(lexer, false, &mut |variable| {
            if variable.is_on_device() {
                let (name, line) = (variable.name, variable.line);
                let index = self.variables.len();
                statements.push(Statement::DeviceVariable { name, index, line });
                self.variables.push(variable);
            } else {
                statements.push(Statement::Variable(variable));
            }
        })
    }

    fn registers(
        &mut self,
        lexer: &mut Lexer<'a>,
        statements: &mut Vec<Statement<'a>>,
    ) -> Result<(), PtxError> {
        lexer.next();
        let ty = register_type(lexer)?;
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
            let registers = RegistersAst {
                ty,
                name: name.text,
                count,
                line: name.line,
            };
            // After the first vector, scalar registers are kept too: their names may shadow a
            // vector's.
            if matches!(ty, RegisterType::Vector(..)) || !self.vectors.is_empty() {
                self.vectors.push(registers.clone());
            }
            statements.push(Statement::Registers(registers));
            if !lexer.eat(',') {
                return lexer.expect(';');
            }
        }
    }

    fn instruction(
        &self,
        lexer: &mut Lexer<'a>,
        opcode: Token<'a>,
        guard: Option<GuardAst<'a>>,
    ) -> Result<Statement<'a>, PtxError> {
        let mut operands = Vec::new();
        if !lexer.peek().is_punctuation(';') {
            loop {
                operands.push(operands::operand(lexer, 0)?);
                if !lexer.eat(',') {
                    break;
                }
            }
        }
        lexer.expect(';')?;
        if !self.vectors.is_empty() {
            operands
                .iter_mut()
                .for_each(|operand| self.expand_vectors(operand));
        }
        Ok(Statement::Instruction(InstructionAst {
            line: opcode.line,
            guard,
            opcode: opcode.text,
            operands,
        }))
    }

    /// Replaces the names of vector registers by lists of their elements.
    fn expand_vectors(&self, operand: &mut Operand<'a>) {
        match operand {
            Operand::Name(name) => {
                let name: &'a str = name;
                if let Some(elements) = self.elements(name) {
                    let element = |index| Operand::Element(name, index);
                    *operand = Operand::Vector((0..elements).map(element).collect());
                }
            }
            Operand::Vector(inner) | Operand::List(inner) => {
                inner
                    .iter_mut()
                    .for_each(|operand| self.expand_vectors(operand));
            }
            _ => {}
        }
    }

    /// Returns the number of elements of the vector register of that name, if there is one.
    fn elements(&self, name: &str) -> Option<u8> {
        let found = self
            .vectors
            .iter()
            .rev()
            .find(|registers| registers.has(name))?;
        match found.ty {
            RegisterType::Vector(_, elements) => Some(elements),
            RegisterType::Scalar(_) | RegisterType::Wide => None,
        }
    }
}

/// Parses the type of a register: `.f32`, `.v4 .u16` or `.b128`.
pub(super) fn register_type(lexer: &mut Lexer<'_>) -> Result<RegisterType, PtxError> {
    let token = lexer.word("a register type")?;
    let elements = match token.text {
        ".b128" => return Ok(RegisterType::Wide),
        ".v2" => 2,
        ".v4" => 4,
        _ => return scalar_type(token).map(RegisterType::Scalar),
    };
    let token = lexer.word("a register type")?;
    let ty = scalar_type(token)?;
    if ty == Type::Pred || ty.bytes() * usize::from(elements) > 16 {
        let problem = format!("registers of type `.v{elements} {}`", token.text);
        return Err(PtxErrorKind::Unsupported(problem).at(token.line));
    }
    Ok(RegisterType::Vector(ty, elements))
}

fn scalar_type(token: Token<'_>) -> Result<Type, PtxError> {
    Type::from_name(token.text.trim_start_matches('.')).ok_or_else(|| {
        PtxErrorKind::Unsupported(format!("registers of type `{}`", token.text)).at(token.line)
    })
}

/// Parses `.loc 1 20 5`. Its options about inlined functions are ignored.
fn location<'a>(lexer: &mut Lexer<'a>) -> Option<Statement<'a>> {
    match rest_of_line(lexer)[..] {
        [file, line, ..] => Some(Statement::Location(
            file.text.parse().ok()?,
            line.text.parse().ok()?,
        )),
        _ => None,
    }
}

/// Parses the directive or statement after a label `name:`.
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
        // The targets of a call through a pointer are ignored: every function whose address is
        // taken can be called.
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
