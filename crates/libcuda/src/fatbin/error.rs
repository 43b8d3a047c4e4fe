//! The errors of reading a fat binary.

/// The reason why no PTX was read from a fat binary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FatbinError {
    /// The bytes do not start with the magic number.
    #[error("not a fat binary: it starts with {magic:#010x}, not with 0xba55ed50")]
    NotFatbin {
        /// The number at the start.
        magic: u32,
    },
    /// The container, an entry or the wrapper has a version that this library does not know.
    #[error("fat binary of unknown version {version:#x}")]
    UnknownVersion {
        /// The version.
        version: u16,
    },
    /// The bytes end before the container does.
    #[error("truncated fat binary: {needed} bytes are needed and {present} are present")]
    Truncated {
        /// The number of bytes up to the end of the part that is read.
        needed: usize,
        /// The number of bytes that are present.
        present: usize,
    },
    /// The numbers in the headers or the compressed data contradict each other.
    #[error("corrupt fat binary: {reason}")]
    Corrupt {
        /// The contradiction.
        reason: String,
    },
    /// An entry has flags whose meaning this library does not know, so it could misread the entry.
    #[error("fat binary with unknown flags {flags:#x} at the entry for {target}")]
    UnknownFlags {
        /// The unknown flags.
        flags: u64,
        /// The target of the entry, as `sm_90`.
        target: String,
    },
    /// There is no PTX, and an entry is of a kind that this library does not read.
    #[error("fat binary without PTX, and with {}", kind_name(*kind))]
    UnknownKind {
        /// The number of the kind.
        kind: u16,
    },
    /// There is machine code, which the simulated device does not execute, and no PTX.
    #[error(
        "fat binary with machine code only ({targets}), which the simulated device cannot execute: \
         compile to PTX too, as with nvcc's `-gencode arch=compute_75,code=compute_75`"
    )]
    OnlyMachineCode {
        /// The targets of the machine code.
        targets: String,
    },
    /// There is PTX, but for other devices only.
    #[error("fat binary with PTX for {targets}, and none that a device of {device} supports")]
    NoFittingPtx {
        /// The targets of the PTX.
        targets: String,
        /// The device's own target.
        device: String,
    },
}

/// Describes the kind of entry with this number, and how to do without it.
fn kind_name(kind: u16) -> String {
    match kind {
        8 => {
            "code for optimisation at link time (kind 8): compile to PTX instead of `lto_…`".into()
        }
        256 => "entries that are compressed together (kind 256), which CUDA 13.0 does not read: \
                compile without `--concat`"
            .into(),
        _ => format!("an entry of the unknown kind {kind}"),
    }
}
