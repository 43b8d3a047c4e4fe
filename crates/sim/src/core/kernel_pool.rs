//! The thread pool that executes kernels.

use std::{panic::resume_unwind, thread};

use millstream_driver::PerProcess;

/// Runs `work` on the process's kernel thread pool and waits for it.
///
/// This pool is separate from rayon pools of the program. A thread of the program's pool may hold
/// the state lock while it waits here: if it ran other tasks of its pool meanwhile, one of them
/// could call the driver and deadlock on that lock.
pub(crate) fn install<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    static POOL: PerProcess<rayon::ThreadPool> = PerProcess::new();
    let pool = POOL.get_or_init(|| {
        rayon::ThreadPoolBuilder::new()
            .thread_name(|index| format!("sim-kernel-{index}"))
            .build()
            .expect("cannot start the threads of the kernel thread pool")
    });
    if rayon::current_thread_index().is_none() {
        return pool.install(work);
    }
    // A worker of another pool would run that pool's tasks while it waits in `install`, so a plain
    // thread waits instead.
    let ran = thread::scope(|scope| scope.spawn(|| pool.install(work)).join());
    ran.unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_task_of_another_pool_waits_without_running_other_tasks() {
        let lock = std::sync::Mutex::new(());
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .build()
            .unwrap();
        // With a single worker, a task that runs while the lock is held would deadlock.
        pool.scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|_| {
                    let _held = lock.lock().unwrap();
                    assert_eq!(super::install(|| 7), 7);
                });
            }
        });
    }
}
