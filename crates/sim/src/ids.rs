//! Numbers of the world's objects: never reused, ordered, and telling what they number.

use std::fmt;

use millstream_driver::{ContextHandle, EventHandle, FunctionHandle, ModuleHandle, PoolHandle, StreamHandle};

use crate::ReportKind;

/// An operation of some stream. Numbers rise in the order of enqueueing, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct OpId(pub(crate) u64);

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}", self.0)
    }
}

/// A handle type: the tag in the upper bits makes a handle of one kind never equal to one of another.
pub(crate) trait Handle: Copy + Ord {
    /// Tells this kind of handle from the others.
    const TAG: usize;
    /// What people call the object.
    const NAME: &'static str;
    /// The handle with this number.
    fn from_number(raw: usize) -> Self;
    /// The handle's number.
    fn number(self) -> usize;
}

macro_rules! handles {
    ($($name:ident $tag:literal $text:literal;)*) => {
        $(impl Handle for $name {
            const TAG: usize = $tag;
            const NAME: &'static str = $text;
            fn from_number(raw: usize) -> Self {
                Self::from_raw(raw)
            }
            fn number(self) -> usize {
                self.as_raw()
            }
        })*
        const TAGS: usize = [$($tag),*].len() + 1;
    };
}

handles! {
    ContextHandle 1 "context";
    StreamHandle 2 "stream";
    EventHandle 3 "event";
    ModuleHandle 4 "module";
    FunctionHandle 5 "function";
    PoolHandle 6 "pool";
}

const TAG_SHIFT: u32 = 40;

/// Hands out handles, in order, for each kind apart.
#[derive(Debug, Default)]
pub(crate) struct Mint {
    given: [usize; TAGS],
}

impl Mint {
    /// A handle that was never given before.
    pub(crate) fn next<H: Handle>(&mut self) -> H {
        self.given[H::TAG] += 1;
        H::from_number(H::TAG << TAG_SHIFT | self.given[H::TAG])
    }

    /// Why a handle names nothing that lives: it did once, or it never did.
    pub(crate) fn explain<H: Handle>(&self, handle: H) -> (ReportKind, String) {
        let (kind, number) = (H::NAME, handle.number());
        let index = number ^ H::TAG << TAG_SHIFT;
        if (1..=self.given[H::TAG]).contains(&index) {
            (
                ReportKind::DeadHandle,
                format!("{kind} {index} ({number:#x}) is used after it was given up"),
            )
        } else {
            (
                ReportKind::UnknownHandle,
                format!("{number:#x} is no {kind} that this driver gave out"),
            )
        }
    }
}

/// The handle as people read it: `stream 3`.
pub(crate) fn name<H: Handle>(handle: H) -> String {
    format!("{} {}", H::NAME, handle.number() ^ H::TAG << TAG_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_known_dead_unknown_or_of_another_kind() {
        let mut mint = Mint::default();
        let stream: StreamHandle = mint.next();
        assert_eq!(name(stream), "stream 1");
        assert_eq!(mint.explain(stream).0, ReportKind::DeadHandle);
        let forged = StreamHandle::from_raw(stream.as_raw() + 1);
        assert_eq!(mint.explain(forged).0, ReportKind::UnknownHandle);
        let event = EventHandle::from_raw(stream.as_raw());
        assert_eq!(mint.explain(event).0, ReportKind::UnknownHandle);
    }
}
