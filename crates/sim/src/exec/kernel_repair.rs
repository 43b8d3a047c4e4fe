//! Insertions into the PTX of a kernel that order the threads of a race.

use std::fmt;

/// Synchronisation that a repair inserts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InsertedSync {
    /// `__syncthreads()`.
    Barrier,
    /// `__syncwarp()`.
    WarpBarrier,
    /// `__threadfence_block()`.
    BlockFence,
    /// `__threadfence()`.
    Fence,
    /// A wait for the thread's asynchronous copies.
    CopyWait,
    /// Atomics of the line with the scope of the device, in the place of the block's.
    DeviceScope,
}

impl InsertedSync {
    fn ptx(self) -> &'static str {
        match self {
            Self::Barrier => " bar.sync 0; ",
            Self::WarpBarrier => " bar.warp.sync 0xffffffff; ",
            Self::BlockFence => " membar.cta; ",
            Self::Fence => " membar.gl; ",
            Self::CopyWait => " cp.async.wait_all; ",
            Self::DeviceScope => "",
        }
    }
}

impl fmt::Display for InsertedSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Barrier => "__syncthreads()",
            Self::WarpBarrier => "__syncwarp()",
            Self::BlockFence => "__threadfence_block()",
            Self::Fence => "__threadfence()",
            Self::CopyWait => "cp.async.wait_all",
            Self::DeviceScope => "an atomic of the whole device instead of the block",
        })
    }
}

/// One insertion into a PTX text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelEdit {
    /// The synchronisation.
    pub inserted: InsertedSync,
    /// The line of the PTX, counted from 1.
    pub line: u32,
    /// True if it is inserted behind the statement of that line, otherwise in front of the line.
    pub behind: bool,
    /// The source file and line, if the PTX has line information.
    pub source: Option<String>,
}

impl fmt::Display for KernelEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match (self.inserted, self.behind) {
            (InsertedSync::DeviceScope, _) => "in",
            (_, true) => "behind",
            (_, false) => "before",
        };
        write!(f, "{} {place} line {} of the PTX", self.inserted, self.line)?;
        match &self.source {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

/// A repair of a race within a kernel, which was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelRepair {
    /// The insertions, in the order of their lines.
    pub edits: Vec<KernelEdit>,
}

impl KernelRepair {
    /// Returns the PTX text with the insertions; no line moves. `None` if a line has no statement.
    #[must_use]
    pub fn apply(&self, ptx: &str) -> Option<String> {
        let mut lines: Vec<String> = ptx.split('\n').map(str::to_owned).collect();
        for edit in &self.edits {
            let first = (edit.line as usize).checked_sub(1)?;
            let line = lines.get(first)?;
            if edit.inserted == InsertedSync::DeviceScope {
                lines[first] = line.replacen(".cta", ".gpu", 1);
                continue;
            }
            let (index, at) = if edit.behind {
                let rest = lines[first..].iter();
                let ends = rest.map(|line| line.find(';')).enumerate();
                let (more, at) = ends.take(16).find_map(|(more, at)| Some((more, at? + 1)))?;
                (first + more, at)
            } else {
                (first, 0)
            };
            lines[index].insert_str(at, edit.inserted.ptx());
        }
        Some(lines.join("\n"))
    }
}

impl fmt::Display for KernelRepair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, edit) in self.edits.iter().enumerate() {
            write!(f, "{}{edit}", ["", " and "][usize::from(index > 0)])?;
        }
        Ok(())
    }
}
