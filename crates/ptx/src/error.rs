//! What can be wrong with a PTX text.

use thiserror::Error;

/// Why a PTX text was refused, and on which of its lines.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {kind}")]
pub struct PtxError {
    /// The line of the text, counted from 1.
    pub line: u32,
    /// What is wrong there.
    pub kind: PtxErrorKind,
}

/// What is wrong with a PTX text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PtxErrorKind {
    /// The text does not follow PTX's grammar.
    #[error("expected {expected}, found `{found}`")]
    Syntax {
        /// What the grammar allows here.
        expected: String,
        /// What stands here.
        found: String,
    },
    /// The text ends in the middle of something.
    #[error("the text ends where {expected} was expected")]
    Truncated {
        /// What the grammar allows here.
        expected: String,
    },
    /// An instruction that the simulator does not execute, by its full dotted name.
    #[error("unsupported opcode `{0}`")]
    UnsupportedOpcode(String),
    /// An instruction of a kind that the simulator does not have at all.
    #[error("unsupported opcode `{opcode}`: {reason}")]
    RefusedOpcode {
        /// Its full dotted name.
        opcode: String,
        /// What kind that is, and what to do.
        reason: &'static str,
    },
    /// A directive that the simulator does not know.
    #[error("unsupported directive `{0}`")]
    UnsupportedDirective(String),
    /// Something else that PTX allows and the simulator does not.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// A PTX version newer than the simulator knows.
    #[error("PTX version {0} is newer than the latest known, 9.x")]
    UnsupportedVersion(String),
    /// A target that is none of NVIDIA's architectures.
    #[error("unsupported target `{0}`: `sm_` and a number are expected, such as sm_75 or sm_90a")]
    UnsupportedTarget(String),
    /// A branch to a label that does not exist.
    #[error("undefined label `{0}`")]
    UndefinedLabel(String),
    /// A name that is neither a register, a variable, a parameter nor a function.
    #[error("undefined name `{0}`")]
    UndefinedSymbol(String),
    /// A name declared twice in one scope.
    #[error("`{0}` is declared twice")]
    Duplicate(String),
    /// An operand that does not fit the instruction.
    #[error("`{operand}` does not fit `{opcode}`: {reason}")]
    TypeMismatch {
        /// The instruction, by its full dotted name.
        opcode: String,
        /// The operand as written.
        operand: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An instruction with too few or too many operands.
    #[error("`{opcode}` takes {expected} operands, found {found}")]
    OperandCount {
        /// The instruction, by its full dotted name.
        opcode: String,
        /// How many it takes.
        expected: String,
        /// How many are written.
        found: usize,
    },
    /// A kernel with more bytes of parameters than its module's PTX version and target allow.
    #[error(
        "kernel `{kernel}` has {bytes} bytes of parameters, more than the {limit} that {reason}"
    )]
    ParameterSpace {
        /// The kernel's name.
        kernel: String,
        /// The size of its parameters.
        bytes: usize,
        /// The most bytes that it may have.
        limit: usize,
        /// What allows no more, and what to do.
        reason: String,
    },
    /// A limit of the simulator: how deep blocks nest, how long inlined code gets, how many bytes a
    /// variable has.
    #[error("too large: {0}")]
    TooLarge(String),
}

impl PtxErrorKind {
    /// The error at `line`.
    pub fn at(self, line: u32) -> PtxError {
        PtxError { line, kind: self }
    }
}
