//! Copies and fills: validation, capture of the source at the call, and blocking of the host.

use millstream_driver::{ContextHandle, Copy2d, DevicePtr, FillPattern, ResultCode, StreamHandle};

pub(crate) use super::copy_location::CopyOperand;
use super::{
    attributes::PITCH_MAX,
    copy_location::{CopyLocation, capture, direction},
};
use crate::{
    CostModel, ReportKind,
    core::{
        call_error::{CallError, CallResult},
        gpu::StateGuard,
        graph::NodeOperation,
        objects::stream::WaitSet,
        op::{CopyOp, CopySource, CopyTarget, FillOp, OpKind},
    },
    memory::{
        AccessError, AccessTime, Direction, HostMemoryKind, MemoryKind, MemoryMap, Rows,
        SMALL_UPLOAD_BYTES,
    },
    race::{ClockSnapshot, Input, SnapshotOf},
};

/// The largest pageable source that is staged without waiting for the stream (rule 8: pageable
/// sources are staged).
const STAGED_BYTES: u64 = 1 << 20;

/// The synchronisation form of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyForm {
    /// The call may block until the copy is complete.
    Synchronous,
    /// The call enqueues the copy.
    Async,
    /// The call captures a host source and enqueues the copy (rule 14: capture at the call).
    AsyncCaptured,
}

/// The work that the host waits for before the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostWait {
    /// No work.
    Not,
    /// The work enqueued on the stream before the copy.
    ForEarlierWork,
    /// The copy itself.
    ForTheCopy,
}

