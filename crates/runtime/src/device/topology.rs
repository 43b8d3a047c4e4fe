//! `Topology`: which devices can access each other's memory, and by which links.

use std::{collections::BTreeMap, fmt, fs};

use millstream_driver::{
    DeviceOrdinal, Driver, DriverError, P2pAttribute,
    nvml::{NvLinkEnd, Nvml},
};

use super::several::status_between_drivers;
use crate::{
    Device, PeerStatus, Result,
    context::DeviceState,
    device::{DeviceProperties, PciAddress, Uuid},
    disposal::log,
    multi_device::known_peer_status,
};

/// The links between several devices: which of them can access each other's memory, and how fast.
///
/// Its `Display` is a matrix like that of `nvidia-smi topo -m`.
///
/// ```
/// use millstream::{Device, sim::{Gpu, Link, Links, SimConfig}, device::Topology};
///
/// let links = Links::all(Link::Pcie).pair(0, 1, Link::NvLink);
/// let gpu = Gpu::new(SimConfig::new().devices(3).links(links));
/// let devices: Vec<_> = (0..3)
///     .map(|ordinal| Device::open_simulated(&gpu, ordinal))
///     .collect::<Result<_, _>>()?;
/// let topology = Topology::of(&devices)?;
/// let [near, far] = [1, 2].map(|to| topology.link(0, to).expect("two devices"));
/// assert!(near.native_atomics && !far.native_atomics);
/// assert!(near.performance_rank < far.performance_rank); // lower is faster
/// println!("{topology}");
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    devices: Vec<TopologyDevice>,
    /// The link of each ordered pair of different devices, by their indices in `devices`.
    links: BTreeMap<(usize, usize), PeerLink>,
}

/// A device of a [`Topology`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopologyDevice {
    /// The device's name, such as `NVIDIA H200`.
    pub name: String,
    /// The device's number at its driver, from 0.
    pub ordinal: i32,
    /// The globally unique identifier of the device.
    pub uuid: Uuid,
    /// The device's PCI address.
    pub pci_address: PciAddress,
    /// The NUMA node of the host to which the device is attached, if the system says so: the node
    /// of the device's PCI slot on Linux. `None` for a simulated device.
    pub numa_node: Option<u32>,
}

/// The link by which one device accesses the memory of another.
///
/// ```
/// use millstream::{Device, PeerStatus, sim::{Gpu, SimConfig}, device::Topology};
///
/// let gpu = Gpu::new(SimConfig::new().devices(2));
/// let devices = [Device::open_simulated(&gpu, 0)?, Device::open_simulated(&gpu, 1)?];
/// let before = Topology::of(&devices)?;
/// assert_eq!(before.link(0, 1).expect("a pair").status, None); // not tried yet
/// devices[0].peer_status(&devices[1])?;
/// let after = Topology::of(&devices)?;
/// assert_eq!(after.link(0, 1).expect("a pair").status, Some(PeerStatus::Direct));
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerLink {
    /// True if the driver says that kernels and copies of the first device can access memory of the
    /// second.
    pub peer_access: bool,
    /// The driver's rank of the link's performance: lower is faster. `None` if the driver does not
    /// tell.
    pub performance_rank: Option<i32>,
    /// True if atomic operations on the other device's memory are atomic for both devices.
    pub native_atomics: bool,
    /// The number of active NVLink links between the devices: those that join them, or, if both are
    /// attached to NVSwitches, those of the first device to a switch. `None` if NVML cannot be
    /// loaded or gives no answer, and for simulated devices.
    pub nvlink_lanes: Option<u32>,
    /// The status of the pair, if it has been used since both devices were opened: see
    /// [`Device::peer_status`], which tries it. A pair that failed the probe says so here, also if
    /// `peer_access` is true.
    pub status: Option<PeerStatus>,
}

impl Topology {
    /// Reads the topology of these devices. Neither turns peer access on nor waits for work.
    ///
    /// NVLink lanes come from NVML, which is loaded at run time: see [`PeerLink::nvlink_lanes`].
    ///
    /// # Errors
    ///
    /// If a query of the driver fails.
    pub fn of(devices: &[Device]) -> Result<Self> {
        let states: Vec<_> = devices.iter().map(|device| &**device.state()).collect();
        let entries = states.iter().map(|state| Entry {
            driver: &*state.driver,
            ordinal: state.ordinal,
        });
        let mut topology = Self::read_entries(&entries.collect::<Vec<_>>())?;
        for (&(from, to), link) in &mut topology.links {
            link.status = known_status(states[from], states[to]);
        }
        Ok(topology)
    }

