//! How findings are put into words.

use std::{fmt, ops::Range, sync::Arc};

use millstream_driver::ManagedLocation;
use millstream_ptx::Site;

use super::{
    finding::{FoundMemory, Party},
    state::{Actor, Deed},
};
use crate::{
    ids::{name, told_device},
    memory::{Direction, Rows, Tag, Touch},
};

impl Party {
    pub(super) fn of(deed: &Deed, does: &'static str) -> Self {
        Self {
            operation: Some(deed.op),
            what: deed.word.to_string(),
            stream: Some(name(deed.stream)),
            device: told_device(deed.stream),
            thread: None,
            does,
            call: deed.call,
            site: deed.site.as_ref().map(ToString::to_string),
        }
    }

    pub(super) fn host(call: &'static str, site: Option<&Site>, does: &'static str) -> Self {
        Self {
            operation: None,
            what: "the host".into(),
            stream: None,
            device: None,
            thread: None,
            does,
            call,
            site: site.map(ToString::to_string),
        }
    }
}

impl FoundMemory {
    pub(super) fn of(tag: &Tag, ranges: Vec<Range<u64>>) -> Self {
        Self {
            allocation: tag.number,
            allocation_bytes: tag.bytes,
            description: tag.describe(),
            ranges,
        }
    }
}

fn number(deed: &Deed) -> String {
    format!("operation {}", deed.op)
}

/// Which edge would have put the actor behind the operation, and how far behind its stream it is.
pub(super) fn missing_edge(actor: &Actor, earlier: &Deed) -> String {
    let (stream, number, last) = (
        name(earlier.stream),
        number(earlier),
        actor.last_of(earlier.slot),
    );
    match (actor.deed(), last) {
        (Some(deed), 0) => format!(
            "missing: {} never waits for anything recorded on {stream} behind {number}",
            name(deed.stream)
        ),
        (Some(deed), _) => format!(
            "missing: {} never waits for anything recorded on {stream} behind {number}, only behind operation {last}",
            name(deed.stream)
        ),
        (None, 0) => format!("missing: the host never waits for {number}"),
        (None, _) => {
            format!(
                "missing: the host never waits for {number}, on {stream} only for operation {last}"
            )
        }
    }
}

pub(super) fn verb(touch: Touch) -> &'static str {
    match (
        touch.has(Touch::READ),
        touch.has(Touch::WRITE),
        touch.has(Touch::UPDATE),
    ) {
        (true, true, _) => "reads and writes",
        (false, true, false) => "writes",
        (false, true, true) => "writes and updates",
        (true, false, true) => "reads and updates",
        (false, false, true) => "updates atomically",
        (_, false, false) => "reads",
    }
}

pub(super) fn noun(touch: Touch) -> &'static str {
    if touch.has(Touch::WRITE) {
        "write"
    } else if touch.has(Touch::UPDATE) {
        "atomic"
    } else {
        "read"
    }
}

/// An operation in a word.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    Kernel(Arc<str>),
    Copy(Direction, Rows),
    Fill(u64),
    Prefetch(u64, ManagedLocation),
    Plain(&'static str),
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(name) => write!(f, "kernel `{name}`"),
            Self::Copy(direction, rows) if rows.height > 1 => {
                write!(
                    f,
                    "copy ({direction:?}, {} rows of {} bytes)",
                    rows.height, rows.width
                )
            }
            Self::Copy(direction, rows) => {
                write!(f, "copy ({direction:?}, {} bytes)", rows.bytes())
            }
            Self::Fill(bytes) => write!(f, "fill ({bytes} bytes)"),
            Self::Prefetch(bytes, ManagedLocation::Host) => {
                write!(f, "prefetch ({bytes} bytes to the host)")
            }
            Self::Prefetch(bytes, ManagedLocation::Device(device)) => {
                write!(f, "prefetch ({bytes} bytes to device {})", device.as_raw())
            }
            Self::Plain(word) => f.write_str(word),
        }
    }
}
