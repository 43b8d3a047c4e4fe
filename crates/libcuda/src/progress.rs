//! The progress of kernels that run for long, on standard error: a line in each interval, or on a
//! terminal one line that is rewritten, and erased before anything else is written.

use std::{
    io::{IsTerminal as _, Write as _, stderr},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use millstream_driver::printable;
use millstream_sim::Gpu;
use parking_lot::Mutex;

use crate::demangle;

/// The columns of the line, one less than those of the narrowest usual terminal.
const COLUMNS: usize = 79;

/// The time between two versions of the line.
const TICK: Duration = Duration::from_millis(500);

/// Set while a line may be on the terminal.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Held while the line is written or erased.
static LINE: Mutex<()> = Mutex::new(());

/// Shows each kernel that has been running for `interval`.
pub(crate) fn watch(gpu: &Gpu, interval: Duration) {
    let mut said = Instant::now();
    let running = || {
        let kernel = gpu.running_kernel().filter(|it| it.elapsed >= interval)?;
        let mut blocks = format!("{} of {} blocks done", kernel.blocks_done, kernel.blocks);
        if kernel.waits {
            blocks = "it waits for a write to memory that it polls".into();
        } else if !stderr().is_terminal() {
            blocks += "; `--steps` limits it";
        }
        let (name, seconds) = (demangle::name(&kernel.name), kernel.elapsed.as_secs());
        Some((name.into_owned(), blocks, seconds))
    };
    loop {
        thread::sleep(interval.min(TICK));
        if !stderr().is_terminal() {
            if said.elapsed() >= interval
                && let Some((kernel, blocks, seconds)) = running()
            {
                said = Instant::now();
                let text = format!("kernel `{kernel}` has been running for {seconds} s: {blocks}");
                let text = printable(&text);
                let _ = writeln!(stderr(), "millstream: {text}");
            }
            continue;
        }
        let _line = LINE.lock();
        // Before the kernel is asked for: the call that ends it erases the line from here on.
        let was_shown = SHOWN.swap(true, SeqCst);
        match running() {
            Some((kernel, blocks, seconds)) => {
                let name = printable(&kernel).replace(['\n', '\t'], " ");
                write(&format!("{blocks} in {seconds} s by kernel `{name}`"));
            }
            None if SHOWN.swap(false, SeqCst) && was_shown => write(""),
            None => {}
        }
    }
}

/// Erases the line, if there is one.
pub(crate) fn erase() {
    // A forked child may have the lock of a thread that it does not have.
    if SHOWN.load(SeqCst)
        && let Some(_line) = LINE.try_lock()
        && SHOWN.swap(false, SeqCst)
    {
        write("");
    }
}

/// Writes a text over the line, or what of it fits. What follows begins in the first column.
fn write(text: &str) {
    // The program may have replaced standard error since.
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r{text:COLUMNS$.COLUMNS$}\r");
    }
}
