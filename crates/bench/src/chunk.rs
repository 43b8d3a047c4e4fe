//! A page-locked chunk that the host fills or empties, and that the device copies: the two take
//! turns.

#![allow(
    unsafe_code,
    reason = "fills and empties page-locked memory, also with stores that go past the caches"
)]

use std::sync::Arc;

use anyhow::{Result, ensure};

use crate::raw::{Raw, RawEvent, RawHost, RawMemory, RawStream};

/// How the host copies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stores {
    /// As the standard library does.
    Plain,
    /// With stores that go past the caches.
    NonTemporal,
}

/// Page-locked memory, and the event behind its last copy.
pub(crate) struct Chunk {
    host: RawHost,
    event: RawEvent,
}

// SAFETY: the memory belongs to the chunk, and no thread is special to the driver.
unsafe impl Send for Chunk {}

impl Chunk {
    pub(crate) fn new(raw: &Arc<Raw>, bytes: usize) -> Result<Self> {
        Ok(Self {
            host: raw.pinned(bytes)?,
            event: raw.event()?,
        })
    }

    /// Spins until the device has done with the memory.
    fn wait(&self) -> Result<()> {
        while !self.event.is_complete()? {
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Copies `source` into the chunk, once the device has done with it.
    pub(crate) fn fill(&mut self, source: &[u8], stores: Stores) -> Result<()> {
        ensure!(source.len() <= self.host.bytes(), "the chunk is too small");
        self.wait()?;
        // SAFETY: the memory is the chunk's, long enough, page-locked and so zeroed or written, and
        // the device has done with it.
        let target = unsafe { std::slice::from_raw_parts_mut(self.host.start(), source.len()) };
        copy(target, source, stores);
        Ok(())
    }

    /// Copies the chunk out, once the device has done with it.
    pub(crate) fn empty(&mut self, target: &mut [u8], stores: Stores) -> Result<()> {
        ensure!(target.len() <= self.host.bytes(), "the chunk is too small");
        self.wait()?;
        // SAFETY: as in `fill`.
        let source = unsafe { std::slice::from_raw_parts(self.host.start(), target.len()) };
        copy(target, source, stores);
        Ok(())
    }

    /// Enqueues a copy of the chunk's beginning to the device.
    pub(crate) fn upload(
        &mut self,
        stream: &RawStream,
        target: &RawMemory,
        at: usize,
        bytes: usize,
    ) -> Result<()> {
        stream.upload_at(target, at, &self.host, bytes)?;
        stream.record(&self.event)
    }

    /// Enqueues a copy from the device to the chunk's beginning.
    pub(crate) fn download(
        &mut self,
        stream: &RawStream,
        source: &RawMemory,
        at: usize,
        bytes: usize,
    ) -> Result<()> {
        stream.download_at(&self.host, source, at, bytes)?;
        stream.record(&self.event)
    }
}

/// Copies all of `source` to `target`, which is as long.
pub(crate) fn copy(target: &mut [u8], source: &[u8], stores: Stores) {
    assert_eq!(target.len(), source.len());
    match stores {
        #[cfg(target_arch = "x86_64")]
        Stores::NonTemporal => past_the_caches(target, source),
        _ => target.copy_from_slice(source),
    }
}

/// With 16-byte stores, which every x86-64 processor has. What is not aligned or too short is
/// copied plainly.
#[cfg(target_arch = "x86_64")]
fn past_the_caches(target: &mut [u8], source: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    // SAFETY: any bytes are such a vector.
    let (head, body, tail) = unsafe { target.align_to_mut::<__m128i>() };
    let (first, rest) = source.split_at(head.len());
    let (middle, last) = rest.split_at(size_of_val(body));
    head.copy_from_slice(first);
    tail.copy_from_slice(last);
    for (to, from) in body
        .iter_mut()
        .zip(middle.chunks_exact(size_of::<__m128i>()))
    {
        // SAFETY: the 16 bytes are there; the load needs no alignment.
        let vector = unsafe { _mm_loadu_si128(from.as_ptr().cast()) };
        // SAFETY: the target is a vector, and so aligned.
        unsafe { _mm_stream_si128(to, vector) };
    }
    // SAFETY: every x86-64 processor has it.
    unsafe { _mm_sfence() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_copy_everything() {
        let source: Vec<u8> = (0..=255).cycle().take(1003).collect();
        for stores in [Stores::Plain, Stores::NonTemporal] {
            for start in 0..17 {
                let mut target = vec![0; source.len()];
                copy(&mut target[start..], &source[start..], stores);
                assert_eq!(target[start..], source[start..], "{stores:?} from {start}");
            }
        }
    }
}
