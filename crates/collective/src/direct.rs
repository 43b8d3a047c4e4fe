//! The direct backend: collectives as copies between devices and reduction kernels, each an
//! ordinary tracked operation.
//!
//! For an all-reduce each array is divided into one chunk for each rank. The device of a rank reads
//! its chunk of all arrays over the links, and folds them in the order of the ranks into its own;
//! then it copies the result to the other devices. Each chunk of an array is read and written by
//! the same device only, so no device waits for another. The tracker orders these operations as it
//! orders those of a program, so they neither deadlock nor race.
//!
//! A kernel reads another device's memory directly if the pair has peer access. Otherwise the chunk
//! is first copied to the kernel's device, through the host.

#![allow(unsafe_code, reason = "copies to the targets of its operations")]

use std::{fmt, ops::Range, panic::Location, sync::Arc};

use super::{
    CollectiveKind, CollectiveOp, Part, Reduce,
    fold::{FOLDED_MAX, FoldKernels, Term},
    local_rank::LocalRank,
    operation::Backend,
};
use millstream::{
    Buffer, DeviceOperand, ReadOperand, Result,
    groups::{self, check_contents},
};

/// The multiple of bytes at which chunks begin, as far as the length allows: the alignment of
/// arrays.
const CHUNK_ALIGNMENT: usize = 256;

/// Collectives among the devices of one process.
pub(super) struct DirectBackend {
    locals: Arc<[LocalRank]>,
    /// For each rank and each other one, whether kernels of the first can access the memory of the
    /// second.
    reaches: Vec<Vec<bool>>,
}

impl DirectBackend {
    /// Creates the backend of ranks that are all in this process, and sets up peer access.
    pub(super) fn new(locals: Arc<[LocalRank]>) -> Result<Self> {
        let reaches = locals
            .iter()
            .map(|from| {
                let reach = |to: &LocalRank| {
                    let status = from.device().peer_status(&to.device());
                    status.map(|status| status.is_direct())
                };
                locals.iter().map(reach).collect()
            })
            .collect::<Result<_>>()?;
        Ok(Self { locals, reaches })
    }

    fn ranks(&self) -> usize {
        self.locals.len()
    }

    /// Returns the other ranks, beginning behind `rank`, so that not all devices use one at a time.
    fn others(&self, rank: usize) -> impl Iterator<Item = usize> {
        let ranks = self.ranks();
        (1..ranks).map(move |distance| (rank + distance) % ranks)
    }

    /// Returns an error if the contents of a source are invalid, before the first of several
    /// operations is enqueued.
    fn check_contents(&self, group: &[CollectiveOp<'_>]) -> Result<()> {
        let parts = group.iter().flat_map(|operation| &operation.parts);
        let sources = parts.filter_map(|part| part.source.as_ref());
        check_contents(sources)
    }

    /// Copies a span on the stream of a rank, which has one of the two.
    fn copy(
        &self,
        rank: usize,
        from: &DeviceOperand<'_>,
        to: &DeviceOperand<'_>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        // SAFETY: the targets of operations are `WriteOperand`s that the calls borrow, and the
        // other targets are the backend's own memory.
        unsafe { groups::copy(&self.locals[rank].stream, from, to, location) }
    }

    /// Prepares the reductions of chunks of the given sizes in bytes, one for each rank: loads the
    /// kernels and allocates memory. Ranks with a chunk of no bytes take no part.
    fn folders(
        &self,
        operation: &CollectiveOp<'_>,
        reduce: Reduce,
        chunk_bytes: impl Fn(usize) -> usize,
    ) -> Result<Vec<Option<Folder<'_>>>> {
        let folder = |rank| match chunk_bytes(rank) {
            0 => Ok(None),
            bytes => Folder::new(self, rank, operation, reduce, bytes).map(Some),
        };
        (0..self.ranks()).map(folder).collect()
    }

    fn all_reduce(&self, operation: &CollectiveOp<'_>, reduce: Reduce) -> Result<()> {
        let arrays: Vec<_> = operation.parts.iter().map(target).collect();
        let chunk = |rank: usize| {
            chunk_of(
                arrays[0].bytes(),
                operation.element.size(),
                rank,
                self.ranks(),
            )
        };
        let folders = self.folders(operation, reduce, |rank| chunk(rank).len())?;
        for folder in folders.iter().flatten() {
            let range = chunk(folder.rank);
            let chunks: Vec<_> = arrays.iter().map(|array| sub(array, &range)).collect();
            folder.fold(&chunks[folder.rank], &chunks)?;
        }
        for folder in folders.iter().flatten() {
            let (rank, range) = (folder.rank, chunk(folder.rank));
            let result = sub(arrays[rank], &range);
            for other in self.others(rank) {
                let replaced = sub(arrays[other], &range);
                self.copy(rank, &result, &replaced, operation.location)?;
            }
        }
        Ok(())
    }

