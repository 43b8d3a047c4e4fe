//! Errors of the compilation of CUDA C++ at run time.

use std::path::PathBuf;

use millstream_driver::{
    nvrtc::{NvrtcError, NvrtcLoadError},
    printable,
};

use super::{Diagnostic, Severity};

/// The error of a compilation of CUDA C++.
///
/// ```
/// use millstream::{Cuda, Device, Error, error::CompileError};
///
/// let device = Device::simulated()?;
/// match device.compile(Cuda::source("k.cu", "__global__ void k() { x = 1; }")) {
///     Err(Error::Compile(error)) => match &*error {
///         // NVRTC is not installed here.
///         CompileError::NoCompiler { .. } => println!("{error}"),
///         // error: identifier "x" is undefined
///         //  --> k.cu:1
///         _ => assert_eq!(error.diagnostics()[0].line, 1),
///     },
///     other => unreachable!("{other:?}"),
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// NVRTC was not found, or cannot be used.
    #[error(
        "cannot compile `{}`: {cause}. Install NVRTC (`pip install \
         nvidia-cuda-nvrtc-cu12`, or the CUDA toolkit), or check in the PTX that `millstream \
         compile` writes, and load that",
        printable(source_name)
    )]
    #[non_exhaustive]
    NoCompiler {
        /// The name of the source.
        source_name: String,
        /// The locations that were tried.
        cause: NvrtcLoadError,
    },
    /// The source has errors.
    #[error(
        "cannot compile `{}`: {}\n\n{}",
        printable(source_name),
        count(diagnostics),
        shown(diagnostics)
    )]
    #[non_exhaustive]
    Source {
        /// The name of the source.
        source_name: String,
        /// The errors and warnings, in the compiler's order.
        diagnostics: Vec<Diagnostic>,
    },
    /// A header was not found.
    #[error(
        "cannot compile `{}`: the header `{}` was not found\n\n{diagnostic}\n\n{}",
        printable(source_name),
        printable(header),
        advice(header, folders)
    )]
    #[non_exhaustive]
    MissingHeader {
        /// The name of the source.
        source_name: String,
        /// The header.
        header: String,
        /// The folders in which it was searched for.
        folders: Vec<PathBuf>,
        /// The compiler's message.
        diagnostic: Diagnostic,
    },
    /// NVRTC failed for another reason: an invalid option, an instantiation that is not in the
    /// source, or a lack of memory.
    #[error("cannot compile `{}`: {cause}", printable(source_name))]
    #[non_exhaustive]
    Failed {
        /// The name of the source.
        source_name: String,
        /// The failed call, with the compiler's messages.
        cause: NvrtcError,
    },
}

impl CompileError {
    /// Returns the messages about the source, in the compiler's order.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            Self::Source { diagnostics, .. } => diagnostics,
            Self::MissingHeader { diagnostic, .. } => std::slice::from_ref(diagnostic),
            Self::NoCompiler { .. } | Self::Failed { .. } => &[],
        }
    }
}

/// Formats the number of errors.
fn count(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error)
        .count();
    format!("{errors} error{}", if errors == 1 { "" } else { "s" })
}

/// Formats all messages, each with its source line.
fn shown(diagnostics: &[Diagnostic]) -> String {
    let shown: Vec<_> = diagnostics.iter().map(ToString::to_string).collect();
    shown.join("\n\n")
}

/// Says where a header was searched for, and what to do.
fn advice(header: &str, folders: &[PathBuf]) -> String {
    let folders: Vec<_> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    let places = if folders.is_empty() {
        "no folder with headers was found".to_owned()
    } else {
        format!("tried {}", folders.join(", "))
    };
    printable(&format!(
        "{places}; pass its text with `Cuda::header(\"{header}\", …)`, its folder with \
         `Cuda::include_folder(…)`, or, for CUDA's own headers, install \
         `nvidia-cuda-runtime-cu12` with pip or set CUDA_HOME"
    ))
}

#[cfg(test)]
mod tests {
    use millstream_driver::nvrtc::NvrtcCode;

    use super::*;

    #[test]
    fn no_part_of_an_error_moves_the_cursor_of_a_terminal() {
        let mut shown = Vec::new();
        // The part with a control character.
        for place in 0..6 {
            let part = |number| if number == place { "\x1b[2J" } else { "a" }.to_owned();
            let diagnostic = || Diagnostic {
                severity: Severity::Error,
                file: part(1),
                line: 1,
                column: Some(1),
                message: part(2),
                source_line: Some(part(3)),
            };
            let errors = [
                CompileError::Source {
                    source_name: part(0),
                    diagnostics: vec![diagnostic()],
                },
                CompileError::MissingHeader {
                    source_name: part(0),
                    header: part(4),
                    folders: vec![part(5).into()],
                    diagnostic: diagnostic(),
                },
                CompileError::Failed {
                    source_name: part(0),
                    cause: NvrtcError {
                        call: "nvrtcCompileProgram",
                        code: NvrtcCode::COMPILATION,
                        log: part(2),
                    },
                },
            ];
            let texts = errors.iter().enumerate();
            shown.extend(texts.filter_map(|(kind, error)| {
                error.to_string().contains('\x1b').then_some((place, kind))
            }));
        }
        assert_eq!(shown, []);
    }
}
