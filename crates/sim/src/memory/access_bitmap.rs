//! Bitmaps of the bytes of an allocation that a kernel reads, writes and updates atomically, set
//! concurrently by all cores while it runs.

use std::{
    ops::Range,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use smallvec::SmallVec;

use crate::memory::bitmap::{Bitmap, CHUNK_WORDS, Chunk, WORD_BYTES};

/// The number of words that are looked at together for a mark.
const SKIPPED_WORDS: usize = 16;

/// The words of a chunk of which no byte is marked.
static UNMARKED: [AtomicU64; CHUNK_WORDS] = [const { AtomicU64::new(0) }; CHUNK_WORDS];

/// A set of access kinds: plain loads, plain stores, and synchronising accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessFlags(u8);

impl AccessFlags {
    /// Plain loads.
    pub const READ: Self = Self(1);
    /// Plain stores.
    pub const WRITE: Self = Self(2);
    /// Atomic operations, and the loads and stores that synchronise threads (volatile, relaxed,
    /// acquire, release).
    pub const UPDATE: Self = Self(4);
    /// The loads among these. A bitmap returns them as [`UPDATE`](Self::UPDATE).
    pub(crate) const STRONG_READ: Self = Self(8);
    /// The stores among these. A bitmap returns them as [`UPDATE`](Self::UPDATE), with this mark if
    /// the launch did not access the bytes before: then it reads only what it has stored.
    pub(crate) const STRONG_WRITE: Self = Self(16);

    /// Returns whether the set contains all of `part`.
    #[must_use]
    pub fn has(self, part: Self) -> bool {
        self.0 & part.0 == part.0
    }

    /// Returns the set of plain loads, plain stores and synchronising accesses, and the mark.
    fn of([read, written, updated, stored]: [u64; 4]) -> Self {
        Self((read | written << 1 | updated << 2 | stored << 4) as u8)
    }

    /// Returns the set without the mark of a first store.
    pub(crate) fn accesses(self) -> Self {
        Self(self.0 & !Self::STRONG_WRITE.0)
    }
}

impl std::ops::BitOr for AccessFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The bytes of one allocation that a launch accessed. Marking a byte again costs a load and a
/// comparison.
///
/// ```
/// use millstream_sim::exec::{AccessBitmap, AccessFlags};
/// let bitmap = AccessBitmap::new(256);
/// bitmap.note(AccessFlags::READ, 0, 128);
/// bitmap.note(AccessFlags::WRITE, 128, 4);
/// bitmap.note(AccessFlags::READ, 128, 4); // reads the kernel's own writes: not recorded
/// assert_eq!(bitmap.runs(), [(0..128, AccessFlags::READ), (128..132, AccessFlags::WRITE)]);
/// ```
#[derive(Debug)]
pub struct AccessBitmap {
    bytes: usize,
    /// True if all marks are made by one thread, which needs no locked instructions.
    is_sole: bool,
    reads: Bitmap,
    writes: Bitmap,
    updates: Bitmap,
    strong_reads: Bitmap,
    /// Updates and strong reads of bytes that the launch wrote before.
    late: [Bitmap; 2],
    /// Bytes that the launch first accessed by a strong store.
    stored: Bitmap,
}

impl AccessBitmap {
    /// Creates an empty bitmap for an allocation of `bytes` bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self {
            bytes,
            is_sole: false,
            reads: Bitmap::default(),
            writes: Bitmap::default(),
            updates: Bitmap::default(),
            strong_reads: Bitmap::default(),
            late: Default::default(),
            stored: Bitmap::default(),
        }
    }

    /// Sets whether a single thread at a time makes all marks.
    pub(crate) fn marked_by_one_thread(self, is_sole: bool) -> Self {
        Self { is_sole, ..self }
    }

    /// Marks `bytes` bytes from `offset`, which must be within the allocation. A read of bytes that
    /// the launch wrote before is not recorded: an operation that is unordered with the read is
    /// unordered with the write too. An update of bytes that it writes later counts as a read, too:
    /// it needs what was there before. `flags` must be a single access kind.
    #[inline(always)]
    pub fn note(&self, flags: AccessFlags, offset: usize, bytes: usize) {
        let low = offset % WORD_BYTES;
        if (1..=WORD_BYTES - low).contains(&bytes) {
            let mask = u64::MAX >> (WORD_BYTES - bytes) << low;
            return self.mark(flags, offset / WORD_BYTES, mask);
        }
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let chunk = at / (WORD_BYTES * CHUNK_WORDS);
            let chunk_end = end.min((chunk + 1) * WORD_BYTES * CHUNK_WORDS);
            let kind = self.kind(flags, chunk);
            while at < chunk_end {
                let (word, low) = (at / WORD_BYTES, at % WORD_BYTES);
                let count = (WORD_BYTES - low).min(end - at);
                let mask = (u64::MAX >> (WORD_BYTES - count)) << low;
                self.set(&kind, word, mask);
                at += count;
            }
        }
    }

    /// Marks values at multiples of their size like [`Self::note`], neighbours in a word at once.
    #[inline]
    pub(crate) fn note_values(
        &self,
        flags: AccessFlags,
        offsets: impl Iterator<Item = usize>,
        bytes: usize,
    ) {
        let is_read = flags == AccessFlags::READ && self.writes.chunks.get().is_none();
        let chunks = self.reads.chunks.get().filter(|_| is_read);
        let chunks = chunks.map_or(&[][..], |chunks| &chunks[..]);
        let (mut word, mut mask) = (0, 0);
        for offset in offsets {
            if offset / WORD_BYTES != word {
                self.mark_in(chunks, flags, word, mask);
                (word, mask) = (offset / WORD_BYTES, 0);
            }
            mask |= ((1 << bytes) - 1) << (offset % WORD_BYTES);
        }
        self.mark_in(chunks, flags, word, mask);
    }

    /// Marks in the chunk of the word if `chunks` has it, else like [`Self::mark`].
    #[inline(always)]
    fn mark_in(&self, chunks: &[OnceLock<Chunk>], flags: AccessFlags, word: usize, mask: u64) {
        match chunks.get(word / CHUNK_WORDS).map(OnceLock::get) {
            Some(Some(words)) => self.add(&words[word % CHUNK_WORDS], mask),
            _ if mask != 0 => self.mark(flags, word, mask),
            _ => {}
        }
    }

    #[inline(always)]
    fn mark(&self, flags: AccessFlags, word: usize, mask: u64) {
        self.set(&self.kind(flags, word / CHUNK_WORDS), word, mask);
    }

    /// Marks bytes of a strong store that the launch accesses for the first time.
    #[cold]
    fn mark_stored(&self, word: usize, mask: u64) {
        let marked = [&self.reads, &self.writes, &self.updates, &self.strong_reads];
        let before = marked.iter().fold(0, |bits, of| bits | of.word(word));
        let words = self.stored.get_or_make(word / CHUNK_WORDS, self.bytes);
        self.add(&words[word % CHUNK_WORDS], mask & !before);
    }

    /// Sets the bits of `mask` in a word of its chunk: those of bytes written before in `late`.
    #[inline(always)]
    fn set(&self, kind: &Kind<'_>, word: usize, mask: u64) {
        if kind.is_strong_write {
            self.mark_stored(word, mask);
        }
        let at = word % CHUNK_WORDS;
        let written = kind.written.map_or(0, |words| words[at].load(Relaxed));
        if let Some(late) = kind.late
            && mask & written != 0
        {
            let words = late.get_or_make(word / CHUNK_WORDS, self.bytes);
            self.add(&words[at], mask & written);
        }
        self.add(&kind.words[at], mask & !written);
    }

    #[inline(always)]
    fn add(&self, word: &AtomicU64, mask: u64) {
        if mask == u64::MAX {
            word.store(mask, Relaxed);
            return;
        }
        let old = word.load(Relaxed);
        if self.is_sole {
            // A jump that depends on marks of random places costs more than a store.
            word.store(old | mask, Relaxed);
        } else if old & mask != mask {
            word.fetch_or(mask, Relaxed);
        }
    }

    /// Returns where accesses of a kind to a chunk are marked.
    #[inline(always)]
    fn kind(&self, flags: AccessFlags, chunk: usize) -> Kind<'_> {
        let (bitmap, late) = match flags {
            AccessFlags::READ => (&self.reads, None),
            AccessFlags::WRITE => (&self.writes, None),
            AccessFlags::STRONG_READ => (&self.strong_reads, Some(&self.late[1])),
            _ => (&self.updates, Some(&self.late[0])),
        };
        Kind {
            words: bitmap.get_or_make(chunk, self.bytes),
            written: (flags != AccessFlags::WRITE)
                .then(|| self.writes.chunk(chunk))
                .flatten(),
            is_strong_write: flags == AccessFlags::STRONG_WRITE,
            late,
        }
    }

    /// Marks what is marked in another bitmap of the allocation.
    pub(crate) fn absorb(&self, other: &Self) {
        for (flags, marked) in [
            (AccessFlags::READ, &other.reads),
            (AccessFlags::UPDATE, &other.updates),
            (AccessFlags::STRONG_READ, &other.strong_reads),
            (AccessFlags::WRITE, &other.writes),
        ] {
            marked.each_with(marked, |word, mask| self.mark(flags, word, mask));
        }
        let others = other.late.iter().chain([&other.stored]);
        for (late, marked) in self.late.iter().chain([&self.stored]).zip(others) {
            marked.each_with(marked, |word, mask| {
                let words = late.get_or_make(word / CHUNK_WORDS, self.bytes);
                self.add(&words[word % CHUNK_WORDS], mask);
            });
        }
    }

    /// Returns the bytes whose strong accesses are all loads, and those with others.
    pub(crate) fn strong_runs(&self) -> [Vec<Range<u64>>; 2] {
        let (mut read, mut written) = (Vec::new(), Vec::new());
        let runs = |of: &mut Vec<Range<u64>>, word: usize, bits: u64| {
            split([bits, 0, 0, 0], |at, count, _| {
                let start = word as u64 * WORD_BYTES as u64 + u64::from(at);
                of.push(start..start + u64::from(count));
            });
        };
        let [late, late_strong] = &self.late;
        self.strong_reads.each_with(late_strong, |word, bits| {
            let updated = self.updates.word(word) | late.word(word);
            runs(&mut read, word, bits & !updated);
        });
        self.updates
            .each_with(late, |word, bits| runs(&mut written, word, bits));
        [read, written]
    }

    /// Returns the marked bytes in ascending order, adjacent bytes with equal marks merged.
    #[must_use]
    pub fn runs(&self) -> Vec<(Range<u64>, AccessFlags)> {
        let mut runs: Vec<(Range<u64>, AccessFlags)> = Vec::new();
        let chunks = self.bytes.div_ceil(WORD_BYTES * CHUNK_WORDS);
        for chunk in 0..chunks {
            let [late, strong] = &self.late;
            let kinds = [
                &self.reads,
                &self.writes,
                &self.updates,
                &self.strong_reads,
                late,
                strong,
                &self.stored,
            ];
            let kinds = kinds.map(|bits| bits.chunk(chunk));
            if kinds.iter().all(Option::is_none) {
                continue;
            }
            let words = CHUNK_WORDS.min(self.bytes.div_ceil(WORD_BYTES) - chunk * CHUNK_WORDS);
            let present: SmallVec<[_; 7]> = kinds.into_iter().flatten().collect();
            let kinds = kinds.map(|kind| &kind.unwrap_or(&UNMARKED)[..words]);
            let mut word = 0;
            while word < words {
                // Of a small launch's chunk, nearly all words.
                let next = words.min(word + SKIPPED_WORDS);
                let is_zero = |word: &AtomicU64| word.load(Relaxed) == 0;
                let unmarked = |of: &&[AtomicU64]| of[word..next].iter().all(is_zero);
                if word.is_multiple_of(SKIPPED_WORDS) && present.iter().all(unmarked) {
                    word = next;
                    continue;
                }
                let [read, written, updated, strong, late, late_strong, stored] =
                    kinds.map(|words| words[word].load(Relaxed));
                let early = updated | strong;
                let all = early | late | late_strong;
                let bits = [read | early & written, written, all, stored];
                let base = ((chunk * CHUNK_WORDS + word) * WORD_BYTES) as u64;
                word += 1;
                if bits == [0; 4] {
                    continue;
                }
                let mut add = |at, count, flags| {
                    let range = base + u64::from(at)..base + u64::from(at + count);
                    match runs.last_mut() {
                        Some((last, same)) if last.end == range.start && *same == flags => {
                            last.end = range.end
                        }
                        _ => runs.push((range, flags)),
                    }
                };
                // Of a large launch's chunk, nearly all words.
                if bits.iter().all(|bits| matches!(*bits, 0 | u64::MAX)) {
                    let first = word - 1;
                    let same = |of: &&[AtomicU64], word: usize| {
                        of[word].load(Relaxed) == of[first].load(Relaxed)
                    };
                    while word < words && present.iter().all(|of| same(of, word)) {
                        word += 1;
                    }
                    let flags = AccessFlags::of(bits.map(|bits| bits & 1));
                    add(0, u64::BITS * (word - first) as u32, flags);
                } else {
                    split(bits, add);
                }
            }
        }
        runs
    }
}

