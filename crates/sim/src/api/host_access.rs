//! Notifications that no driver call carries: the host's own memory accesses, and the reuse of an
//! allocation by a caching allocator.

use std::panic::Location;

use millstream_driver::{HostAccess, MemoryReuse};
use millstream_ptx::Site;

use crate::{
    Gpu,
    core::host_functions,
    memory::{AccessFlags, MemoryMap, Rows},
    race::{Effect, Input, Label},
};

impl Gpu {
    /// Notifies the race checker that the host reads `bytes` bytes at `pointer` now, in pageable or
    /// page-locked memory. The method itself reads nothing.
    ///
    /// The host must be ordered after every operation that writes these bytes: by a
    /// synchronisation, or by a query that returned completion. Otherwise the access is a finding
    /// of kind [`HostRace`](crate::ReportKind::HostRace). In a host function the access belongs to
    /// that function, and is ordered by its position in the stream.
    ///
    /// ```
    /// use millstream_driver::{DeviceOrdinal, Driver, FillPattern};
    /// use millstream_sim::{Gpu, ReportKind, SimConfig};
    /// let gpu = Gpu::new(SimConfig::new());
    /// let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0)).unwrap();
    /// // SAFETY: context, stream and memory are alive, and nothing accesses the page-locked bytes.
    /// unsafe {
    ///     let stream = gpu.stream_create(context, true, 0).unwrap();
    /// let memory = gpu.mem_alloc(context, 64).unwrap();
    /// let pinned = gpu.host_alloc(context, 64).unwrap();
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

    /// Notifies the race checker that the host writes `bytes` bytes at `pointer` now. The method
    /// itself writes nothing. The host must be ordered as for [`host_read`](Self::host_read), and
    /// also after every operation that reads these bytes.
    #[track_caller]
    pub fn host_write(&self, pointer: *const u8, bytes: usize) {
        self.host_access(
            pointer.addr() as u64,
            bytes,
            AccessFlags::WRITE,
            Location::caller(),
        );
    }

    /// Records a host access that was announced through the driver interface, with its label.
    pub(crate) fn host_accesses(&self, access: &HostAccess) {
        let _label = Label::at(access.label, access.location);
        let touch = if access.writes {
            AccessFlags::WRITE
        } else {
            AccessFlags::READ
        };
        self.host_access(access.address, access.bytes, touch, access.location);
    }

    /// Records an access of the host, or of the host function that the thread is running.
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
            Some(op) => state.race_checker.take(Input::Did(op, effects, false)),
            None => {
                let site = Site::current().unwrap_or_else(|| Site::at(location));
                let input = Input::HostDid(effects, "the host", Some(site));
                state.race_checker.take(input);
            }
        }
        state.take_findings();
    }

    /// Records the reuse of an allocation: for later operations its content is uninitialised, and
    /// it has the label of the new user.
    pub(crate) fn memory_is_reused(&self, reuse: &MemoryReuse) {
        let _label = Label::at(reuse.label, reuse.location);
        let mut state = self.enter();
        let Some(info) = state.memory.rename(reuse.pointer.as_raw()) else {
            return;
        };
        // The host may have initialised memory that it can access.
        if state.race_checker.is_on() && !info.initialised {
            let effects = vec![Effect::Reuse(info)];
            let input = Input::HostDid(effects, "the host", Site::current());
            state.race_checker.take(input);
            state.take_findings();
        }
    }
}
