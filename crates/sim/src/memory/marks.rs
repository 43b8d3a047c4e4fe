//! Which bytes of an allocation a kernel read, wrote and updated atomically: bits that all cores
//! set while it runs.

use std::{
    ops::Range,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Bytes of the allocation that one word of bits is about.
const WORD_BYTES: usize = 64;
/// Words that are made together, when the first of them is needed.
const CHUNK_WORDS: usize = 512;

/// How bytes are accessed: any of the three ways, in any combination.
///
/// ```
/// use millstream_sim::exec::Touch;
/// assert_eq!(Touch::READ | Touch::READ, Touch::READ);
/// assert!((Touch::READ | Touch::WRITE).has(Touch::WRITE));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Touch(u8);

impl Touch {
    /// Plain loads.
    pub const READ: Self = Self(1);
    /// Plain stores.
    pub const WRITE: Self = Self(2);
    /// Atomic operations, and loads and stores by which threads wait for each other (volatile,
    /// relaxed, acquire, release).
    pub const UPDATE: Self = Self(4);

    /// Whether `part` is one of the ways.
    #[must_use]
    pub fn has(self, part: Self) -> bool {
        self.0 & part.0 == part.0
    }
}

impl std::ops::BitOr for Touch {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What a launch did to one allocation, byte by byte. Setting a mark twice costs a load and a
/// comparison.
///
/// ```
/// use millstream_sim::exec::{Marks, Touch};
/// let marks = Marks::new(256);
/// marks.note(Touch::READ, 0, 128);
/// marks.note(Touch::WRITE, 128, 4);
/// marks.note(Touch::READ, 128, 4); // of its own bytes: nothing that anyone else could see
/// assert_eq!(marks.runs(), [(0..128, Touch::READ), (128..132, Touch::WRITE)]);
/// ```
#[derive(Debug)]
pub struct Marks {
    bytes: usize,
    reads: Bits,
    writes: Bits,
    updates: Bits,
}

impl Marks {
    /// No marks on an allocation of that many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self {
            bytes,
            reads: Bits::default(),
            writes: Bits::default(),
            updates: Bits::default(),
        }
    }

    /// Marks `bytes` from `offset`, which are in the allocation. A read of what the launch itself
    /// wrote before is not noted: whoever is not ordered with the read is not ordered with the
    /// write. One call is about one way of access.
    #[inline(always)]
    pub fn note(&self, touch: Touch, offset: usize, bytes: usize) {
        let end = offset + bytes;
        let mut at = offset;
        while at < end {
            let (word, low) = (at / WORD_BYTES, at % WORD_BYTES);
            let count = (WORD_BYTES - low).min(end - at);
            let mask = (u64::MAX >> (WORD_BYTES - count)) << low;
            match touch {
                Touch::READ => {
                    let unwritten = mask & !self.writes.word(word);
                    if unwritten != 0 {
                        self.reads.set(word, unwritten, self.bytes);
                    }
                }
                Touch::WRITE => self.writes.set(word, mask, self.bytes),
                _ => self.updates.set(word, mask, self.bytes),
            }
            at += count;
        }
    }

    /// The marked bytes in ascending order, neighbours with the same marks together.
    #[must_use]
    pub fn runs(&self) -> Vec<(Range<u64>, Touch)> {
        let mut runs: Vec<(Range<u64>, Touch)> = Vec::new();
        let chunks = self.bytes.div_ceil(WORD_BYTES * CHUNK_WORDS);
        for chunk in 0..chunks {
            let kinds = [&self.reads, &self.writes, &self.updates].map(|bits| bits.chunk(chunk));
            if kinds.iter().all(Option::is_none) {
                continue;
            }
            let words = CHUNK_WORDS.min(self.bytes.div_ceil(WORD_BYTES) - chunk * CHUNK_WORDS);
            for word in 0..words {
                let bits = kinds.map(|kind| kind.map_or(0, |words| words[word].load(Relaxed)));
                let base = ((chunk * CHUNK_WORDS + word) * WORD_BYTES) as u64;
                split(bits, |at, count, touch| {
                    let range = base + u64::from(at)..base + u64::from(at + count);
                    match runs.last_mut() {
                        Some((last, same)) if last.end == range.start && *same == touch => {
                            last.end = range.end
                        }
                        _ => runs.push((range, touch)),
                    }
                });
            }
        }
        runs
    }
}

