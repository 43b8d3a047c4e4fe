//! A page-locked chunk of host memory for transfers. The host and the device access it in turn.

#![allow(unsafe_code, reason = "reads and writes page-locked memory directly")]

use std::sync::Arc;

use anyhow::{Result, ensure};

use crate::raw::{Raw, RawEvent, RawHost, RawMemory, RawStream};

/// The store instructions for the host's copies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stores {
    /// Stores of the standard library's copy.
    Plain,
    /// Non-temporal stores, which bypass the caches.
    NonTemporal,
}

/// Page-locked memory, and the event recorded after its last copy.
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

    /// Spins until the device no longer uses the memory.
    fn wait(&self) -> Result<()> {
        while !self.event.is_complete()? {
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn check_size(&self, bytes: usize) -> Result<()> {
        let capacity = self.host.bytes();
        ensure!(
            bytes <= capacity,
            "{bytes} bytes do not fit in a chunk of {capacity} bytes"
        );
        Ok(())
    }

    /// Copies `source` into the chunk, once the device no longer uses it.
    pub(crate) fn fill(&mut self, source: &[u8], stores: Stores) -> Result<()> {
        self.check_size(source.len())?;
        self.wait()?;
        // SAFETY: the memory is the chunk's, long enough, page-locked and so zeroed or written, and
        // the device has done with it.
        let target = unsafe { std::slice::from_raw_parts_mut(self.host.start(), source.len()) };
        copy(target, source, stores);
        Ok(())
    }

    /// Copies the chunk into `target`, once the device no longer uses it.
    pub(crate) fn empty(&mut self, target: &mut [u8], stores: Stores) -> Result<()> {
        self.check_size(target.len())?;
        self.wait()?;
        // SAFETY: as in `fill`.
        let source = unsafe { std::slice::from_raw_parts(self.host.start(), target.len()) };
        copy(target, source, stores);
        Ok(())
    }

    /// Enqueues a copy from the start of the chunk to the device.
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

    /// Enqueues a copy from the device to the start of the chunk.
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

/// Copies all of `source` to `target`, which has the same length.
pub(crate) fn copy(target: &mut [u8], source: &[u8], stores: Stores) {
    assert_eq!(target.len(), source.len());
    match stores {
        #[cfg(target_arch = "x86_64")]
        Stores::NonTemporal => copy_non_temporal(target, source),
        _ => target.copy_from_slice(source),
    }
}

/// Copies with 16-byte non-temporal stores, which every x86-64 processor has. Unaligned ends are
/// copied with ordinary stores.
#[cfg(target_arch = "x86_64")]
fn copy_non_temporal(target: &mut [u8], source: &[u8]) {
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
    fn both_kinds_of_stores_copy_everything() {
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
