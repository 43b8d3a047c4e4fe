//! The event policy of an allocation: decides after which operations a sync point is recorded.

use super::StreamId;

/// The number of consecutive accesses without a wait after which a shared allocation stops
/// recording sync points. It is large enough for data that repeatedly moves between streams.
const QUIET_ACCESSES_MAX: u32 = 64;

/// The streams that have used an allocation: they tell whether other streams will wait for its
/// operations.
#[derive(Debug, Default)]
pub(super) enum EventPolicy {
    /// No stream has used it yet.
    #[default]
    Unused,
    /// Exactly one stream has used it.
    SingleStream(StreamId),
    /// Several streams have used it. Counts the accesses since one waited for another stream.
    MultiStream { accesses_since_wait: u32 },
    /// Every operation records a sync point, because the host may wait for any of them.
    Always,
}

impl EventPolicy {
    /// Notes an access by `stream`, and whether it waits for another stream. Returns whether to
    /// record a sync point right behind the operation.
    ///
    /// Sync points are recorded once a second stream has used the allocation. After
    /// [`QUIET_ACCESSES_MAX`] accesses without a wait recording stops: only one stream uses the
    /// allocation again, or all only read it. The next access that waits starts it again, and may
    /// wait for more than necessary.
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
    fn sync_points_are_recorded_from_the_second_stream_until_waits_cease() {
        let [a, b] = [1, 2].map(StreamId::of);
        let mut event_policy = EventPolicy::default();
        assert!(
            (0..1000).all(|_| !event_policy.record_access(a, false)),
            "a single stream records none"
        );
        assert!(event_policy.record_access(b, true) && event_policy.record_access(a, true));
        let left = (0..1000)
            .filter(|_| event_policy.record_access(a, false))
            .count();
        assert_eq!(left, QUIET_ACCESSES_MAX as usize);
        assert!(
            event_policy.record_access(b, true),
            "a wait starts recording again"
        );
        assert!((0..10).all(|_| event_policy.record_access(b, false)));
        let mut always = EventPolicy::Always;
        assert!((0..1000).all(|_| always.record_access(a, false)));
    }
}