impl StateGuard<'_> {
    /// Reports an invalid access, and returns it as a call error.
    fn invalid_range(&mut self, error: AccessError) -> CallError {
        self.violation(error.kind, ResultCode::INVALID_VALUE, error.to_string())
    }

    /// Resolves `end` for rows a pitch apart. Every row must be in bounds, and all rows must be in
    /// the same allocation or in pageable memory.
    pub(super) fn locate(
        &mut self,
        end: CopyOperand,
        pitch: u64,
        rows: &Rows,
    ) -> CallResult<CopyLocation> {
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

    /// Resolves one row, and returns the base of its allocation; pageable memory has none.
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

    /// Resolves a range of mapped memory, and returns the base of its allocation.
    fn mapped(&self, address: u64, bytes: u64) -> Result<(CopyLocation, Option<u64>), AccessError> {
        let (found, _) = self.memory.locate(address, bytes, AccessTime::Call)?;
        if found.kind == MemoryKind::Heap {
            return Err(AccessError {
                kind: ReportKind::BadArgument,
                what: format!("{bytes} bytes at {address:#x}"),
                problem: format!(
                    "are memory of a kernel's heap, which only kernels can access: {}",
                    found.describe()
                ),
            });
        }
        let location = match found.kind {
            kind if kind.is_managed() => CopyLocation::Managed { address },
            kind if kind.is_host() => CopyLocation::Pinned { address },
            _ => CopyLocation::Device {
                address,
                device: found.device,
            },
        };
        Ok((location, Some(self.memory.start_of(found))))
    }

    /// Enqueues a copy of `bytes` on `stream`.
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

    /// Enqueues a copy of rows on `stream` (rule 52: a 2-D copy is one operation).
    pub(crate) fn copy_2d(
        &mut self,
        context: ContextHandle,
        ends: (CopyOperand, CopyOperand),
        copy: &Copy2d,
        stream: StreamHandle,
        form: CopyForm,
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        if copy.is_empty() {
            return Ok(());
        }
        let rows = self.check_rows(ends, copy)?;
        self.copy_rows(context, ends, rows, stream, form)
    }

    /// Validates the geometry of a 2-D copy.
    pub(super) fn check_rows(
        &mut self,
        ends: (CopyOperand, CopyOperand),
        copy: &Copy2d,
    ) -> CallResult<Rows> {
        let (width, height) = (copy.width_bytes, copy.height);
        for (side, end) in [(&copy.source, ends.1), (&copy.target, ends.0)] {
            let pitch = side.pitch_bytes;
            let span = side.span_bytes(width, height);
            let text = if pitch < width {
                format!("a pitch of {pitch} bytes for rows of {width}")
            } else if pitch as u64 > PITCH_MAX {
                format!("a pitch of {pitch} bytes, which exceeds the limit of at most {PITCH_MAX}")
            } else if span.is_none_or(|span| end.address().checked_add(span as u64).is_none()) {
                format!("{height} rows a pitch of {pitch} bytes apart leave the address space")
            } else {
                continue;
            };
            return Err(self.violation(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text));
        }
        Ok(Rows {
            width: width as u64,
            height: height as u64,
            source_pitch: copy.source.pitch_bytes as u64,
            target_pitch: copy.target.pitch_bytes as u64,
        })
    }

    /// Validates, captures and enqueues a copy, and blocks as its form requires.
    fn copy_rows(
        &mut self,
        context: ContextHandle,
        (target, source): (CopyOperand, CopyOperand),
        mut rows: Rows,
        stream: StreamHandle,
        form: CopyForm,
    ) -> CallResult<()> {
        if self.captures(stream)? {
            return self.capture_copy(stream, (target, source), &rows, form);
        }
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
                    // Staging by the host; above this size the copy's bandwidth includes it.
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
            // Rules 8 and 9: the documentation says "might be synchronous".
            (CopyForm::Async, Direction::PageableToDevice | Direction::DeviceToPageable)
                if !self.config.rely_on_blocking =>
            {
                HostWait::Not
            }
            // Rule 6: the copy may still be pending.
            (CopyForm::Synchronous, Direction::PageableToDevice) if bytes <= SMALL_UPLOAD_BYTES => {
                HostWait::Not
            }
            _ => host_wait,
        };
        self.block(context, host_wait, promised, wait_set)
    }

    /// Returns the host cost of a copy call.
    fn call_ns(&self, direction: Direction) -> u64 {
        let cost = &self.config.cost;
        match direction {
            Direction::PinnedToDevice | Direction::DeviceToPinned => cost.pinned_copy_call_ns,
            Direction::PageableToDevice | Direction::DeviceToPageable => cost.pageable_copy_call_ns,
            Direction::WithinDevice | Direction::BetweenDevices { .. } => cost.device_copy_call_ns,
            Direction::HostToHost => cost.other_call_ns,
        }
    }

    /// Enqueues an operation without implicit synchronisation, and returns it as a wait set.
    fn enqueue_plain(&mut self, stream: StreamHandle, kind: OpKind) -> WaitSet {
        let id = self.enqueue(stream, kind, &WaitSet::default());
        WaitSet {
            ops: vec![id],
            finish_ns: 0,
        }
    }

    /// Reports a copy whose source and destination overlap.
    pub(super) fn check_overlap(
        &mut self,
        target: CopyLocation,
        source: CopyLocation,
        rows: &Rows,
    ) {
        let (to, from) = (target.address(), source.address());
        // The rows ascend on both sides, so one merge pass finds any overlapping pair.
        let (mut reads, mut writes) = (rows.offsets().peekable(), rows.offsets().peekable());
        while let (Some(&(read, _)), Some(&(_, written))) = (reads.peek(), writes.peek()) {
            let (read, written) = (from + read, to + written);
            if read + rows.width <= written {
                reads.next();
            } else if written + rows.width <= read {
                writes.next();
            } else {
                let ends = format!("from {from:#x} to {to:#x}");
                let text = format!("a copy of {} bytes {ends} overlaps itself", rows.bytes());
                return self.report(ReportKind::Overlap, text);
            }
        }
    }

    /// Returns the work that the host waits for, by the configured readings of the rules.
    fn host_wait(&self, form: CopyForm, direction: Direction, bytes: u64) -> HostWait {
        let rules = &self.config.rules;
        match (form, direction) {
            // Rules 1 and 6: the call waits for the stream and reads the source; the copy may be
            // pending.
            (CopyForm::Synchronous, Direction::PageableToDevice) => {
                if bytes <= SMALL_UPLOAD_BYTES && rules.small_upload.is_strict() {
                    HostWait::Not
                } else {
                    HostWait::ForEarlierWork
                }
            }
            // Rule 4: no host synchronisation.
            (CopyForm::Synchronous, Direction::WithinDevice | Direction::BetweenDevices { .. }) => {
                HostWait::Not
            }
            // Rules 2, 3 and 5: the call returns when the copy is complete.
            (CopyForm::Synchronous, _) => HostWait::ForTheCopy,
            // Rule 8: a pageable source is staged first.
            (CopyForm::Async, Direction::PageableToDevice) => {
                if rules.pageable_upload.is_strict() {
                    HostWait::ForEarlierWork
                } else if bytes > STAGED_BYTES {
                    HostWait::ForTheCopy
                } else {
                    HostWait::Not
                }
            }
            // Rule 9: "might be synchronous".
            (CopyForm::Async, Direction::DeviceToPageable)
                if rules.pageable_download.is_strict() =>
            {
                HostWait::Not
            }
            // Rules 9 and 11: the call returns when the copy is complete.
            (CopyForm::Async, Direction::DeviceToPageable | Direction::HostToHost) => {
                HostWait::ForTheCopy
            }
            // Rules 7 and 14: the copy is asynchronous.
            (CopyForm::Async | CopyForm::AsyncCaptured, _) => HostWait::Not,
        }
    }

    /// Blocks the host for `host_wait`. The race checker orders the host only after the work in
    /// `promised`, since a program may rely on nothing more.
    fn block(
        &mut self,
        context: ContextHandle,
        host_wait: HostWait,
        promised: HostWait,
        copy: WaitSet,
    ) -> CallResult<()> {
        let seen = match (promised, copy.ops.first()) {
            (HostWait::Not, _) | (_, None) => ClockSnapshot::default(),
            (_, Some(id)) => {
                let itself = promised == HostWait::ForTheCopy;
                self.race_checker
                    .snapshot(SnapshotOf::Operation(*id, itself))
            }
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
        self.race_checker.take(Input::Observed(seen));
        self.synchronised(context)
    }

    /// Enqueues a fill of `count` elements on `stream`.
    pub(crate) fn memset(
        &mut self,
        context: ContextHandle,
        target: DevicePtr,
        pattern: FillPattern,
        count: usize,
        stream: StreamHandle,
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        let Some((fill, location)) = self.locate_fill(target, pattern, count)? else {
            return Ok(());
        };
        let device = self.contexts[&context].device;
        let writable = self.memory.check_writable(fill.target, device);
        writable.map_err(|error| self.invalid_range(error))?;
        if self.captures(stream)? {
            self.capture_node(stream, NodeOperation::Fill(fill));
            return Ok(());
        }
        self.wait_for_queue_space(context, stream)?;
        let wait_set = self.enqueue_fenced(context, stream, OpKind::Fill(fill));
        // Rule 12: a fill of page-locked or managed memory is synchronous.
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

    /// Validates a fill, and resolves its target. Returns `None` for a fill of no elements.
    pub(super) fn locate_fill(
        &mut self,
        target: DevicePtr,
        pattern: FillPattern,
        count: usize,
    ) -> CallResult<Option<(FillOp, CopyLocation)>> {
        let address = target.as_raw();
        if !address.is_multiple_of(pattern.size() as u64) {
            let size = pattern.size();
            let at = format!("at {address:#x}, not a multiple of {size}");
            let text = format!("a fill of {size}-byte elements {at}");
            return Err(self.violation(ReportKind::Misaligned, ResultCode::INVALID_VALUE, text));
        }
        if count == 0 {
            return Ok(None);
        }
        let bytes = (count as u64).saturating_mul(pattern.size() as u64);
        let found = self.mapped(address, bytes);
        let (location, _) = found.map_err(|error| self.invalid_range(error))?;
        let (pattern, pattern_bytes) = match pattern {
            FillPattern::U8(value) => ([value; 4], 1),
            FillPattern::U16(value) => {
                let [low, high] = value.to_le_bytes();
                ([low, high, low, high], 2)
            }
            FillPattern::U32(value) => (value.to_le_bytes(), 4),
        };
        let fill = FillOp {
            target: address,
            bytes,
            pattern,
            pattern_bytes,
        };
        Ok(Some((fill, location)))
    }
}
