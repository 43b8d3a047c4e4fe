//! Scenarios that count driver calls: operations that must need none, and calls that must be made
//! exactly once.

use crate::scenarios::prelude::*;

/// Launches, copies and frees on one stream.
fn one_stream(harness: &Harness, calls: &Calls, stream: &Stream) -> Result<()> {
    let kernels = sums::load(&harness.device)?;
    calls.forget();
    let ones = stream.upload(&vec![1.0_f32; N])?;
    let mut sum = stream.zeros::<f32>(N)?;
    let mut next = stream.zeros::<f32>(N)?;
    for _ in 0..50 {
        kernels.vecadd(stream, N, &sum, &ones, &mut next, N as u64)?;
        std::mem::swap(&mut sum, &mut next);
    }
    assert_eq!(stream.values(&sum)?, [50.0; N]);
    drop((ones, sum, next));
    assert_eq!(calls.count("event_synchronize"), 0);
    assert_eq!(calls.count("launch_kernel"), 50);
    assert_eq!(calls.count("mem_free_async"), 3);
    Ok(())
}

/// As [`one_stream`], on a stream of ours, without an event.
fn one_stream_without_events(harness: &Harness, calls: &Calls, stream: &Stream) -> Result<()> {
    one_stream(harness, calls, stream)?;
    let events = ["event_create", "event_record", "event_query"];
    for call in events.into_iter().chain(["stream_wait_event"]) {
        assert_eq!(calls.count(call), 0, "{call}: {:?}", calls.counts());
    }
    Ok(())
}

#[run_by(counted_scenario, |harness, calls|)]
fn a17_one_stream_costs_no_event() -> Result<()> {
    harness.device.set_cache_limit(0);
    one_stream_without_events(harness, calls, &harness.stream())
}

/// An adopted stream costs two records and two waits for each operation but a free: it waits for
/// the owner's stream, which then waits for it. A stream of ours beside it costs no event.
pub(crate) fn a17_an_adopted_stream_costs_two_records_for_each_operation() {
    counted_scenario(|harness, calls| {
        harness.device.set_cache_limit(0);
        let [adopted, own] = harness.streams();
        one_stream_without_events(harness, calls, &own)?;
        one_stream(harness, calls, &adopted)?;
        let operations = [
            "launch_kernel",
            "memset_async",
            "copy_host_to_device_async",
            "copy_device_to_host_async",
        ];
        let operations: usize = operations.iter().map(|call| calls.count(call)).sum();
        let records = calls.count("event_record");
        assert_eq!(records, 2 * operations, "{:?}", calls.counts());
        assert_eq!(calls.count("stream_wait_event"), records);
        Ok(())
    });
}

/// The calls that wait on the host, or for the whole device.
const HOST_WAITS: [&str; 5] = [
    "stream_synchronize",
    "event_synchronize",
    "context_synchronize",
    "mem_free",
    "host_free",
];

/// Copies an array of the first stream on the second, its copy on the third, and then the array
/// itself there, which is ordered behind the first stream already.
pub(crate) fn implied_order(
    harness: &Harness,
    calls: &Calls,
    [s1, s2, s3]: [&Stream; 3],
) -> Result<()> {
    let a = s1.upload(&vec![1_u32; N])?;
    let mut b = s2.zeros::<u32>(N)?;
    let [mut c, mut again] = [s3.zeros::<u32>(N)?, s3.zeros::<u32>(N)?];
    s2.synchronize()?;
    s3.synchronize()?;
    let gate = harness.gate(s1);
    calls.forget();
    s2.copy(&a, &mut b)?;
    harness.assert_count(calls, "stream_wait_event", 1);
    s3.copy(&b, &mut c)?;
    harness.assert_count(calls, "stream_wait_event", 2);
    s3.copy(&a, &mut again)?;
    harness.assert_count(calls, "stream_wait_event", 2); // no third
    for call in HOST_WAITS {
        assert_eq!(calls.count(call), 0, "{call}: {:?}", calls.counts());
    }
    let value = s3.download(&again)?;
    gate.open();
    assert_eq!(value.wait()?, [1; N]);
    assert_eq!(s3.values(&c)?, [1; N]);
    Ok(())
}

