//! Rules 38 and 39: access of one device to another device's memory, and copies between devices.

use millstream_driver::{
    DeviceAttribute, DeviceOrdinal, DevicePtr, Driver, FillPattern, P2pAttribute, PeerCopy2d,
    ResultCode, StreamHandle,
};
use millstream_sim::{
    Fault, Link, Links, PeerPool, Reading, ReportKind, Rules, Schedule, SimConfig, Span,
};

use crate::{
    kernels::SET,
    sim_harness::{Arg, DEVICE, SimHarness, assert_code, each_schedule_with},
};

/// A kernel that copies one word.
const COPY_WORD: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry copy_word(.param .u64 copy_word_0, .param .u64 copy_word_1)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [copy_word_0];
    ld.param.u64 %rd2, [copy_word_1];
    ld.global.u32 %r1, [%rd2];
    st.global.u32 [%rd1], %r1;
    ret;
}
";

const BYTES: usize = 16;
/// A size at which the bandwidth determines a copy's duration.
const LARGE: usize = 1 << 20;

fn two_devices() -> SimConfig {
    SimConfig::new().devices(2)
}

/// Two devices, each with a stream.
struct Pair<'a> {
    sim: &'a SimHarness,
    other: SimHarness,
    here: StreamHandle,
    there: StreamHandle,
}

impl<'a> Pair<'a> {
    fn new(sim: &'a SimHarness) -> Self {
        let other = sim.on_device(1);
        let (here, there) = (sim.stream(), other.stream());
        Self {
            sim,
            other,
            here,
            there,
        }
    }

    /// Returns pool memory of the first device, filled with `value`, that all work may use.
    fn pooled(&self, value: u8, bytes: usize) -> DevicePtr {
        pooled(self.sim, self.here, value, bytes)
    }

    /// Enqueues a kernel of the second device that writes the first word of `memory`.
    fn write_from_there(&self, memory: DevicePtr, value: u32) {
        let set = self.other.kernel(SET, "set");
        let args = [Arg::Pointer(memory), Arg::U32(value)];
        self.other.launch(set, (1, 1), self.there, &args).unwrap();
    }

    /// Returns the first word of `memory` as a kernel of the second device reads it.
    fn read_from_there(&self, memory: DevicePtr) -> Vec<u8> {
        let copy = pooled(&self.other, self.there, 9, 4);
        let copies = self.other.kernel(COPY_WORD, "copy_word");
        let args = [Arg::Pointer(copy), Arg::Pointer(memory)];
        self.other
            .launch(copies, (1, 1), self.there, &args)
            .unwrap();
        self.other.read(copy, 4, self.there)
    }

    /// Asserts that a kernel of the second device cannot write `memory`, and loses its context.
    fn assert_faults(&self, memory: DevicePtr, advice: &str) {
        self.write_from_there(memory, 1);
        assert_code(
            self.other.stream_synchronize(self.there),
            ResultCode::ILLEGAL_ADDRESS,
        );
        self.sim.assert_reported(
            ReportKind::KernelFault,
            &["memory of device 0", "device 1", advice],
        );
        self.sim
            .context_synchronize()
            .expect("the owner's context is not lost");
    }
}

fn pooled(sim: &SimHarness, stream: StreamHandle, value: u8, bytes: usize) -> DevicePtr {
    let memory = sim.mem_alloc_async(bytes, stream).unwrap();
    sim.memset_async(memory, FillPattern::U8(value), bytes, stream)
        .unwrap();
    sim.stream_synchronize(stream).unwrap();
    memory
}

/// Returns the copies of the timeline.
fn copies(sim: &SimHarness) -> Vec<Span> {
    let spans = sim.gpu.timeline().into_iter();
    spans
        .filter(|span| span.what.starts_with("copy (BetweenDevices"))
        .collect()
}

