//! Kernel signatures: the parameters of each `.entry` and where they lie in the parameter block.

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
    /// Its parameters in order.
    pub params: Vec<Param>,
}

impl Signature {
    /// The bytes of the whole parameter block.
    pub fn param_bytes(&self) -> usize {
        self.params
            .last()
            .map_or(0, |param| param.offset + param.size)
    }

    /// The signature of a kernel of a module with that header.
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
    /// Its name in the PTX text.
    pub name: String,
    /// Its type; the element's type where it is an array (`.param .align 8 .b8 name[24]`).
    pub ty: ParamType,
    /// Where it begins in the parameter block, in bytes.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
    /// Its alignment in bytes.
    pub align: usize,
}

/// The signatures of all kernels of a PTX text, in the text's order. Function bodies are stepped
/// over: they may hold instructions that the simulator does not execute.
///
/// # Errors
/// A text that does not follow PTX's grammar outside of bodies, a newer version than known, or a
/// kernel with more bytes of parameters than the version and the target allow.
pub fn signatures(source: &str) -> Result<Vec<Signature>, PtxError> {
    let module = parser::module(source, Bodies::Skip)?;
    module
        .functions
        .iter()
        .filter(|function| function.entry)
        .map(|function| Signature::of(function, &module.header))
        .collect()
}
