//! Tests of the copy threads, on transfers within host memory.

use std::thread;

use super::*;

fn staging_options(threads: usize) -> StagingOptions {
    StagingOptions {
        subchunk_bytes: 100,
        alone_bytes: 0,
        threads,
        ..StagingOptions::default()
    }
}

fn rising(len: usize, from: usize) -> Vec<u8> {
    (from..).take(len).map(|n| (n % 251) as u8).collect()
}

#[test]
fn all_is_copied_by_whatever_threads_there_are() {
    for threads in [1, 2, 4] {
        let sources: Vec<_> = (0..20).map(|n| rising(n * n * 7 + 1, n)).collect();
        let mut targets: Vec<_> = sources.iter().map(|source| vec![0; source.len()]).collect();
        {
            let transfer = Transfer::new(&staging_options(threads), threads == 2);
            for (number, (source, target)) in sources.iter().zip(&mut targets).enumerate() {
                let bytes = source.len();
                // SAFETY: both have this length, do not overlap, and outlive the transfer.
                let pushed = unsafe { transfer.push(source.as_ptr(), target.as_mut_ptr(), bytes) };
                assert_eq!(pushed, number as u64);
            }
            transfer.finish(3);
            assert!(transfer.is_done(3) && transfer.is_done(0));
        }
        assert!(sources == targets, "{threads} threads");
    }
}

#[test]
fn transfers_of_many_threads_do_not_mix() {
    thread::scope(|scope| {
        for owner in 0..8 {
            scope.spawn(move || {
                for round in 0..50 {
                    let source = rising(1 + round * 97, owner + round);
                    let mut target = vec![0; source.len()];
                    let transfer = Transfer::new(&staging_options(4), false);
                    let bytes = source.len();
                    // SAFETY: both have this length, do not overlap, and outlive the transfer.
                    let number =
                        unsafe { transfer.push(source.as_ptr(), target.as_mut_ptr(), bytes) };
                    transfer.finish(number);
                    assert!(source == target);
                }
            });
        }
    });
    let left = copy_threads().state.lock().queues.len();
    // Other tests of this process may have transfers.
    assert!(left < 8, "{left} transfers are over and still known");
}

/// Creates a queue without workers, with a job of `bytes` bytes.
fn queue(id: u64, bytes: usize, helpers_max: usize) -> TransferQueue {
    let (mut target, source) = (vec![0; bytes], vec![0; bytes]);
    let copy = CopyRange {
        source: source.as_ptr(),
        target: target.as_mut_ptr(),
        bytes,
    };
    TransferQueue {
        id,
        options: TransferOptions {
            subchunk_bytes: 10,
            helpers_max,
            non_temporal: false,
        },
        helpers: 0,
        first: 0,
        jobs: VecDeque::from([Job {
            copy,
            taken_bytes: 0,
            left_bytes: bytes,
        }]),
    }
}

#[test]
fn transfers_are_helped_in_turn_and_by_no_more_threads_than_they_may() {
    let mut state = CopyThreadsState::default();
    state.queues.push_back(queue(1, 1000, 3));
    state.queues.push_back(queue(2, 20, 3));
    state.queues.push_back(queue(3, 1000, 1));
    let order: Vec<_> = std::iter::from_fn(|| state.take_round_robin())
        .map(|subchunk| subchunk.id)
        .collect();
    assert_eq!(order, [1, 2, 3, 1, 2, 1]);
}

#[test]
fn a_job_is_done_when_all_its_parts_are_and_those_before_it() {
    let mut queue = queue(1, 25, 1);
    let second = queue.jobs[0].copy.subchunk(0, 5);
    queue.jobs.push_back(Job {
        copy: second,
        taken_bytes: 0,
        left_bytes: 5,
    });
    let subchunks: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
    let sizes: Vec<_> = subchunks
        .iter()
        .map(|subchunk| (subchunk.job, subchunk.copy.bytes))
        .collect();
    assert_eq!(sizes, [(0, 10), (0, 10), (0, 5), (1, 5)]);
    let done: Vec<_> = [3, 0, 2, 1]
        .iter()
        .map(|&at| queue.put_back(&subchunks[at]))
        .collect();
    assert_eq!((done, queue.first), (vec![false, false, false, true], 2));
}