#[test]
fn links_decide_on_access_and_attributes() {
    let links: Links = "nvlink:0-1;pcie:1-2;none".parse().unwrap();
    let sim = SimHarness::new(SimConfig::new().devices(3).links(links));
    let device = DeviceOrdinal::from_raw;
    for (one, other, access, atomics, rank) in
        [(0, 1, true, 1, 0), (1, 2, true, 0, 1), (0, 2, false, 0, 2)]
    {
        for (from, to) in [(one, other), (other, one)] {
            let (from, to) = (device(from), device(to));
            let attribute = |which| sim.gpu.device_p2p_attribute(which, from, to).unwrap();
            assert_eq!(sim.gpu.device_can_access_peer(from, to).unwrap(), access);
            assert_eq!(attribute(P2pAttribute::ACCESS_SUPPORTED), i32::from(access));
            assert_eq!(attribute(P2pAttribute::NATIVE_ATOMIC_SUPPORTED), atomics);
            assert_eq!(attribute(P2pAttribute::PERFORMANCE_RANK), rank);
        }
    }
    assert!(!sim.gpu.device_can_access_peer(DEVICE, DEVICE).unwrap());
    let of = |attribute, to| sim.gpu.device_p2p_attribute(attribute, DEVICE, to);
    let rank = P2pAttribute::PERFORMANCE_RANK;
    assert_code(of(rank, DEVICE), ResultCode::INVALID_DEVICE);
    assert_code(of(rank, device(3)), ResultCode::INVALID_DEVICE);
    assert_code(
        of(P2pAttribute::from_raw(77), device(1)),
        ResultCode::INVALID_VALUE,
    );
    assert_code(
        sim.gpu.device_can_access_peer(device(3), DEVICE),
        ResultCode::INVALID_DEVICE,
    );
    sim.assert_clean();
}

#[test]
fn pci_addresses_agree_with_the_attributes() {
    let sim = SimHarness::new(two_devices());
    for ordinal in [0, 1] {
        let device = DeviceOrdinal::from_raw(ordinal);
        let attribute = |which| sim.gpu.device_attribute(device, which).unwrap();
        assert_eq!(
            sim.gpu.device_pci_bus_id(device).unwrap(),
            format!(
                "{:04X}:{:02X}:{:02X}.0",
                attribute(DeviceAttribute::PCI_DOMAIN_ID),
                attribute(DeviceAttribute::PCI_BUS_ID),
                attribute(DeviceAttribute::PCI_DEVICE_ID)
            )
        );
    }
    assert_code(
        sim.gpu.device_pci_bus_id(DeviceOrdinal::from_raw(2)),
        ResultCode::INVALID_DEVICE,
    );
}

#[test]
fn r38_access_to_a_pool_is_set_on_the_pool_and_concerns_memory_allocated_before() {
    for rules in [Rules::observed(), Rules::strict()] {
        each_schedule_with(two_devices().rules(rules), |sim| {
            let pair = Pair::new(sim);
            let before = pair.pooled(1, BYTES);
            sim.pool_set_access(pair.other.device, true).unwrap();
            sim.pool_set_access(pair.other.device, true)
                .expect("setting access again is no error");
            let after = pair.pooled(2, BYTES);
            for (memory, value) in [(before, 1), (after, 2)] {
                assert_eq!(pair.read_from_there(memory), [value; 4]);
                pair.write_from_there(memory, 0x0505_0505);
                pair.other.stream_synchronize(pair.there).unwrap();
                assert_eq!(sim.read(memory, 4, pair.here), [5; 4]);
            }
            sim.assert_clean();
        });
    }
}

#[test]
fn r38_peer_access_of_the_context_does_not_reach_pool_memory() {
    each_schedule_with(two_devices(), |sim| {
        let pair = Pair::new(sim);
        let memory = pair.pooled(1, BYTES);
        pair.other.context_enable_peer_access(sim.context).unwrap();
        // The other direction's pool access does not help either.
        pair.other.pool_set_access(DEVICE, true).unwrap();
        pair.assert_faults(memory, "cuMemPoolSetAccess");
        assert_eq!(sim.read(memory, 4, pair.here), [1; 4]);
    });
}

