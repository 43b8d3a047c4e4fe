//! Whether someone will want sync points right behind the operations of an allocation.

use super::StreamId;

/// How many accesses in a row leave sync points though none waits for another stream's: enough for
/// what goes from stream to stream over and over.
const QUIET_ACCESSES_MAX: u32 = 64;

/// Who has used an allocation, as far as that tells who will wait for its operations.
#[derive(Debug, Default)]
pub(super) enum EventPolicy {
    /// Nobody yet.
    #[default]
    Unused,
    /// One stream alone.
    SingleStream(StreamId),
    /// Several streams. There have been so many accesses since one waited for another stream's.
    MultiStream { accesses_since_wait: u32 },
    /// Whoever has used it, the host may come to wait for any operation.
    Always,
}

impl EventPolicy {
    /// Notes that `stream` has touched the allocation, and whether it waits for another one that
    /// did; says whether someone will want a sync point right behind the operation.
    ///
    /// So it is once a second stream has touched it. But what one stream has for itself again, or
    /// what is only read, again and again, nobody waits for: after a while it leaves no more
    /// sync points, until someone waits, who then may wait for more than he must.
    #[inline(always)]
    pub(super) fn record_access(&mut self, stream: StreamId, waits: bool) -> bool {
        match self {
            Self::SingleStream(first) if *first == stream => false,
            Self::MultiStream {
                accesses_since_wait,
            } if !waits => {
                *accesses_since_wait = accesses_since_wait.saturating_add(1);
                *accesses_since_wait <= QUIET_ACCESSES_MAX
            }
            Self::Always => true,
            Self::Unused => {
                *self = Self::SingleStream(stream);
                false
            }
            Self::SingleStream(_) | Self::MultiStream { .. } => {
                *self = Self::MultiStream {
                    accesses_since_wait: 0,
                };
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
        let mut event_policy = EventPolicy::default();
        assert!(
            (0..1000).all(|_| !event_policy.record_access(a, false)),
            "one stream has it for itself"
        );
        assert!(event_policy.record_access(b, true) && event_policy.record_access(a, true));
        let left = (0..1000)
            .filter(|_| event_policy.record_access(a, false))
            .count();
        assert_eq!(left, QUIET_ACCESSES_MAX as usize);
        assert!(event_policy.record_access(b, true), "someone waits again");
        assert!((0..10).all(|_| event_policy.record_access(b, false)));
        let mut always = EventPolicy::Always;
        assert!((0..1000).all(|_| always.record_access(a, false)));
    }
}