/// Splits 64 bytes into runs of equal marks, and omits unmarked bytes.
fn split(bits: [u64; 4], mut run: impl FnMut(u32, u32, AccessFlags)) {
    let mut at = 0;
    while at < u64::BITS {
        let rest = bits.map(|bits| bits >> at);
        let first = rest.map(|rest| rest & 1);
        // The positions at which any of the bits differs from its value at `at`.
        let change = (0..4).fold(0, |change, kind| {
            change | (rest[kind] ^ 0u64.wrapping_sub(first[kind]))
        });
        let count = change.trailing_zeros().min(u64::BITS - at);
        let flags = AccessFlags::of(first);
        if flags.0 != 0 {
            run(at, count, flags);
        }
        at += count;
    }
}

/// Where accesses of a kind to a chunk are marked.
struct Kind<'a> {
    words: &'a [AtomicU64],
    /// The bytes that the launch has written, of which the kind is not marked here.
    written: Option<&'a [AtomicU64]>,
    is_strong_write: bool,
    /// Where it is marked instead, if anywhere.
    late: Option<&'a Bitmap>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A byte that was updated, or read strongly, before it was written.
    const EARLY: u8 = 32;

    proptest! {
        #[test]
        fn runs_match_the_recorded_accesses(
            bytes in 1usize..70_000,
            notes in proptest::collection::vec((0usize..70_000, 1usize..300, 0usize..5), 0..40),
        ) {
            let kinds = [
                AccessFlags::READ,
                AccessFlags::WRITE,
                AccessFlags::UPDATE,
                AccessFlags::STRONG_READ,
                AccessFlags::STRONG_WRITE,
            ];
            let access_bitmap = AccessBitmap::new(bytes).marked_by_one_thread(bytes % 2 == 0);
            let mut expected = vec![0u8; bytes];
            for (offset, count, kind) in notes {
                let (offset, kind) = (offset % bytes, kinds[kind]);
                let count = count.min(bytes - offset);
                access_bitmap.note(kind, offset, count);
                for byte in &mut expected[offset..offset + count] {
                    let is_written = *byte & AccessFlags::WRITE.0 != 0;
                    if kind == AccessFlags::STRONG_WRITE {
                        *byte |= AccessFlags::UPDATE.0 | if *byte == 0 { kind.0 } else { 0 };
                    } else if !(kind == AccessFlags::READ && is_written) {
                        *byte |= kind.0;
                    }
                    if kind.0 >= AccessFlags::UPDATE.0 && !is_written {
                        *byte |= EARLY;
                    }
                }
            }
            let mut actual = vec![0u8; bytes];
            let strong = access_bitmap.strong_runs().map(|runs| {
                let bytes = runs.into_iter().map(|run| run.end - run.start);
                bytes.sum::<u64>() as usize
            });
            let only_read = |byte: &&u8| **byte & 12 == 8;
            let written = |byte: &&u8| **byte & 4 != 0;
            let count = [
                expected.iter().filter(only_read).count(),
                expected.iter().filter(written).count(),
            ];
            prop_assert_eq!(strong, count);
            let runs = access_bitmap.runs();
            let copy = AccessBitmap::new(bytes);
            copy.absorb(&access_bitmap);
            prop_assert_eq!(copy.runs(), runs.clone());
            for byte in &mut expected {
                let is_read = *byte & EARLY != 0 && *byte & AccessFlags::WRITE.0 != 0;
                *byte = *byte & 23 | *byte >> 1 & 4 | u8::from(is_read);
            }
            for (range, flags) in &runs {
                actual[range.start as usize..range.end as usize].fill(flags.0);
            }
            prop_assert_eq!(actual, expected);
            let apart = |pair: &[(Range<u64>, AccessFlags)]| {
                pair[0].0.end < pair[1].0.start || pair[0].1 != pair[1].1
            };
            prop_assert!(runs.windows(2).all(apart));
        }
    }
}
