//! Access of one device to another device's memory (rules 38 and 39).
//!
//! Memory of `cuMemAlloc` and module variables are accessible to the contexts for which
//! `cuCtxEnablePeerAccess` was called, pool memory to the devices for which `cuMemPoolSetAccess`
//! was. A kernel without access faults; a copy without access is staged in host memory.

use millstream_driver::{ContextHandle, PoolHandle};

use super::{
    objects::pool::MemoryPool,
    op::{CopyOp, CopySource, CopyTarget, StreamOp},
    state::SimState,
};
use crate::{
    Link, PeerPool,
    ids::OpId,
    memory::{Allocation, Direction, MemoryKind},
};

/// The effect of an access to an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The access reads and writes the memory.
    Works,
    /// The access reads zeros and writes nothing ([`PeerPool::Zeros`]).
    Zeros,
    /// The access is impossible.
    None,
}

/// The memory of other devices that one operation can access.
#[derive(Clone, Debug)]
pub(crate) struct PeerAccess {
    /// The device that runs the operation.
    pub(crate) device: u32,
    /// The pools of other devices that are accessible.
    pools: Vec<PoolHandle>,
    /// The devices whose memory outside of pools is accessible, one bit each.
    contexts: u64,
    peer_pool: PeerPool,
}

impl PeerAccess {
    pub(crate) fn reach(&self, allocation: &Allocation) -> Reach {
        if let Some(access) = allocation.access() {
            return match access.read >> self.device & 1 {
                1 => Reach::Works,
                _ => Reach::None,
            };
        }
        if allocation.kind.is_everyones() || allocation.device == self.device {
            return Reach::Works;
        }
        let granted = match allocation.pool {
            Some(pool) => self.pools.contains(&pool),
            None => self.contexts >> allocation.device & 1 == 1,
        };
        match (granted, self.peer_pool) {
            (false, _) => Reach::None,
            (true, PeerPool::Zeros) if allocation.pool.is_some() => Reach::Zeros,
            (true, _) => Reach::Works,
        }
    }
}

impl SimState {
    /// Returns the access of operation `id`, enqueued in `context` of `device`, to other devices'
    /// memory.
    pub(crate) fn peer_access(&self, id: OpId, context: ContextHandle, device: u32) -> PeerAccess {
        // The documentation does not say that a grant concerns operations enqueued before it.
        let strict = self.config.rules.peer_access.is_strict();
        let in_force = |enqueued_before: u64| !strict || id.0 > enqueued_before;
        let is_open = |pool: &MemoryPool| {
            let granted = pool.access.get(&device);
            granted.is_some_and(|before| in_force(*before))
        };
        let open = self.pools.iter().filter(|(_, pool)| is_open(pool));
        let pools = open.map(|(handle, _)| *handle).collect();
        let mut contexts = 0;
        for (peer, before) in &self.contexts[&context].peers {
            if let Some(peer) = self.contexts.get(peer)
                && in_force(*before)
            {
                contexts |= 1 << peer.device;
            }
        }
        PeerAccess {
            device,
            pools,
            contexts,
            peer_pool: self.config.peer_pool,
        }
    }

    /// Returns the effect of a copy's accesses to its source and destination. A copy without access
    /// to either is staged in host memory, and then works.
    pub(crate) fn copy_reach(&self, id: OpId, op: &StreamOp, copy: &CopyOp) -> CopyReach {
        let staged = CopyReach {
            source: Reach::Works,
            target: Reach::Works,
            is_direct: false,
        };
        if !matches!(copy.direction, Direction::BetweenDevices { .. }) {
            return staged;
        }
        let access = self.peer_access(id, op.context, op.device);
        let reach = |address| {
            let allocation = self.memory.around(address);
            allocation.map_or(Reach::None, |allocation| access.reach(allocation))
        };
        match (&copy.source, &copy.target) {
            (CopySource::Mapped(source), CopyTarget::Mapped(target)) => {
                let (source, target) = (reach(*source), reach(*target));
                if source == Reach::None || target == Reach::None {
                    return staged;
                }
                CopyReach {
                    source,
                    target,
                    is_direct: true,
                }
            }
            _ => staged,
        }
    }

    /// Returns the bandwidth of a copy between two devices, in GB/s.
    pub(crate) fn peer_gb_s(&self, (from, to): (u32, u32), is_direct: bool) -> f64 {
        let cost = &self.config.cost;
        match self.config.links.between(from, to) {
            Link::NvLink if is_direct => cost.nvlink_gb_s,
            Link::Pcie if is_direct => cost.pcie_peer_gb_s,
            _ => cost.peer_gb_s,
        }
    }

    /// Explains why a kernel of `device` cannot access the allocation, as the end of a sentence.
    pub(crate) fn no_access(&self, device: u32, allocation: &Allocation) -> String {
        let owner = allocation.device;
        if device != owner && !self.config.links.between(device, owner).is_peer() {
            return format!("; device {device} cannot access memory of device {owner}");
        }
        let how = match allocation.kind {
            MemoryKind::Pool => "the pool gives it with cuMemPoolSetAccess (rule 38)",
            MemoryKind::Mapped => "cuMemSetAccess gives it",
            _ => "cuCtxEnablePeerAccess gives it (rule 39)",
        };
        format!("; device {device} has no access: {how}")
    }
}

/// The effect of a copy's accesses to its two sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyReach {
    pub(crate) source: Reach,
    pub(crate) target: Reach,
    /// Set if the copy uses the link between the devices.
    pub(crate) is_direct: bool,
}