#[run_by(counted_on, |harness, calls, streams: [_; 3]|)]
fn a19_an_order_that_others_imply_costs_no_second_wait() -> Result<()> {
    implied_order(harness, calls, streams.each_ref())
}

#[run_by(counted_on, |harness, calls, [s1, s2]|)]
fn a_cross_stream_dependency_costs_one_record_and_one_wait() -> Result<()> {
    let mut a = s1.zeros::<u32>(N)?;
    for round in 0..4 {
        s1.fill(&mut a, round)?;
        s2.fill(&mut a, round)?;
    }
    let gate = harness.gate(&s1);
    calls.forget();
    for round in 0..10 {
        s1.fill(&mut a, round)?;
        s2.fill(&mut a, round + 100)?;
    }
    assert_eq!(calls.count("memset_async"), 20);
    assert_eq!(calls.count("event_record"), 20);
    harness.assert_count(calls, "stream_wait_event", 20);
    gate.open();
    assert_eq!(s1.values(&a)?, [109; N]);
    // Events are recorded again. CUDASTF makes one for each task, which costs 3 µs.
    for round in 0..1000 {
        s1.fill(&mut a, round)?;
        s2.fill(&mut a, round)?;
        if round % 32 == 31 {
            assert_eq!(s1.values(a.slice(..1))?, [round]);
        }
    }
    let created = calls.count("event_create");
    assert!(created <= 200, "{:?}", calls.counts());
    assert_eq!(calls.count("event_destroy"), 0);
    Ok(())
}

#[run_by(counted_on, |harness, calls, [s1, s2]|)]
fn b06_nothing_is_device_wide() -> Result<()> {
    let kernels = sums::load(&harness.device)?;
    for round in 0..8_u8 {
        let gate = harness.gate(&s1);
        let a = s1.upload(&vec![f32::from(round); N])?;
        let mut b = s2.zeros::<f32>(N)?;
        kernels.vecadd(&s2, N, &a, &a, &mut b, N as u64)?;
        let mut pinned = harness.device.pinned::<f32>(N)?;
        s1.copy(&b, &mut pinned)?;
        let value = s2.download(&b)?;
        drop((a, b, pinned));
        gate.open();
        assert_eq!(value.wait()?, [2.0 * f32::from(round); N]);
    }
    let device_wide = [
        "context_synchronize",
        "mem_alloc",
        "mem_free",
        "host_free",
        "host_unregister",
        "copy_host_to_device",
        "copy_device_to_host",
        "copy_device_to_device",
        "stream_synchronize",
        "event_synchronize",
    ];
    for call in device_wide {
        assert_eq!(calls.count(call), 0, "{call}: {:?}", calls.counts());
    }
    assert_eq!(calls.legacy(), 0, "the legacy default stream was used");
    Ok(())
}

#[run_by(counted_on, |harness, calls, [stream]|)]
fn b09_chained_copies_of_one_stream_need_no_event() -> Result<()> {
    let mut a = stream.zeros::<u32>(3 * N)?;
    let sources = [1_u32, 2, 3].map(|value| harness.device.pinned_from(&vec![value; N]).unwrap());
    let gate = harness.gate(&stream);
    calls.forget();
    for (source, target) in sources.iter().zip(a.chunks_mut(N)) {
        stream.copy(source, target)?;
    }
    assert_eq!(calls.count("copy_host_to_device_async"), 3);
    assert_eq!(
        calls.counts().len(),
        1,
        "nothing else is called: {:?}",
        calls.counts()
    );
    gate.open();
    assert_eq!(stream.values(&a)?, [[1; N], [2; N], [3; N]].concat());
    Ok(())
}
