//! Descriptions of allocations, for reports.

use millstream_driver::StreamHandle;
use millstream_ptx::Site;

use crate::ids::{OpId, name};

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
    pub(crate) fn describe(&self) -> String {
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
