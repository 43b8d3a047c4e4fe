//! Tests of topologies on simulated machines.

use millstream_sim::{Gpu, PeerPool, SimConfig};

use super::*;

fn devices(config: SimConfig, count: i32) -> Vec<Device> {
    let gpu = Gpu::new(config);
    let open = |ordinal| Device::open_simulated(&gpu, ordinal).expect("the device opens");
    (0..count).map(open).collect()
}

fn machine(text: &str) -> SimConfig {
    SimConfig::parse(text).expect("valid settings")
}

#[test]
fn the_links_of_a_simulated_machine_are_shown_as_a_matrix() {
    let devices = devices(machine("sim:devices=4,links=nvlink:0-1+2-3;pcie"), 4);
    let topology = Topology::of(&devices).expect("a topology");
    for (from, to) in [(0, 1), (1, 0), (2, 3), (0, 2), (3, 1)] {
        let joined = from / 2 == to / 2;
        let expected = PeerLink {
            peer_access: true,
            performance_rank: Some(i32::from(!joined)),
            native_atomics: joined,
            nvlink_lanes: None,
            status: None,
        };
        assert_eq!(topology.link(from, to), Some(&expected), "{from} {to}");
    }
    assert_eq!(topology.link(1, 1), None);
    assert_eq!(topology.link(0, 4), None);
    let expected = "      \
      GPU0     GPU1     GPU2     GPU3     NUMA  PCI           name
GPU0  X        P2P+A/0  P2P/1    P2P/1    -     ffff:01:00.0  Simulated GPU
GPU1  P2P+A/0  X        P2P/1    P2P/1    -     ffff:02:00.0  Simulated GPU
GPU2  P2P/1    P2P/1    X        P2P+A/0  -     ffff:03:00.0  Simulated GPU
GPU3  P2P/1    P2P/1    P2P+A/0  X        -     ffff:04:00.0  Simulated GPU
P2P   peer access over PCIe, or over NVLink links whose number is unknown
+A    atomic operations on the other device's memory are native
/     the driver's rank of the link's performance: lower is faster
";
    assert_eq!(topology.to_string(), expected);
}

#[test]
fn a_pair_that_failed_the_probe_says_so() {
    let devices = devices(SimConfig::new().devices(2).peer_pool(PeerPool::Zeros), 2);
    let known = |from, to| {
        let topology = Topology::of(&devices).expect("a topology");
        topology.link(from, to).expect("a pair").clone()
    };
    assert_eq!(known(0, 1).status, None);
    let tried = devices[1].peer_status(&devices[0]).expect("a status");
    assert!(!tried.is_direct());
    for (from, to) in [(0, 1), (1, 0)] {
        assert_eq!(known(from, to).status.as_ref(), Some(&tried));
        assert_eq!(known(from, to).cell(), "P2P+A/0!");
    }
    let text = Topology::of(&devices).expect("a topology").to_string();
    assert!(text.contains("found defective"), "{text}");
}

#[test]
fn devices_of_different_drivers_have_no_link() {
    let both = [Device::simulated(), Device::simulated()];
    let both = both.map(|device| device.expect("it opens"));
    let topology = Topology::of(&both).expect("a topology");
    let link = topology.link(0, 1).expect("two devices");
    assert!(!link.peer_access);
    let tried = both[0].peer_status(&both[1]).expect("a status");
    assert_eq!(link.status, Some(tried));
    assert_eq!(link.cell(), "HOST");
}

#[test]
fn a_device_without_peer_access_and_a_device_given_twice() {
    let mut devices = devices(machine("sim:devices=2,links=none"), 2);
    devices.push(devices[0].clone());
    let topology = Topology::of(&devices).expect("a topology");
    assert_eq!(topology.link(0, 2), None);
    let cell = |from, to| topology.link(from, to).expect("two devices").cell();
    assert_eq!(cell(0, 1), "HOST/2");
    assert_eq!(cell(1, 2), "HOST/2");
}

#[test]
fn links_to_a_device_and_to_switches_are_counted() {
    let address = |bus| PciAddress {
        domain: 0,
        bus,
        device: 0,
    };
    let gpu = |bus| NvLinkEnd::Gpu {
        domain: 0,
        bus,
        device: 0,
    };
    let lanes = Lanes {
        ends: vec![
            Some(vec![gpu(2), gpu(2), NvLinkEnd::Other, NvLinkEnd::Switch]),
            Some(vec![gpu(1), gpu(1)]),
            Some(vec![NvLinkEnd::Switch; 18]),
            None,
        ],
        addresses: [1, 2, 3, 4].map(address).to_vec(),
    };
    assert_eq!(lanes.between(0, 1), Some(2));
    assert_eq!(lanes.between(1, 0), Some(2));
    assert_eq!(lanes.between(0, 2), Some(1));
    assert_eq!(lanes.between(2, 0), Some(18));
    assert_eq!(lanes.between(1, 2), Some(0));
    assert_eq!(lanes.between(0, 3), None);
    let link = PeerLink {
        peer_access: true,
        native_atomics: true,
        nvlink_lanes: lanes.between(2, 0),
        ..PeerLink::default()
    };
    assert_eq!(link.cell(), "NV18+A");
}
