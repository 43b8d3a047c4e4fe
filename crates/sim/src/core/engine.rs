//! A device's engines in virtual time: one copy engine for each direction, and the multiprocessors
//! that kernels share.

use std::collections::VecDeque;

/// The maximum number of kernels that run concurrently on a device.
const KERNELS_MAX: usize = 128;

/// The engine that an operation occupies while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// No engine, for markers and host functions.
    None,
    /// The copy engine from host to device.
    Upload,
    /// The copy engine from device to host.
    Download,
    /// The multiprocessors, with the number of resident threads.
    Compute(u64),
}

#[derive(Debug)]
struct RunningKernel {
    finish_ns: u64,
    threads: u64,
}

/// The virtual times at which the engines of one device are free.
#[derive(Debug)]
pub(crate) struct Engines {
    upload_free_ns: u64,
    download_free_ns: u64,
    /// The [`KERNELS_MAX`] kernels that finish last, sorted by finish time.
    running: VecDeque<RunningKernel>,
    /// The number of threads that fit on the device at once.
    resident_threads: u64,
}

impl Engines {
    pub(crate) fn new(resident_threads: u64) -> Self {
        Self {
            upload_free_ns: 0,
            download_free_ns: 0,
            running: VecDeque::with_capacity(KERNELS_MAX + 1),
            resident_threads,
        }
    }

    /// Returns the earliest time, at or after `not_before_ns`, at which the engine is free. A
    /// kernel starts when all its threads fit.
    pub(crate) fn earliest_ns(&self, engine: Engine, not_before_ns: u64) -> u64 {
        match engine {
            Engine::None => not_before_ns,
            Engine::Upload => not_before_ns.max(self.upload_free_ns),
            Engine::Download => not_before_ns.max(self.download_free_ns),
            Engine::Compute(threads) => self.room_ns(threads, not_before_ns),
        }
    }

    /// Returns the earliest time at which `threads` more threads fit on the device. Going back from
    /// the kernel that finishes last, it is the finish of the first that does not fit besides.
    fn room_ns(&self, threads: u64, not_before_ns: u64) -> u64 {
        let mut used = threads;
        let still_run = self.running.iter().rev();
        let still_run = still_run.take_while(|kernel| kernel.finish_ns > not_before_ns);
        let last_without_room = still_run.zip(1..).find(|(kernel, beside)| {
            used += kernel.threads;
            used > self.resident_threads || *beside >= KERNELS_MAX
        });
        last_without_room.map_or(not_before_ns, |(kernel, _)| kernel.finish_ns)
    }

    /// Occupies the engine until `finish_ns`.
    pub(crate) fn occupy(&mut self, engine: Engine, finish_ns: u64) {
        match engine {
            Engine::None => {}
            Engine::Upload => self.upload_free_ns = self.upload_free_ns.max(finish_ns),
            Engine::Download => self.download_free_ns = self.download_free_ns.max(finish_ns),
            Engine::Compute(threads) => {
                let at = self.running.partition_point(|r| r.finish_ns <= finish_ns);
                self.running
                    .insert(at, RunningKernel { finish_ns, threads });
                // No kernel runs beside as many that finish later than it.
                if self.running.len() > KERNELS_MAX {
                    self.running.pop_front();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_kernels_overlap_and_a_large_kernel_waits_for_free_threads() {
        let mut engines = Engines::new(1000);
        engines.occupy(Engine::Compute(400), 50);
        engines.occupy(Engine::Compute(400), 80);
        assert_eq!(engines.earliest_ns(Engine::Compute(200), 10), 10);
        assert_eq!(engines.earliest_ns(Engine::Compute(600), 10), 50);
        assert_eq!(engines.earliest_ns(Engine::Compute(1000), 10), 80);
        assert_eq!(engines.earliest_ns(Engine::Upload, 10), 10);
        // Kernels that cannot delay another are forgotten.
        (100..1000).for_each(|finish_ns| engines.occupy(Engine::Compute(1), finish_ns));
        assert_eq!(engines.running.len(), KERNELS_MAX);
    }
}
