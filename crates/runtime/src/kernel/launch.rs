//! Launching a kernel: operands checked, tracked and passed.

#![allow(unsafe_code, reason = "submits launches")]

use std::{ffi::c_void, marker::PhantomData, panic::Location};

use bytemuck::Pod;
use smallvec::SmallVec;

use super::{Function, Grid, ReadOperand, WriteOperand};
use crate::{
    Misuse, Problem, Result, Stream,
    memory::Span,
    submit::{self, Operation, submit_in_place},
    timeline::Kind,
    tracker::{AccessKind, Accesses},
};

/// One argument of a launch.
#[doc(hidden)]
pub struct Argument<'a>(Value<'a>);

enum Value<'a> {
    Slice {
        span: Span<'a>,
        kind: AccessKind,
        address: u64,
    },
    Scalar {
        value: *const c_void,
        borrow: PhantomData<&'a ()>,
    },
}

impl<'a> Argument<'a> {
    /// An array that the kernel reads.
    #[inline]
    pub fn read<T: Pod, O: ReadOperand<T>>(operand: &'a O) -> Self {
        Self::slice(O::place(operand).0, AccessKind::Read)
    }

    /// An array that the kernel reads and writes.
    #[inline]
    pub fn write<T: Pod, O: WriteOperand<T>>(operand: &'a mut O) -> Self {
        Self::slice(O::place(&*operand).0, AccessKind::Write)
    }

    /// A value.
    #[inline]
    pub fn scalar<T: Pod>(value: &'a T) -> Self {
        Self(Value::Scalar {
            value: std::ptr::from_ref(value).cast(),
            borrow: PhantomData,
        })
    }

    #[inline]
    fn slice(span: Span<'a>, kind: AccessKind) -> Self {
        let address = span.pointer().as_raw();
        Self(Value::Slice { span, kind, address })
    }

    /// The array behind this argument and what is done to it, if it is one.
    fn as_slice(&self) -> Option<(&Span<'a>, AccessKind)> {
        match &self.0 {
            Value::Slice { span, kind, .. } => Some((span, *kind)),
            Value::Scalar { .. } => None,
        }
    }
}

/// Launches a kernel: behind everything that its operands conflict with, beside everything else.
///
/// # Errors
///
/// If an operand is on another device than the stream, two operands share bytes and one is written, the device cannot
/// have such a grid, or the device is lost. Nothing is enqueued then.
///
/// # Safety
///
/// The arguments are as the function's declaration says, in number and type. The kernel touches no memory but its array
/// operands within their lengths, and writes only those given for writing.
#[doc(hidden)]
#[track_caller]
pub unsafe fn launch(
    function: &Function,
    stream: &Stream,
    grid: Grid,
    arguments: &mut [Argument<'_>],
) -> Result<()> {
    // SAFETY: this function's contract.
    unsafe { launch_at(function, stream, grid, arguments, Location::caller()) }
}

/// As [`launch`], on behalf of another line of the program.
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
    grid: Grid,
    arguments: &mut [Argument<'_>],
    location: &'static Location<'static>,
) -> Result<()> {
    debug_assert_eq!(arguments.len(), function.params, "arguments of {}", function.name);
    let name = function.name;
    stream.same_device(name, 0, &function.device)?;
    let mut operation = Operation {
        kind: Kind::Kernel,
        label: name,
        location,
        bytes: 0,
        accesses: Accesses::default(),
        awaited: None,
    };
    let mut params: SmallVec<[*const c_void; 12]> = SmallVec::new();
    for (number, argument) in arguments.iter().enumerate() {
        params.push(match &argument.0 {
            Value::Scalar { value, .. } => *value,
            Value::Slice { span, kind, address } => {
                stream.same_device(name, number, &span.allocation.device)?;
                operation.bytes += span.bytes.len() as u64;
                operation.accesses.push(span.access(*kind));
                std::ptr::from_ref(address).cast()
            }
        });
    }
    if operation.accesses.repeat() {
        refuse_overlap(name, arguments)?;
    }
    // SAFETY: by this function's contract.
    unsafe { launch_checked(function, stream, &grid, &mut operation, &params) }
}

/// The rest of [`launch`], once the operands are checked.
///
/// # Safety
///
/// As for [`launch`]: `params` are pointers to the arguments, of which the operation names those that are arrays.
unsafe fn launch_checked(
    function: &Function,
    stream: &Stream,
    grid: &Grid,
    operation: &mut Operation<'_>,
    params: &[*const c_void],
) -> Result<()> {
    let device = stream.device_state();
    if let Some(problem) = device.limits.check(&grid.dims, function.entry.threads_max) {
        if grid.is_empty() {
            return device.check_alive();
        }
        return Err(Misuse::new(function.name, problem).into());
    }
    let command = submit::Launch {
        function: function.entry.handle,
        dims: &grid.dims,
        params,
    };
    // SAFETY: each pointer is to a value of the parameter's size, which loading has checked against the declaration, and
    // the caller vouches that the arguments are as declared and that the kernel touches its operands alone. The
    // function's module stays loaded while the device is open.
    let submitted = unsafe { submit_in_place(device, stream.state(), operation, command) };
    submitted.map(drop)
}

/// An error if two arguments share bytes and one of the two is written.
#[inline(never)]
fn refuse_overlap(name: &'static str, arguments: &[Argument<'_>]) -> Result<(), Misuse> {
    for (second, argument) in arguments.iter().enumerate() {
        let Some((span, kind)) = argument.as_slice() else {
            continue;
        };
        for (first, argument) in arguments[..second].iter().enumerate() {
            if let Some((other, other_kind)) = argument.as_slice()
                && (kind == AccessKind::Write || other_kind == AccessKind::Write)
                && span.overlaps(other)
            {
                return Err(Misuse::new(name, Problem::Overlap { first, second }));
            }
        }
    }
    Ok(())
}
