//! Kernel launches: checks the operands and submits the launch with them.

#![allow(unsafe_code, reason = "submits launches")]

use std::{ffi::c_void, marker::PhantomData, panic::Location, sync::Arc};

use bytemuck::Pod;
use millstream_driver::{LaunchAttributes, LaunchDims};
use smallvec::SmallVec;

use super::{
    Elements, Function, LaunchConfig, ReadOperand, WriteOperand, across::launch_across,
    matching::Slices, occupancy::check_attributes,
};
use crate::{
    Error, Result, Stream, UsageError, UsageErrorKind,
    array::{Reach, Span},
    context::{self, DeviceState, Operation, submit},
    error::OperationKind,
    tracker::{Access, AccessKind},
};

/// An argument of a launch.
#[doc(hidden)]
#[derive(Clone)]
pub struct Argument<'a> {
    value: ArgumentValue<'a>,
    /// The number of elements, if it is passed behind the array's address.
    len: Option<u64>,
}

#[derive(Clone)]
enum ArgumentValue<'a> {
    Slice {
        span: Span<'a>,
        kind: AccessKind,
    },
    Scalar {
        value: *const c_void,
        borrow: PhantomData<&'a ()>,
    },
}

impl<'a> Argument<'a> {
    /// Creates an argument for an array that the kernel reads.
    #[inline]
    pub fn read<T: Elements, O: ReadOperand<T>>(operand: &'a O) -> Self {
        Self::slice(O::operand(operand).0, AccessKind::Read)
    }

    /// Creates an argument for an array that the kernel reads and writes.
    #[inline]
    pub fn write<T: Elements, O: WriteOperand<T>>(operand: &'a mut O) -> Self {
        Self::slice(O::operand(&*operand).0, AccessKind::Write)
    }

    /// Creates an argument for `&[T]` of a kernel in Rust.
    #[inline]
    pub fn read_slice<T: Pod, O: ReadOperand<T>>(operand: &'a O) -> Self {
        let len = Some(operand.len() as u64);
        Self {
            len,
            ..Self::read(operand)
        }
    }

    /// Creates an argument for `&mut [T]` of a kernel in Rust.
    #[inline]
    pub fn write_slice<T: Pod, O: WriteOperand<T>>(operand: &'a mut O) -> Self {
        let len = Some(operand.len() as u64);
        Self {
            len,
            ..Self::write(operand)
        }
    }

    /// Creates an argument that is passed by value.
    #[inline]
    pub fn scalar<T: Pod>(value: &'a T) -> Self {
        let value = ArgumentValue::Scalar {
            value: std::ptr::from_ref(value).cast(),
            borrow: PhantomData,
        };
        Self { value, len: None }
    }

    #[inline]
    pub(crate) fn slice(mut span: Span<'a>, kind: AccessKind) -> Self {
        if kind == AccessKind::Read && span.reach == Reach::Surface {
            // The kernel expects a texture.
            span.reach = Reach::Own;
        }
        let value = ArgumentValue::Slice { span, kind };
        Self { value, len: None }
    }

    /// Returns the array's device address, or 0 for a scalar.
    #[inline(always)]
    pub(crate) fn address(&self) -> u64 {
        match &self.value {
            ArgumentValue::Slice { span, .. } => span.pointer().as_raw(),
            ArgumentValue::Scalar { .. } => 0,
        }
    }

    /// Returns a pointer to the parameter: to the array's address, which `address` begins with, or
    /// to the scalar.
    #[inline(always)]
    pub(super) fn param(&self, address: &[u64]) -> *const c_void {
        match &self.value {
            ArgumentValue::Slice { .. } => address.as_ptr().cast(),
            ArgumentValue::Scalar { value, .. } => *value,
        }
    }

    #[inline(always)]
    pub(crate) fn as_slice(&self) -> Option<(&Span<'a>, AccessKind)> {
        match &self.value {
            ArgumentValue::Slice { span, kind } => Some((span, *kind)),
            ArgumentValue::Scalar { .. } => None,
        }
    }
}