    /// Reads the topology of all devices of a driver, without opening them. No pair has a status.
    ///
    /// # Errors
    ///
    /// If a query of the driver fails.
    pub fn read(driver: &dyn Driver) -> Result<Self, DriverError> {
        let entries = (0..driver.device_count()?).map(|ordinal| Entry {
            driver,
            ordinal: DeviceOrdinal::from_raw(ordinal),
        });
        Self::read_entries(&entries.collect::<Vec<_>>())
    }

    fn read_entries(entries: &[Entry<'_>]) -> Result<Self, DriverError> {
        let devices = entries
            .iter()
            .map(Entry::device)
            .collect::<Result<Vec<_>, _>>()?;
        let lanes = Lanes::read(entries, &devices);
        let mut links = BTreeMap::new();
        for (at, from) in entries.iter().enumerate() {
            for (other, to) in entries.iter().enumerate() {
                if let Some(link) = from.link(to)? {
                    let nvlink_lanes = lanes.between(at, other);
                    links.insert(
                        (at, other),
                        PeerLink {
                            nvlink_lanes,
                            ..link
                        },
                    );
                }
            }
        }
        Ok(Self { devices, links })
    }

    /// Returns the devices, in the order in which they were given.
    #[must_use]
    pub fn devices(&self) -> &[TopologyDevice] {
        &self.devices
    }

    /// Returns the link by which the device with index `from` in [`devices`](Self::devices)
    /// accesses memory of the one with index `to`. `None` if both are the same device, or if there
    /// is no device with such an index.
    #[must_use]
    pub fn link(&self, from: usize, to: usize) -> Option<&PeerLink> {
        self.links.get(&(from, to))
    }
}

/// A device of a driver.
struct Entry<'a> {
    driver: &'a dyn Driver,
    ordinal: DeviceOrdinal,
}

impl Entry<'_> {
    fn device(&self) -> Result<TopologyDevice, DriverError> {
        let properties = DeviceProperties::read(self.driver, self.ordinal)?;
        let is_simulated = self.driver.is_simulated();
        Ok(TopologyDevice {
            name: properties.name,
            ordinal: self.ordinal.as_raw(),
            uuid: properties.uuid,
            pci_address: properties.pci_address,
            numa_node: (!is_simulated)
                .then(|| numa_node(properties.pci_address))
                .flatten(),
        })
    }

    /// Returns the link to another device without its lanes and its status, or `None` if both are
    /// the same device.
    fn link(&self, to: &Self) -> Result<Option<PeerLink>, DriverError> {
        if self.driver.handle_space() != to.driver.handle_space() {
            return Ok(Some(PeerLink::default()));
        }
        if self.ordinal == to.ordinal {
            return Ok(None);
        }
        let attribute = |attribute| {
            // Partitions of a GPU (MIG) have no such attributes.
            let value = self
                .driver
                .device_p2p_attribute(attribute, self.ordinal, to.ordinal);
            value.ok()
        };
        Ok(Some(PeerLink {
            peer_access: self
                .driver
                .device_can_access_peer(self.ordinal, to.ordinal)?,
            performance_rank: attribute(P2pAttribute::PERFORMANCE_RANK),
            native_atomics: attribute(P2pAttribute::NATIVE_ATOMIC_SUPPORTED)
                .is_some_and(|supported| supported != 0),
            nvlink_lanes: None,
            status: None,
        }))
    }
}

fn known_status(one: &DeviceState, other: &DeviceState) -> Option<PeerStatus> {
    if one.shares_driver(other) {
        known_peer_status(one, other)
    } else {
        Some(status_between_drivers())
    }
}

/// Returns the NUMA node of a PCI device on Linux, if the machine has several.
fn numa_node(address: PciAddress) -> Option<u32> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let node = fs::read_to_string(format!("/sys/bus/pci/devices/{address}/numa_node")).ok()?;
    // The system writes -1 if it does not know the node.
    node.trim().parse().ok()
}

/// The active NVLink links of each device.
struct Lanes {
    /// The remote ends of each device's links, or `None` if they are unknown.
    ends: Vec<Option<Vec<NvLinkEnd>>>,
    addresses: Vec<PciAddress>,
}

