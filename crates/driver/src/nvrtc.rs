//! NVIDIA's run-time compiler (NVRTC), loaded at run time: CUDA C++ to PTX and machine code.
//!
//! NVRTC is a library of the CUDA toolkit that needs neither a driver nor a GPU. It is searched for
//! as [`libraries`](crate::libraries) describes, with `MILLSTREAM_NVRTC` first, and never unloaded.

mod error;
mod installation;
mod library;

pub use error::{NvrtcCode, NvrtcError, NvrtcLoadError};
pub use installation::{Installation, file_identity};
pub use library::{Nvrtc, compilations, installation, load};

/// A translation unit of CUDA C++, and the options for it.
///
/// ```
/// use millstream_driver::nvrtc::Program;
///
/// let program = Program { name: "k.cu", source: "__global__ void k() {}", ..Program::default() };
/// assert!(program.headers.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Program<'a> {
    /// The name of the source in messages.
    pub name: &'a str,
    /// The source.
    pub source: &'a str,
    /// Headers by the name under which `#include` finds them, with their text.
    pub headers: &'a [(String, String)],
    /// The options, such as `--gpu-architecture=sm_90`.
    pub options: &'a [String],
    /// The names of kernels in C++, such as `scale<float>`: templates are instantiated, and
    /// [`Compiled::lowered_names`] returns their names in the PTX.
    pub name_expressions: &'a [String],
    /// True for machine code besides PTX. The architecture must then be a real one (`sm_90`).
    pub cubin: bool,
}

/// The result of a compilation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// The PTX.
    pub ptx: String,
    /// The machine code, if it was requested.
    pub cubin: Option<Vec<u8>>,
    /// The name in the PTX for each name expression, in order.
    pub lowered_names: Vec<String>,
    /// The warnings, empty if there are none.
    pub log: String,
}
