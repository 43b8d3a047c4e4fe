//! The entries of a fat binary.

use std::fmt;

use super::{FatbinError, payload};

/// The size of an entry's header without names and options.
const ENTRY_BYTES: usize = 64;

/// The version of all known entries.
const ENTRY_VERSION: u16 = 0x101;

/// The flags that this library knows.
mod flag {
    pub(super) const IS_64_BIT: u64 = 0x1;
    pub(super) const DEBUG: u64 = 0x2;
    pub(super) const LINUX: u64 = 0x10;
    pub(super) const MACOS: u64 = 0x20;
    pub(super) const WINDOWS: u64 = 0x40;
    pub(super) const LZ4: u64 = 0x2000;
    pub(super) const ZSTD: u64 = 0x8000;
    pub(super) const ARCHITECTURE: u64 = 0x10_0000;
    pub(super) const FAMILY: u64 = 0x20_0000;
    pub(super) const KNOWN: u64 =
        IS_64_BIT | DEBUG | LINUX | MACOS | WINDOWS | LZ4 | ZSTD | ARCHITECTURE | FAMILY;
}

/// The contents of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// PTX text.
    Ptx,
    /// Machine code of one architecture.
    MachineCode,
    /// Contents that this library does not know, by their number.
    Unknown(u16),
}

/// The devices that support a target beside the exact one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetScope {
    /// All newer devices, as for `sm_90`.
    Newer,
    /// Newer devices of the same major version, as for `sm_100f`.
    Family,
    /// No others, as for `sm_90a`.
    Exact,
}

/// The target of PTX or machine code. Targets are ordered from the oldest to the newest, and those
/// of one number from the most to the least portable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The compute capability as one number: 90 for 9.0 and 121 for 12.1.
    pub number: u32,
    /// The devices that support it beside the exact one.
    pub scope: TargetScope,
}

impl Target {
    /// Returns whether a device of this compute capability can compile PTX for the target.
    #[must_use]
    pub fn runs_on(self, (major, minor): (u32, u32)) -> bool {
        let device = major.saturating_mul(10).saturating_add(minor);
        match self.scope {
            TargetScope::Newer => self.number <= device,
            TargetScope::Family => self.number <= device && self.number / 10 == major,
            TargetScope::Exact => self.number == device,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.scope {
            TargetScope::Newer => "",
            TargetScope::Family => "f",
            TargetScope::Exact => "a",
        };
        write!(f, "sm_{}{suffix}", self.number)
    }
}

/// One entry: PTX or machine code for one target.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The contents.
    pub kind: EntryKind,
    /// The target.
    pub target: Target,
    /// The version of the PTX language: major and minor.
    pub ptx_version: (u16, u16),
    flags: u64,
    /// The data, with padding unless it is compressed.
    data: &'a [u8],
    /// The size of the data before compression.
    uncompressed_bytes: u64,
}

impl<'a> Entry<'a> {
    /// Parses the entry at the start of `bytes`, and returns the bytes after it too.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), FatbinError> {
        let reader = Reader(bytes);
        let version = reader.u16(2)?;
        if version != ENTRY_VERSION {
            return Err(FatbinError::UnknownVersion { version });
        }
        let header = usize::try_from(reader.u32(4)?).unwrap_or(usize::MAX);
        if header < ENTRY_BYTES {
            return Err(FatbinError::Corrupt {
                reason: format!("an entry with a header of {header} bytes"),
            });
        }
        let payload_bytes = reader.size(8)?;
        let end = header.saturating_add(payload_bytes);
        let truncated = FatbinError::Truncated {
            needed: end,
            present: bytes.len(),
        };
        let (entry, rest) = bytes.split_at_checked(end).ok_or(truncated)?;
        let payload = &entry[header..];
        let flags = reader.u64(40)?;
        let compressed = usize::try_from(reader.u32(16)?).unwrap_or(usize::MAX);
        let data = if flags & (flag::LZ4 | flag::ZSTD) == 0 {
            payload
        } else {
            payload.get(..compressed).ok_or(FatbinError::Corrupt {
                reason: format!("{compressed} bytes of data in a payload of {payload_bytes} bytes"),
            })?
        };
        let entry = Self {
            kind: match reader.u16(0)? {
                1 => EntryKind::Ptx,
                2 => EntryKind::MachineCode,
                other => EntryKind::Unknown(other),
            },
            target: Target {
                number: reader.u32(28)?,
                scope: if flags & flag::ARCHITECTURE != 0 {
                    TargetScope::Exact
                } else if flags & flag::FAMILY != 0 {
                    TargetScope::Family
                } else {
                    TargetScope::Newer
                },
            },
            ptx_version: (reader.u16(26)?, reader.u16(24)?),
            flags,
            data,
            uncompressed_bytes: reader.u64(56)?,
        };
        Ok((entry, rest))
    }

    /// Returns whether the code has 64-bit addresses, as all programs of today.
    #[must_use]
    pub fn is_64_bit(&self) -> bool {
        self.flags & flag::IS_64_BIT != 0
    }

    /// Fails if a flag is unknown, or if two flags contradict each other.
    pub(super) fn check_flags(&self) -> Result<(), FatbinError> {
        let unknown = self.flags & !flag::KNOWN;
        if unknown != 0 {
            return Err(FatbinError::UnknownFlags {
                flags: unknown,
                target: self.target.to_string(),
            });
        }
        for both in [flag::LZ4 | flag::ZSTD, flag::ARCHITECTURE | flag::FAMILY] {
            if self.flags & both == both {
                return Err(FatbinError::Corrupt {
                    reason: format!("flags {both:#x}, of which an entry can have one"),
                });
            }
        }
        Ok(())
    }

    /// Returns the PTX of the entry, decompressed and without padding.
    pub(super) fn text(&self) -> Result<String, FatbinError> {
        let text = if self.flags & flag::LZ4 != 0 {
            payload::text_of_lz4(self.data, self.uncompressed_bytes)
        } else if self.flags & flag::ZSTD != 0 {
            payload::text_of_zstd(self.data, self.uncompressed_bytes)
        } else {
            payload::text_of_bytes(self.data.to_vec())
        };
        text.map_err(|reason| FatbinError::Corrupt {
            reason: format!("the PTX for {}: {reason}", self.target),
        })
    }
}

/// Reads numbers from bytes.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> Result<[u8; N], FatbinError> {
        let found = self.0.get(at..).and_then(|rest| rest.first_chunk());
        found.copied().ok_or(FatbinError::Truncated {
            needed: at + N,
            present: self.0.len(),
        })
    }

    /// Returns the 16-bit number at the offset `at`.
    pub(super) fn u16(&self, at: usize) -> Result<u16, FatbinError> {
        self.bytes(at).map(u16::from_le_bytes)
    }

    /// Returns the 32-bit number at the offset `at`.
    pub(super) fn u32(&self, at: usize) -> Result<u32, FatbinError> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    /// Returns the 64-bit number at the offset `at`.
    pub(super) fn u64(&self, at: usize) -> Result<u64, FatbinError> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    /// Returns the 64-bit number at the offset `at` as a size in memory.
    pub(super) fn size(&self, at: usize) -> Result<usize, FatbinError> {
        let size = self.u64(at)?;
        usize::try_from(size).map_err(|_| FatbinError::Corrupt {
            reason: format!("a size of {size} bytes"),
        })
    }
}
