//! What an operation or the host did to memory, as the checker is told.

use std::{ops::Range, sync::Arc};

use millstream_driver::StreamHandle;

use super::label::Site;
use crate::{
    exec::{KernelAccess, KernelRace, Touch},
    ids::{OpId, name},
    module::Mismatch,
};

/// An allocation, for findings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tag {
    /// Allocations are numbered from 1 in the order in which they are made; 0 is pageable memory.
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// The function it came from.
    pub(crate) origin: &'static str,
    /// The device whose memory it is, if there are several.
    pub(crate) device: Option<u32>,
    /// The operation that begins its life, for pool memory.
    pub(crate) born: Option<(OpId, StreamHandle)>,
    pub(crate) site: Option<Site>,
    /// Whether it holds something from the beginning: the host may write it unseen, or it is a variable.
    pub(crate) filled: bool,
    /// Whether the host reads it: what is copied there has arrived.
    pub(crate) of_host: bool,
    /// Whether it is the driver that ends its life, along with its module.
    pub(crate) variable: bool,
}

impl Tag {
    pub(super) fn describe(&self) -> String {
        if self.number == 0 {
            return "pageable host memory".into();
        }
        format!("allocation {} ({})", self.number, self.origin())
    }

    /// Its size, the function that made it, and the caller's line.
    pub(crate) fn origin(&self) -> String {
        format!("{} bytes, {}", self.bytes, self.made())
    }

    /// The function that made it, and the caller's line.
    pub(crate) fn made(&self) -> String {
        let mut text = self.origin.to_owned();
        if let Some(device) = self.device {
            text += &format!(" on device {device}");
        }
        if let Some((op, stream)) = self.born {
            text += &format!(" by {op} on {}", name(stream));
        }
        if let Some(site) = &self.site {
            text += &format!(", {site}");
        }
        text
    }
}

/// Bytes of an allocation, in ascending runs that do not overlap.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) tag: Arc<Tag>,
    pub(crate) runs: Vec<Range<u64>>,
}

/// One thing that an operation or the host did.
#[derive(Debug)]
pub(crate) enum Effect {
    /// It accessed bytes.
    Touch(Arc<Tag>, Vec<(Range<u64>, Touch)>),
    /// It copied bytes; an end that is not told is memory that nobody else can reach meanwhile.
    Copy { from: Option<Spot>, to: Option<Spot> },
    /// It began the allocation's life.
    Birth(Arc<Tag>),
    /// It gave the allocation out again, with its users and without its content.
    Empty(Arc<Tag>),
    /// It ended the allocation's life.
    End(Arc<Tag>),
    /// The allocation is gone with its context, whoever used it.
    Forget(Arc<Tag>),
    /// Threads of it raced with each other, in memory of that allocation or in shared memory.
    KernelRace(Option<Arc<Tag>>, Box<KernelRace>),
    /// A thread of it accessed floating-point numbers that do not fit the declared element type.
    Mismatch(Box<(Mismatch, KernelAccess)>),
    /// It made an access that is out of bounds or misaligned.
    Stray(Box<Stray>),
}

/// An access that is out of bounds or misaligned.
#[derive(Debug)]
pub(crate) struct Stray {
    /// Whether it is not aligned; else it is out of bounds.
    pub(crate) misaligned: bool,
    /// The problem, up to the allocation.
    pub(crate) problem: String,
    /// The allocation around it, or the nearest.
    pub(crate) tag: Option<Arc<Tag>>,
    pub(crate) access: KernelAccess,
}
