//! Whether someone will want points right behind the operations of an allocation.

use super::StreamId;

/// How many accesses in a row leave points though none waits for another stream's: enough for what
/// goes from stream to stream over and over.
const QUIET_WITH_POINTS: u32 = 64;

/// Who has used an allocation, as far as that tells who will wait for its operations.
#[derive(Debug, Default)]
pub(super) enum Interest {
    /// Nobody yet.
    #[default]
    None,
    /// One stream alone.
    One(StreamId),
    /// Several streams. There have been so many accesses since one waited for another stream's.
    Several { quiet: u32 },
    /// Whoever has used it, the host may come to wait for any operation.
    Lasting,
}

impl Interest {
    /// Notes that `stream` has touched the allocation, and whether it waits for another one that
    /// did; says whether someone will want a point right behind the operation.
    ///
    /// So it is once a second stream has touched it. But what one stream has for itself again, or
    /// what is only read, again and again, nobody waits for: after a while it leaves no more
    /// points, until someone waits, who then may wait for more than he must.
    #[inline(always)]
    pub(super) fn note(&mut self, stream: StreamId, waits: bool) -> bool {
        match self {
            Self::One(first) if *first == stream => false,
            Self::Several { quiet } if !waits => {
                *quiet = quiet.saturating_add(1);
                *quiet <= QUIET_WITH_POINTS
            }
            Self::Lasting => true,
            Self::None => {
                *self = Self::One(stream);
                false
            }
            Self::One(_) | Self::Several { .. } => {
                *self = Self::Several { quiet: 0 };
                true
            }
        }
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
        let mut lasting = Interest::Lasting;
        assert!((0..1000).all(|_| lasting.note(a, false)));
    }
}
