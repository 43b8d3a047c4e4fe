//! Fat binaries: the containers in which nvcc puts the PTX and the machine code of a program.
//!
//! # Format
//!
//! NVIDIA does not document the format. This description comes from comparing the output of
//! NVIDIA's tools (`testdata/make.py`) for different options. All numbers are little-endian.
//!
//! A container starts with a header of 16 bytes: the magic number `0xba55ed50`, the version (16
//! bits, 1), the size of the header (16 bits) and the size of the rest (64 bits). Entries follow,
//! one after another, each with a header and a payload:
//!
//! | offset | bits | meaning |
//! |---|---|---|
//! | 0 | 16 | the kind: 1 PTX, 2 machine code, 8 code for link time, 256 several entries in one |
//! | 2 | 16 | the version, `0x101` |
//! | 4 | 32 | the size of the entry's header: 64 and more, with names and options behind |
//! | 8 | 64 | the size of the payload, padded to a multiple of 8 |
//! | 16 | 32 | the size of the compressed data in the payload; 0 if it is not compressed |
//! | 24 | 16 + 16 | the minor and the major version of PTX |
//! | 28 | 32 | the target: 90 for `sm_90` |
//! | 40 | 64 | flags |
//! | 56 | 64 | the size of the data before compression; 0 if it is not compressed |
//!
//! Flags: 0x1 64-bit code, 0x2 made for debugging, 0x10 a Linux host, 0x20 a macOS host, 0x40 a
//! Windows host, 0x2000 compressed as an LZ4 block, 0x8000 compressed as a Zstandard frame,
//! 0x100000 a target with `a` as `sm_90a`, 0x200000 a target with `f` as `sm_100f`.
//!
//! Compiled programs refer to a container by a wrapper (`image.rs`), whose structure NVIDIA's
//! header `fatbinary_section.h` declares.

mod entry;
mod error;
mod image;
mod payload;

#[cfg(test)]
mod tests;

pub use entry::{Entry, EntryKind, Target, TargetScope};
pub use error::FatbinError;
pub use image::{bytes_at, is_fatbin};

use entry::Reader;

/// The magic number at the start of a container.
const MAGIC: u32 = 0xba55_ed50;

/// The size of a container's header.
const HEADER_BYTES: usize = 16;

/// A fat binary whose headers are valid.
#[derive(Debug)]
pub struct Fatbin<'a> {
    /// The entries in their order.
    entries: Vec<Entry<'a>>,
}

impl<'a> Fatbin<'a> {
    /// Parses the headers of the container at the start of `bytes`. More bytes may follow it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FatbinError> {
        let size = container_bytes(bytes)?;
        let container = bytes.get(..size).ok_or(FatbinError::Truncated {
            needed: size,
            present: bytes.len(),
        })?;
        let header = usize::from(Reader(bytes).u16(6)?);
        let mut rest = container.get(header..).unwrap_or_default();
        let mut entries = Vec::new();
        while !rest.is_empty() {
            let (entry, after) = Entry::parse(rest)?;
            entries.push(entry);
            rest = after;
        }
        Ok(Self { entries })
    }

    /// Returns the entries in their order.
    #[must_use]
    pub fn entries(&self) -> &[Entry<'a>] {
        &self.entries
    }

    /// Returns the PTX that a device of this compute capability would compile: of the entries whose
    /// target it supports, the one with the newest target. Of two for one target, the less portable
    /// one is preferred, since it was made for this device in particular.
    pub fn ptx_for(&self, compute_capability: (u32, u32)) -> Result<String, FatbinError> {
        let mut best: Option<&Entry<'a>> = None;
        for entry in self.of_kind(EntryKind::Ptx) {
            entry.check_flags()?;
            let is_better = best.is_none_or(|best| best.target < entry.target);
            if entry.target.runs_on(compute_capability) && entry.is_64_bit() && is_better {
                best = Some(entry);
            }
        }
        match best {
            Some(entry) => entry.text(),
            None => Err(self.no_ptx_error(compute_capability)),
        }
    }

    /// Returns whether there is PTX, for any target, that contains a text.
    #[must_use]
    pub fn has_ptx_with(&self, text: &str) -> bool {
        let mut ptx = self.of_kind(EntryKind::Ptx);
        ptx.any(|entry| entry.text().is_ok_and(|ptx| ptx.contains(text)))
    }

    fn of_kind(&self, kind: EntryKind) -> impl Iterator<Item = &Entry<'a>> {
        self.entries.iter().filter(move |entry| entry.kind == kind)
    }

    /// Returns the error that says why there is no PTX for a device.
    fn no_ptx_error(&self, (major, minor): (u32, u32)) -> FatbinError {
        let list = |kind| {
            let targets: Vec<String> = self
                .of_kind(kind)
                .map(|entry| {
                    let bits = if entry.is_64_bit() { "" } else { " (32-bit)" };
                    format!("{}{bits}", entry.target)
                })
                .collect();
            targets.join(", ")
        };
        let ptx = list(EntryKind::Ptx);
        if !ptx.is_empty() {
            return FatbinError::NoFittingPtx {
                targets: ptx,
                device: format!("sm_{major}{minor}"),
            };
        }
        let unknown = self.entries.iter().find_map(|entry| match entry.kind {
            EntryKind::Unknown(kind) => Some(kind),
            EntryKind::Ptx | EntryKind::MachineCode => None,
        });
        match unknown {
            Some(kind) => FatbinError::UnknownKind { kind },
            None => FatbinError::OnlyMachineCode {
                targets: list(EntryKind::MachineCode),
            },
        }
    }
}

/// Returns the size of the container that starts with `bytes`, of which its header suffices.
fn container_bytes(bytes: &[u8]) -> Result<usize, FatbinError> {
    let reader = Reader(bytes);
    let magic = reader.u32(0)?;
    if magic != MAGIC {
        return Err(FatbinError::NotFatbin { magic });
    }
    let version = reader.u16(4)?;
    if version != 1 {
        return Err(FatbinError::UnknownVersion { version });
    }
    let header = usize::from(reader.u16(6)?);
    let rest = reader.size(8)?;
    match header.checked_add(rest) {
        Some(size) if header >= HEADER_BYTES => Ok(size),
        _ => Err(FatbinError::Corrupt {
            reason: format!("a header of {header} bytes before {rest} bytes"),
        }),
    }
}
