//! Kernel signatures: the parameters of each `.entry` and their offsets in the parameter block.

use super::ast::{FormalAst, FunctionAst};
use super::error::{PtxError, PtxErrorKind};
use super::header::Header;
use super::parser::{self, Bodies};
use super::types::ParamType;

/// A kernel's name and parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The name of the `.entry`.
    pub name: String,
    /// The parameters, in order.
    pub params: Vec<Param>,
}

impl Signature {
    /// Returns the size of the parameter block in bytes.
    pub fn param_bytes(&self) -> usize {
        self.params
            .last()
            .map_or(0, |param| param.offset + param.size)
    }

    /// Returns the signature of a kernel of a module with this header.
    pub fn of(function: &FunctionAst<'_>, header: &Header<'_>) -> Result<Self, PtxError> {
        let mut params = Vec::with_capacity(function.params.len());
        let mut end = 0usize;
        for formal in &function.params {
            let FormalAst::Memory(formal) = formal else {
                let problem = "kernel parameters in registers".to_owned();
                return Err(PtxErrorKind::Unsupported(problem).at(function.line));
            };
            let offset = end.next_multiple_of(formal.align);
            end = offset.saturating_add(formal.size);
            params.push(Param {
                name: formal.name.to_owned(),
                ty: formal.ty,
                offset,
                size: formal.size,
                align: formal.align,
            });
        }
        let (limit, reason) = header.parameter_limit();
        if end > limit {
            let kernel = function.name.to_owned();
            let problem = PtxErrorKind::ParameterSpace {
                kernel,
                bytes: end,
                limit,
                reason,
            };
            return Err(problem.at(function.line));
        }
        Ok(Self {
            name: function.name.to_owned(),
            params,
        })
    }
}

/// One parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// The parameter's name in the PTX text.
    pub name: String,
    /// The parameter's type; for an array (`.param .align 8 .b8 name[24]`), its element type.
    pub ty: ParamType,
    /// The offset in the parameter block, in bytes.
    pub offset: usize,
    /// The size in bytes.
    pub size: usize,
    /// The alignment in bytes.
    pub align: usize,
}

/// Returns the signatures of all kernels in PTX text, in the text's order. Function bodies are
/// skipped, because they may contain instructions that the simulator does not implement.
///
/// # Errors
///
/// If the text outside of bodies is not valid PTX, its version is newer than the supported ones, or
/// a kernel has more bytes of parameters than its version and target allow.
pub fn signatures(source: &str) -> Result<Vec<Signature>, PtxError> {
    let module = parser::module(source, Bodies::Skip)?;
    module
        .functions
        .iter()
        .filter(|function| function.entry)
        .map(|function| Signature::of(function, &module.header))
        .collect()
}
