//! Errors in PTX text.

use thiserror::Error;

/// An error in PTX text, with its line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {kind}")]
pub struct PtxError {
    /// The line of the text, counted from 1.
    pub line: u32,
    /// The kind of the error.
    pub kind: PtxErrorKind,
}

/// The kind of an error in PTX text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PtxErrorKind {
    /// The text does not follow PTX's grammar.
    #[error("expected {expected}, found `{found}`")]
    Syntax {
        /// The tokens that the grammar allows at this point.
        expected: String,
        /// The token found.
        found: String,
    },
    /// The text ends before a construct is complete.
    #[error("the text ends where {expected} was expected")]
    Truncated {
        /// The tokens that the grammar allows at this point.
        expected: String,
    },
    /// An instruction that PTX does not have, by its full dotted name.
    #[error("unknown opcode `{0}`")]
    UnknownOpcode(String),
    /// An instruction that the simulator does not implement, by its full dotted name.
    #[error("unsupported opcode `{0}`")]
    UnsupportedOpcode(String),
    /// An instruction of a family that the simulator does not implement.
    #[error("unsupported opcode `{opcode}`: {reason}")]
    RefusedOpcode {
        /// The instruction's full dotted name.
        opcode: String,
        /// The instruction's family, and advice.
        reason: &'static str,
    },
    /// A directive that the simulator does not support.
    #[error("unsupported directive `{0}`")]
    UnsupportedDirective(String),
    /// Another PTX feature that the simulator does not support.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// A PTX version newer than the latest that the simulator supports.
    #[error("PTX version {0} is newer than the latest known, 9.x")]
    UnsupportedVersion(String),
    /// A target that names no NVIDIA architecture.
    #[error("unsupported target `{0}`: `sm_` and a number are expected, such as sm_75 or sm_90a")]
    UnsupportedTarget(String),
    /// A branch to a label that does not exist.
    #[error("undefined label `{0}`")]
    UndefinedLabel(String),
    /// A name that is not declared as a register, variable, parameter or function.
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
        /// The reason why the operand does not fit.
        reason: String,
    },
    /// An instruction with too few or too many operands.
    #[error("`{opcode}` takes {expected} operands, found {found}")]
    OperandCount {
        /// The instruction, by its full dotted name.
        opcode: String,
        /// The number of operands that the instruction takes.
        expected: String,
        /// The number of operands found.
        found: usize,
    },
    /// A kernel with more bytes of parameters than its module's PTX version and target allow.
    #[error(
        "kernel `{kernel}` has {bytes} bytes of parameters, more than the {limit} that {reason}"
    )]
    ParameterSpace {
        /// The kernel's name.
        kernel: String,
        /// The size of its parameters, in bytes.
        bytes: usize,
        /// The maximum size of its parameters, in bytes.
        limit: usize,
        /// The origin of the limit, and advice.
        reason: String,
    },
    /// A limit of the simulator is exceeded: the depth of blocks, the length of inlined code, the
    /// size of a variable.
    #[error("too large: {0}")]
    TooLarge(String),
}

impl PtxErrorKind {
    /// Returns whether the error concerns only the kernels that reach its line: the simulator lacks
    /// an instruction or another feature, and the text may be valid for a GPU.
    #[must_use]
    pub fn is_of_kernel(&self) -> bool {
        matches!(
            self,
            Self::UnsupportedOpcode(_)
                | Self::RefusedOpcode { .. }
                | Self::UnsupportedDirective(_)
                | Self::Unsupported(_)
                | Self::TooLarge(_)
        )
    }

    /// Creates the error of this kind at `line`.
    pub fn at(self, line: u32) -> PtxError {
        PtxError { line, kind: self }
    }
}
