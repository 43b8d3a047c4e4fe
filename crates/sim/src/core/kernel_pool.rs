//! The threads that kernels run on.

use std::{panic::resume_unwind, thread};

use millstream_driver::PerProcess;

/// Runs `work` on the process's kernel threads and waits for it.
///
/// They are a pool apart from the program's own. A thread of the program's pool may hold the
/// state lock while it waits here: were it to take up other tasks of its pool meanwhile, one of
/// those could call the driver, and wait for that lock.
pub(crate) fn install<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    static POOL: PerProcess<rayon::ThreadPool> = PerProcess::new();
    let pool = POOL.get_or_init(|| {
        rayon::ThreadPoolBuilder::new()
            .thread_name(|index| format!("sim-kernel-{index}"))
            .build()
            .expect("the host can start threads")
    });
    if rayon::current_thread_index().is_none() {
        return pool.install(work);
    }
    // A worker of another pool would work on that pool's tasks while it waits in `install`. It
    // waits for a plain thread.
    let ran = thread::scope(|scope| scope.spawn(|| pool.install(work)).join());
    ran.unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_task_of_another_pool_waits_without_taking_up_other_tasks() {
        let lock = std::sync::Mutex::new(());
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .build()
            .unwrap();
        // With one thread, a task taken up while the lock is held would never get the lock.
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
