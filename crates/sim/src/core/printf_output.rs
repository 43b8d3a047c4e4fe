//! The output of `printf` in kernels.

use std::io::Write;

use parking_lot::Mutex;

/// The maximum number of bytes of `printf` output that are kept; later output only goes to the
/// standard output.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The `printf` output of all kernels, in the order of launches, blocks and threads.
#[derive(Debug, Default)]
pub(crate) struct PrintfOutput {
    text: Mutex<String>,
}

impl PrintfOutput {
    /// Appends a thread's output, and writes it to the standard output.
    pub(crate) fn add(&self, text: &str) {
        let mut text_so_far = self.text.lock();
        if text_so_far.len() + text.len() <= KEPT_BYTES_MAX {
            *text_so_far += text;
        }
        // Without a usable standard output, only this copy of the text is lost.
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
    }

    pub(crate) fn text(&self) -> String {
        self.text.lock().clone()
    }
}
