//! Copies and fills: what the call checks and captures, and for what it blocks.

use millstream_driver::{ContextHandle, DevicePtr, FillPattern, ResultCode, StreamHandle};

use crate::{
    CostModel, ReportKind,
    gpu::Session,
    memory::{AccessError, HostMemory, MemoryMap, Moment, host::HostRange},
    op::{Copy, Direction, Fill, OpKind, Source, Target},
    world::{Answer, Goal, Refusal},
};

/// The largest copy that the synchronous form may leave pending (rule 6).
const SMALL_BYTES: u64 = 64 << 10;
/// The largest pageable source that is staged without waiting for the stream (rule 8).
const STAGED_BYTES: u64 = 1 << 20;

/// One end of a copy, as the call names it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// A device address, which may also be that of page-locked memory.
    Device(DevicePtr),
    /// Host memory.
    Host(HostRange),
    /// An address of the unified address space.
    Unified(HostRange),
}

/// One end of a copy, looked up.
#[derive(Clone, Copy, Debug)]
enum Place {
    Device { address: u64, device: u32 },
    Pinned { address: u64 },
    Pageable(HostRange),
}

/// Which family of functions the call is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Synchronous,
    Async,
    /// Asynchronous, with a source of the host that is read during the call (rule 14).
    AsyncCaptured,
}

/// For what the host waits before the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocks {
    Not,
    ForEarlierWork,
    ForTheCopy,
}