#[test]
fn r38_withdrawn_access_is_gone() {
    each_schedule_with(two_devices(), |sim| {
        let pair = Pair::new(sim);
        let memory = pair.pooled(1, BYTES);
        sim.pool_set_access(pair.other.device, true).unwrap();
        sim.pool_set_access(pair.other.device, false).unwrap();
        pair.assert_faults(memory, "cuMemPoolSetAccess");
    });
}

#[test]
fn r38_when_access_begins_depends_on_the_reading() {
    for reading in [Reading::Observed, Reading::Strict] {
        let rules = Rules {
            peer_access: reading,
            ..Rules::observed()
        };
        each_schedule_with(two_devices().rules(rules), |sim| {
            let pair = Pair::new(sim);
            let memory = pair.pooled(1, BYTES);
            let hold = sim.hold(pair.there);
            pair.write_from_there(memory, 0x0202_0202);
            sim.pool_set_access(pair.other.device, true).unwrap();
            hold.release();
            let outcome = pair.other.stream_synchronize(pair.there);
            match reading {
                Reading::Observed => outcome.unwrap(),
                Reading::Strict => assert_code(outcome, ResultCode::ILLEGAL_ADDRESS),
            }
        });
    }
}

#[test]
fn r38_a_device_that_is_no_peer_gets_no_access() {
    for rules in [Rules::observed(), Rules::strict()] {
        let config = two_devices()
            .links(Links::all(Link::NoPeerAccess))
            .rules(rules);
        each_schedule_with(config, |sim| {
            let pair = Pair::new(sim);
            sim.keep_pool_bytes(u64::MAX);
            let memory = pair.pooled(1, BYTES);
            assert_code(
                sim.pool_set_access(pair.other.device, true),
                ResultCode::INVALID_DEVICE,
            );
            pair.assert_faults(memory, "cannot access memory of device 0");
        });
    }
}

#[test]
fn r38_strictly_a_pool_without_memory_takes_any_device_and_then_fails() {
    let config = two_devices().links(Links::all(Link::NoPeerAccess));
    let refused = SimHarness::new(config.clone());
    let device = DeviceOrdinal::from_raw(1);
    assert_code(
        refused.pool_set_access(device, true),
        ResultCode::INVALID_DEVICE,
    );
    each_schedule_with(config.rules(Rules::strict()), |sim| {
        let stream = sim.stream();
        sim.pool_set_access(device, true).unwrap();
        let error = sim.mem_alloc_async(BYTES, stream).unwrap_err();
        assert_eq!(error.code(), ResultCode::INVALID_DEVICE);
        assert!(error.detail().unwrap().contains("rule 38"), "{error}");
    });
}

#[test]
fn r38_a_pool_keeps_the_access_of_its_own_device() {
    let sim = SimHarness::new(two_devices());
    sim.pool_set_access(DEVICE, true).unwrap();
    assert_code(
        sim.pool_set_access(DEVICE, false),
        ResultCode::INVALID_VALUE,
    );
    sim.assert_reported(ReportKind::BadArgument, &["cannot be withdrawn"]);
    assert_code(
        sim.pool_set_access(DeviceOrdinal::from_raw(2), true),
        ResultCode::INVALID_DEVICE,
    );
}

#[test]
fn r39_enabled_access_reaches_memory_outside_a_pool_in_one_direction() {
    for rules in [Rules::observed(), Rules::strict()] {
        each_schedule_with(two_devices().rules(rules), |sim| {
            let pair = Pair::new(sim);
            let (own, foreign) = (sim.mem_alloc(4).unwrap(), pair.other.mem_alloc(4).unwrap());
            sim.context_enable_peer_access(pair.other.context).unwrap();
            let set = sim.kernel(SET, "set");
            let args = [Arg::Pointer(foreign), Arg::U32(0x0303_0303)];
            sim.launch(set, (1, 1), pair.here, &args).unwrap();
            sim.stream_synchronize(pair.here).unwrap();
            assert_eq!(pair.other.read(foreign, 4, pair.there), [3; 4]);
            pair.assert_faults(own, "cuCtxEnablePeerAccess");
        });
    }
}

