//! Whether someone will want points right behind the operations of an allocation.

use super::StreamId;

/// How many accesses in a row leave points though none waits for another stream's: enough for what goes from stream to
/// stream over and over.
const QUIET_WITH_POINTS: u32 = 64;

/// Who has used an allocation, as far as that tells who will wait for its operations.
#[derive(Debug, Default)]
pub(super) struct Interest {
    /// The stream of the first operation.
    first_stream: Option<StreamId>,
    /// Whether a second stream has ever touched the allocation.
    shared: bool,
    /// Whether the host may come to wait for any operation.
    lasting: bool,
    /// How many accesses there have been since one waited for another stream's.
    quiet: u32,
}

impl Interest {
    /// That of memory for whose operations the host may come to wait.
    pub(super) fn lasting() -> Self {
        Self {
            lasting: true,
            ..Self::default()
        }
    }

    /// Notes that `stream` has touched the allocation, and whether it waits for another one that did; says whether someone
    /// will want a point right behind the operation.
    ///
    /// So it is once a second stream has touched it. But what one stream has for itself again, or what is only read, again and
    /// again, nobody waits for: after a while it leaves no more points, until someone waits, who then may wait for more than
    /// he must.
    #[inline(always)]
    pub(super) fn note(&mut self, stream: StreamId, waits: bool) -> bool {
        match self.first_stream {
            Some(first) => self.shared |= first != stream,
            None => self.first_stream = Some(stream),
        }
        self.quiet = if waits { 0 } else { self.quiet.saturating_add(1) };
        self.lasting || (self.shared && self.quiet <= QUIET_WITH_POINTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_wanted_once_two_streams_meet_and_until_nobody_has_waited_for_long() {
        let [a, b] = [1, 2].map(StreamId::of);
        let mut interest = Interest::default();
        assert!(
            (0..1000).all(|_| !interest.note(a, false)),
            "one stream has it for itself"
        );
        assert!(interest.note(b, true) && interest.note(a, true));
        let left = (0..1000).filter(|_| interest.note(a, false)).count();
        assert_eq!(left, QUIET_WITH_POINTS as usize);
        assert!(interest.note(b, true), "someone waits again");
        assert!((0..10).all(|_| interest.note(b, false)));
        let mut lasting = Interest::lasting();
        assert!((0..1000).all(|_| lasting.note(a, false)));
    }
}
