//! The checks of operands, before anything is enqueued.

use std::ops::Range;

use super::{Collectives, element::DataType};
use millstream::{Device, DeviceOperand, UsageError, UsageErrorKind};

pub(super) struct Checks<'c> {
    pub(super) collectives: &'c Collectives,
    pub(super) operation: &'static str,
    pub(super) element: DataType,
}

type Checked<T = ()> = Result<T, UsageError>;

impl Checks<'_> {
    fn refuse<T>(&self, problem: UsageErrorKind) -> Checked<T> {
        Err(UsageError::new(self.operation, problem))
    }

    fn rank(&self, local: usize) -> usize {
        self.collectives.locals[local].rank
    }

    /// Returns the number of elements of an array.
    pub(super) fn len(&self, span: &DeviceOperand<'_>) -> usize {
        span.bytes() / self.element.size()
    }

    /// Checks that there is one array for each local rank, on the rank's device.
    pub(super) fn arrays(&self, spans: &[DeviceOperand<'_>]) -> Checked {
        let ranks = self.collectives.locals.len();
        if spans.len() != ranks {
            return self.refuse(UsageErrorKind::ArrayCount {
                arrays: spans.len(),
                ranks,
            });
        }
        for (local, span) in spans.iter().enumerate() {
            self.on_device(local, &span.device())?;
        }
        Ok(())
    }

    pub(super) fn equal(&self, spans: &[DeviceOperand<'_>]) -> Checked {
        let expected = self.len(&spans[0]);
        for (local, span) in spans.iter().enumerate() {
            let len = self.len(span);
            if len != expected {
                return self.refuse(UsageErrorKind::RankLength {
                    rank: self.rank(local),
                    len,
                    other_rank: self.rank(0),
                    other_len: expected,
                });
            }
        }
        Ok(())
    }

    /// Checks that the arrays, of equal lengths, can be divided in one part for each rank.
    pub(super) fn divisible(&self, spans: &[DeviceOperand<'_>]) -> Checked {
        let (len, ranks) = (self.len(&spans[0]), self.collectives.ranks);
        if !len.is_multiple_of(ranks) {
            let rank = self.rank(0);
            return self.refuse(UsageErrorKind::Indivisible { rank, len, ranks });
        }
        Ok(())
    }

    /// Checks that each target has the length that follows from its source's.
    pub(super) fn targets(
        &self,
        sources: &[DeviceOperand<'_>],
        targets: &[DeviceOperand<'_>],
        needed_len: usize,
    ) -> Checked {
        for (local, (source, target)) in sources.iter().zip(targets).enumerate() {
            let target_len = self.len(target);
            if target_len != needed_len {
                return self.refuse(UsageErrorKind::TargetLength {
                    rank: self.rank(local),
                    source_len: self.len(source),
                    target_len,
                    needed_len,
                });
            }
        }
        Ok(())
    }

    /// Checks that there is one length for each rank, and that each local rank's source has the
    /// length of its rank. Returns the range of bytes of each rank's part in all parts together.
    pub(super) fn uneven(
        &self,
        sources: &[DeviceOperand<'_>],
        lengths: &[usize],
    ) -> Checked<Vec<Range<usize>>> {
        let ranks = self.collectives.ranks;
        if lengths.len() != ranks {
            return self.refuse(UsageErrorKind::LengthCount {
                lengths: lengths.len(),
                ranks,
            });
        }
        for (local, source) in sources.iter().enumerate() {
            let (rank, len) = (self.rank(local), self.len(source));
            let passed_len = lengths[rank];
            if len != passed_len {
                return self.refuse(UsageErrorKind::PassedLength {
                    rank,
                    len,
                    passed_len,
                });
            }
        }
        let mut end = 0_usize;
        let range = |&len: &usize| {
            let start = end;
            // Saturated, it is the end of no array.
            end = end.saturating_add(len.saturating_mul(self.element.size()));
            start..end
        };
        Ok(lengths.iter().map(range).collect())
    }

    /// Returns the index of a rank among the local ranks.
    pub(super) fn local(&self, rank: usize) -> Checked<usize> {
        self.in_range(rank)?;
        let locals = &self.collectives.locals;
        match locals.iter().position(|local| local.rank == rank) {
            Some(local) => Ok(local),
            None => self.refuse(UsageErrorKind::RemoteRank {
                rank,
                local_ranks: self.collectives.local_ranks(),
            }),
        }
    }

    pub(super) fn in_range(&self, rank: usize) -> Checked {
        let ranks = self.collectives.ranks;
        if rank < ranks {
            return Ok(());
        }
        self.refuse(UsageErrorKind::NoSuchRank { rank, ranks })
    }

    /// Checks that a local rank's array is on the rank's device.
    pub(super) fn on_device(&self, local: usize, device: &Device) -> Checked {
        let own = self.collectives.locals[local].device();
        if own == *device {
            return Ok(());
        }
        let (array_device, rank_device) = device.told_apart(&own);
        self.refuse(UsageErrorKind::RankDevice {
            rank: self.rank(local),
            array_device,
            rank_device,
        })
    }
}
