//! Copies between devices, and the effect of peer access on them (rules 38 and 39).

use millstream_driver::{PeerCopy, PeerCopy2d};
use millstream_sim::{PeerPool, Span};

use crate::rules::{
    peers::{BYTES, Pair, pooled, two_devices},
    prelude::*,
};

/// A size at which the bandwidth determines a copy's duration.
const LARGE: usize = 1 << 20;

fn copies(sim: &SimHarness) -> Vec<Span> {
    let spans = sim.gpu.timeline().into_iter();
    spans
        .filter(|span| span.what.starts_with("copy (BetweenDevices"))
        .collect()
}

#[test]
fn a_peer_copy_needs_no_access_and_is_an_operation_of_its_stream() {
    for link in [Link::NvLink, Link::Pcie, Link::NoPeerAccess] {
        for rules in [Rules::observed(), Rules::strict()] {
            each_schedule_with(two_devices().links(Links::all(link)).rules(rules), |sim| {
                let pair = Pair::new(sim);
                let source = pair.pooled(7, BYTES);
                let target = pooled(&pair.other, pair.there, 0, BYTES);
                let event = sim.recorded(pair.here);
                pair.other.stream_wait_event(pair.there, event).unwrap();
                pair.other
                    .copy_from(target, sim, source, BYTES, pair.there)
                    .unwrap();
                assert_eq!(pair.other.read(target, BYTES, pair.there), [7; BYTES]);
                let hold = sim.hold(pair.there);
                pair.other
                    .copy_from(target, sim, source, BYTES, pair.there)
                    .expect("the call does not block");
                assert!(pair.other.pending(pair.there));
                hold.release();
                pair.other.stream_synchronize(pair.there).unwrap();
                sim.assert_clean();
            });
        }
    }
}

#[run_by(each_schedule_with(two_devices()), |sim|)]
fn a_peer_copy_of_rows_leaves_the_bytes_between_them() {
    let pair = Pair::new(sim);
    let source = pair.pooled(0, 12);
    let bytes: Vec<u8> = (0..12).collect();
    sim.upload(source, Host::of(&bytes), pair.here).unwrap();
    sim.stream_synchronize(pair.here).unwrap();
    let target = pooled(&pair.other, pair.there, 99, 15);
    let copy = PeerCopy2d {
        target,
        target_pitch_bytes: 5,
        target_context: pair.other.context,
        source: source.offset(1),
        source_pitch_bytes: 4,
        source_context: sim.context,
        row_bytes: 2,
        rows: 3,
    };
    pair.other.copy_peer_2d_async(&copy, pair.there).unwrap();
    assert_eq!(
        pair.other.read(target, 15, pair.there),
        [1, 2, 99, 99, 99, 5, 6, 99, 99, 99, 9, 10, 99, 99, 99]
    );
    let nothing = PeerCopy2d { rows: 0, ..copy };
    pair.other.copy_peer_2d_async(&nothing, pair.there).unwrap();
    sim.assert_clean();
    let short = PeerCopy2d {
        source_pitch_bytes: 1,
        ..copy
    };
    pair.other
        .copy_peer_2d_async(&short, pair.there)
        .fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(
        ReportKind::BadArgument,
        &["a pitch of 1 bytes for rows of 2"],
    );
}

#[test]
fn a_peer_copy_names_the_contexts_of_its_memory() {
    let sim = SimHarness::new(two_devices());
    let pair = Pair::new(&sim);
    let source = pair.pooled(1, BYTES);
    let target = pooled(&pair.other, pair.there, 0, BYTES);
    // Both sides are given the second device's context.
    pair.other
        .copy_from(target, &pair.other, source, BYTES, pair.there)
        .fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::WrongContext, &["belongs to", "on device 0"]);
    pair.other
        .copy_from(target.offset(8), &sim, source, BYTES, pair.there)
        .fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::OutOfBounds, &["on device 1"]);
    sim.copy_from(source, &pair.other, target, BYTES, pair.there)
        .fails(ResultCode::INVALID_HANDLE);
    sim.assert_reported(ReportKind::WrongContext, &["rule 20"]);
}

