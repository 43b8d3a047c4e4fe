//! What no driver sees, the host's own accesses and memory that is given out again: whoever does so
//! says so here.

use std::panic::Location;

use millstream_driver::{HostAccess, MemoryReuse};
use millstream_ptx::Site;

use crate::{
    Gpu,
    core::host_functions,
    memory::{AccessFlags, MemoryMap, Rows},
    race::{Effect, Label},
};

impl Gpu {
    /// Tells the race checker that the host reads `bytes` bytes at `pointer` now, in plain or
    /// page-locked memory. Reads nothing.
    ///
    /// The host must be ordered after every operation that writes them: it has synchronised with
    /// it, or asked and been told that it was done. Anything else is a finding of kind
    /// [`HostRace`](crate::ReportKind::HostRace). In a host function the access is that function's,
    /// and ordered by its place in its stream.
    ///
    /// ```
    /// use millstream_driver::{DeviceOrdinal, Driver, FillPattern};
    /// use millstream_sim::{Gpu, ReportKind, SimConfig};
    /// let gpu = Gpu::new(SimConfig::new());
    /// let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0)).unwrap();
    /// // SAFETY: context, stream and memory are alive, and nothing touches the page-locked bytes.
    /// unsafe {
    ///     let stream = gpu.stream_create(context, true, 0).unwrap();
    ///     let (memory, pinned) = (gpu.mem_alloc(context, 64).unwrap(), gpu.host_alloc(context, 64).unwrap());
    ///     gpu.memset_async(context, memory, FillPattern::U8(1), 64, stream).unwrap();
    ///     gpu.copy_device_to_host_async(context, pinned.as_ptr(), memory, 64, stream).unwrap();
    ///     gpu.host_read(pinned.as_ptr(), 64); // too early
    ///     gpu.stream_synchronize(context, stream).unwrap();
    ///     gpu.host_read(pinned.as_ptr(), 64); // fine
    /// }
    /// let findings = gpu.findings();
    /// assert_eq!(findings.len(), 1);
    /// assert_eq!(findings[0].kind, ReportKind::HostRace);
    /// ```
    #[track_caller]
    pub fn host_read(&self, pointer: *const u8, bytes: usize) {
        self.host_access(
            pointer.addr() as u64,
            bytes,
            AccessFlags::READ,
            Location::caller(),
        );
    }

    /// Tells the race checker that the host writes `bytes` bytes at `pointer` now. Writes nothing.
    /// Otherwise as [`host_read`](Self::host_read); the host must also be ordered after every
    /// operation that reads them.
    #[track_caller]
    pub fn host_write(&self, pointer: *const u8, bytes: usize) {
        self.host_access(
            pointer.addr() as u64,
            bytes,
            AccessFlags::WRITE,
            Location::caller(),
        );
    }

    /// The same for an access that someone tells of through the seam, with a name.
    pub(crate) fn host_accesses(&self, access: &HostAccess) {
        let _label = Label::at(access.label, access.location);
        let touch = if access.writes {
            AccessFlags::WRITE
        } else {
            AccessFlags::READ
        };
        self.host_access(access.address, access.bytes, touch, access.location);
    }

    fn host_access(
        &self,
        address: u64,
        bytes: usize,
        touch: AccessFlags,
        location: &'static Location<'static>,
    ) {
        if bytes == 0 || MemoryMap::is_device_address(address) {
            return;
        }
        let mut state = self.enter();
        if !state.race_checker.is_on() {
            return;
        }
        let effects = vec![
            state
                .host_byte_ranges(address, &Rows::one(bytes as u64), bytes as u64)
                .accessed(touch),
        ];
        match host_functions::operation_here(&self.inner) {
            Some(op) => state.race_checker.did(op, effects, false),
            None => {
                let site = Site::current().unwrap_or_else(|| Site::at(location));
                state.race_checker.host_did(effects, "the host", Some(site));
            }
        }
        state.take_findings();
    }

    /// An allocation is given out again: what is enqueued from here on finds it without a content,
    /// and by its new name.
    pub(crate) fn memory_is_reused(&self, reuse: &MemoryReuse) {
        let _label = Label::at(reuse.label, reuse.location);
        let mut state = self.enter();
        let Some(info) = state.memory.rename(reuse.pointer.as_raw()) else {
            return;
        };
        // The host may have written memory that it can reach.
        if state.race_checker.is_on() && !info.initialised {
            let effects = vec![Effect::Reuse(info)];
            state
                .race_checker
                .host_did(effects, "the host", Site::current());
            state.take_findings();
        }
    }
}
