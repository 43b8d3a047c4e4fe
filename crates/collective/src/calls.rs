//! The collectives.

use std::{ops::Range, panic::Location};

use super::{
    CollectiveElement, CollectiveKind, CollectiveOp, Collectives, Group, Part, Reduce,
    element::DataType, operands::Checks,
};
use millstream::{DeviceOperand, ReadOperand, Result, UsageError, UsageErrorKind, WriteOperand};

type Checked<T = ()> = Result<T, UsageError>;

impl Collectives {
    /// Combines the arrays of all ranks element by element. Every array gets the result. All have
    /// the same length.
    ///
    /// # Errors
    ///
    /// If there is not one array for each local rank, an array is not on its rank's device, the
    /// lengths differ, the average of integers is asked for, memory is exhausted, or a device is
    /// lost.
    #[track_caller]
    pub fn all_reduce<T: CollectiveElement, O: WriteOperand<T>>(
        &self,
        arrays: &mut [O],
        reduce: Reduce,
    ) -> Result<()> {
        self.call_in_place::<T>(CollectiveKind::AllReduce, Some(reduce), spans(arrays))
    }

    /// Combines the arrays of all ranks element by element. The target of each rank gets its part
    /// of the result: the rank-th of as many equal parts as there are ranks. The sources have equal
    /// lengths.
    ///
    /// # Errors
    ///
    /// As [`all_reduce`](Self::all_reduce); also if the length of the sources is not a multiple of
    /// the number of ranks, or a target does not have the length of a part.
    #[track_caller]
    pub fn reduce_scatter<T: CollectiveElement, R: ReadOperand<T>, W: WriteOperand<T>>(
        &self,
        sources: &[R],
        targets: &mut [W],
        reduce: Reduce,
    ) -> Result<()> {
        let len = |source_len| source_len / self.ranks;
        let arrays = (spans(sources), spans(targets));
        self.call_from_to::<T>(CollectiveKind::ReduceScatter, Some(reduce), arrays, len)
    }

    /// Concatenates the sources of all ranks in the order of the ranks. Every target gets the
    /// result. The sources have equal lengths.
    ///
    /// # Errors
    ///
    /// If there is not one source and one target for each local rank, an array is not on its rank's
    /// device, the sources differ in length, a target does not have the length of all sources
    /// together, memory is exhausted, or a device is lost.
    #[track_caller]
    pub fn all_gather<T: CollectiveElement, R: ReadOperand<T>, W: WriteOperand<T>>(
        &self,
        sources: &[R],
        targets: &mut [W],
    ) -> Result<()> {
        // Saturated, it is the length of no array.
        let len = |source_len: usize| source_len.saturating_mul(self.ranks);
        let arrays = (spans(sources), spans(targets));
        self.call_from_to::<T>(CollectiveKind::AllGather, None, arrays, len)
    }

    /// Concatenates the sources of all ranks in the order of the ranks, which may differ in length:
    /// `lengths` has the length of each rank's source, and is the same for all ranks. Every target
    /// gets the result.
    ///
    /// # Errors
    ///
    /// If there is not one length for each rank, there is not one source and one target for each
    /// local rank, an array is not on its rank's device, a source does not have its rank's length,
    /// a target does not have the length of all sources together, memory is exhausted, or a device
    /// is lost. Lengths that differ between processes are found as differing calls are: by the
    /// deadline or when the group is closed.
    #[track_caller]
    pub fn all_gather_uneven<T: CollectiveElement, R: ReadOperand<T>, W: WriteOperand<T>>(
        &self,
        lengths: &[usize],
        sources: &[R],
        targets: &mut [W],
    ) -> Result<()> {
        let (sources, targets) = (spans(sources), spans(targets));
        self.call::<T>(CollectiveKind::AllGatherUneven, None, |checks| {
            checks.arrays(&sources)?;
            checks.arrays(&targets)?;
            let ranges = checks.uneven(&sources, lengths)?;
            let needed_bytes = ranges.last().map_or(0, |last| last.end);
            checks.targets(&sources, &targets, needed_bytes / T::TYPE.size())?;
            Ok((from_to(&sources, &targets), ranges))
        })
    }

    /// Copies the array of the rank `root` to those of all others. All have the same length.
    ///
    /// # Errors
    ///
    /// If there is no rank `root`, there is not one array for each local rank, an array is not on
    /// its rank's device, the lengths differ, memory is exhausted, or a device is lost.
    #[track_caller]
    pub fn broadcast<T: CollectiveElement, O: WriteOperand<T>>(
        &self,
        root: usize,
        arrays: &mut [O],
    ) -> Result<()> {
        self.call_in_place::<T>(CollectiveKind::Broadcast { root }, None, spans(arrays))
    }

    /// Combines the arrays of all ranks element by element. The array of the rank `root` gets the
    /// result, and the others keep their contents. All have the same length.
    ///
    /// # Errors
    ///
    /// As [`all_reduce`](Self::all_reduce); also if there is no rank `root`.
    #[track_caller]
    pub fn reduce<T: CollectiveElement, O: WriteOperand<T>>(
        &self,
        root: usize,
        arrays: &mut [O],
        reduce: Reduce,
    ) -> Result<()> {
        self.call_in_place::<T>(CollectiveKind::Reduce { root }, Some(reduce), spans(arrays))
    }