/// Splits 64 bytes into runs of the same marks, and leaves out those without.
fn split(bits: [u64; 3], mut run: impl FnMut(u32, u32, Touch)) {
    let mut at = 0;
    while at < u64::BITS {
        let rest = bits.map(|bits| bits >> at);
        let first = rest.map(|rest| rest & 1);
        // Where any of the three is not what it is at `at`.
        let change = (0..3).fold(0, |change, kind| {
            change | (rest[kind] ^ 0u64.wrapping_sub(first[kind]))
        });
        let count = change.trailing_zeros().min(u64::BITS - at);
        let touch = Touch((first[0] | first[1] << 1 | first[2] << 2) as u8);
        if touch.0 != 0 {
            run(at, count, touch);
        }
        at += count;
    }
}

type Chunk = Box<[AtomicU64]>;

/// One bit for each byte of an allocation, in chunks that are made when they are needed.
#[derive(Debug, Default)]
struct Bits {
    chunks: OnceLock<Box<[OnceLock<Chunk>]>>,
}

impl Bits {
    #[inline(always)]
    fn chunk(&self, index: usize) -> Option<&[AtomicU64]> {
        Some(self.chunks.get()?.get(index)?.get()?)
    }

    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        match self.chunk(index / CHUNK_WORDS) {
            Some(words) => words[index % CHUNK_WORDS].load(Relaxed),
            None => 0,
        }
    }

    #[inline(always)]
    fn set(&self, index: usize, mask: u64, bytes: usize) {
        let words = match self.chunk(index / CHUNK_WORDS) {
            Some(words) => words,
            None => self.make(index / CHUNK_WORDS, bytes),
        };
        let word = &words[index % CHUNK_WORDS];
        if mask == u64::MAX {
            word.store(mask, Relaxed);
        } else if word.load(Relaxed) & mask != mask {
            word.fetch_or(mask, Relaxed);
        }
    }

    #[cold]
    fn make(&self, chunk: usize, bytes: usize) -> &[AtomicU64] {
        let words = bytes.div_ceil(WORD_BYTES);
        let chunks = self.chunks.get_or_init(|| {
            (0..words.div_ceil(CHUNK_WORDS))
                .map(|_| OnceLock::new())
                .collect()
        });
        let words = CHUNK_WORDS.min(words - chunk * CHUNK_WORDS);
        chunks[chunk].get_or_init(|| (0..words).map(|_| AtomicU64::new(0)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn marks_are_what_was_noted(
            bytes in 1usize..70_000,
            notes in proptest::collection::vec((0usize..70_000, 1usize..300, 0usize..3), 0..40),
        ) {
            let kinds = [Touch::READ, Touch::WRITE, Touch::UPDATE];
            let marks = Marks::new(bytes);
            let mut expected = vec![0u8; bytes];
            for (offset, count, kind) in notes {
                let (offset, kind) = (offset % bytes, kinds[kind]);
                let count = count.min(bytes - offset);
                marks.note(kind, offset, count);
                for byte in &mut expected[offset..offset + count] {
                    if !(kind == Touch::READ && *byte & Touch::WRITE.0 != 0) {
                        *byte |= kind.0;
                    }
                }
            }
            let mut actual = vec![0u8; bytes];
            let runs = marks.runs();
            for (range, touch) in &runs {
                actual[range.start as usize..range.end as usize].fill(touch.0);
            }
            prop_assert_eq!(actual, expected);
            let apart = |pair: &[(Range<u64>, Touch)]| pair[0].0.end < pair[1].0.start || pair[0].1 != pair[1].1;
            prop_assert!(runs.windows(2).all(apart));
        }
    }
}