impl Lanes {
    fn read(entries: &[Entry<'_>], devices: &[TopologyDevice]) -> Self {
        let addresses: Vec<_> = devices.iter().map(|device| device.pci_address).collect();
        let is_gpu = |entry: &Entry<'_>| !entry.driver.is_simulated();
        let nvml = if entries.len() > 1 && entries.iter().any(is_gpu) {
            Nvml::load()
                .map_err(|error| log!(debug, %error, "NVLink links are unknown"))
                .ok()
        } else {
            None
        };
        let ends = entries.iter().zip(&addresses).map(|(entry, address)| {
            let nvml = nvml.as_ref().filter(|_| is_gpu(entry))?;
            nvml.active_links(&address.to_string()).ok()
        });
        Self {
            ends: ends.collect(),
            addresses,
        }
    }

    /// Returns the number of links by which one device reaches another.
    fn between(&self, from: usize, to: usize) -> Option<u32> {
        let (ours, theirs) = (self.ends[from].as_ref()?, self.ends[to].as_ref()?);
        let count = |ends: &[NvLinkEnd], end| ends.iter().filter(|&&other| other == end).count();
        let PciAddress {
            domain,
            bus,
            device,
        } = self.addresses[to];
        let direct = NvLinkEnd::Gpu {
            domain,
            bus,
            device,
        };
        let mut lanes = count(ours, direct);
        if theirs.contains(&NvLinkEnd::Switch) {
            lanes += count(ours, NvLinkEnd::Switch);
        }
        u32::try_from(lanes).ok()
    }
}

/// The explanations of the matrix's symbols, shown if a cell contains them.
const LEGEND: [(&str, &str); 6] = [
    (
        "NV",
        "peer access over that number of NVLink links, such as NV18",
    ),
    (
        "P2P",
        "peer access over PCIe, or over NVLink links whose number is unknown",
    ),
    ("HOST", "no peer access: copies go through host memory"),
    (
        "+A",
        "atomic operations on the other device's memory are native",
    ),
    (
        "/",
        "the driver's rank of the link's performance: lower is faster",
    ),
    (
        "!",
        "peer access was tried and found defective: copies go through host memory",
    ),
];

impl PeerLink {
    /// Returns the text of the matrix's cell.
    fn cell(&self) -> String {
        let mut cell = match (self.peer_access, self.nvlink_lanes) {
            (false, _) => "HOST".to_owned(),
            (true, Some(lanes @ 1..)) => format!("NV{lanes}"),
            (true, _) => "P2P".to_owned(),
        };
        if self.native_atomics {
            cell += "+A";
        }
        if let Some(rank) = self.performance_rank {
            cell += &format!("/{rank}");
        }
        if self.peer_access && matches!(self.status, Some(PeerStatus::Staged { .. })) {
            cell += "!";
        }
        cell
    }
}

impl fmt::Display for Topology {
    /// Writes a row for each device: its links to the others, its NUMA node, PCI address and name;
    /// and the meaning of the symbols.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = |device: &TopologyDevice| format!("GPU{}", device.ordinal);
        let mut rows = vec![vec![String::new()]];
        rows[0].extend(self.devices.iter().map(label));
        rows[0].extend(["NUMA", "PCI", "name"].map(str::to_owned));
        for (from, device) in self.devices.iter().enumerate() {
            let mut row = vec![label(device)];
            row.extend((0..self.devices.len()).map(|to| {
                self.link(from, to)
                    .map_or_else(|| "X".to_owned(), PeerLink::cell)
            }));
            let node = device.numa_node.map(|node| node.to_string());
            row.push(node.unwrap_or_else(|| "-".to_owned()));
            row.push(device.pci_address.to_string());
            row.push(device.name.clone());
            rows.push(row);
        }
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<_> = (0..rows[0].len()).map(width).collect();
        for row in &rows {
            let cells = row.iter().zip(&widths);
            let line: Vec<_> = cells
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            writeln!(f, "{}", line.join("  ").trim_end())?;
        }
        let cells: Vec<_> = self.links.values().map(PeerLink::cell).collect();
        for (symbol, meaning) in LEGEND {
            if cells.iter().any(|cell| cell.contains(symbol)) {
                writeln!(f, "{symbol:4}  {meaning}")?;
            }
        }
        Ok(())
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests;
