//! Copies and fills: what the call checks and captures, and for what it blocks.

use millstream_driver::{ContextHandle, Copy2d, DevicePtr, FillPattern, ResultCode, StreamHandle};

use super::attributes::PITCH_MAX;
use crate::{
    CostModel, ReportKind,
    core::{
        gpu::StateGuard,
        op::{CopyOp, CopySource, CopyTarget, FillOp, OpKind},
        state::{CallError, CallResult},
        wait_set::WaitSet,
    },
    memory::{
        AccessError, AccessTime, Direction, HostMemoryKind, MemoryKind, MemoryMap, Rows,
        host::HostRange,
    },
    race::ClockSnapshot,
};

/// The largest copy that the synchronous form may leave pending (rule 6).
const SMALL_BYTES: u64 = 64 << 10;
/// The largest pageable source that is staged without waiting for the stream (rule 8).
const STAGED_BYTES: u64 = 1 << 20;

/// One end of a copy, as the call names it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CopyOperand {
    /// A device address, which may also be that of page-locked or managed memory.
    Device(DevicePtr),
    /// Host memory.
    Host(HostRange),
    /// An address of the unified address space.
    Unified(HostRange),
}

/// One end of a copy, looked up.
#[derive(Clone, Copy, Debug)]
enum CopyLocation {
    Device { address: u64, device: u32 },
    Managed { address: u64 },
    Pinned { address: u64 },
    Pageable(HostRange),
}

/// Which family of functions the call is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyForm {
    Synchronous,
    Async,
    /// Asynchronous, with a source of the host that is read during the call (rule 14).
    AsyncCaptured,
}

/// For what the host waits before the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostWait {
    Not,
    ForEarlierWork,
    ForTheCopy,
}