    fn reduce_scatter(&self, operation: &CollectiveOp<'_>, reduce: Reduce) -> Result<()> {
        let bytes = target(&operation.parts[0]).bytes();
        let folders = self.folders(operation, reduce, |_| bytes)?;
        for folder in folders.iter().flatten() {
            let rank = folder.rank;
            let parts = operation.parts.iter();
            let chunks: Vec<_> = parts
                .map(|part| sub(source(part), &equal(bytes)(rank)))
                .collect();
            let target = target(&operation.parts[rank]);
            // The target has the place of the rank's own chunk.
            self.copy(rank, &chunks[rank], target, operation.location)?;
            folder.fold(target, &chunks)?;
        }
        Ok(())
    }

    fn reduce(&self, operation: &CollectiveOp<'_>, reduce: Reduce, root: usize) -> Result<()> {
        let arrays: Vec<_> = operation
            .parts
            .iter()
            .map(|part| source(part).clone())
            .collect();
        let bytes = arrays[0].bytes();
        let folders = self.folders(
            operation,
            reduce,
            |rank| if rank == root { bytes } else { 0 },
        )?;
        let mut folders = folders.iter().flatten();
        folders.try_for_each(|folder| folder.fold(&arrays[root], &arrays))
    }

    fn broadcast(&self, operation: &CollectiveOp<'_>, root: usize) -> Result<()> {
        for rank in self.others(root) {
            let (from, to) = (
                target(&operation.parts[root]),
                target(&operation.parts[rank]),
            );
            self.copy(rank, from, to, operation.location)?;
        }
        Ok(())
    }

    /// Copies to each rank's target, at the place of each source rank, the spans that `from`
    /// returns for a source and a target rank.
    fn gather<'a>(
        &self,
        operation: &CollectiveOp<'a>,
        place: impl Fn(usize) -> Range<usize>,
        from: impl Fn(usize, usize) -> DeviceOperand<'a>,
    ) -> Result<()> {
        for (rank, part) in operation.parts.iter().enumerate() {
            let ranks = [rank].into_iter().chain(self.others(rank));
            let parts: Vec<_> = ranks
                .map(|from_rank| (from(from_rank, rank), place(from_rank)))
                .collect();
            let stream = &self.locals[rank].stream;
            // SAFETY: as in `copy`.
            unsafe { groups::copy_parts(stream, &parts, target(part), operation.location) }?;
        }
        Ok(())
    }

    /// Copies messages, each on the stream of the receiver. Those between two ranks are matched in
    /// order.
    fn messages(&self, group: &[CollectiveOp<'_>]) -> Result<()> {
        for (index, receive) in group.iter().enumerate() {
            let CollectiveKind::Recv { from } = receive.kind else {
                continue;
            };
            let to = receive.parts[0].local;
            let is_receive = |other: &&CollectiveOp<'_>| {
                other.kind == receive.kind && other.parts[0].local == to
            };
            let is_send = |other: &&CollectiveOp<'_>| {
                other.kind == CollectiveKind::Send { to } && other.parts[0].local == from
            };
            let earlier = group[..index].iter().filter(is_receive).count();
            let send = group.iter().filter(is_send).nth(earlier);
            let send = send.expect("messages between local ranks match");
            let (sent, received) = (source(&send.parts[0]), target(&receive.parts[0]));
            self.copy(to, sent, received, receive.location)?;
        }
        Ok(())
    }
}

impl Backend for DirectBackend {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn submit(&self, group: &[CollectiveOp<'_>]) -> Result<()> {
        self.check_contents(group)?;
        let operation = &group[0];
        let reduce = operation.reduce.unwrap_or(Reduce::Sum);
        match operation.kind {
            CollectiveKind::AllReduce => self.all_reduce(operation, reduce),
            CollectiveKind::ReduceScatter => self.reduce_scatter(operation, reduce),
            CollectiveKind::Reduce { root } => self.reduce(operation, reduce, root),
            CollectiveKind::Broadcast { root } => self.broadcast(operation, root),
            CollectiveKind::AllGather => {
                let bytes = source(&operation.parts[0]).bytes();
                self.gather(operation, equal(bytes), |from, _| {
                    source(&operation.parts[from]).clone()
                })
            }
            CollectiveKind::AllGatherUneven => self.gather(
                operation,
                |from| operation.ranges[from].clone(),
                |from, _| source(&operation.parts[from]).clone(),
            ),
            CollectiveKind::AllToAll => {
                let bytes = source(&operation.parts[0]).bytes() / self.ranks();
                self.gather(operation, equal(bytes), |from, to| {
                    sub(source(&operation.parts[from]), &equal(bytes)(to))
                })
            }
            CollectiveKind::Send { .. } | CollectiveKind::Recv { .. } => self.messages(group),
        }
    }
}

impl fmt::Debug for DirectBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DirectBackend({:?})", self.locals)
    }
}

/// A device that reduces one chunk.
struct Folder<'b> {
    backend: &'b DirectBackend,
    rank: usize,
    reduce: Reduce,
    location: &'static Location<'static>,
    kernels: FoldKernels,
    /// For each rank whose memory the device's kernels cannot access, memory for its chunk.
    copies: Vec<Option<Buffer<u8>>>,
    /// Memory for the result of the ranks before this one, if they do not fit in one launch.
    before: Option<Buffer<u8>>,
}

