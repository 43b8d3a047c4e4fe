//! Downloads on their way: pieces in page-locked blocks, each copied to where it belongs once it
//! has arrived.
//!
//! The device writes the blocks in the order of the pieces. Each piece has a point behind it, so
//! that whoever waits can let the first land while the others are still on their way. Nothing lands
//! by itself: the thread that waits or polls does it, with the help of the crew, and when it
//! returns no copy to the target is under way.

#![allow(unsafe_code, reason = "copies from blocks that it holds")]

use std::{collections::VecDeque, panic::Location, sync::Arc};

use super::{crew::Transfer, staged::Staged};
use crate::{
    Result,
    context::{DeviceState, StreamState, poll_ticket},
    future::wait_ticket,
    memory::Touch,
    tracker::Sequence,
};

/// A piece of a download.
struct Piece {
    /// The copy to the block.
    sequence: Sequence,
    staged: Staged,
    /// Where it belongs in the target.
    at: usize,
    bytes: usize,
}

/// A download on its way.
pub(crate) struct Landing {
    device: Arc<DeviceState>,
    stream: Arc<StreamState>,
    /// Those that have not landed, the first first.
    pieces: VecDeque<Piece>,
    /// The length of the target.
    bytes: usize,
    /// The last piece's ticket, if there was a piece.
    last: Option<Sequence>,
    /// The line that the download is made for.
    location: &'static Location<'static>,
}

impl Landing {
    /// The landing of `bytes` bytes, no piece of which is submitted yet.
    pub(super) fn new(
        device: &Arc<DeviceState>,
        stream: &Arc<StreamState>,
        bytes: usize,
        location: &'static Location<'static>,
    ) -> Self {
        Self {
            device: Arc::clone(device),
            stream: Arc::clone(stream),
            pieces: VecDeque::new(),
            bytes,
            last: None,
            location,
        }
    }

    /// Enters the next piece, whose copy to the block is submitted under this number.
    pub(super) fn push(&mut self, sequence: Sequence, mut staged: Staged, at: usize, bytes: usize) {
        assert!(at <= self.bytes && bytes <= self.bytes - at && bytes <= staged.bytes());
        staged.used_by(self.stream.ticket(sequence));
        self.last = Some(sequence);
        self.pieces.push_back(Piece {
            sequence,
            staged,
            at,
            bytes,
        });
    }

    /// The last piece's ticket, if there was a piece.
    pub(crate) fn last(&self) -> Option<Sequence> {
        self.last
    }

    /// The number of the ticket that is to be waited for next, unless all has landed.
    pub(crate) fn next(&self) -> Option<Sequence> {
        self.pieces.front().map(|piece| piece.sequence)
    }

    /// How many pieces are on their way.
    pub(super) fn on_their_way(&self) -> usize {
        self.pieces.len()
    }

    /// Waits for the first piece, lets it land, and gives its block, which nobody uses any more.
    ///
    /// # Safety
    ///
    /// As [`land`](Self::land). There is a piece on its way.
    pub(super) unsafe fn land_first(&mut self, target: *mut u8) -> Result<Staged> {
        let first = self.pieces.front().expect("a piece is on its way").sequence;
        wait_ticket(&self.device, &self.stream, first)?;
        let piece = self.pieces.pop_front().expect("it is still there");
        let touch = touch(&self.device, &piece, self.location);
        let transfer = self.transfer();
        // SAFETY: by this function's contract; the piece has arrived, and the block is not used
        // again before the end of this function, where `transfer` waits for the copy.
        unsafe { hand(&transfer, &piece, target) };
        drop(transfer);
        drop(touch);
        Ok(piece.staged.again())
    }

    /// Lets all pieces land that have arrived, and those that arrive meanwhile. Waits for no
    /// device.
    ///
    /// # Safety
    ///
    /// `target` is valid for writes of so many bytes as the download has, and nobody else touches
    /// them.
    pub(super) unsafe fn land(&mut self, target: *mut u8) -> Result<()> {
        // Dropped in reverse order, also by an error or a panic: the copies are made before the
        // blocks are given back.
        let mut landing: VecDeque<(Option<u64>, Touch<'_>, Piece)> = VecDeque::new();
        let transfer = self.transfer();
        loop {
            while let Some(sequence) = self.next()
                && poll_ticket(&self.device, &self.stream, sequence)?
            {
                let Some(piece) = self.pieces.pop_front() else {
                    break;
                };
                let touch = touch(&self.device, &piece, self.location);
                // SAFETY: by this function's contract; the piece has arrived, and is kept until the
                // copy is made.
                let number = unsafe { hand(&transfer, &piece, target) };
                landing.push_back((number, touch, piece));
            }
            let Some(&(number, ..)) = landing.front() else {
                return Ok(());
            };
            if let Some(number) = number
                && !transfer.is_over(number)
                && !transfer.help()
            {
                transfer.finish(number);
            }
            while let Some(&(number, ..)) = landing.front()
                && number.is_none_or(|number| transfer.is_over(number))
            {
                landing.pop_front();
            }
        }
    }

    /// Waits until all of it has landed.
    ///
    /// # Safety
    ///
    /// As [`land`](Self::land).
    unsafe fn land_all(&mut self, target: *mut u8) -> Result<()> {
        while let Some(sequence) = self.next() {
            wait_ticket(&self.device, &self.stream, sequence)?;
            // SAFETY: by this function's contract.
            unsafe { self.land(target) }?;
        }
        Ok(())
    }

    /// As [`land_all`](Self::land_all), on a slice of as many bytes as the download has.
    pub(crate) fn land_on(&mut self, target: &mut [u8]) -> Result<()> {
        assert_eq!(target.len(), self.bytes, "a download lands where it fits");
        // SAFETY: the slice is the caller's alone, and as long as the download.
        unsafe { self.land_all(target.as_mut_ptr()) }
    }

    fn transfer(&self) -> Transfer {
        let tuning = self.device.tuning();
        Transfer::new(tuning, tuning.download_past_caches)
    }
}

/// The host reads the piece's block, until this is dropped.
fn touch<'a>(
    device: &'a DeviceState,
    piece: &Piece,
    location: &'static Location<'static>,
) -> Touch<'a> {
    Touch::reads(
        &device.driver,
        piece.staged.pointer(),
        piece.bytes,
        "download",
        location,
    )
}

/// Begins to copy a piece that has arrived to where it belongs; gives the copy's number, if it is
/// not made already.
///
/// # Safety
///
/// As [`Landing::land`] for the target; the piece is kept until the copy is made.
unsafe fn hand(transfer: &Transfer, piece: &Piece, target: *mut u8) -> Option<u64> {
    let target = target.wrapping_add(piece.at);
    // SAFETY: the block, which is the piece's alone, has so many bytes, and they belong within the
    // target.
    unsafe { transfer.copy(piece.staged.pointer(), target, piece.bytes) }
}