#[test]
fn r39_enabling_access_twice_is_an_error_without_effect() {
    let sim = SimHarness::new(two_devices());
    let other = sim.on_device(1);
    sim.context_enable_peer_access(other.context).unwrap();
    assert_code(
        sim.context_enable_peer_access(other.context),
        ResultCode::PEER_ACCESS_ALREADY_ENABLED,
    );
    other.context_enable_peer_access(sim.context).unwrap();
    // The access ends with either context.
    sim.release_context().unwrap();
    let again = SimHarness::over(sim.gpu.clone());
    again.context_enable_peer_access(other.context).unwrap();
    other.context_enable_peer_access(again.context).unwrap();
    sim.assert_clean();
}

#[test]
fn r39_a_context_that_is_no_peer_is_refused() {
    let links = Links::default().pair(0, 2, Link::NoPeerAccess);
    let sim = SimHarness::new(SimConfig::new().devices(3).links(links));
    let [other, apart] = [1, 2].map(|ordinal| sim.on_device(ordinal));
    assert_code(
        sim.context_enable_peer_access(sim.context),
        ResultCode::INVALID_CONTEXT,
    );
    assert_code(
        sim.context_enable_peer_access(apart.context),
        ResultCode::PEER_ACCESS_UNSUPPORTED,
    );
    let fails = other.kernel(SET, "fails");
    let there = other.stream();
    other.launch(fails, (1, 1), there, &[]).unwrap();
    assert_code(other.stream_synchronize(there), ResultCode::LAUNCH_FAILED);
    assert_code(
        sim.context_enable_peer_access(other.context),
        ResultCode::INVALID_CONTEXT,
    );
    assert_code(
        other.context_enable_peer_access(sim.context),
        ResultCode::LAUNCH_FAILED,
    );
    sim.context_synchronize().unwrap();
}

