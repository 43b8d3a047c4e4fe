//! The interface through which the crate `millstream-collective` submits work of several devices.
//! It is not part of the public interface, and no function here relies on its caller unless it is
//! `unsafe`.

#![allow(unsafe_code, reason = "submits operations for the crate above")]

use std::{ops::Range, panic::Location, sync::Arc};

use millstream_driver::{DevicePtr, Driver};

use crate::{
    Buffer, Device, Error, Result, Stream,
    array::{DeviceOperand, Reach, Span},
    context::{
        DeviceState, DriverStream, GroupOperation, Operation, StreamState, imports, poll_ticket,
    },
    error::OperationKind,
    kernel::Argument,
    multi_device,
    tracker::{AccessKind, Accesses, GroupNumber, Imports, Sequence},
};
pub use crate::{kernel::sha256::sha256, sync::IdleCondvar};

impl<'a> DeviceOperand<'a> {
    /// Returns the length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes.len()
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn pointer(&self) -> DevicePtr {
        self.0.pointer()
    }

    /// Returns the device that owns the memory.
    #[must_use]
    pub fn device(&self) -> Device {
        Device::from_state(Arc::clone(&self.0.allocation.device))
    }

    /// Returns a range of the bytes.
    ///
    /// # Panics
    ///
    /// If the range does not lie within the operand.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        let is_within = range.start <= range.end && range.end <= self.bytes();
        assert!(is_within, "{range:?} of {} bytes", self.bytes());
        Self(self.0.clone().subspan(range, 1))
    }

    /// Returns an argument for a kernel that reads the operand, which may be on another device.
    #[must_use]
    pub fn to_read(&self) -> Argument<'a> {
        let (span, reach) = (self.0.clone(), Reach::Peer);
        Argument::slice(Span { reach, ..span }, AccessKind::Read)
    }

    /// Returns an argument for a kernel that reads and writes the operand.
    #[must_use]
    pub fn to_write(&self) -> Argument<'a> {
        Argument::slice(self.0.clone(), AccessKind::Write)
    }
}

/// Returns the driver of a device.
#[must_use]
pub fn driver(device: &Device) -> Arc<dyn Driver> {
    Arc::clone(&device.state().driver)
}

/// Returns an error if a device is lost.
///
/// # Errors
///
/// [`Error::DeviceLost`].
pub fn check_alive(device: &Device) -> Result<()> {
    device.state().check_alive()
}

/// Returns whether two devices belong to one driver.
#[must_use]
pub fn share_driver(one: &Device, other: &Device) -> bool {
    one.state().shares_driver(other.state())
}

/// Turns on access between two devices of one driver at the first use of the pair.
///
/// # Errors
///
/// If a device is lost.
pub fn prepare_pair(one: &Device, other: &Device) -> Result<()> {
    multi_device::copies_directly(one.state(), other.state()).map(drop)
}

/// Creates a stream with the highest priority, labelled for reports.
///
/// # Errors
///
/// As [`Device::stream`].
pub fn stream(
    device: &Device,
    label: &'static str,
    location: &'static Location<'static>,
) -> Result<Stream> {
    device.state().check_alive()?;
    let _name = device.state().named(label, location);
    Stream::new(device.state(), i32::MIN)
}

/// Allocates memory with undefined contents, for the use of one operation on the stream.
///
/// # Errors
///
/// If memory is exhausted, or the device is lost.
///
/// # Safety
///
/// An operation writes the bytes before another one reads them.
pub unsafe fn scratch(
    stream: &Stream,
    bytes: usize,
    label: &'static str,
    location: &'static Location<'static>,
) -> Result<Buffer<u8>> {
    Buffer::new(
        stream.device_state(),
        stream.state(),
        bytes,
        label,
        location,
    )
}

/// Returns an error if the contents of an operand are invalid.
///
/// # Errors
///
/// [`Error::Poisoned`] and its siblings.
pub fn check_contents<'a>(operands: impl Iterator<Item = &'a DeviceOperand<'a>>) -> Result<()> {
    let examined = operands.filter(|operand| {
        let device = &operand.0.allocation.device;
        device.admission.examines_operands()
    });
    let reads: Vec<_> = examined
        .map(|operand| operand.0.access(AccessKind::Read))
        .collect();
    imports::unsettled_imports(OperationKind::DeviceToDevice, &reads).map(drop)
}

/// Copies an array to another of the same length, on a stream whose device has one of the two.
///
/// # Errors
///
/// If the arrays overlap, are on other devices or invalid, or a device is lost.
///
/// # Safety
///
/// The caller has exclusive access to `to`.
pub unsafe fn copy(
    stream: &Stream,
    from: &DeviceOperand<'_>,
    to: &DeviceOperand<'_>,
    location: &'static Location<'static>,
) -> Result<()> {
    assert_eq!(from.bytes(), to.bytes(), "the lengths differ");
    if from.bytes() == 0 {
        return Ok(());
    }
    stream.copy_spans(&from.0, &to.0, location)
}

