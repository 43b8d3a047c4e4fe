//! Peer calls: access to other devices' memory (rules 38 and 39), and copies between devices.

use millstream_driver::{
    ContextHandle, Copy2d, DeviceOrdinal, DevicePtr, P2pAttribute, PeerCopy, PeerCopy2d,
    PoolHandle, ResultCode, Side2d, StreamHandle,
};

use super::copy::{CopyForm, CopyOperand};
use crate::{
    Link, ReportKind,
    core::{
        call_error::{CallError, CallResult},
        gpu::StateGuard,
        objects::pool::MemoryPool,
    },
    ids::name,
};

impl StateGuard<'_> {
    /// Returns the link of two devices, or `None` for a device and itself.
    fn link(&self, one: DeviceOrdinal, other: DeviceOrdinal) -> CallResult<Option<Link>> {
        let (one, other) = (self.device_index(one)?, self.device_index(other)?);
        Ok((one != other).then(|| self.config.links.between(one as u32, other as u32)))
    }

    /// Returns whether one device can access another's memory.
    pub(crate) fn device_can_access_peer(
        &self,
        device: DeviceOrdinal,
        peer: DeviceOrdinal,
    ) -> CallResult<bool> {
        Ok(self.link(device, peer)?.is_some_and(Link::is_peer))
    }

    /// Returns the value of an attribute of the link between two devices.
    pub(crate) fn device_p2p_attribute(
        &self,
        attribute: P2pAttribute,
        from: DeviceOrdinal,
        to: DeviceOrdinal,
    ) -> CallResult<i32> {
        let Some(link) = self.link(from, to)? else {
            let text = format!("device {} has no link to itself", from.as_raw());
            return Err(CallError::new(ResultCode::INVALID_DEVICE, text));
        };
        match attribute {
            P2pAttribute::PERFORMANCE_RANK => Ok(link.performance_rank()),
            P2pAttribute::ACCESS_SUPPORTED => Ok(link.is_peer().into()),
            P2pAttribute::NATIVE_ATOMIC_SUPPORTED => Ok((link == Link::NvLink).into()),
            _ => Err(CallError::new(
                ResultCode::INVALID_VALUE,
                format!("a simulated link has no attribute {}", attribute.as_raw()),
            )),
        }
    }

    /// Gives a context access to the memory of the context `peer`, except for pool memory (rules 38
    /// and 39).
    pub(crate) fn context_enable_peer_access(
        &mut self,
        context: ContextHandle,
        peer: ContextHandle,
    ) -> CallResult<()> {
        let device = self.context(context)?;
        self.check_context(peer)?;
        if context == peer {
            return Err(CallError::new(
                ResultCode::PEER_ACCESS_UNSUPPORTED,
                format!("{} is no peer of itself", name(context)),
            ));
        }
        let invalid = |text| Err(CallError::new(ResultCode::INVALID_CONTEXT, text));
        if let Some(lost) = &self.contexts[&peer].lost {
            let why = lost.detail.as_deref().unwrap_or("the context is lost");
            return invalid(format!("{} is lost: {why}", name(peer)));
        }
        let owner = self.contexts[&peer].device;
        if !self.config.links.between(device, owner).is_peer() {
            return Err(CallError::new(
                ResultCode::PEER_ACCESS_UNSUPPORTED,
                format!("device {device} cannot access memory of device {owner}"),
            ));
        }
        let enqueued = self.ops_enqueued;
        let found = self.contexts.get_mut(&context).expect("checked above");
        if found.peers.contains_key(&peer) {
            return Err(CallError::new(
                ResultCode::PEER_ACCESS_ALREADY_ENABLED,
                format!(
                    "{} already has access to {} (rule 39)",
                    name(context),
                    name(peer)
                ),
            ));
        }
        found.peers.insert(peer, enqueued);
        Ok(())
    }

    /// Waits for all devices, and ends the access that
    /// [`context_enable_peer_access`](Self::context_enable_peer_access) gave.
    pub(crate) fn context_disable_peer_access(
        &mut self,
        context: ContextHandle,
        peer: ContextHandle,
    ) -> CallResult<()> {
        self.context(context)?;
        self.check_context(peer)?;
        self.wait_for_devices();
        let found = self.contexts.get_mut(&context);
        if found.is_none_or(|found| found.peers.remove(&peer).is_none()) {
            let text = format!("{} has no access to {}", name(context), name(peer));
            return Err(CallError::new(ResultCode::PEER_ACCESS_NOT_ENABLED, text));
        }
        Ok(())
    }

    /// Sets whether a device can access the pool's memory (rule 38).
    pub(crate) fn pool_set_access(
        &mut self,
        pool: PoolHandle,
        device: DeviceOrdinal,
        accessible: bool,
    ) -> CallResult<()> {
        let owner = self.pool(pool)?.device as usize;
        let device = self.device_index(device)?;
        if device == owner {
            if accessible {
                return Ok(());
            }
            let text = format!("the access of device {owner} to its own pool cannot be withdrawn");
            return Err(self.violation(ReportKind::BadArgument, ResultCode::INVALID_DEVICE, text));
        }
        let can_access = self
            .config
            .links
            .between(device as u32, owner as u32)
            .is_peer();
        let unused = self.pool_mut(pool).bytes.usage().reserved_bytes == 0;
        if !can_access && accessible && unused && self.config.rules.peer_access.is_strict() {
            // Documented: the call may succeed while the pool has no memory; then the next
            // allocation fails.
            self.pool_mut(pool).access_fails = Some(device as u32);
            return Ok(());
        }
        if !can_access {
            return Err(CallError::new(
                ResultCode::INVALID_DEVICE,
                format!("device {device} cannot access memory of device {owner}"),
            ));
        }
        let enqueued = self.ops_enqueued;
        let access = &mut self.pool_mut(pool).access;
        if accessible {
            access.entry(device as u32).or_insert(enqueued);
        } else {
            access.remove(&(device as u32));
        }
        Ok(())
    }

    /// Rejects an allocation from a pool that gave access to a device without peer access.
    pub(crate) fn check_pool_access(&self, pool: &MemoryPool) -> CallResult<()> {
        match pool.access_fails {
            None => Ok(()),
            Some(device) => Err(CallError::new(
                ResultCode::INVALID_DEVICE,
                format!(
                    "the pool gave access to device {device}, which cannot access memory of \
                     device {} (rule 38)",
                    pool.device
                ),
            )),
        }
    }

    /// Enqueues a copy between two contexts.
    pub(crate) fn copy_peer_async(
        &mut self,
        context: ContextHandle,
        copy: &PeerCopy,
        stream: StreamHandle,
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        self.check_side(copy.target, copy.target_context)?;
        self.check_side(copy.source, copy.source_context)?;
        let ends = (
            CopyOperand::Device(copy.target),
            CopyOperand::Device(copy.source),
        );
        self.copy(context, ends, copy.bytes, stream, CopyForm::Async)
    }

    /// Enqueues a 2-D copy between two contexts.
    pub(crate) fn copy_peer_2d_async(
        &mut self,
        context: ContextHandle,
        copy: &PeerCopy2d,
        stream: StreamHandle,
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        self.check_side(copy.target, copy.target_context)?;
        self.check_side(copy.source, copy.source_context)?;
        let rows = Copy2d {
            source: Side2d::device(copy.source, copy.source_pitch_bytes),
            target: Side2d::device(copy.target, copy.target_pitch_bytes),
            width_bytes: copy.row_bytes,
            height: copy.rows,
        };
        let ends = (
            CopyOperand::Device(copy.target),
            CopyOperand::Device(copy.source),
        );
        self.copy_2d(context, ends, &rows, stream, CopyForm::Async)
    }

    /// Checks that the context of one side of a peer copy is usable, and that the memory belongs to
    /// it. Fails with the context's sticky error if it is lost.
    fn check_side(&mut self, pointer: DevicePtr, context: ContextHandle) -> CallResult<()> {
        self.context(context)?;
        let Some(found) = self.memory.around(pointer.as_raw()) else {
            // The copy itself reports the address.
            return Ok(());
        };
        let is_no_contexts = found.kind.is_everyones() || found.access().is_some();
        if found.context == context || is_no_contexts {
            return Ok(());
        }
        let text = format!(
            "the memory belongs to {}, not {}: {}",
            name(found.context),
            name(context),
            found.describe()
        );
        Err(self.violation(ReportKind::WrongContext, ResultCode::INVALID_VALUE, text))
    }
}
