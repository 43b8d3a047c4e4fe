//! The output of `printf` in kernels.

use std::{io::Write, mem};

use parking_lot::Mutex;

/// The maximum number of bytes of `printf` output that are kept, and that are held until a flush;
/// later output is only written, or at once.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The `printf` output of all kernels, in the order of launches, blocks and threads.
#[derive(Debug, Default)]
pub(crate) struct PrintfOutput(Mutex<Text>);

#[derive(Debug, Default)]
struct Text {
    kept: Vec<u8>,
    /// The output that is not yet written.
    held: Vec<u8>,
    /// The function that writes held output; `None` if all output is written at once.
    writer: Option<fn(&[u8])>,
}

impl PrintfOutput {
    /// Appends a thread's output. Writes it to the standard output, or holds it.
    pub(crate) fn add(&self, output: &[u8]) {
        let mut text = self.0.lock();
        if text.kept.len() + output.len() <= KEPT_BYTES_MAX {
            text.kept.extend_from_slice(output);
        }
        let Some(write) = text.writer else {
            // Without a usable standard output, only this copy of the text is lost.
            let _ = std::io::stdout().lock().write_all(output);
            return;
        };
        text.held.extend_from_slice(output);
        if text.held.len() > KEPT_BYTES_MAX {
            write(&mem::take(&mut text.held));
        }
    }

    /// Holds output from now on, for `writer`.
    pub(crate) fn hold(&self, writer: fn(&[u8])) {
        self.0.lock().writer = Some(writer);
    }

    pub(crate) fn flush(&self) {
        let mut text = self.0.lock();
        if let (held @ [_, ..], Some(write)) = (&*mem::take(&mut text.held), text.writer) {
            write(held);
        }
    }

    /// Returns the kept output. Bytes that are not UTF-8 are replaced.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().kept).into_owned()
    }
}