#[test]
fn managed_and_page_locked_memory_need_no_access() {
    let config = two_devices().links(Links::all(Link::NoPeerAccess));
    each_schedule_with(config, |sim| {
        let pair = Pair::new(sim);
        for host in [sim.managed(4), sim.pinned(4)] {
            pair.write_from_there(host.address(), 0x0404_0404);
            pair.other.stream_synchronize(pair.there).unwrap();
            assert!(host.is(4));
        }
        sim.assert_clean();
    });
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

#[test]
fn a_peer_copy_of_rows_leaves_the_bytes_between_them() {
    each_schedule_with(two_devices(), |sim| {
        let pair = Pair::new(sim);
        let source = pair.pooled(0, 12);
        let bytes: Vec<u8> = (0..12).collect();
        sim.upload(source, crate::sim_harness::Host::of(&bytes), pair.here)
            .unwrap();
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
        assert_code(
            pair.other.copy_peer_2d_async(&short, pair.there),
            ResultCode::INVALID_VALUE,
        );
        sim.assert_reported(
            ReportKind::BadArgument,
            &["a pitch of 1 bytes for rows of 2"],
        );
    });
}

#[test]
fn a_peer_copy_names_the_contexts_of_its_memory() {
    let sim = SimHarness::new(two_devices());
    let pair = Pair::new(&sim);
    let source = pair.pooled(1, BYTES);
    let target = pooled(&pair.other, pair.there, 0, BYTES);
    // Both sides are given the second device's context.
    assert_code(
        pair.other
            .copy_from(target, &pair.other, source, BYTES, pair.there),
        ResultCode::INVALID_VALUE,
    );
    sim.assert_reported(ReportKind::WrongContext, &["belongs to", "on device 0"]);
    assert_code(
        pair.other
            .copy_from(target.offset(8), &sim, source, BYTES, pair.there),
        ResultCode::INVALID_VALUE,
    );
    sim.assert_reported(ReportKind::OutOfBounds, &["on device 1"]);
    assert_code(
        sim.copy_from(source, &pair.other, target, BYTES, pair.there),
        ResultCode::INVALID_HANDLE,
    );
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
                sim.memset_async(source, FillPattern::U8(1), LARGE, pair.here)
                    .unwrap();
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

#[test]
fn zeros_replace_another_device_s_pool_memory_without_an_error() {
    each_schedule_with(two_devices().peer_pool(PeerPool::Zeros), |sim| {
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
                &millstream_driver::PeerCopy {
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
    });
}

#[test]
fn a_lost_source_ends_the_waits_for_it_and_leaves_the_other_device_alive() {
    each_schedule_with(two_devices(), |sim| {
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
        assert_code(sim.context_synchronize(), lost);
        // A query of the event tells of its context's loss, and a wait for it is over at once.
        assert_code(pair.other.event_query(event), lost);
        assert_code(pair.other.event_synchronize(event), lost);
        pair.other.stream_wait_event(pair.there, event).unwrap();
        pair.other.stream_synchronize(pair.there).unwrap();
        // A copy that names the lost context is refused.
        assert_code(
            pair.other.copy_from(target, sim, source, BYTES, pair.there),
            lost,
        );
        pair.other.context_synchronize().unwrap();
        assert_eq!(pair.other.read(target, BYTES, pair.there), [1; BYTES]);
        assert_eq!(sim.gpu.reports().len(), 1, "the fault alone");
    });
}

#[test]
fn each_peer_call_fails_once_where_a_fault_is_injected() {
    let sim = SimHarness::new(two_devices().schedule(Schedule::Eager));
    let pair = Pair::new(&sim);
    let (source, target) = (
        pair.pooled(3, BYTES),
        pooled(&pair.other, pair.there, 0, BYTES),
    );
    let other = pair.other.device;
    let rows = PeerCopy2d {
        target,
        target_pitch_bytes: BYTES,
        target_context: pair.other.context,
        source,
        source_pitch_bytes: BYTES,
        source_context: sim.context,
        row_bytes: BYTES,
        rows: 1,
    };
    type Call<'a> = &'a dyn Fn() -> crate::sim_harness::Result<()>;
    let rank = P2pAttribute::PERFORMANCE_RANK;
    let calls: [(&str, Call<'_>); 7] = [
        ("cuDeviceGetPCIBusId", &|| {
            sim.gpu.device_pci_bus_id(DEVICE).map(drop)
        }),
        ("cuDeviceCanAccessPeer", &|| {
            sim.gpu.device_can_access_peer(DEVICE, other).map(drop)
        }),
        ("cuDeviceGetP2PAttribute", &|| {
            sim.gpu.device_p2p_attribute(rank, DEVICE, other).map(drop)
        }),
        ("cuCtxEnablePeerAccess", &|| {
            sim.context_enable_peer_access(pair.other.context)
        }),
        ("cuMemPoolSetAccess", &|| sim.pool_set_access(other, true)),
        ("cuMemcpyPeerAsync", &|| {
            pair.other
                .copy_from(target, &sim, source, BYTES, pair.there)
        }),
        ("cuMemcpy3DPeerAsync", &|| {
            pair.other.copy_peer_2d_async(&rows, pair.there)
        }),
    ];
    for (name, call) in calls {
        sim.gpu.inject(Fault::nth(1).of(name));
        let error = call().unwrap_err();
        assert_eq!(error.call(), name);
        assert_eq!(error.code(), ResultCode::OUT_OF_MEMORY);
        let untouched = pair.other.read(target, BYTES, pair.there);
        assert!(name != "cuMemcpyPeerAsync" || untouched == [0; BYTES]);
        call().expect("the fault hits one call and leaves no effect");
    }
    assert_eq!(pair.other.read(target, BYTES, pair.there), [3; BYTES]);
    assert_eq!(sim.gpu.faults_injected(), 7);
    sim.assert_clean();
}