impl StateGuard<'_> {
    fn invalid_range(&mut self, error: AccessError) -> CallError {
        self.violation(error.kind, ResultCode::INVALID_VALUE, error.to_string())
    }

    /// Where `rows`, of which each has a pitch of `pitch`, lie at `end`: each of them whole, and
    /// all in one memory.
    fn locate(&mut self, end: CopyOperand, pitch: u64, rows: &Rows) -> CallResult<CopyLocation> {
        let mut first = None;
        for row in 0..rows.height {
            let found = self.locate_row(end.address() + row * pitch, end, rows.width);
            let found = match (found, first) {
                (Ok((location, base)), None) => {
                    first = Some((location, base));
                    continue;
                }
                (Ok((_, base)), Some((_, first_base))) if base == first_base => continue,
                (Ok(_), _) => AccessError {
                    kind: ReportKind::OutOfBounds,
                    what: format!("{} bytes", rows.width),
                    problem: "lie in other memory than the first row".into(),
                },
                (Err(error), _) => error,
            };
            let row = match rows.height {
                1 => String::new(),
                height => format!("row {row} of {height}, a pitch of {pitch} bytes apart: "),
            };
            let what = row + &found.what;
            return Err(self.invalid_range(AccessError { what, ..found }));
        }
        let (location, _) = first.expect("a copy has at least one row");
        Ok(location)
    }

    /// Where one row lies, with the base of its allocation; pageable memory has none.
    fn locate_row(
        &self,
        address: u64,
        end: CopyOperand,
        bytes: u64,
    ) -> Result<(CopyLocation, Option<u64>), AccessError> {
        let host = match end {
            CopyOperand::Device(_) => return self.mapped(address, bytes),
            CopyOperand::Unified(_) if MemoryMap::is_device_address(address) => {
                return self.mapped(address, bytes);
            }
            CopyOperand::Host(range) | CopyOperand::Unified(range) => range,
        };
        match self.memory.classify_host(address, bytes)? {
            HostMemoryKind::Pinned | HostMemoryKind::Managed => self.mapped(address, bytes),
            HostMemoryKind::Pageable => Ok((CopyLocation::Pageable(host), None)),
        }
    }

    fn mapped(&self, address: u64, bytes: u64) -> Result<(CopyLocation, Option<u64>), AccessError> {
        let (found, _) = self.memory.locate(address, bytes, AccessTime::Call)?;
        let location = match found.kind {
            MemoryKind::Managed => CopyLocation::Managed { address },
            kind if kind.is_host() => CopyLocation::Pinned { address },
            _ => CopyLocation::Device {
                address,
                device: found.device,
            },
        };
        Ok((location, Some(found.base)))
    }

    /// A copy of `bytes` on `stream`.
    pub(crate) fn copy(
        &mut self,
        context: ContextHandle,
        ends: (CopyOperand, CopyOperand),
        bytes: usize,
        stream: StreamHandle,
        form: CopyForm,
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        if bytes == 0 {
            return Ok(());
        }
        self.copy_rows(context, ends, Rows::one(bytes as u64), stream, form)
    }

    /// A copy of rows on `stream` (rule 52).
    pub(crate) fn copy_2d(
        &mut self,
        context: ContextHandle,
        ends: (CopyOperand, CopyOperand),
        copy: &Copy2d,
        stream: StreamHandle,
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        if copy.is_empty() {
            return Ok(());
        }
        let (width, height) = (copy.width_bytes, copy.height);
        for (side, end) in [(&copy.source, ends.1), (&copy.target, ends.0)] {
            let pitch = side.pitch_bytes;
            let span = side.span_bytes(width, height);
            let text = if pitch < width {
                format!("a pitch of {pitch} bytes for rows of {width}")
            } else if pitch as u64 > PITCH_MAX {
                format!("a pitch of {pitch} bytes, of at most {PITCH_MAX}")
            } else if span.is_none_or(|span| end.address().checked_add(span as u64).is_none()) {
                format!("{height} rows a pitch of {pitch} bytes apart leave the address space")
            } else {
                continue;
            };
            return Err(self.violation(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text));
        }
        let rows = Rows {
            width: width as u64,
            height: height as u64,
            source_pitch: copy.source.pitch_bytes as u64,
            target_pitch: copy.target.pitch_bytes as u64,
        };
        self.copy_rows(context, ends, rows, stream, CopyForm::Async)
    }

    fn copy_rows(
        &mut self,
        context: ContextHandle,
        (target, source): (CopyOperand, CopyOperand),
        mut rows: Rows,
        stream: StreamHandle,
        form: CopyForm,
    ) -> CallResult<()> {
        self.wait_for_queue_space(context, stream)?;
        let bytes = rows.bytes();
        let target = self.locate(target, rows.target_pitch, &rows)?;
        let captured = match source {
            CopyOperand::Host(range) if form == CopyForm::AsyncCaptured => Some(range),
            _ => None,
        };
        let source = self.locate(source, rows.source_pitch, &rows)?;
        let direction = direction(target, source);
        self.now_ns += self.call_ns(direction);
        self.check_overlap(target, source, &rows);
        let host_wait = self.host_wait(form, direction, bytes);
        if let (Some(range), _) | (None, CopyLocation::Pageable(range)) = (captured, source)
            && direction != Direction::HostToHost
        {
            self.race_captures(range.address(), &rows);
        }
        let source = match (captured, source) {
            (Some(range), _) => capture(range, &mut rows),
            (
                None,
                CopyLocation::Device { address, .. }
                | CopyLocation::Managed { address }
                | CopyLocation::Pinned { address },
            ) => CopySource::Mapped(address),
            (None, CopyLocation::Pageable(range)) if direction == Direction::HostToHost => {
                CopySource::Host(range)
            }
            (None, CopyLocation::Pageable(range)) => {
                if bytes <= STAGED_BYTES {
                    // Staging by the host. Beyond this size the rate of the whole copy includes it.
                    self.now_ns += CostModel::transfer_ns(bytes, self.config.cost.host_memcpy_gb_s);
                }
                capture(range, &mut rows)
            }
        };
        let target = match target {
            CopyLocation::Device { address, .. }
            | CopyLocation::Managed { address }
            | CopyLocation::Pinned { address } => CopyTarget::Mapped(address),
            CopyLocation::Pageable(range) => CopyTarget::Host(range),
        };
        let kind = OpKind::Copy(CopyOp {
            source,
            target,
            rows,
            direction,
        });
        let wait_set = if direction == Direction::WithinDevice {
            self.enqueue_fenced(context, stream, kind)
        } else {
            self.enqueue_plain(stream, kind)
        };
        let promised = match (form, direction) {
            // Rules 8 and 9: the documentation says "might".
            (CopyForm::Async, Direction::PageableToDevice | Direction::DeviceToPageable) => {
                HostWait::Not
            }
            // Rule 6.
            (CopyForm::Synchronous, Direction::PageableToDevice) if bytes <= SMALL_BYTES => {
                HostWait::Not
            }
            _ => host_wait,
        };
        self.block(context, host_wait, promised, wait_set)
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

    fn enqueue_plain(&mut self, stream: StreamHandle, kind: OpKind) -> WaitSet {
        let id = self.enqueue(stream, kind, &WaitSet::default());
        WaitSet {
            ops: vec![id],
            finish_ns: 0,
        }
    }

    fn check_overlap(&mut self, target: CopyLocation, source: CopyLocation, rows: &Rows) {
        let (to, from) = (target.address(), source.address());
        // Rows rise on both sides, so one walk along both finds a pair that overlaps if there is
        // one.
        let (mut reads, mut writes) = (rows.offsets().peekable(), rows.offsets().peekable());
        while let (Some(&(read, _)), Some(&(_, written))) = (reads.peek(), writes.peek()) {
            let (read, written) = (from + read, to + written);
            if read + rows.width <= written {
                reads.next();
            } else if written + rows.width <= read {
                writes.next();
            } else {
                let bytes = rows.bytes();
                let text =
                    format!("a copy of {bytes} bytes from {from:#x} to {to:#x} overlaps itself");
                self.report(ReportKind::Overlap, text);
                return;
            }
        }
    }

    fn host_wait(&self, form: CopyForm, direction: Direction, bytes: u64) -> HostWait {
        let rules = &self.config.rules;
        match (form, direction) {
            // Rules 1 and 6: the source has been read, the rest may be pending.
            (CopyForm::Synchronous, Direction::PageableToDevice) => {
                if bytes <= SMALL_BYTES && rules.small_upload.is_strict() {
                    HostWait::Not
                } else {
                    HostWait::ForEarlierWork
                }
            }
            // Rule 4.
            (CopyForm::Synchronous, Direction::WithinDevice | Direction::BetweenDevices) => {
                HostWait::Not
            }
            // Rules 2, 3 and 5.
            (CopyForm::Synchronous, _) => HostWait::ForTheCopy,
            // Rule 8.
            (CopyForm::Async, Direction::PageableToDevice) => {
                if rules.pageable_upload.is_strict() {
                    HostWait::ForEarlierWork
                } else if bytes > STAGED_BYTES {
                    HostWait::ForTheCopy
                } else {
                    HostWait::Not
                }
            }
            // Rule 9.
            (CopyForm::Async, Direction::DeviceToPageable)
                if rules.pageable_download.is_strict() =>
            {
                HostWait::Not
            }
            // Rules 9 and 11.
            (CopyForm::Async, Direction::DeviceToPageable | Direction::HostToHost) => {
                HostWait::ForTheCopy
            }
            // Rules 7 and 14.
            (CopyForm::Async | CopyForm::AsyncCaptured, _) => HostWait::Not,
        }
    }

    /// Waits as it does; the host may rely on no more than what is promised.
    fn block(
        &mut self,
        context: ContextHandle,
        host_wait: HostWait,
        promised: HostWait,
        copy: WaitSet,
    ) -> CallResult<()> {
        let seen = match (promised, copy.ops.first()) {
            (HostWait::Not, _) | (_, None) => ClockSnapshot::default(),
            (_, Some(id)) => self
                .race_checker
                .operation(*id, promised == HostWait::ForTheCopy),
        };
        let wait_set = match host_wait {
            HostWait::Not => return Ok(()),
            HostWait::ForTheCopy => copy,
            HostWait::ForEarlierWork => {
                let in_flight = copy.ops.first().and_then(|id| self.ops.get(id));
                in_flight.map_or(WaitSet::default(), |op| WaitSet {
                    ops: op.predecessors.to_vec(),
                    finish_ns: op.ready_ns,
                })
            }
        };
        self.wait(&wait_set);
        self.race_checker.host_observed(&seen);
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
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        let address = target.as_raw();
        if !address.is_multiple_of(pattern.size() as u64) {
            let text = format!("a fill of {}-byte elements at {address:#x}", pattern.size());
            return Err(self.violation(ReportKind::Misaligned, ResultCode::INVALID_VALUE, text));
        }
        if count == 0 {
            return Ok(());
        }
        let bytes = (count as u64).saturating_mul(pattern.size() as u64);
        let (location, _) = self
            .mapped(address, bytes)
            .map_err(|error| self.invalid_range(error))?;
        let (pattern, pattern_bytes) = match pattern {
            FillPattern::U8(value) => ([value; 4], 1),
            FillPattern::U16(value) => {
                let [low, high] = value.to_le_bytes();
                ([low, high, low, high], 2)
            }
            FillPattern::U32(value) => (value.to_le_bytes(), 4),
        };
        self.wait_for_queue_space(context, stream)?;
        let fill = OpKind::Fill(FillOp {
            target: address,
            bytes,
            pattern,
            pattern_bytes,
        });
        let wait_set = self.enqueue_fenced(context, stream, fill);
        // Rule 12.
        match location {
            CopyLocation::Pinned { .. } | CopyLocation::Managed { .. } => self.block(
                context,
                HostWait::ForTheCopy,
                HostWait::ForTheCopy,
                wait_set,
            ),
            CopyLocation::Device { .. } | CopyLocation::Pageable(_) => Ok(()),
        }
    }
}