/// Copies arrays one behind the other into a target that they fill. Once all copies are enqueued,
/// the target's contents are those of the arrays, even if they were invalid before.
///
/// # Errors
///
/// As [`copy`].
///
/// # Safety
///
/// The caller has exclusive access to `to`.
pub unsafe fn copy_parts(
    stream: &Stream,
    parts: &[(DeviceOperand<'_>, Range<usize>)],
    to: &DeviceOperand<'_>,
    location: &'static Location<'static>,
) -> Result<()> {
    let filled: usize = parts.iter().map(|(_, range)| range.len()).sum();
    assert_eq!(filled, to.bytes(), "the parts do not fill the target");
    let overwriting = Overwriting::new(&to.0);
    for (from, range) in parts {
        // SAFETY: this function's contract.
        unsafe { copy(stream, from, &to.part(range.clone()), location) }?;
    }
    overwriting.complete();
    Ok(())
}

/// An array that several copies overwrite as a whole. Its contents keep their provenance unless all
/// of the copies are enqueued.
struct Overwriting<'a> {
    target: &'a Span<'a>,
    earlier: Imports,
}

impl<'a> Overwriting<'a> {
    fn new(target: &'a Span<'a>) -> Self {
        let provenance = &target.allocation.history.provenance;
        let access = target.access(AccessKind::Write);
        let is_whole = access.extent.is_whole(access.history.bytes());
        let earlier = if is_whole {
            provenance.take()
        } else {
            Imports::new()
        };
        Self { target, earlier }
    }

    fn complete(mut self) {
        self.earlier.clear();
    }
}

impl Drop for Overwriting<'_> {
    fn drop(&mut self) {
        self.target.allocation.history.provenance.add(&self.earlier);
    }
}

/// The identity of a group of devices whose collectives fail together.
#[derive(Debug)]
pub struct Group(GroupNumber);

impl Default for Group {
    fn default() -> Self {
        Self(GroupNumber::new())
    }
}

/// The failure of a collective that ends without its results.
#[derive(Clone, Debug)]
pub struct Failure(multi_device::Failure);

impl Failure {
    /// Creates the failure of a collective of this group, which has not failed.
    #[must_use]
    pub fn new(group: &Group) -> Self {
        Self(multi_device::Failure::new(group.0))
    }

    /// Sets the cause, if none is set.
    pub fn set(&self, cause: &Error) {
        self.0.set(cause);
    }
}

/// The part of one device in a collective.
pub struct Member<'a> {
    /// A stream on which only collectives are submitted.
    pub stream: &'a Stream,
    /// The name of the collective.
    pub label: &'static str,
    /// The source line of the call.
    pub location: &'static Location<'static>,
    /// The arrays that are read.
    pub reads: Vec<DeviceOperand<'a>>,
    /// The arrays that are written.
    pub writes: Vec<DeviceOperand<'a>>,
}

/// The part of one device in a collective that was submitted.
#[derive(Clone, Debug)]
pub struct Submitted {
    device: Arc<DeviceState>,
    stream: Arc<StreamState>,
    sequence: Sequence,
}

impl Submitted {
    /// Returns whether the operation is complete. On a lost device it never is.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        poll_ticket(&self.device, &self.stream, self.sequence).unwrap_or(false)
    }
}

/// Submits the parts of a collective together, with one call of `enqueue`, which gets the streams
/// of the members in their order. If `failure` is set before the collective is known to be
/// complete, the memory that it writes is invalid.
///
/// # Errors
///
/// If an operand is invalid or lent, a device is lost, or `enqueue` fails: some of the operations
/// may then have been enqueued.
///
/// # Safety
///
/// The caller has exclusive access to the arrays that are written. The members have different
/// devices, and each one's arrays are on its own device. `enqueue` enqueues work to the given
/// streams only, which uses only the arrays, and writes only those to be written. It does not call
/// this library.
pub unsafe fn submit(
    members: &[Member<'_>],
    failure: &Failure,
    enqueue: impl FnOnce(&[DriverStream<'_>]) -> Result<()>,
) -> Result<Vec<Submitted>> {
    let mut operations: Vec<_> = members.iter().map(operation).collect();
    // SAFETY: this function's contract.
    let sequences = unsafe { multi_device::submit_group(&mut operations, &failure.0, enqueue) }?;
    let members = members.iter().zip(sequences);
    let submitted = members.map(|(member, sequence)| Submitted {
        device: Arc::clone(member.stream.device_state()),
        stream: Arc::clone(member.stream.state()),
        sequence,
    });
    Ok(submitted.collect())
}

fn operation<'a>(member: &'a Member<'_>) -> GroupOperation<'a> {
    let mut accesses = Accesses::default();
    let mut bytes = 0;
    for (operands, kind) in [
        (&member.reads, AccessKind::Read),
        (&member.writes, AccessKind::Write),
    ] {
        for DeviceOperand(span) in operands {
            accesses.push(span.access(kind));
            bytes += span.bytes.len() as u64;
        }
    }
    let kind = OperationKind::Collective;
    GroupOperation {
        device: member.stream.device_state(),
        stream: member.stream.state(),
        operation: Operation {
            bytes,
            accesses,
            ..Operation::new(kind, member.label, member.location)
        },
    }
}
