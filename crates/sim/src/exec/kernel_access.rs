//! The place of a thread's access: block, thread and line.

use std::fmt;

/// A thread's access: the thread, its line and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelAccess {
    /// The block's index.
    pub block: [u32; 3],
    /// The thread's index in its block.
    pub thread: [u32; 3],
    /// The line of the PTX text, counted from 1.
    pub ptx_line: u32,
    /// The file and line of the source, if the PTX has line information (NVRTC's `-lineinfo`).
    pub source: Option<String>,
    /// True if the access writes.
    pub write: bool,
    /// True for an atomic, volatile, relaxed, acquire or release access.
    pub atomic: bool,
    /// True for a volatile access, unless the [model](super::RaceModel) takes these for relaxed
    /// ones.
    pub volatile: bool,
}

impl KernelAccess {
    /// Returns a verb for the access, such as "writes".
    pub(crate) fn does(&self) -> &'static str {
        match (self.write, self.atomic) {
            (false, true) if self.volatile => "reads (volatile)",
            (true, true) if self.volatile => "writes (volatile)",
            (false, false) => "reads",
            (true, false) => "writes",
            (false, true) => "reads atomically",
            (true, true) => "writes atomically",
        }
    }

    /// Returns a noun for the access, such as "write".
    pub(crate) fn noun(&self) -> &'static str {
        match (self.write, self.atomic) {
            (_, true) if self.volatile => "volatile",
            (_, true) => "atomic",
            (true, false) => "write",
            (false, false) => "read",
        }
    }
}

impl fmt::Display for KernelAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        write!(
            f,
            "block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz}), line {} of the PTX",
            self.ptx_line
        )?;
        match &self.source {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

/// Returns the coordinates of the `index`-th block or thread, x fastest.
pub(super) fn coordinates(index: u64, block_info: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = block_info.map(u64::from);
    [index % x, index / x % y, index / x / y].map(|value| value as u32)
}
