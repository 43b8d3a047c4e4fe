//! The rules on which CUDA's documentation and hardware differ, each with a choice between two
//! readings.

use std::{fmt, str::FromStr};

/// The reading of a rule that the simulated driver follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// The behaviour of an H200 with driver 580 (column H200 of the list of rules).
    #[default]
    Observed,
    /// The most hostile reading that the documentation allows.
    Strict,
}

impl Reading {
    pub(crate) fn is_strict(self) -> bool {
        self == Self::Strict
    }
}

/// One [`Reading`] for each ambiguous rule of [CUDA's rules][rules]. A program is correct only if
/// it is correct under both readings.
///
/// [rules]: https://docs.rs/millstream/latest/millstream/guide/semantics/index.html
///
/// ```
/// use millstream_sim::{Reading, Rules};
/// assert_ne!(Rules::observed(), Rules::strict());
/// let one = Rules { pageable_upload: Reading::Strict, ..Rules::observed() };
/// assert_eq!(one.implicit_synchronisation, Reading::Observed);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Rule 6, a synchronous copy of at most 64 KiB from pageable host memory. Observed: the call
    /// first waits for the stream's earlier work. Strict: it returns at once, with the source
    /// already read and the copy pending.
    pub small_upload: Reading,
    /// Rule 8, an asynchronous copy from pageable host memory. Observed: up to 1 MiB is staged and
    /// the call returns; a larger copy blocks until complete. Strict: every size blocks until the
    /// stream's earlier work is complete. Under both readings the source is read at call time (rule
    /// 10).
    pub pageable_upload: Reading,
    /// Rule 9, an asynchronous copy to pageable host memory. Observed: the call blocks until
    /// complete. Strict: it returns at once, and the destination is written when the copy runs.
    pub pageable_download: Reading,
    /// Rule 29, implicit synchronisation by device, managed and page-locked allocations, fills and
    /// copies within a device. Observed: they do not affect other streams. Strict: each is a
    /// barrier on the device: work enqueued before it does not overlap work enqueued after it, on
    /// any stream of the context. The call itself does not block: the rule concerns commands, and
    /// only freeing is documented to block the host (rule 30).
    ///
    /// The rule excludes overlap but sets no order, so no program may rely on the barrier. The
    /// strict reading reveals programs that deadlock on it, such as a host that releases a kernel
    /// only after work behind an allocation is complete. The observed reading reveals programs that
    /// rely on the order that the barrier happens to create.
    pub implicit_synchronisation: Reading,
    /// Rule 35, reuse of freed pool memory across streams. Observed: memory whose free has run may
    /// be reused by any stream, and when the pool cannot grow, an allocation waits on the device
    /// for a pending free of another stream. Strict: all three reuse policies are off, so only the
    /// freeing stream reuses memory before the host has synchronised.
    pub cross_stream_reuse: Reading,
    /// Rules 38 and 39, access to another device's memory. Observed: access is checked when an
    /// operation runs, and giving a pool's access to a device without peer access fails. Strict:
    /// access counts only for operations enqueued after it was given, and the pool of a device that
    /// has no memory yet accepts any device, after which its next allocation fails. Under both
    /// readings a pool's access concerns memory that was already allocated.
    pub peer_access: Reading,
    /// Rule 62, destroying an executable graph. Observed: the call returns at once, as it nearly
    /// always does. Strict: it blocks until every device is idle, as it sometimes does.
    pub graph_destruction: Reading,
    /// Rule 63, kernels of different streams at the same time. Under both readings a kernel that
    /// polls memory goes on when another operation has written it. Strict: that is reported,
    /// because the other operation may as well run only after the kernel.
    pub concurrent_kernels: Reading,
}

impl Rules {
    /// Returns the readings observed on hardware, the default.
    #[must_use]
    pub fn observed() -> Self {
        Self::all(Reading::Observed)
    }

    /// Returns the most hostile documented reading of every rule.
    #[must_use]
    pub fn strict() -> Self {
        Self::all(Reading::Strict)
    }

    fn all(reading: Reading) -> Self {
        Self {
            small_upload: reading,
            pageable_upload: reading,
            pageable_download: reading,
            implicit_synchronisation: reading,
            cross_stream_reuse: reading,
            peer_access: reading,
            graph_destruction: reading,
            concurrent_kernels: reading,
        }
    }

    /// Returns the names of the rules, in the form that `rules=` of
    /// [`SimConfig::parse`](crate::SimConfig::parse) reads.
    #[must_use]
    pub fn names() -> [&'static str; 8] {
        Self::observed().named().map(|(name, _)| name)
    }

    fn named(&mut self) -> [(&'static str, &mut Reading); 8] {
        [
            ("small_upload", &mut self.small_upload),
            ("pageable_upload", &mut self.pageable_upload),
            ("pageable_download", &mut self.pageable_download),
            (
                "implicit_synchronisation",
                &mut self.implicit_synchronisation,
            ),
            ("cross_stream_reuse", &mut self.cross_stream_reuse),
            ("peer_access", &mut self.peer_access),
            ("graph_destruction", &mut self.graph_destruction),
            ("concurrent_kernels", &mut self.concurrent_kernels),
        ]
    }
}

impl fmt::Display for Rules {
    /// Writes `observed`, `strict`, or the names of the strict rules joined with `+`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rules = *self;
        let mut strict: Vec<&str> = Vec::new();
        for (name, reading) in rules.named() {
            strict.extend(reading.is_strict().then_some(name));
        }
        match strict.len() {
            0 => f.write_str("observed"),
            8 => f.write_str("strict"),
            _ => f.write_str(&strict.join("+")),
        }
    }
}

impl FromStr for Rules {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut rules = Self::observed();
        match text {
            "observed" => {}
            "strict" => rules = Self::strict(),
            _ => {
                for part in text.split('+') {
                    let mut named = rules.named().into_iter();
                    let (_, reading) = named.find(|(name, _)| *name == part).ok_or_else(|| {
                        format!(
                            "there are no rules `{part}`; use observed, strict, or rule names \
                             joined with +"
                        )
                    })?;
                    *reading = Reading::Strict;
                }
            }
        }
        Ok(rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_of_rules_round_trips_through_text() {
        for choice in 0..256 {
            let mut rules = Rules::observed();
            for (bit, (_, reading)) in rules.named().into_iter().enumerate() {
                if choice >> bit & 1 == 1 {
                    *reading = Reading::Strict;
                }
            }
            assert_eq!(rules.to_string().parse(), Ok(rules));
        }
    }
}