impl CopyOperand {
    /// The first address.
    fn address(self) -> u64 {
        match self {
            Self::Device(pointer) => pointer.as_raw(),
            Self::Host(range) | Self::Unified(range) => range.address(),
        }
    }
}

impl CopyLocation {
    fn address(self) -> u64 {
        match self {
            Self::Device { address, .. } | Self::Managed { address } | Self::Pinned { address } => {
                address
            }
            Self::Pageable(range) => range.address(),
        }
    }
}

/// What a host source holds now. The rows that remain to be copied follow each other.
fn capture(source: HostRange, rows: &mut Rows) -> CopySource {
    let pitch = std::mem::replace(&mut rows.source_pitch, rows.width);
    CopySource::Captured(source.read_rows(
        rows.width as usize,
        rows.height as usize,
        pitch as usize,
    ))
}

fn direction(target: CopyLocation, source: CopyLocation) -> Direction {
    match (source, target) {
        (
            CopyLocation::Pinned { .. },
            CopyLocation::Device { .. } | CopyLocation::Managed { .. },
        ) => Direction::PinnedToDevice,
        (CopyLocation::Pageable(_), CopyLocation::Device { .. } | CopyLocation::Managed { .. }) => {
            Direction::PageableToDevice
        }
        (
            CopyLocation::Device { .. } | CopyLocation::Managed { .. },
            CopyLocation::Pinned { .. },
        ) => Direction::DeviceToPinned,
        (CopyLocation::Device { .. } | CopyLocation::Managed { .. }, CopyLocation::Pageable(_)) => {
            Direction::DeviceToPageable
        }
        (CopyLocation::Device { device: from, .. }, CopyLocation::Device { device: to, .. })
            if from != to =>
        {
            Direction::BetweenDevices
        }
        (
            CopyLocation::Device { .. } | CopyLocation::Managed { .. },
            CopyLocation::Device { .. } | CopyLocation::Managed { .. },
        ) => Direction::WithinDevice,
        (
            CopyLocation::Pinned { .. } | CopyLocation::Pageable(_),
            CopyLocation::Pinned { .. } | CopyLocation::Pageable(_),
        ) => Direction::HostToHost,
    }
}
