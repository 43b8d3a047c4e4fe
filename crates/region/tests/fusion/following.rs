//! Streams of sessions that read the results of earlier ones.

use crate::fusion::prelude::*;

fn ones(counted: &Counted) -> Array<f32, Ix1> {
    counted.array(&Array1::ones(1000))
}

/// Returns the numbers of waits of one stream for another, and of queries, until `run` returns.
fn waits_and_queries(counted: &Counted, run: impl FnOnce()) -> (usize, usize) {
    counted.calls.forget();
    run();
    let counts = counted.calls.counts();
    let of = |call| counts.get(call).copied().unwrap_or(0);
    (of("stream_wait_event"), of("stream_query"))
}

#[run_by(Counted::with(Schedule::Lazy), |counted|)]
fn a_session_follows_that_whose_results_it_reads_on_its_stream() {
    // Nothing is complete before the host waits for it.
    let a = ones(counted);
    let mut x = ones(counted);
    for call in 0..20 {
        let found = waits_and_queries(counted, || {
            x = counted.result(|g| Keep(g.array(&a) + g.array(&x)));
        });
        if call > 1 {
            assert_eq!(found, (0, 0), "call {call}");
        }
    }
    assert_eq!(x.to_host().unwrap(), Array1::from_elem(1000, 21.0));
}

/// A call that enqueues would block on a stream with some thousand pending operations.
#[run_by(Counted::with(Schedule::Lazy), |counted|)]
fn sessions_that_follow_each_other_leave_a_stream_before_it_is_full() {
    let a = ones(counted);
    let mut x = ones(counted);
    let (waits, _) = waits_and_queries(counted, || {
        for _ in 0..1_100 {
            x = counted.result(|g| Keep(g.array(&a) + g.array(&x)));
        }
    });
    assert!((4..12).contains(&waits), "{waits}");
    assert_eq!(x.to_host().unwrap(), Array1::from_elem(1000, 1101.0));
}

#[run_by(Counted::with(Schedule::Lazy), |counted|)]
fn a_session_is_not_ordered_behind_other_work_of_an_earlier_one() {
    let a = ones(counted);
    // Both kernels are on one stream, since the second reads what the first computes.
    let (sums, shifted) = counted.result(|g| {
        let sums = g.array(&a).cumsum(ndarray::Axis(0));
        let shifted = &sums.cummax(ndarray::Axis(0)) + 1.0;
        (Keep(sums), Keep(shifted))
    });
    let mut last = None;
    let (waits, _) = waits_and_queries(counted, || {
        last = Some(counted.result(|g| Keep(g.array(&sums) * 2.0)));
    });
    assert_eq!(waits, 1);
    let last = last.unwrap().to_host().unwrap();
    assert_eq!(
        (last[999], shifted.to_host().unwrap()[999]),
        (2000.0, 1001.0)
    );
}

/// The host waits by a call of the driver that the library does not see.
#[run_by(Counted::with(Schedule::Timed), |counted|)]
fn a_session_takes_the_stream_and_the_memory_of_one_that_is_complete() {
    let x = counted.array(&Array1::<f32>::ones(100_000));
    let sum = || {
        let sum = counted.result(|g| Keep(g.array(&x).sum()));
        counted.wait_unnoticed();
        sum
    };
    // So many streams are retired that the memory of each is not the newest.
    let held: Vec<_> = (0..40).map(|_| counted.device.stream().unwrap()).collect();
    let many: Vec<_> = (0..40).map(|_| sum()).collect();
    drop((held, many));
    for call in 0..20 {
        counted.calls.forget();
        drop(sum());
        let counts = counted.calls.counts();
        let of = |call| counts.get(call).copied().unwrap_or(0);
        if call > 8 {
            let more = [
                "mem_alloc_async",
                "memset_async",
                "stream_wait_event",
                "stream_create",
            ];
            assert_eq!(more.map(of), [0; 4], "call {call}: {counts:?}");
            assert_eq!(of("stream_query"), 1, "call {call}");
        }
    }
}
