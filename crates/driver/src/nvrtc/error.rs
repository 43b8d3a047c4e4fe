//! NVRTC's result codes, failed compilations, and failures to load the library.

use crate::{libraries::LibraryNotFound, printable, result_codes::result_codes};

result_codes! {
    /// NVRTC's numeric result (`nvrtcResult`).
    ///
    /// ```
    /// use millstream_driver::nvrtc::NvrtcCode;
    /// assert_eq!(NvrtcCode::COMPILATION.to_string(), "NVRTC_ERROR_COMPILATION (6)");
    /// assert_eq!(NvrtcCode::from_raw(99).to_string(), "nvrtcResult 99");
    /// ```
    pub struct NvrtcCode("nvrtcResult") of "NVRTC" {
        /// No error.
        SUCCESS = 0, "NVRTC_SUCCESS";
        /// There is not enough memory.
        OUT_OF_MEMORY = 1, "NVRTC_ERROR_OUT_OF_MEMORY";
        /// The program could not be created.
        PROGRAM_CREATION_FAILURE = 2, "NVRTC_ERROR_PROGRAM_CREATION_FAILURE";
        /// An argument is not valid.
        INVALID_INPUT = 3, "NVRTC_ERROR_INVALID_INPUT";
        /// The program is not valid.
        INVALID_PROGRAM = 4, "NVRTC_ERROR_INVALID_PROGRAM";
        /// An option is unknown or has an invalid value.
        INVALID_OPTION = 5, "NVRTC_ERROR_INVALID_OPTION";
        /// The source has errors.
        COMPILATION = 6, "NVRTC_ERROR_COMPILATION";
        /// The built-in headers could not be read.
        BUILTIN_OPERATION_FAILURE = 7, "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE";
        /// A name expression is not the name of a kernel of the program.
        NAME_EXPRESSION_NOT_VALID = 10, "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID";
        /// An internal error.
        INTERNAL_ERROR = 11, "NVRTC_ERROR_INTERNAL_ERROR";
    }
}

/// A failed compilation.
///
/// ```
/// use millstream_driver::nvrtc::{NvrtcCode, NvrtcError};
///
/// let error = NvrtcError {
///     call: "nvrtcCompileProgram",
///     code: NvrtcCode::INVALID_OPTION,
///     log: "nvrtc: error: unrecognized option --fats-math found\n".into(),
/// };
/// assert!(error.to_string().ends_with("unrecognized option --fats-math found"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed: {code}{}", after_colon(log))]
pub struct NvrtcError {
    /// The function that failed.
    pub call: &'static str,
    /// Its result.
    pub code: NvrtcCode,
    /// The compiler's messages; empty if it wrote none.
    pub log: String,
}

/// Formats the messages of a compiler, to end a sentence.
fn after_colon(log: &str) -> String {
    match log.trim() {
        "" => String::new(),
        log => format!(": {}", printable(log)),
    }
}

/// The error of a missing or unusable NVRTC.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NvrtcLoadError {
    /// No location has the library.
    #[error(transparent)]
    NotFound(#[from] LibraryNotFound),
    /// The library lacks a function: it is older than CUDA 11.2.
    #[error("NVRTC from {origin} has no function {symbol}: CUDA 11.2 or newer is needed")]
    SymbolMissing {
        /// The function.
        symbol: &'static str,
        /// The location from which the library was loaded.
        origin: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_shown_without_control_characters() {
        let error = NvrtcError {
            call: "nvrtcCompileProgram",
            code: NvrtcCode::COMPILATION,
            log: "k.cu(1): error: \x1b[2J\n".into(),
        };
        assert!(
            error.to_string().ends_with(": k.cu(1): error: \u{fffd}[2J"),
            "{error}"
        );
    }
}