/// Launches a kernel, after every operation that conflicts with its operands, and concurrently with
/// all others.
///
/// # Errors
///
/// If an operand is on another device than the stream and is neither managed memory nor a
/// [`PeerView`](crate::array::PeerView), if two operands overlap and one is written,
/// if the launch configuration exceeds a limit, or if the device is lost. Nothing is then enqueued.
///
/// # Safety
///
/// The arguments match the function's declaration in number and type. The kernel accesses no memory
/// except its array operands within their lengths, and writes only those passed for writing.
#[doc(hidden)]
#[track_caller]
// Inlined at the call site, where the kind of each argument is a constant. Nothing here may
// therefore take the arguments' address.
#[inline(always)]
pub unsafe fn launch<const N: usize>(
    function: &Function,
    stream: &Stream,
    config: LaunchConfig,
    arguments: [Argument<'_>; N],
) -> Result<()> {
    let location = Location::caller();
    let refused = |usage_error: UsageError| function.naming_operands(usage_error).at(location);
    check_function(function, stream, N).map_err(refused)?;
    let mut operation = Operation::new(OperationKind::Kernel, function.name, location);
    let slices = function.entry_point.slices;
    if let Err(usage_error) = gather(function.name, stream, &arguments, slices, &mut operation) {
        let arguments = arguments.clone();
        // SAFETY: by this function's contract.
        return unsafe {
            launch_across(function, stream, &config, &arguments, location, usage_error)
        };
    }
    if operation.accesses.repeat() {
        refuse_overlap(function.name, &arguments.clone()).map_err(refused)?;
    }
    let addresses: [u64; N] = std::array::from_fn(|number| arguments[number].address());
    let params: [_; N] =
        std::array::from_fn(|number| arguments[number].param(&addresses[number..]));
    // SAFETY: by this function's contract.
    unsafe { launch_checked(function, stream, &config, &mut operation, &params) }
}

/// Launches a kernel like [`launch`], with any number of arguments and an explicit source line.
///
/// # Errors
///
/// As [`launch`].
///
/// # Safety
///
/// As [`launch`].
#[doc(hidden)]
pub unsafe fn launch_at(
    function: &Function,
    stream: &Stream,
    config: LaunchConfig,
    arguments: &[Argument<'_>],
    location: &'static Location<'static>,
) -> Result<()> {
    let refused = |usage_error: UsageError| function.naming_operands(usage_error).at(location);
    check_function(function, stream, arguments.len()).map_err(refused)?;
    let mut operation = Operation::new(OperationKind::Kernel, function.name, location);
    let slices = function.entry_point.slices;
    if let Err(usage_error) = gather(function.name, stream, arguments, slices, &mut operation) {
        // SAFETY: by this function's contract.
        return unsafe {
            launch_across(function, stream, &config, arguments, location, usage_error)
        };
    }
    if operation.accesses.repeat() {
        refuse_overlap(function.name, arguments).map_err(refused)?;
    }
    let addresses = addresses(arguments);
    let params = params(function, arguments, &addresses);
    // SAFETY: by this function's contract.
    unsafe { launch_checked(function, stream, &config, &mut operation, &params) }
}

/// Returns the [address](Argument::address) of each argument, and the length behind it if it is
/// passed.
pub(super) fn addresses(arguments: &[Argument<'_>]) -> SmallVec<[u64; 12]> {
    let each = arguments.iter();
    each.flat_map(|argument| std::iter::once(argument.address()).chain(argument.len))
        .collect()
}

/// Returns a pointer to each parameter. Those of arrays and lengths point to `addresses`.
pub(super) fn params(
    function: &Function,
    arguments: &[Argument<'_>],
    addresses: &[u64],
) -> SmallVec<[*const c_void; 12]> {
    let mut params = SmallVec::new();
    let mut rest = addresses;
    for argument in arguments {
        let (own, others) = rest.split_at(1 + usize::from(argument.len.is_some()));
        rest = others;
        match (own, function.entry_point.slices) {
            ([_, len], Slices::Apart) => {
                params.push(argument.param(own));
                params.push(std::ptr::from_ref(len).cast());
            }
            // A packed slice is one parameter: the address, and the length behind it.
            _ => params.push(argument.param(own)),
        }
    }
    params
}

/// Returns an error if the function is loaded on another device than the stream's.
#[inline(always)]
fn check_function(
    function: &Function,
    stream: &Stream,
    arguments: usize,
) -> Result<(), UsageError> {
    let name = function.name;
    debug_assert_eq!(arguments, function.argument_count, "arguments of {name}");
    if Arc::ptr_eq(&function.device, stream.device_state()) {
        return Ok(());
    }
    Err(kernel_elsewhere(function, stream))
}

#[cold]
fn kernel_elsewhere(function: &Function, stream: &Stream) -> UsageError {
    let (kernel_device, stream_device) = function.device.told_apart(stream.device_state());
    let problem = UsageErrorKind::KernelElsewhere {
        kernel_device,
        stream_device,
    };
    UsageError::new(function.name, problem)
}

/// Adds the arrays among the arguments to the operation. Returns an error if one is not on the
/// stream's device.
#[inline(always)]
pub(super) fn gather<'a>(
    name: &'static str,
    stream: &Stream,
    arguments: &[Argument<'a>],
    slices: Slices,
    operation: &mut Operation<'a>,
) -> Result<(), UsageError> {
    let mut param: u16 = 0;
    for (number, argument) in arguments.iter().enumerate() {
        if let Some((span, kind)) = argument.as_slice() {
            stream.same_device(name, number, &span.allocation.device)?;
            operation.bytes += span.bytes.len() as u64;
            let access = span.access(kind);
            operation.accesses.push(Access { param, ..access });
        }
        let has_own_len = argument.len.is_some() && slices == Slices::Apart;
        param = param.saturating_add(1 + u16::from(has_own_len));
    }
    Ok(())
}

/// Checks the launch configuration. Returns `false` if it has no threads, so that there is nothing
/// to launch.
pub(super) fn admits(
    function: &Function,
    device: &DeviceState,
    config: &LaunchConfig,
    location: &'static Location<'static>,
) -> Result<bool> {
    if let Some(problem) = device
        .limits
        .check(&config.dims, function.entry_point.threads_max)
    {
        if config.is_empty() {
            return device.check_alive().map(|()| false);
        }
        let problem = match (problem, config.asked) {
            (UsageErrorKind::LaunchConfig { detail }, threads @ (1.. | ..=-1)) => {
                let unsigned = match threads {
                    1.. => String::new(),
                    _ => format!(" ({} without a sign)", threads as u64),
                };
                let detail = format!("no grid has {threads}{unsigned} threads: {detail}");
                UsageErrorKind::LaunchConfig { detail }
            }
            (problem, _) => problem,
        };
        return Err(UsageError::new(function.name, problem).at(location).into());
    }
    check_extras(function, config, location)?;
    Ok(true)
}

#[inline(always)]
fn check_shared_bytes(
    function: &Function,
    config: &LaunchConfig,
    location: &'static Location<'static>,
) -> Result<()> {
    if config.dims.shared_bytes > function.entry_point.dynamic_shared_bytes {
        function.opt_in(config.dims.shared_bytes, location)?;
    }
    Ok(())
}

/// Checks the shared memory and the attributes of a launch.
fn check_extras(
    function: &Function,
    config: &LaunchConfig,
    location: &'static Location<'static>,
) -> Result<()> {
    check_shared_bytes(function, config, location)?;
    if config.has_attributes() {
        check_attributes(function, config).map_err(|error| at(error, location))?;
    }
    Ok(())
}

/// Adds the source line of a launch to a usage error.
#[cold]
fn at(error: Error, location: &'static Location<'static>) -> Error {
    match error {
        Error::Usage(usage_error) => usage_error.at(location).into(),
        other => other,
    }
}

/// Checks the launch configuration and submits the launch. The operands are already checked.
///
/// # Safety
///
/// As for [`launch`]. `params` are pointers to the arguments, and the operation's accesses name
/// those that are arrays.
unsafe fn launch_checked<'a>(
    function: &'a Function,
    stream: &Stream,
    config: &LaunchConfig,
    operation: &mut Operation<'a>,
    params: &[*const c_void],
) -> Result<()> {
    let limits = &stream.device_state().limits;
    let fast_threads_max = function.entry_point.fast_threads_max;
    if limits.check(&config.dims, fast_threads_max).is_some() || config.has_attributes() {
        // SAFETY: by this function's contract.
        return unsafe { launch_slowly(function, stream, config, operation, params) };
    }
    check_shared_bytes(function, config, operation.location)?;
    // SAFETY: by this function's contract.
    unsafe { submit_launch(function, stream, &config.dims, None, operation, params) }
}

/// Does the same as [`launch_checked`] for a launch that is refused, launches nothing, has
/// attributes, or uses variables of the kernel's module.
///
/// # Safety
///
/// As for [`launch_checked`].
#[cold]
#[inline(never)]
unsafe fn launch_slowly<'a>(
    function: &'a Function,
    stream: &Stream,
    config: &LaunchConfig,
    operation: &mut Operation<'a>,
    params: &[*const c_void],
) -> Result<()> {
    if !admits(function, stream.device_state(), config, operation.location)? {
        return Ok(());
    }
    function.check_variables(&operation.accesses, operation.location)?;
    for variable in function.variables() {
        operation.accesses.push(variable.access());
    }
    let (dims, attributes) = (&config.dims, config.attributes());
    // SAFETY: by this function's contract.
    unsafe { submit_launch(function, stream, dims, attributes, operation, params) }
}

/// Submits a launch whose configuration and operands are checked.
///
/// # Safety
///
/// As for [`launch_checked`].
#[inline(always)]
unsafe fn submit_launch(
    function: &Function,
    stream: &Stream,
    dims: &LaunchDims,
    attributes: Option<&LaunchAttributes>,
    operation: &mut Operation<'_>,
    params: &[*const c_void],
) -> Result<()> {
    let device = stream.device_state();
    let command = context::Launch {
        function: function.entry_point.handle,
        dims,
        attributes,
        params,
    };
    // SAFETY: each pointer refers to a value of the parameter's size, which loading has checked
    // against the declaration. The caller guarantees that the arguments match the declaration and
    // that the kernel accesses only its operands. The function's module stays loaded while the
    // device is open.
    let submitted = unsafe { submit(device, stream.state(), operation, command) };
    submitted.map(drop)
}

/// Returns an error if two arguments overlap and one of the two is written.
#[inline(never)]
pub(super) fn refuse_overlap(
    name: &'static str,
    arguments: &[Argument<'_>],
) -> Result<(), UsageError> {
    for (second, argument) in arguments.iter().enumerate() {
        let Some((span, kind)) = argument.as_slice() else {
            continue;
        };
        for (first, argument) in arguments[..second].iter().enumerate() {
            if let Some((other, other_kind)) = argument.as_slice()
                && (kind == AccessKind::Write || other_kind == AccessKind::Write)
                && span.overlaps(other)
            {
                let problem = UsageErrorKind::Overlap {
                    first,
                    first_name: None,
                    second,
                    second_name: None,
                };
                return Err(UsageError::new(name, problem));
            }
        }
    }
    Ok(())
}
