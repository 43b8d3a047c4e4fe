//! Virtual time: what overlaps, what does not, and what it costs.

use millstream_driver::{FillPattern, StreamHandle};
use millstream_sim::{CostModel, Schedule, SimConfig, Span};

use crate::rig::{Rig, each_schedule_with};

const BYTES: usize = 1 << 20;

fn spans(rig: &Rig, word: &str) -> Vec<Span> {
    let all = rig.gpu.timeline();
    all.into_iter()
        .filter(|span| span.what.starts_with(word))
        .collect()
}

#[test]
fn upload_kernel_and_download_on_three_streams_overlap() {
    let cost = CostModel {
        // Long enough that all three are enqueued before the first is done.
        copy_latency_ns: 100_000,
        ..CostModel::default()
    };
    each_schedule_with(SimConfig::new().timeline(true).cost(cost), |rig| {
        let [up, work, down] = [rig.stream(), rig.stream(), rig.stream()];
        let [a, b, c] = [0; 3].map(|_| rig.mem_alloc(BYTES).unwrap());
        let (from, to) = (rig.pinned(BYTES), rig.pinned(BYTES));
        rig.memset_async(c, FillPattern::U8(0), BYTES, down)
            .unwrap();
        rig.stream_synchronize(down).unwrap();
        rig.upload(a, from, up).unwrap();
        rig.memset_async(b, FillPattern::U8(0), BYTES, work)
            .unwrap();
        rig.download(to, c, down).unwrap();
        rig.context_synchronize().unwrap();
        let upload = &spans(rig, "copy (PinnedToDevice")[0];
        let fill = &spans(rig, "fill")[1];
        let download = &spans(rig, "copy (DeviceToPinned")[0];
        assert!(upload.overlaps(fill) && fill.overlaps(download) && download.overlaps(upload));
    });
}

#[test]
fn two_uploads_share_one_engine() {
    each_schedule_with(SimConfig::new().timeline(true), |rig| {
        let (first, second) = (rig.stream(), rig.stream());
        let memory = rig.mem_alloc(2 * BYTES).unwrap();
        let host = rig.pinned(BYTES);
        rig.upload(memory, host, first).unwrap();
        rig.upload(memory.offset(BYTES as u64), host, second)
            .unwrap();
        rig.context_synchronize().unwrap();
        let [one, two] = &spans(rig, "copy")[..] else {
            panic!("two copies");
        };
        assert!(!one.overlaps(two));
        // 1 MiB at 55.4 GB/s, and the latency.
        assert_eq!(one.finish_ns - one.start_ns, 18_928 + 1_000);
    });
}

#[test]
fn a_wait_orders_virtual_time() {
    each_schedule_with(SimConfig::new().timeline(true), |rig| {
        let (first, second) = (rig.stream(), rig.stream());
        let memory = rig.mem_alloc(BYTES).unwrap();
        let host = rig.pinned(BYTES);
        rig.upload(memory, host, first).unwrap();
        let event = rig.recorded(first);
        rig.stream_wait_event(second, event).unwrap();
        rig.memset_async(memory, FillPattern::U8(1), 4, second)
            .unwrap();
        rig.context_synchronize().unwrap();
        let (upload, fill) = (&spans(rig, "copy")[0], &spans(rig, "fill")[0]);
        assert!(fill.start_ns >= upload.finish_ns);
    });
}

#[test]
fn launching_and_synchronising_moves_the_host_s_clock_to_the_end_of_the_work() {
    let rig = Rig::new(SimConfig::new().timeline(true));
    let stream = rig.stream();
    let memory = rig.mem_alloc(BYTES).unwrap();
    rig.memset_async(memory, FillPattern::U8(1), BYTES, stream)
        .unwrap();
    rig.stream_synchronize(stream).unwrap();
    assert!(rig.gpu.virtual_time_ns() >= spans(&rig, "fill")[0].finish_ns);
}

#[test]
fn legacy_barriers_order_virtual_time() {
    let rig = Rig::new(SimConfig::new().timeline(true).schedule(Schedule::Lazy));
    let blocking = rig.blocking_stream();
    let memory = rig.mem_alloc(BYTES).unwrap();
    let host = rig.pinned(BYTES);
    rig.upload(memory, host, blocking).unwrap();
    rig.memset_async(memory, FillPattern::U8(1), 4, StreamHandle::LEGACY)
        .unwrap();
    rig.stream_synchronize(StreamHandle::LEGACY).unwrap();
    let (upload, fill) = (&spans(&rig, "copy")[0], &spans(&rig, "fill")[0]);
    assert!(fill.start_ns >= upload.finish_ns);
}
