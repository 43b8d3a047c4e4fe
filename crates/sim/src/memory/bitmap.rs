//! Bits for the bytes of an allocation, in chunks that are allocated on first use and used again.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use parking_lot::Mutex;

/// The number of allocation bytes covered by one word of a bitmap.
pub(super) const WORD_BYTES: usize = 64;
/// The number of words allocated together, when the first of them is needed.
pub(super) const CHUNK_WORDS: usize = 512;
/// Chunks of bitmaps that were dropped: the system clears each page of new memory, which takes
/// longer than to clear one of these.
static SPARE: Mutex<Vec<Chunk>> = Mutex::new(Vec::new());

/// The maximum number of spare chunks, together 8 MiB.
const SPARE_MAX: usize = 2048;

/// Words of a bitmap that were allocated together.
pub(super) type Chunk = Box<[AtomicU64]>;

/// One bit for each byte of an allocation, in chunks allocated on first use.
#[derive(Debug, Default)]
pub(super) struct Bitmap {
    pub(super) chunks: OnceLock<Box<[OnceLock<Chunk>]>>,
}

impl Bitmap {
    #[inline(always)]
    pub(super) fn chunk(&self, index: usize) -> Option<&[AtomicU64]> {
        Some(self.chunks.get()?.get(index)?.get()?)
    }

    #[inline(always)]
    pub(super) fn get_or_make(&self, chunk: usize, bytes: usize) -> &[AtomicU64] {
        match self.chunk(chunk) {
            Some(words) => words,
            None => self.make(chunk, bytes),
        }
    }

    /// Calls `visit` with each word of the union of two bitmaps that is not 0, and its index.
    pub(super) fn each_with(&self, other: &Self, mut visit: impl FnMut(usize, u64)) {
        let chunks = [self, other].map(|of| of.chunks.get().map_or(0, |chunks| chunks.len()));
        for chunk in 0..chunks[0].max(chunks[1]) {
            let of = [self, other].map(|of| of.chunk(chunk).unwrap_or_default());
            for word in 0..of[0].len().max(of[1].len()) {
                let bits = of.map(|words| words.get(word).map_or(0, |word| word.load(Relaxed)));
                if bits != [0; 2] {
                    visit(chunk * CHUNK_WORDS + word, bits[0] | bits[1]);
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn word(&self, index: usize) -> u64 {
        match self.chunk(index / CHUNK_WORDS) {
            Some(words) => words[index % CHUNK_WORDS].load(Relaxed),
            None => 0,
        }
    }

    /// Allocates a chunk of words. `bytes` is the allocation's size.
    #[cold]
    fn make(&self, chunk: usize, bytes: usize) -> &[AtomicU64] {
        let words = bytes.div_ceil(WORD_BYTES);
        let chunks = self.chunks.get_or_init(|| {
            (0..words.div_ceil(CHUNK_WORDS))
                .map(|_| OnceLock::new())
                .collect()
        });
        let words = CHUNK_WORDS.min(words - chunk * CHUNK_WORDS);
        chunks[chunk].get_or_init(|| {
            let spare = (words == CHUNK_WORDS).then(|| SPARE.lock().pop()).flatten();
            match spare {
                Some(mut chunk) => {
                    chunk.iter_mut().for_each(|word| *word.get_mut() = 0);
                    chunk
                }
                None => (0..words).map(|_| AtomicU64::new(0)).collect(),
            }
        })
    }
}

impl Drop for Bitmap {
    fn drop(&mut self) {
        let Some(chunks) = self.chunks.take() else {
            return;
        };
        let chunks = chunks.into_iter();
        let chunks = chunks.filter_map(OnceLock::into_inner);
        // If another thread has the spare chunks, these are simply freed.
        if let Some(mut spare) = SPARE.try_lock() {
            let room = SPARE_MAX.saturating_sub(spare.len());
            spare.extend(chunks.filter(|chunk| chunk.len() == CHUNK_WORDS).take(room));
        }
    }
}
