//! Gates that keep a stream busy, and probes that observe a call while a gate is closed.

#![allow(unsafe_code, reason = "opens a gate by memory that the device reads")]

use std::sync::atomic::AtomicU32;

use millstream_sim::Hold;

use crate::conformance::prelude::*;

type Result<T, E = DriverError> = std::result::Result<T, E>;

/// The longest time that a call may take that does not wait for a gate.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Work that keeps a stream busy until the gate is opened or dropped.
pub(crate) enum Gate {
    /// A hold on a simulated stream.
    Held { _hold: Hold },
    /// A kernel that spins until this page-locked word is nonzero.
    Spinning(Host),
}

impl Gate {
    /// Opens the gate: the stream continues.
    pub(crate) fn open(self) {
        drop(self);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        match self {
            Self::Held { .. } => {}
            Self::Spinning(flag) => {
                let word = flag.pointer.cast::<AtomicU32>();
                // SAFETY: the word is page-locked memory of the harness, aligned to a page.
                unsafe { word.as_ref() }.store(1, SeqCst);
            }
        }
    }
}

/// The outcome of a call made while a gate was closed.
pub(crate) enum CallOutcome {
    /// The call returned; the gate is still closed.
    Returned(Gate),
    /// The call returned only after the gate was opened.
    Blocked,
}

impl CallOutcome {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Returned(_) => "returns",
            Self::Blocked => "blocks",
        }
    }
}

impl DeviceHarness {
    /// Enqueues a gate that keeps the stream busy.
    pub(crate) fn gate(&self, stream: StreamHandle) -> Result<Gate> {
        if let Some(gpu) = self.simulated() {
            let _hold = gpu.hold(stream);
            return Ok(Gate::Held { _hold });
        }
        let flag = self.pinned(size_of::<u32>(), 0)?;
        self.spin(flag, stream)?;
        Ok(Gate::Spinning(flag))
    }

    /// Makes the call on another thread while the gate is closed, and returns its outcome. Opens
    /// the gate if the call blocks.
    pub(crate) fn either(
        &self,
        gate: Gate,
        call: impl FnOnce() -> Result<()> + Send,
    ) -> Result<CallOutcome, Failed> {
        self.probe(gate, self.patience, call)
    }

    /// Checks that the call returns while the gate is closed.
    pub(crate) fn returns(
        &self,
        gate: Gate,
        call: impl FnOnce() -> Result<()> + Send,
    ) -> Result<Gate, Failed> {
        match self.probe(gate, AT_ONCE, call)? {
            CallOutcome::Returned(gate) => Ok(gate),
            CallOutcome::Blocked => Err("the call was to return, and blocked".into()),
        }
    }

    /// Checks that the call returns only after the gate is opened. The gate is open afterwards.
    pub(crate) fn blocks(
        &self,
        gate: Gate,
        call: impl FnOnce() -> Result<()> + Send,
    ) -> Result<(), Failed> {
        match self.either(gate, call)? {
            CallOutcome::Returned(_) => Err("the call was to block, and returned".into()),
            CallOutcome::Blocked => Ok(()),
        }
    }

    fn probe(
        &self,
        gate: Gate,
        patience: Duration,
        call: impl FnOnce() -> Result<()> + Send,
    ) -> Result<CallOutcome, Failed> {
        thread::scope(|scope| {
            let (done, is_done) = mpsc::channel();
            scope.spawn(move || done.send(call()));
            match is_done.recv_timeout(patience) {
                Ok(answer) => {
                    answer?;
                    Ok(CallOutcome::Returned(gate))
                }
                Err(_) => {
                    gate.open();
                    is_done.recv().map_err(|_| "the call panicked")??;
                    Ok(CallOutcome::Blocked)
                }
            }
        })
    }
}
