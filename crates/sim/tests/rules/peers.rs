//! Rules 38 and 39: access of one device to another device's memory.

use millstream_driver::P2pAttribute;

use crate::rules::prelude::*;

/// A kernel that copies one word.
const COPY_WORD: &str = include_str!("copy_word.ptx");

pub(crate) const BYTES: usize = 16;

pub(crate) fn two_devices() -> SimConfig {
    SimConfig::new().devices(2)
}

/// Two devices, each with a stream.
pub(crate) struct Pair<'a> {
    sim: &'a SimHarness,
    pub(crate) other: SimHarness,
    pub(crate) here: StreamHandle,
    pub(crate) there: StreamHandle,
}

impl<'a> Pair<'a> {
    pub(crate) fn new(sim: &'a SimHarness) -> Self {
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
    pub(crate) fn pooled(&self, value: u8, bytes: usize) -> DevicePtr {
        pooled(self.sim, self.here, value, bytes)
    }

    /// Enqueues a kernel of the second device that writes the first word of `memory`.
    pub(crate) fn write_from_there(&self, memory: DevicePtr, value: u32) {
        let set = self.other.kernel(SET, "set");
        let args = [Arg::Pointer(memory), Arg::U32(value)];
        self.other.launch(set, (1, 1), self.there, &args).unwrap();
    }

    /// Returns the first word of `memory` as a kernel of the second device reads it.
    pub(crate) fn read_from_there(&self, memory: DevicePtr) -> Vec<u8> {
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
        self.other
            .stream_synchronize(self.there)
            .fails(ResultCode::ILLEGAL_ADDRESS);
        self.sim.assert_reported(
            ReportKind::KernelFault,
            &["memory of device 0", "device 1", advice],
        );
        self.sim
            .context_synchronize()
            .expect("the owner's context is not lost");
    }
}

pub(crate) fn pooled(sim: &SimHarness, stream: StreamHandle, value: u8, bytes: usize) -> DevicePtr {
    let memory = sim.mem_alloc_async(bytes, stream).unwrap();
    sim.fill(memory, value, bytes, stream);
    sim.stream_synchronize(stream).unwrap();
    memory
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
    of(rank, DEVICE).fails(ResultCode::INVALID_DEVICE);
    of(rank, device(3)).fails(ResultCode::INVALID_DEVICE);
    of(P2pAttribute::from_raw(77), device(1)).fails(ResultCode::INVALID_VALUE);
    sim.gpu
        .device_can_access_peer(device(3), DEVICE)
        .fails(ResultCode::INVALID_DEVICE);
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
    sim.gpu
        .device_pci_bus_id(DeviceOrdinal::from_raw(2))
        .fails(ResultCode::INVALID_DEVICE);
    sim.gpu.inject(Fault::nth(1).of("cuDeviceGetPCIBusId"));
    sim.gpu
        .device_pci_bus_id(DEVICE)
        .fails(ResultCode::OUT_OF_MEMORY);
}

#[run_by(each_schedule_with(two_devices()), |sim|)]
fn r38_peer_access_of_the_context_does_not_reach_pool_memory() {
    let pair = Pair::new(sim);
    let memory = pair.pooled(1, BYTES);
    pair.other.context_enable_peer_access(sim.context).unwrap();
    // The other direction's pool access does not help either.
    pair.other.pool_set_access(DEVICE, true).unwrap();
    pair.assert_faults(memory, "cuMemPoolSetAccess");
    assert_eq!(sim.read(memory, 4, pair.here), [1; 4]);
}

#[run_by(each_schedule_with(two_devices()), |sim|)]
fn r38_withdrawn_access_is_gone() {
    let pair = Pair::new(sim);
    let memory = pair.pooled(1, BYTES);
    sim.pool_set_access(pair.other.device, true).unwrap();
    sim.pool_set_access(pair.other.device, false).unwrap();
    pair.assert_faults(memory, "cuMemPoolSetAccess");
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
                Reading::Strict => outcome.fails(ResultCode::ILLEGAL_ADDRESS),
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
            sim.pool_set_access(pair.other.device, true)
                .fails(ResultCode::INVALID_DEVICE);
            pair.assert_faults(memory, "cannot access memory of device 0");
        });
    }
}

#[test]
fn r38_strictly_a_pool_without_memory_takes_any_device_and_then_fails() {
    let config = two_devices().links(Links::all(Link::NoPeerAccess));
    let refused = SimHarness::new(config.clone());
    let device = DeviceOrdinal::from_raw(1);
    refused
        .pool_set_access(device, true)
        .fails(ResultCode::INVALID_DEVICE);
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
    sim.pool_set_access(DEVICE, false)
        .fails(ResultCode::INVALID_DEVICE);
    sim.assert_reported(ReportKind::BadArgument, &["cannot be withdrawn"]);
    sim.pool_set_access(DeviceOrdinal::from_raw(2), true)
        .fails(ResultCode::INVALID_DEVICE);
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
    sim.context_enable_peer_access(other.context)
        .fails(ResultCode::PEER_ACCESS_ALREADY_ENABLED);
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
    sim.context_enable_peer_access(sim.context)
        .fails(ResultCode::PEER_ACCESS_UNSUPPORTED);
    sim.context_enable_peer_access(apart.context)
        .fails(ResultCode::PEER_ACCESS_UNSUPPORTED);
    let fails = other.kernel(SET, "fails");
    let there = other.stream();
    other.launch(fails, (1, 1), there, &[]).unwrap();
    other
        .stream_synchronize(there)
        .fails(ResultCode::LAUNCH_FAILED);
    sim.context_enable_peer_access(other.context)
        .fails(ResultCode::INVALID_CONTEXT);
    other
        .context_enable_peer_access(sim.context)
        .fails(ResultCode::LAUNCH_FAILED);
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
