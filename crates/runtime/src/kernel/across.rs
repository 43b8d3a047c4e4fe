//! Launches with operands on other devices than the stream's: managed memory, and memory that is
//! passed as a [`PeerView`](crate::array::PeerView).

#![allow(unsafe_code, reason = "submits launches")]

use std::{panic::Location, sync::Arc};

use super::{
    Function, LaunchConfig,
    launch::{Argument, addresses, admits, params, refuse_overlap},
};
use crate::{
    Result, Stream, UsageError,
    array::{Reach, Span, check_access},
    context::{self, Operation},
    error::OperationKind,
    multi_device::Crossing,
    tracker::Accesses,
};

/// The advice for a kernel's operand that is on another device of the same driver.
const ADVICE: &str = "; a kernel may access it over the link between the devices if it is passed \
                      as `peer(&device)?` or `peer_mut(&device)?`";

/// Launches a kernel of which an operand is on another device. `refused` is the error for it.
///
/// # Errors
///
/// `refused` if the kernel may not access an operand, an error that names the devices if one cannot
/// access the other's memory, and those of a launch on one device.
///
/// # Safety
///
/// As for [`launch`](super::launch::launch).
#[cold]
#[inline(never)]
pub(super) unsafe fn launch_across(
    function: &Function,
    stream: &Stream,
    config: &LaunchConfig,
    arguments: &[Argument<'_>],
    location: &'static Location<'static>,
    refused: UsageError,
) -> Result<()> {
    let (name, device) = (function.name, stream.device_state());
    let spans = || arguments.iter().filter_map(Argument::as_slice);
    for (span, _) in spans() {
        check_operand(function, stream, span, location, &refused)?;
    }
    let named = |usage_error: UsageError| function.naming_operands(usage_error).at(location);
    refuse_overlap(name, arguments).map_err(named)?;
    if !admits(function, device, config, location)? {
        return Ok(());
    }
    let mut operation = Operation::new(OperationKind::Kernel, name, location);
    operation.bytes = spans().map(|(span, _)| span.bytes.len() as u64).sum();
    let accesses: Accesses<'_> = spans().map(|(span, kind)| span.access(kind)).collect();
    function.check_variables(&accesses, location)?;
    let mut crossing = Crossing::new(device, operation);
    for (span, kind) in spans() {
        crossing.push(span.access(kind), &span.allocation.device);
    }
    for variable in function.variables() {
        crossing.push(variable.access(), device);
    }
    let addresses = addresses(arguments);
    let params = params(function, arguments, &addresses);
    let command = context::Launch {
        function: function.entry_point.handle,
        dims: &config.dims,
        attributes: config.attributes(),
        params: &params,
    };
    // SAFETY: as for a launch on one device; the device can access the memory of the others.
    unsafe { crossing.submit(stream.state(), command) }.map(drop)
}

/// Returns an error if kernels of the stream's device may not access the operand.
fn check_operand(
    function: &Function,
    stream: &Stream,
    span: &Span<'_>,
    location: &'static Location<'static>,
    refused: &UsageError,
) -> Result<()> {
    let (device, owner) = (stream.device_state(), &span.allocation.device);
    if Arc::ptr_eq(device, owner) {
        return Ok(());
    }
    let shared = device.shares_driver(owner);
    if shared && span.allocation.is_managed() && device.limits.managed_memory {
        return Ok(());
    }
    if span.reach == Reach::Peer {
        return check_access(function.name, device, owner);
    }
    let refused = refused.clone();
    let advised = if shared && span.allocation.as_array().is_none() {
        refused.advising(ADVICE)
    } else {
        refused
    };
    Err(function.naming_operands(advised).at(location).into())
}