impl<'b> Folder<'b> {
    fn new(
        backend: &'b DirectBackend,
        rank: usize,
        operation: &CollectiveOp<'_>,
        reduce: Reduce,
        chunk_bytes: usize,
    ) -> Result<Self> {
        let (label, location) = (operation.kind.label(), operation.location);
        let stream = &backend.locals[rank].stream;
        let kernels = FoldKernels::load(stream, operation.element)?;
        // SAFETY: the first operation on the memory is a copy that fills it.
        let allocate = || unsafe { groups::scratch(stream, chunk_bytes, label, location) };
        let copy = |&reaches: &bool| (!reaches).then(allocate).transpose();
        let copies = backend.reaches[rank]
            .iter()
            .map(copy)
            .collect::<Result<_>>()?;
        let before = (rank >= FOLDED_MAX).then(allocate).transpose()?;
        Ok(Self {
            backend,
            rank,
            reduce,
            location,
            kernels,
            copies,
            before,
        })
    }

    /// Folds the chunks of all ranks in their order into `target`, which stands for this rank's.
    fn fold(&self, target: &DeviceOperand<'_>, chunks: &[DeviceOperand<'_>]) -> Result<()> {
        let mut terms = Vec::with_capacity(chunks.len());
        for (rank, (chunk, copy)) in chunks.iter().zip(&self.copies).enumerate() {
            if rank == self.rank {
                terms.push(Term::Own);
            } else if let Some(copy) = copy {
                let copy = copy.operand();
                self.backend.copy(self.rank, chunk, &copy, self.location)?;
                terms.push(Term::Array(copy));
            } else {
                terms.push(Term::Array(chunk.clone()));
            }
        }
        let Some(before) = &self.before else {
            return self.fold_terms(target, terms, chunks.len());
        };
        let before = before.operand();
        let own_and_later = terms.split_off(self.rank);
        let Some(Term::Array(first)) = terms.first() else {
            unreachable!("the ranks before this one are others");
        };
        self.backend
            .copy(self.rank, first, &before, self.location)?;
        terms[0] = Term::Own;
        self.fold_terms(&before, terms, 1)?;
        let mut terms = own_and_later;
        terms.insert(0, Term::Array(before));
        self.fold_terms(target, terms, chunks.len())
    }

    /// Folds any number of terms, of which one of the first is the target.
    fn fold_terms(
        &self,
        target: &DeviceOperand<'_>,
        mut terms: Vec<Term<'_>>,
        divisor: usize,
    ) -> Result<()> {
        let stream = &self.backend.locals[self.rank].stream;
        while terms.len() > 1 {
            let rest = terms.split_off(terms.len().min(FOLDED_MAX));
            let is_last = rest.is_empty();
            // The division is part of the last launch.
            let reduce = match self.reduce {
                Reduce::Avg if divisor == 1 || !is_last => Reduce::Sum,
                reduce => reduce,
            };
            let reduction = (reduce, divisor);
            self.kernels
                .fold(stream, target, &terms, reduction, self.location)?;
            terms = rest;
            terms.insert(0, Term::Own);
        }
        Ok(())
    }
}

/// Returns the range of bytes of a rank's chunk of arrays of `bytes` bytes.
fn chunk_of(bytes: usize, element_bytes: usize, rank: usize, ranks: usize) -> Range<usize> {
    let unit = CHUNK_ALIGNMENT.max(element_bytes);
    let chunk_bytes = bytes.div_ceil(ranks).next_multiple_of(unit);
    let start = (rank * chunk_bytes).min(bytes);
    start..(start + chunk_bytes).min(bytes)
}

/// Returns the ranges of parts of `bytes` bytes each, by their numbers.
fn equal(bytes: usize) -> impl Fn(usize) -> Range<usize> {
    move |part| part * bytes..(part + 1) * bytes
}

fn sub<'a>(span: &DeviceOperand<'a>, range: &Range<usize>) -> DeviceOperand<'a> {
    span.part(range.clone())
}

fn source<'p, 'a>(part: &'p Part<'a>) -> &'p DeviceOperand<'a> {
    part.source.as_ref().expect("each rank has a source")
}

fn target<'p, 'a>(part: &'p Part<'a>) -> &'p DeviceOperand<'a> {
    part.target.as_ref().expect("each rank has a target")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_the_array_and_begin_at_aligned_bytes() {
        for (bytes, ranks) in [(0, 3), (4, 3), (256, 4), (1000, 4), (1028, 4), (1 << 20, 7)] {
            let chunks: Vec<_> = (0..ranks)
                .map(|rank| chunk_of(bytes, 4, rank, ranks))
                .collect();
            assert_eq!((chunks[0].start, chunks[ranks - 1].end), (0, bytes));
            for pair in chunks.windows(2) {
                assert_eq!(pair[0].end, pair[1].start);
                assert!(pair[1].is_empty() || pair[1].start % CHUNK_ALIGNMENT == 0);
            }
        }
        assert_eq!(chunk_of(1028, 4, 1, 4), 512..1024);
    }
}
