//! The captures in progress.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread::{self, ThreadId},
};

use millstream_driver::{CaptureMode, GraphHandle, GraphNodeHandle, StreamHandle};

/// The captures in progress, by number, and the capture modes of the threads.
#[derive(Default)]
pub(crate) struct Captures {
    pub(crate) active: BTreeMap<u64, CaptureInProgress>,
    /// The number of captures so far.
    pub(crate) begun: u64,
    /// The threads whose mode is not global.
    modes: Vec<(ThreadId, CaptureMode)>,
}

pub(crate) struct CaptureInProgress {
    pub(crate) graph: GraphHandle,
    /// Set if the capture created the graph.
    pub(crate) created: bool,
    /// The stream in which the capture began.
    pub(crate) origin: StreamHandle,
    pub(crate) mode: CaptureMode,
    pub(crate) thread: ThreadId,
    /// The streams that were destroyed in the capture, with the nodes that each left.
    pub(crate) destroyed: Vec<(StreamHandle, BTreeSet<GraphNodeHandle>)>,
    /// The violation that made the capture invalid.
    pub(crate) violation: Option<String>,
}

/// The part of a stream or an event in a capture.
#[derive(Clone, Debug)]
pub(crate) struct CapturedPoint {
    /// The number of the capture.
    pub(crate) capture: u64,
    /// The nodes that later nodes depend on.
    pub(crate) nodes: BTreeSet<GraphNodeHandle>,
}

impl Captures {
    pub(crate) fn get(&self, capture: u64) -> Option<&CaptureInProgress> {
        self.active.get(&capture)
    }

    fn mode(&self, thread: ThreadId) -> CaptureMode {
        self.modes
            .iter()
            .find(|(other, _)| *other == thread)
            .map_or(CaptureMode::Global, |(_, mode)| *mode)
    }

    /// Replaces the mode of the calling thread, and returns the one before.
    pub(crate) fn exchange_mode(&mut self, mode: CaptureMode) -> CaptureMode {
        let thread = thread::current().id();
        let before = self.mode(thread);
        self.modes.retain(|(other, _)| *other != thread);
        if mode != CaptureMode::Global {
            self.modes.push((thread, mode));
        }
        before
    }

    /// Returns the captures that forbid unsafe calls to the calling thread (rule 44).
    pub(crate) fn forbidding(&self) -> Vec<u64> {
        let thread = thread::current().id();
        let own_mode = self.mode(thread);
        let forbids = |capture: &CaptureInProgress| {
            if capture.thread == thread {
                own_mode != CaptureMode::Relaxed && capture.mode != CaptureMode::Relaxed
            } else {
                own_mode == CaptureMode::Global && capture.mode == CaptureMode::Global
            }
        };
        let active = self.active.iter();
        active
            .filter(|(_, capture)| forbids(capture))
            .map(|(number, _)| *number)
            .collect()
    }
}

impl CaptureInProgress {
    /// Returns whether a violation made the capture invalid.
    pub(crate) fn is_invalid(&self) -> bool {
        self.violation.is_some()
    }
}