#[test]
fn a_copy_takes_the_bandwidth_of_its_path() {
    // 1 MiB at the path's bandwidth, and the latency.
    for (link, pool, staged_ns, direct_ns) in [
        (Link::NvLink, true, 28_963, 3_662),
        (Link::NvLink, false, 28_963, 3_662),
        (Link::Pcie, true, 28_963, 42_944),
        (Link::NoPeerAccess, true, 28_963, 28_963),
    ] {
        let config = two_devices().links(Links::all(link)).timeline(true);
        each_schedule_with(config, |sim| {
            let pair = Pair::new(sim);
            let (source, target) = if pool {
                (
                    pair.pooled(1, LARGE),
                    pooled(&pair.other, pair.there, 0, LARGE),
                )
            } else {
                let source = sim.mem_alloc(LARGE).unwrap();
                sim.fill(source, 1, LARGE, pair.here);
                sim.stream_synchronize(pair.here).unwrap();
                (source, pair.other.mem_alloc(LARGE).unwrap())
            };
            let copy = || {
                pair.other
                    .copy_from(target, sim, source, LARGE, pair.there)
                    .unwrap();
                pair.other.stream_synchronize(pair.there).unwrap();
                let copy = copies(sim).pop().unwrap();
                copy.finish_ns - copy.start_ns
            };
            assert_eq!(copy(), staged_ns);
            if link != Link::NoPeerAccess {
                // Access to the other kind of memory changes nothing.
                let enable = || pair.other.context_enable_peer_access(sim.context).unwrap();
                let set = || sim.pool_set_access(pair.other.device, true).unwrap();
                if pool {
                    enable()
                } else {
                    set()
                }
                assert_eq!(copy(), staged_ns);
                if pool { set() } else { enable() }
            }
            let expected = if link == Link::NoPeerAccess {
                staged_ns
            } else {
                direct_ns
            };
            assert_eq!(copy(), expected);
        });
    }
}

#[test]
fn enabling_and_setting_access_take_milliseconds() {
    let sim = SimHarness::new(two_devices());
    let other = sim.on_device(1);
    let before = sim.gpu.virtual_time_ns();
    sim.context_enable_peer_access(other.context).unwrap();
    let between = sim.gpu.virtual_time_ns();
    sim.pool_set_access(other.device, true).unwrap();
    // Asking for the pool is a call too.
    let after = sim.gpu.virtual_time_ns();
    assert_eq!(between - before, 2_400_000);
    assert!((18_000_000..18_001_000).contains(&(after - between)));
}

#[test]
fn copies_in_both_directions_overlap_and_copies_from_one_device_do_not() {
    let config = SimConfig::new().devices(3).timeline(true);
    each_schedule_with(config.clone(), |sim| {
        let pair = Pair::new(sim);
        let [here, there] = [
            [pair.pooled(1, LARGE), pair.pooled(1, LARGE)],
            [(); 2].map(|()| pooled(&pair.other, pair.there, 1, LARGE)),
        ];
        pair.other
            .copy_from(there[0], sim, here[0], LARGE, pair.there)
            .unwrap();
        sim.copy_from(here[1], &pair.other, there[1], LARGE, pair.here)
            .unwrap();
        sim.stream_synchronize(pair.here).unwrap();
        pair.other.stream_synchronize(pair.there).unwrap();
        let [one, two] = &copies(sim)[..] else {
            panic!("expected two copies");
        };
        assert!(one.overlaps(two));
    });
    each_schedule_with(config, |sim| {
        let here = sim.stream();
        let source = pooled(sim, here, 1, LARGE);
        let others = [1, 2].map(|ordinal| sim.on_device(ordinal));
        let targets = others.each_ref().map(|other| {
            let stream = other.stream();
            (other, stream, pooled(other, stream, 0, LARGE))
        });
        for (other, stream, target) in &targets {
            other
                .copy_from(*target, sim, source, LARGE, *stream)
                .unwrap();
        }
        for (other, stream, _) in &targets {
            other.stream_synchronize(*stream).unwrap();
        }
        let [one, two] = &copies(sim)[..] else {
            panic!("expected two copies");
        };
        assert!(!one.overlaps(two), "both use the source's copy engine");
    });
}

