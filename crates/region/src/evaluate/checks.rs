//! What the device finds wrong while it runs: indices that are none of their axis.
//!
//! A kernel that reads indices uses 0 in place of one that is none, so that it touches nothing but its operands, and raises
//! a word to the number of the check. Whoever waits for the region's results looks at that word first.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use millstream::{Buffer, Device, Pending, Stream};
use parking_lot::Mutex;

use super::Lanes;
use crate::{
    error::{Misuse, Problem, Result},
    graph::NodeRef,
};

/// The checks of one session.
#[derive(Default)]
pub(crate) struct Checks {
    /// The word, once a kernel needs it.
    flag: Option<Arc<Mutex<Buffer<u32>>>>,
    /// What each number means, from 1 on.
    meanings: Vec<Misuse>,
}

impl Checks {
    /// The word that kernels raise.
    pub(crate) fn flag(&mut self, stream: &Stream) -> Result<Arc<Mutex<Buffer<u32>>>> {
        if let Some(flag) = &self.flag {
            return Ok(Arc::clone(flag));
        }
        let flag = Arc::new(Mutex::new(stream.upload(&[0_u32])?));
        self.flag = Some(Arc::clone(&flag));
        Ok(flag)
    }

    /// A number for indices along an axis, in the operation of this node.
    pub(crate) fn number(&mut self, node: &NodeRef, axis: usize, length: usize) -> u32 {
        let problem = Problem::Index { axis, length };
        self.meanings.push(Misuse::new("index", problem, node.location));
        u32::try_from(self.meanings.len()).expect("there are fewer checks than nodes in memory")
    }

    /// What was found, once all that is enqueued is done. Nothing if nothing was checked.
    pub(crate) fn verdict(&self, lanes: &mut Lanes, device: &Device) -> Result<Option<Verdict>> {
        let Some(flag) = &self.flag else {
            return Ok(None);
        };
        let word = lanes.any(device)?.download(&*flag.lock())?;
        Ok(Some(Verdict {
            word: Some(word),
            meanings: self.meanings.clone(),
        }))
    }
}

/// What will be known of a session's checks.
pub(crate) struct Verdict {
    word: Option<Pending<Vec<u32>>>,
    meanings: Vec<Misuse>,
}

impl Verdict {
    /// Blocks this thread until it is known, and gives what was wrong as an error.
    pub(crate) fn wait(&mut self) -> Result<()> {
        match self.word.take() {
            Some(word) => self.judge(&word.wait()?),
            None => Ok(()),
        }
    }

    /// As [`wait`](Self::wait), for futures.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(word) = &mut self.word else {
            return Poll::Ready(Ok(()));
        };
        let word = ready!(Pin::new(word).poll(context))?;
        self.word = None;
        Poll::Ready(self.judge(&word))
    }

    /// The mistake that a word stands for, if any.
    fn judge(&self, word: &[u32]) -> Result<()> {
        let number = word.first().map_or(0, |&word| word as usize);
        match number.checked_sub(1).and_then(|place| self.meanings.get(place)) {
            Some(misuse) => Err(misuse.clone().into()),
            None => Ok(()),
        }
    }
}
