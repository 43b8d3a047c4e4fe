//! What kernels print.

use std::io::Write;

use parking_lot::Mutex;

/// The most bytes that are kept; what comes behind is written out only.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// What kernels have printed, in the order of launches, blocks and threads.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    text: Mutex<String>,
}

impl Printed {
    /// Adds what a thread prints, and writes it to the standard output.
    pub(crate) fn add(&self, text: &str) {
        let mut kept = self.text.lock();
        if kept.len() + text.len() <= KEPT_BYTES_MAX {
            *kept += text;
        }
        // A program without a standard output, or with a closed one, loses only this.
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
    }

    /// All that was printed, up to a limit.
    pub(crate) fn text(&self) -> String {
        self.text.lock().clone()
    }
}