    /// Exchanges parts: the rank i sends the j-th part of its source to the rank j, whose target
    /// gets it as its i-th part. The parts are equal, as many as there are ranks, and all arrays
    /// have the same length.
    ///
    /// # Errors
    ///
    /// As [`all_gather`](Self::all_gather), where each target has the length of its source; also if
    /// the length is not a multiple of the number of ranks.
    #[track_caller]
    pub fn all_to_all<T: CollectiveElement, R: ReadOperand<T>, W: WriteOperand<T>>(
        &self,
        sources: &[R],
        targets: &mut [W],
    ) -> Result<()> {
        let arrays = (spans(sources), spans(targets));
        self.call_from_to::<T>(CollectiveKind::AllToAll, None, arrays, |len| len)
    }

    /// Sends arrays between ranks: `build` collects sends and receives, which then run together,
    /// in no particular order. The sends from one rank to another match the receives there in the
    /// order of the calls.
    ///
    /// # Errors
    ///
    /// If `build` returns an error, a send or a receive between two local ranks has no match, the
    /// two differ in length or element type, an array is not on its rank's device, memory is
    /// exhausted, or a device is lost.
    #[track_caller]
    pub fn group<'a>(&'a self, build: impl FnOnce(&mut Group<'a>) -> Result<()>) -> Result<()> {
        let location = Location::caller();
        let mut group = Group::new(self);
        build(&mut group)?;
        group.submit(location)
    }

    /// Checks and enqueues a collective of arrays of equal lengths, each of which a rank reads,
    /// writes, or both.
    #[track_caller]
    fn call_in_place<T: CollectiveElement>(
        &self,
        kind: CollectiveKind,
        reduce: Option<Reduce>,
        arrays: Vec<DeviceOperand<'_>>,
    ) -> Result<()> {
        self.call::<T>(kind, reduce, |checks| {
            if let CollectiveKind::Broadcast { root } | CollectiveKind::Reduce { root } = kind {
                checks.in_range(root)?;
            }
            checks.arrays(&arrays)?;
            checks.equal(&arrays)?;
            let mut parts = from_to(&arrays, &arrays);
            for part in &mut parts {
                let rank = self.locals[part.local].rank;
                match kind {
                    CollectiveKind::Broadcast { root } if root != rank => part.source = None,
                    CollectiveKind::Reduce { root } if root != rank => part.target = None,
                    _ => {}
                }
            }
            Ok((parts, Vec::new()))
        })
    }

    /// Checks and enqueues a collective of sources of equal lengths and targets, whose length
    /// `target_len` returns for that of the sources.
    #[track_caller]
    fn call_from_to<'a, T: CollectiveElement>(
        &self,
        kind: CollectiveKind,
        reduce: Option<Reduce>,
        (sources, targets): (Vec<DeviceOperand<'a>>, Vec<DeviceOperand<'a>>),
        target_len: impl FnOnce(usize) -> usize,
    ) -> Result<()> {
        self.call::<T>(kind, reduce, |checks| {
            checks.arrays(&sources)?;
            checks.arrays(&targets)?;
            checks.equal(&sources)?;
            if kind != CollectiveKind::AllGather {
                checks.divisible(&sources)?;
            }
            checks.targets(&sources, &targets, target_len(checks.len(&sources[0])))?;
            Ok((from_to(&sources, &targets), Vec::new()))
        })
    }

    /// Checks and enqueues one collective. `operands` checks the operands, and returns them and the
    /// ranges of uneven parts.
    #[track_caller]
    fn call<'a, T: CollectiveElement>(
        &self,
        kind: CollectiveKind,
        reduce: Option<Reduce>,
        operands: impl FnOnce(&Checks<'_>) -> Checked<(Vec<Part<'a>>, Vec<Range<usize>>)>,
    ) -> Result<()> {
        let location = Location::caller();
        let element = T::TYPE;
        let checks = Checks {
            collectives: self,
            operation: kind.label(),
            element,
        };
        let checked = || -> Checked<CollectiveOp<'a>> {
            check_reduction(kind, reduce, element)?;
            let (parts, ranges) = operands(&checks)?;
            Ok(CollectiveOp {
                kind,
                element,
                reduce,
                location,
                ranges,
                parts,
            })
        };
        let operation = checked().map_err(|usage_error| usage_error.at(location))?;
        self.submit(vec![operation])
    }
}

fn check_reduction(kind: CollectiveKind, reduce: Option<Reduce>, element: DataType) -> Checked {
    if reduce == Some(Reduce::Avg) && !element.is_float() {
        let problem = UsageErrorKind::IntegerAverage {
            element: element.name(),
        };
        return Err(UsageError::new(kind.label(), problem));
    }
    Ok(())
}

fn spans<T, O: ReadOperand<T>>(operands: &[O]) -> Vec<DeviceOperand<'_>> {
    operands.iter().map(|operand| operand.operand()).collect()
}

fn from_to<'a>(sources: &[DeviceOperand<'a>], targets: &[DeviceOperand<'a>]) -> Vec<Part<'a>> {
    let both = sources.iter().zip(targets).enumerate();
    both.map(|(local, (source, target))| Part {
        local,
        source: Some(source.clone()),
        target: Some(target.clone()),
    })
    .collect()
}
