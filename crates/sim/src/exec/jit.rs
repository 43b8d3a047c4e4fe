//! Whether machine code executes kernels.

/// The execution of kernels by machine code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jit {
    /// Kernels are interpreted.
    Off,
    /// Kernels are interpreted at first, and translated once they have run for some time, if the
    /// processor has AVX2.
    #[default]
    On,
    /// Kernels are translated before they run, if the processor has AVX2.
    AtOnce,
}
