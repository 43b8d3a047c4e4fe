//! Virtual time: operations that overlap, operations that do not, and their durations.

use millstream_sim::{CostModel, Span};

use crate::rules::prelude::*;

const BYTES: usize = 1 << 20;

fn spans(sim: &SimHarness, word: &str) -> Vec<Span> {
    let all = sim.gpu.timeline();
    all.into_iter()
        .filter(|span| span.what.starts_with(word))
        .collect()
}

#[test]
fn upload_kernel_and_download_on_three_streams_overlap() {
    let cost = CostModel {
        // A latency long enough that all three are enqueued before the first is complete.
        copy_latency_ns: 100_000,
        ..CostModel::default()
    };
    each_schedule_with(SimConfig::new().timeline(true).cost(cost), |sim| {
        let [up, work, down] = [sim.stream(), sim.stream(), sim.stream()];
        let [a, b, c] = [0; 3].map(|_| sim.mem_alloc(BYTES).unwrap());
        let (from, to) = (sim.pinned(BYTES), sim.pinned(BYTES));
        sim.fill(c, 0, BYTES, down);
        sim.stream_synchronize(down).unwrap();
        sim.upload(a, from, up).unwrap();
        sim.fill(b, 0, BYTES, work);
        sim.download(to, c, down).unwrap();
        sim.context_synchronize().unwrap();
        let upload = &spans(sim, "copy (PinnedToDevice")[0];
        let fill = &spans(sim, "fill")[1];
        let download = &spans(sim, "copy (DeviceToPinned")[0];
        assert!(upload.overlaps(fill) && fill.overlaps(download) && download.overlaps(upload));
    });
}

#[run_by(each_schedule_with(SimConfig::new().timeline(true)), |sim|)]
fn two_uploads_share_one_engine() {
    let (first, second) = (sim.stream(), sim.stream());
    let memory = sim.mem_alloc(2 * BYTES).unwrap();
    let host = sim.pinned(BYTES);
    sim.upload(memory, host, first).unwrap();
    sim.upload(memory.offset(BYTES as u64), host, second)
        .unwrap();
    sim.context_synchronize().unwrap();
    let [one, two] = &spans(sim, "copy")[..] else {
        panic!("expected two copies");
    };
    assert!(!one.overlaps(two));
    // 1 MiB at 55.4 GB/s, and the latency.
    assert_eq!(one.finish_ns - one.start_ns, 18_928 + 1_000);
}

#[run_by(each_schedule_with(SimConfig::new().timeline(true)), |sim|)]
fn a_wait_orders_virtual_time() {
    let (first, second) = (sim.stream(), sim.stream());
    let memory = sim.mem_alloc(BYTES).unwrap();
    let host = sim.pinned(BYTES);
    sim.upload(memory, host, first).unwrap();
    let event = sim.recorded(first);
    sim.stream_wait_event(second, event).unwrap();
    sim.fill(memory, 1, 4, second);
    sim.context_synchronize().unwrap();
    let (upload, fill) = (&spans(sim, "copy")[0], &spans(sim, "fill")[0]);
    assert!(fill.start_ns >= upload.finish_ns);
}

#[test]
fn legacy_barriers_order_virtual_time() {
    let sim = SimHarness::new(SimConfig::new().timeline(true).schedule(Schedule::Lazy));
    let blocking = sim.blocking_stream();
    let memory = sim.mem_alloc(BYTES).unwrap();
    let host = sim.pinned(BYTES);
    sim.upload(memory, host, blocking).unwrap();
    sim.fill(memory, 1, 4, StreamHandle::LEGACY);
    sim.stream_synchronize(StreamHandle::LEGACY).unwrap();
    let (upload, fill) = (&spans(&sim, "copy")[0], &spans(&sim, "fill")[0]);
    assert!(fill.start_ns >= upload.finish_ns);
}