impl Session<'_> {
    fn invalid_range(&mut self, error: AccessError) -> Refusal {
        self.breach(error.kind, ResultCode::INVALID_VALUE, error.text)
    }

    fn place(&mut self, end: End, bytes: u64) -> Answer<Place> {
        let host = match end {
            End::Device(pointer) => return self.mapped(pointer.as_raw(), bytes),
            End::Unified(range) if MemoryMap::is_device_address(range.address()) => {
                return self.mapped(range.address(), bytes);
            }
            End::Host(range) | End::Unified(range) => range,
        };
        match self.memory.classify_host(host.address(), bytes) {
            Ok(HostMemory::Pinned) => Ok(Place::Pinned {
                address: host.address(),
            }),
            Ok(HostMemory::Pageable) => Ok(Place::Pageable(host)),
            Err(error) => Err(self.invalid_range(error)),
        }
    }

    fn mapped(&mut self, address: u64, bytes: u64) -> Answer<Place> {
        match self.memory.locate(address, bytes, Moment::Call) {
            Ok((found, _)) if found.kind.is_host() => Ok(Place::Pinned { address }),
            Ok((found, _)) => Ok(Place::Device {
                address,
                device: found.device,
            }),
            Err(error) => Err(self.invalid_range(error)),
        }
    }

    /// A copy of `bytes` on `stream`.
    pub(crate) fn copy(
        &mut self,
        context: ContextHandle,
        (target, source): (End, End),
        bytes: usize,
        stream: StreamHandle,
        form: Form,
    ) -> Answer<()> {
        let stream = self.stream(context, stream)?;
        if bytes == 0 {
            return Ok(());
        }
        let bytes = bytes as u64;
        let target = self.place(target, bytes)?;
        let captured = match source {
            End::Host(range) if form == Form::AsyncCaptured => Some(range),
            _ => None,
        };
        let source = self.place(source, bytes)?;
        let direction = direction(target, source);
        self.now_ns += self.call_ns(direction);
        self.check_overlap(target, source, bytes);
        let blocks = self.blocks(form, direction, bytes);
        let source = match (captured, source) {
            (Some(range), _) => Source::Captured(range.read()),
            (None, Place::Device { address, .. } | Place::Pinned { address }) => Source::Mapped(address),
            (None, Place::Pageable(range)) if direction == Direction::HostToHost => Source::Host(range),
            (None, Place::Pageable(range)) => {
                if bytes <= STAGED_BYTES {
                    // Staging by the host. Beyond this size the rate of the whole copy includes it.
                    self.now_ns += CostModel::transfer_ns(bytes, self.config.cost.host_memcpy_gb_s);
                }
                Source::Captured(range.read())
            }
        };
        let target = match target {
            Place::Device { address, .. } | Place::Pinned { address } => Target::Mapped(address),
            Place::Pageable(range) => Target::Host(range),
        };
        let kind = OpKind::Copy(Copy {
            source,
            target,
            bytes,
            direction,
        });
        let goal = if direction == Direction::WithinDevice {
            self.enqueue_fenced(context, stream, kind)
        } else {
            self.enqueue_plain(stream, kind)
        };
        self.block(context, blocks, goal)
    }

    fn call_ns(&self, direction: Direction) -> u64 {
        let cost = &self.config.cost;
        match direction {
            Direction::PinnedToDevice | Direction::DeviceToPinned => cost.pinned_copy_call_ns,
            Direction::PageableToDevice | Direction::DeviceToPageable => cost.pageable_copy_call_ns,
            Direction::WithinDevice | Direction::BetweenDevices => cost.device_copy_call_ns,
            Direction::HostToHost => cost.other_call_ns,
        }
    }

    fn enqueue_plain(&mut self, stream: StreamHandle, kind: OpKind) -> Goal {
        let id = self.enqueue(stream, kind, &Goal::default());
        Goal {
            ops: vec![id],
            finish_ns: 0,
        }
    }

    fn check_overlap(&mut self, target: Place, source: Place, bytes: u64) {
        let (to, from) = (target.address(), source.address());
        if to < from + bytes && from < to + bytes {
            let text = format!("a copy of {bytes} bytes from {from:#x} to {to:#x} overlaps itself");
            self.report(ReportKind::Overlap, text);
        }
    }

    fn blocks(&self, form: Form, direction: Direction, bytes: u64) -> Blocks {
        let rules = &self.config.rules;
        match (form, direction) {
            // Rules 1 and 6: the source has been read, the rest may be pending.
            (Form::Synchronous, Direction::PageableToDevice) => {
                if bytes <= SMALL_BYTES && rules.small_upload.is_strict() {
                    Blocks::Not
                } else {
                    Blocks::ForEarlierWork
                }
            }
            // Rule 4.
            (Form::Synchronous, Direction::WithinDevice | Direction::BetweenDevices) => Blocks::Not,
            // Rules 2, 3 and 5.
            (Form::Synchronous, _) => Blocks::ForTheCopy,
            // Rule 8.
            (Form::Async, Direction::PageableToDevice) => {
                if rules.pageable_upload.is_strict() {
                    Blocks::ForEarlierWork
                } else if bytes > STAGED_BYTES {
                    Blocks::ForTheCopy
                } else {
                    Blocks::Not
                }
            }
            // Rule 9.
            (Form::Async, Direction::DeviceToPageable) if rules.pageable_download.is_strict() => Blocks::Not,
            // Rules 9 and 11.
            (Form::Async, Direction::DeviceToPageable | Direction::HostToHost) => Blocks::ForTheCopy,
            // Rules 7 and 14.
            (Form::Async | Form::AsyncCaptured, _) => Blocks::Not,
        }
    }

    fn block(&mut self, context: ContextHandle, blocks: Blocks, copy: Goal) -> Answer<()> {
        let goal = match blocks {
            Blocks::Not => return Ok(()),
            Blocks::ForTheCopy => copy,
            Blocks::ForEarlierWork => {
                let in_flight = copy.ops.first().and_then(|id| self.ops.get(id));
                in_flight.map_or(Goal::default(), |op| Goal {
                    ops: op.predecessors.to_vec(),
                    finish_ns: op.ready_ns,
                })
            }
        };
        self.wait(&goal);
        self.synchronised(context)
    }

    /// A fill of `count` elements on `stream`.
    pub(crate) fn memset(
        &mut self,
        context: ContextHandle,
        target: DevicePtr,
        pattern: FillPattern,
        count: usize,
        stream: StreamHandle,
    ) -> Answer<()> {
        let stream = self.stream(context, stream)?;
        let address = target.as_raw();
        if !address.is_multiple_of(pattern.size() as u64) {
            let text = format!("a fill of {}-byte elements at {address:#x}", pattern.size());
            return Err(self.breach(ReportKind::Misaligned, ResultCode::INVALID_VALUE, text));
        }
        if count == 0 {
            return Ok(());
        }
        let bytes = (count as u64).saturating_mul(pattern.size() as u64);
        let place = self.mapped(address, bytes)?;
        let (pattern, pattern_bytes) = match pattern {
            FillPattern::U8(value) => ([value; 4], 1),
            FillPattern::U16(value) => {
                let [low, high] = value.to_le_bytes();
                ([low, high, low, high], 2)
            }
            FillPattern::U32(value) => (value.to_le_bytes(), 4),
        };
        let fill = OpKind::Fill(Fill {
            target: address,
            bytes,
            pattern,
            pattern_bytes,
        });
        let goal = self.enqueue_fenced(context, stream, fill);
        // Rule 12.
        match place {
            Place::Pinned { .. } => self.block(context, Blocks::ForTheCopy, goal),
            Place::Device { .. } | Place::Pageable(_) => Ok(()),
        }
    }
}

impl Place {
    fn address(self) -> u64 {
        match self {
            Self::Device { address, .. } | Self::Pinned { address } => address,
            Self::Pageable(range) => range.address(),
        }
    }
}

fn direction(target: Place, source: Place) -> Direction {
    match (source, target) {
        (Place::Pinned { .. }, Place::Device { .. }) => Direction::PinnedToDevice,
        (Place::Pageable(_), Place::Device { .. }) => Direction::PageableToDevice,
        (Place::Device { .. }, Place::Pinned { .. }) => Direction::DeviceToPinned,
        (Place::Device { .. }, Place::Pageable(_)) => Direction::DeviceToPageable,
        (Place::Device { device: from, .. }, Place::Device { device: to, .. }) if from == to => {
            Direction::WithinDevice
        }
        (Place::Device { .. }, Place::Device { .. }) => Direction::BetweenDevices,
        (Place::Pinned { .. } | Place::Pageable(_), Place::Pinned { .. } | Place::Pageable(_)) => {
            Direction::HostToHost
        }
    }
}
