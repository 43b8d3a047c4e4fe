//! Foreign calls: work that another library enqueues, tracked like a launch.

#![allow(unsafe_code, reason = "submits calls of other libraries")]

use std::panic::Location;

use millstream_driver::DriverError;

use super::{
    Argument,
    launch::{gather, refuse_overlap},
    matching::Slices,
};
#[cfg(doc)]
use crate::UsageErrorKind;
use crate::{
    Result, Stream,
    context::{Command, DriverStream, Foreign, ForeignCallGuard, Operation, Relocatable, submit},
    error::OperationKind,
};

/// Submits the work that `call` enqueues as an operation with the given operands: it runs after
/// every operation that conflicts with them and concurrently with all others. `call` receives the
/// stream to which it must enqueue, and runs with this stream's submit queue locked. If it fails,
/// it may have enqueued something. `location` is the source line for errors and reports.
///
/// `call` must not call this library: on the same device that returns an error
/// ([`UsageErrorKind::InForeignCall`]) and enqueues nothing. Destructors of this library's types
/// may run. `call` must not wait for another thread that uses the stream.
///
/// # Errors
///
/// If an operand is on another device than the stream, if two operands overlap and one is written,
/// or if the device is lost; `call` is then not called. Otherwise the error that `call` returns.
///
/// # Safety
///
/// `call` enqueues work only to the given stream. This work accesses only the operands and memory
/// owned by `call`, and writes only operands that are passed for writing.
#[doc(hidden)]
pub unsafe fn enqueue(
    name: &'static str,
    stream: &Stream,
    operands: &[Argument<'_>],
    location: &'static Location<'static>,
    call: impl FnOnce(DriverStream<'_>) -> Result<(), DriverError>,
) -> Result<()> {
    let device = stream.device_state();
    let call = |driver_stream: DriverStream<'_>| {
        let _inside = ForeignCallGuard::enter(&device.admission);
        call(driver_stream)
    };
    // SAFETY: the caller guarantees that the enqueued work accesses only its operands.
    unsafe { submit_call(name, stream, operands, location, Foreign { call }) }
}

/// Submits a call, as [`enqueue`] does, that can be made for other addresses: it passes the sum of
/// the address and of the operand's displacement, the element of `call`'s second argument at the
/// operand's place, in place of each address of an operand. Recorded in a graph, it can so be given
/// other operands later. A recording calls it twice; with displacements that are not 0, nothing of
/// what it enqueues runs.
///
/// # Errors
///
/// As [`enqueue`].
///
/// # Safety
///
/// As [`enqueue`], where the operands are at the sums of address and displacement. All operands are
/// arrays. Every address of an operand which the work uses is an argument of a kernel, within eight
/// aligned bytes.
#[doc(hidden)]
pub unsafe fn enqueue_relocatable(
    name: &'static str,
    stream: &Stream,
    operands: &[Argument<'_>],
    location: &'static Location<'static>,
    call: impl Fn(DriverStream<'_>, &[u64]) -> Result<(), DriverError>,
) -> Result<()> {
    let device = stream.device_state();
    let call = |driver_stream: DriverStream<'_>, displacements: &[u64]| {
        let _inside = ForeignCallGuard::enter(&device.admission);
        call(driver_stream, displacements)
    };
    let relocatable = Relocatable {
        call,
        operands: operands.len(),
    };
    // SAFETY: the caller guarantees that the enqueued work accesses only its operands.
    unsafe { submit_call(name, stream, operands, location, relocatable) }
}

/// Submits the command of a call.
///
/// # Safety
///
/// The enqueued work accesses only the operands and memory owned by the call, and writes only
/// operands that are passed for writing.
unsafe fn submit_call(
    name: &'static str,
    stream: &Stream,
    operands: &[Argument<'_>],
    location: &'static Location<'static>,
    command: impl Command<Output = ()>,
) -> Result<()> {
    let mut operation = Operation::new(OperationKind::Kernel, name, location);
    gather(name, stream, operands, Slices::default(), &mut operation)?;
    if operation.accesses.repeat() {
        refuse_overlap(name, operands)?;
    }
    let device = stream.device_state();
    // SAFETY: the operation names all operands, by which the work is ordered.
    let submitted = unsafe { submit(device, stream.state(), &mut operation, command) };
    submitted.map(drop)
}

#[cfg(all(test, feature = "sim", not(shuttle)))]
mod tests {
    use millstream_driver::{FillPattern, ResultCode};
    use millstream_sim::{Gpu, SimConfig};

    use super::*;
    use crate::{
        Device, Error,
        context::{Command, Fill},
    };

    /// Fills an array with fives through a foreign call.
    fn fives(stream: &Stream, target: &mut crate::Buffer<u8>) -> Result<()> {
        let fill = Fill {
            target: target.as_raw(),
            pattern: FillPattern::U8(5),
            count: target.len(),
        };
        // SAFETY: `count` is the array's length, and the array is an operand of the operation.
        let call = |driver_stream: DriverStream<'_>| unsafe { fill.enqueue(driver_stream) };
        // SAFETY: the call fills the operand and nothing else.
        unsafe {
            enqueue(
                "fives",
                stream,
                &[Argument::write(&mut &mut *target)],
                Location::caller(),
                call,
            )
        }
    }

    #[test]
    fn a_foreign_call_is_ordered_by_its_operands() {
        let gpu = Gpu::new(SimConfig::default());
        let device = Device::open_simulated(&gpu, 0).expect("a simulated device opens");
        let streams: [Stream; 3] = std::array::from_fn(|_| device.stream().expect("a stream"));
        let mut array = streams[0].zeros::<u8>(64).expect("an array");
        let hold = gpu.hold(streams[0].as_raw());
        streams[0].fill(&mut array, 1).expect("a fill");
        fives(&streams[1], &mut array).expect("enqueued");
        let found = streams[2].download(&array).expect("a download");
        assert!(
            !found.is_ready().expect("nothing fails"),
            "the foreign call waits for the fill"
        );
        drop(hold);
        assert_eq!(found.wait().expect("nothing fails"), [5; 64]);
        assert!(gpu.reports().is_empty(), "{:?}", gpu.reports());
    }

    #[test]
    fn an_error_of_the_call_is_returned_and_its_operand_stays_usable() {
        let device = Device::simulated().expect("a simulated device opens");
        let (stream, other) = (
            device.stream().expect("a stream"),
            device.stream().expect("a stream"),
        );
        let mut array = stream.zeros::<u8>(4).expect("an array");
        let failure = DriverError::new("libraryCall", ResultCode::UNKNOWN);
        // SAFETY: the call enqueues nothing.
        let answer = unsafe {
            enqueue(
                "fails",
                &stream,
                &[Argument::write(&mut &mut array)],
                Location::caller(),
                |_| Err(failure.clone()),
            )
        };
        assert!(matches!(answer, Err(Error::Driver(error)) if error == failure));
        other.fill(&mut array, 2).expect("a fill");
        assert_eq!(
            stream
                .download(&array)
                .expect("a download")
                .wait()
                .expect("nothing fails"),
            [2; 4]
        );
    }

    #[test]
    fn an_operand_of_another_device_is_refused_before_the_call() {
        let elsewhere = Device::simulated().expect("a simulated device opens");
        let device = Device::simulated().expect("a simulated device opens");
        let (stream, foreign) = (
            device.stream().expect("a stream"),
            elsewhere.stream().expect("a stream"),
        );
        let there = foreign.zeros::<u8>(4).expect("an array");
        let never = |_: DriverStream<'_>| -> Result<(), DriverError> {
            panic!("the call was made despite the invalid operand")
        };
        // SAFETY: nothing is enqueued.
        let refused = unsafe {
            enqueue(
                "refused",
                &stream,
                &[Argument::read(&&there)],
                Location::caller(),
                never,
            )
        };
        assert!(matches!(refused, Err(Error::Usage(_))), "{refused:?}");
    }
}
