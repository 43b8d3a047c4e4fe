//! The thread pool that executes kernels.

use std::{panic::resume_unwind, thread};

use millstream_driver::PerProcess;

/// Returns the number of threads that [`share`] can run on.
pub(super) fn threads() -> usize {
    pool().current_num_threads()
}

/// Runs `work` on the calling thread and on others of the process's kernel thread pool, on at most
/// `most` in all, and waits until all have returned.
///
/// This pool is separate from rayon pools of the program. A thread of the program's pool may hold
/// the state lock while it waits here: if it ran other tasks of its pool meanwhile, one of them
/// could call the driver and deadlock on that lock.
pub(super) fn share(most: u64, work: impl Fn() + Sync) {
    let others = most.min(threads() as u64).saturating_sub(1);
    if others == 0 {
        return work();
    }
    // The calling thread takes part, because it takes long to wake the others.
    let shared = || {
        pool().in_place_scope(|scope| {
            (0..others).for_each(|_| scope.spawn(|_| work()));
            work();
        });
    };
    if rayon::current_thread_index().is_none() {
        return shared();
    }
    // A worker of another pool would run that pool's tasks while it waits for the others, so a
    // plain thread waits instead.
    let ran = thread::scope(|scope| scope.spawn(shared).join());
    ran.unwrap_or_else(|panic| resume_unwind(panic));
}

fn pool() -> &'static rayon::ThreadPool {
    static POOL: PerProcess<rayon::ThreadPool> = PerProcess::new();
    POOL.get_or_init(|| {
        rayon::ThreadPoolBuilder::new()
            .thread_name(|index| format!("sim-kernel-{index}"))
            .build()
            .expect("cannot start the threads of the kernel thread pool")
    })
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
                    super::share(2, || ());
                });
            }
        });
    }
}