#[run_by(each_schedule_with(two_devices().peer_pool(PeerPool::Zeros)), |sim|)]
fn zeros_replace_another_device_s_pool_memory_without_an_error() {
    let pair = Pair::new(sim);
    let source = pair.pooled(1, BYTES);
    let target = pooled(&pair.other, pair.there, 2, BYTES);
    let pull = |value: u8| {
        pair.other
            .copy_from(target, sim, source, BYTES, pair.there)
            .unwrap();
        let bytes = pair.other.read(target, BYTES, pair.there);
        assert_eq!(bytes, [value; BYTES]);
    };
    // Without access the driver stages the copy, which works.
    pull(1);
    sim.pool_set_access(pair.other.device, true).unwrap();
    pull(0);
    assert_eq!(pair.read_from_there(source), [0; 4]);
    pair.write_from_there(source, 0x0505_0505);
    pair.other
        .copy_peer_async(
            &PeerCopy {
                target: source,
                target_context: sim.context,
                source: target,
                source_context: pair.other.context,
                bytes: BYTES,
            },
            pair.there,
        )
        .unwrap();
    pair.other.stream_synchronize(pair.there).unwrap();
    assert_eq!(sim.read(source, BYTES, pair.here), [1; BYTES]);
    assert_eq!(pair.read_from_there(source), [0; 4], "the write is gone");
    // Memory outside the pool is not affected.
    let plain = sim.mem_alloc(4).unwrap();
    pair.other.context_enable_peer_access(sim.context).unwrap();
    pair.write_from_there(plain, 0x0606_0606);
    pair.other.stream_synchronize(pair.there).unwrap();
    assert_eq!(sim.read(plain, 4, pair.here), [6; 4]);
    sim.assert_clean();
}

#[run_by(each_schedule_with(two_devices()), |sim|)]
fn a_lost_source_ends_the_waits_for_it_and_leaves_the_other_device_alive() {
    let pair = Pair::new(sim);
    let source = pair.pooled(1, BYTES);
    let target = pooled(&pair.other, pair.there, 2, BYTES);
    let hold = sim.hold(pair.here);
    let fails = sim.kernel(SET, "fails");
    sim.launch(fails, (1, 1), pair.here, &[]).unwrap();
    let event = sim.recorded(pair.here);
    pair.other.stream_wait_event(pair.there, event).unwrap();
    // The call precedes the loss, so the copy runs, on data that was never written.
    pair.other
        .copy_from(target, sim, source, BYTES, pair.there)
        .unwrap();
    hold.release();
    assert_eq!(pair.other.read(target, BYTES, pair.there), [1; BYTES]);
    let lost = ResultCode::LAUNCH_FAILED;
    sim.context_synchronize().fails(lost);
    // A query of the event tells of its context's loss, and a wait for it is over at once.
    pair.other.event_query(event).fails(lost);
    pair.other.event_synchronize(event).fails(lost);
    pair.other.stream_wait_event(pair.there, event).unwrap();
    pair.other.stream_synchronize(pair.there).unwrap();
    // A copy that names the lost context is refused.
    pair.other
        .copy_from(target, sim, source, BYTES, pair.there)
        .fails(lost);
    pair.other.context_synchronize().unwrap();
    assert_eq!(pair.other.read(target, BYTES, pair.there), [1; BYTES]);
    assert_eq!(sim.gpu.reports().len(), 1, "the fault alone");
}
