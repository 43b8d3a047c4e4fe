//! Barrier objects: the `mbarrier` instructions, and the arrivals of asynchronous copies.
//!
//! An object occupies eight bytes of shared memory, as on a GPU, so that programs may place it
//! anywhere. Its format is the simulator's own: the arrivals that the phase still waits for, the
//! arrivals that each phase begins with, the bytes that the phase still waits for, and the phase's
//! parity. An arrival returns the state of the object before it.

use super::fault::KernelFaultKind;
use super::observer::{IssuePoint, Observer};
use super::registers::{LANES, lanes};
use super::warp::Warp;
use super::warp_access::in_window;
use super::warp_access::{LaneFault, WarpAccess};
use super::warp_context::WarpContext;
use crate::ptx::ir::{AccessSpace, Mbarrier, MbarrierOp, PENDING_MASK, Window};

/// The maximum number of arrivals of a phase, and the maximum number of bytes that it waits for.
const COUNT_MAX: u64 = PENDING_MASK;

/// The bit that marks eight bytes as an object between `mbarrier.init` and `mbarrier.inval`.
const ALIVE: u64 = 1 << 63;

const PARITY_AT: u32 = 62;
const EXPECTED_AT: u32 = 20;
const BYTES_AT: u32 = 40;
const BYTES_BITS: u32 = 21;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BarrierObject {
    /// The number of arrivals that the phase still waits for.
    pending: u64,
    /// The number of arrivals that each phase begins with.
    expected: u64,
    /// The number of bytes that the phase still waits for.
    bytes: i64,
    parity: bool,
}

impl BarrierObject {
    /// Decodes an object's bits, or returns `None` if they do not hold an object.
    fn of(bits: u64) -> Option<Self> {
        (bits & ALIVE != 0).then_some(Self {
            pending: bits & PENDING_MASK,
            expected: bits >> EXPECTED_AT & PENDING_MASK,
            bytes: (bits << (64 - BYTES_AT - BYTES_BITS)).cast_signed() >> (64 - BYTES_BITS),
            parity: bits >> PARITY_AT & 1 == 1,
        })
    }

    fn bits(self) -> u64 {
        let bytes = self.bytes.cast_unsigned() & ((1 << BYTES_BITS) - 1);
        let parity = u64::from(self.parity) << PARITY_AT;
        ALIVE | parity | bytes << BYTES_AT | self.expected << EXPECTED_AT | self.pending
    }

    /// Begins the next phase if the current one is complete, and returns whether it is.
    fn settle(&mut self) -> bool {
        let complete = self.pending == 0 && self.bytes == 0;
        if complete {
            self.parity = !self.parity;
            self.pending = self.expected;
        }
        complete
    }

    /// Records `count` arrivals, or returns the reason why they are invalid.
    fn arrive(&mut self, count: u64, drop: bool) -> Result<(), String> {
        if count == 0 || count > COUNT_MAX {
            return Err(format!(
                "the arrival count {count} is not between 1 and {COUNT_MAX}"
            ));
        }
        if count > self.pending {
            let pending = self.pending;
            return Err(format!(
                "{count} arrivals exceed the {pending} that the phase waits for"
            ));
        }
        if drop {
            self.expected = self.expected.saturating_sub(count);
        }
        self.pending -= count;
        Ok(())
    }

    /// Adds to the number of bytes that the phase waits for, or returns the reason why it cannot.
    fn expect(&mut self, bytes: i64) -> Result<(), String> {
        self.bytes += bytes;
        if self.bytes.unsigned_abs() <= COUNT_MAX {
            Ok(())
        } else {
            Err(format!("the phase would wait for {} bytes", self.bytes))
        }
    }
}

/// The effect of a lane's instruction on an object.
struct MbarrierUpdate {
    /// The object's new bits.
    bits: u64,
    /// True if the instruction completes a phase.
    completes: bool,
    /// The result of a wait.
    answer: bool,
}

/// Executes an `mbarrier` instruction, the lowest lane first.
#[cold]
pub(super) fn run<O: Observer>(
    op: &Mbarrier,
    warp: &mut Warp,
    shared: &mut WarpContext<'_, '_>,
    observer: &mut O,
    at: IssuePoint,
) -> Result<(), LaneFault> {
    let is_wait = matches!(op.f, MbarrierOp::Wait { .. });
    let warp_access = WarpAccess::new(&warp.registers, op.address, at.mask, 8, !is_wait);
    let warp_access = in_shared_memory(op, warp_access)?;
    warp_access.check_alignment()?;
    observer.mbarrier(warp, at, &warp_access, op);
    let counters = *warp.registers.word(op.count);
    let given = op
        .state
        .map_or([0; LANES], |slot| *warp.registers.double(slot));
    let (mut states, mut answers) = ([0; LANES], 0);
    for lane in lanes(at.mask) {
        let offset = warp_access.addresses[lane];
        match op.f {
            MbarrierOp::Wait { .. } => arrivals_of_copies(shared, observer, offset, lane)?,
            MbarrierOp::Init | MbarrierOp::Invalidate => shared.copies.forget_arrivals(offset),
            _ => {}
        }
        let bits = read(shared, &warp_access, lane)?;
        let done = apply(op, bits, counters[lane], given[lane])
            .map_err(|problem| invalid(op.name(), offset, lane, problem))?;
        states[lane] = bits;
        if is_wait {
            answers |= u32::from(done.answer) << lane;
            if done.answer && op.orders {
                observer.mbarrier_waited(warp.index, lane, offset);
            }
        } else {
            write(shared, &warp_access, lane, done.bits)?;
            let arrives = matches!(op.f, MbarrierOp::Arrive { .. });
            observer.mbarrier_arrived(
                (warp.index, lane),
                offset,
                arrives && op.orders,
                done.completes,
            );
        }
    }
    if is_wait {
        warp.registers.set_predicate(op.answer, at.mask, answers);
        if answers != at.mask {
            warp.yield_soon();
        }
    } else if let Some(slot) = op.state {
        warp.registers.set_double(slot, at.mask, &states);
    }
    Ok(())
}

/// Registers the arrival of a thread that is to follow the thread's copies so far.
///
/// With `increments`, the phase waits for one more arrival.
pub(super) fn arrive_behind_copies(
    shared: &mut WarpContext<'_, '_>,
    warp_access: &WarpAccess,
    lane: usize,
    increments: bool,
) -> Result<(), LaneFault> {
    let offset = warp_access.addresses[lane];
    let name = "cp.async.mbarrier.arrive";
    let wrong = |problem: String| invalid(name, offset, lane, problem);
    let object = BarrierObject::of(read(shared, warp_access, lane)?);
    let mut object = object.ok_or_else(|| wrong(NO_OBJECT.to_owned()))?;
    if increments {
        object.pending += 1;
        if object.pending > COUNT_MAX {
            return Err(wrong(format!(
                "the phase would wait for {} arrivals",
                object.pending
            )));
        }
    }
    write(shared, warp_access, lane, object.bits())
}

/// Performs the pending arrivals on an object, after the copies that they wait for.
fn arrivals_of_copies<O: Observer>(
    shared: &mut WarpContext<'_, '_>,
    observer: &mut O,
    offset: u64,
    waiting: usize,
) -> Result<(), LaneFault> {
    while let Some(arrival) = shared.copies.arrive(offset, shared.memory) {
        let warp_access = WarpAccess {
            addresses: [offset; LANES],
            mask: 1 << waiting,
            bytes: 8,
            write: true,
        };
        let wrong = |problem| invalid("cp.async.mbarrier.arrive", offset, waiting, problem);
        let object = BarrierObject::of(read(shared, &warp_access, waiting)?);
        let mut object = object.ok_or_else(|| wrong(NO_OBJECT.to_owned()))?;
        object.arrive(1, false).map_err(wrong)?;
        let completes = object.settle();
        write(shared, &warp_access, waiting, object.bits())?;
        observer.copies_arrived(arrival.thread, offset, &arrival.copies, completes);
    }
    Ok(())
}

const NO_OBJECT: &str = "the object is not initialised: execute `mbarrier.init` first";

/// Applies the instruction to an object, or returns the reason why it cannot.
fn apply(op: &Mbarrier, bits: u64, count: u32, given: u64) -> Result<MbarrierUpdate, String> {
    let done = |bits, completes| MbarrierUpdate {
        bits,
        completes,
        answer: false,
    };
    let count = u64::from(count);
    if op.f == MbarrierOp::Init {
        if count == 0 || count > COUNT_MAX {
            return Err(format!(
                "the arrival count {count} is not between 1 and {COUNT_MAX}"
            ));
        }
        let object = BarrierObject {
            pending: count,
            expected: count,
            bytes: 0,
            parity: false,
        };
        return Ok(done(object.bits(), false));
    }
    let mut object = BarrierObject::of(bits).ok_or(NO_OBJECT)?;
    match op.f {
        MbarrierOp::Init => {}
        MbarrierOp::Invalidate => return Ok(done(0, false)),
        MbarrierOp::Arrive {
            drop,
            incomplete,
            expects,
        } => {
            if expects {
                object.expect(count.cast_signed())?;
                object.arrive(1, drop)?;
            } else {
                object.arrive(count, drop)?;
            }
            if incomplete && object.pending == 0 && object.bytes == 0 {
                return Err(
                    "the arrival completes the phase, which `.noComplete` forbids".to_owned(),
                );
            }
        }
        MbarrierOp::Expect => object.expect(count.cast_signed())?,
        MbarrierOp::Complete => object.expect(-count.cast_signed())?,
        MbarrierOp::Wait { parity } => {
            let asked = if parity {
                count & 1 == 1
            } else {
                BarrierObject::of(given)
                    .ok_or("the state is not one that an arrival returned")?
                    .parity
            };
            return Ok(MbarrierUpdate {
                bits,
                completes: false,
                answer: object.parity != asked,
            });
        }
    }
    let completes = object.settle();
    Ok(done(object.bits(), completes))
}

/// Converts generic addresses to offsets in shared memory.
fn in_shared_memory(op: &Mbarrier, warp_access: WarpAccess) -> Result<WarpAccess, LaneFault> {
    if op.space != AccessSpace::Generic {
        return Ok(warp_access);
    }
    let outside = |lane: &usize| Window::of(warp_access.addresses[*lane]) != Window::Shared;
    match lanes(warp_access.mask).find(outside) {
        Some(lane) => {
            let problem = "the address is outside the block's shared memory".to_owned();
            Err(invalid(
                op.name(),
                warp_access.addresses[lane],
                lane,
                problem,
            ))
        }
        None => Ok(in_window(&warp_access, Window::Shared).unwrap_or(warp_access)),
    }
}

/// Reads the eight bytes of a lane's object.
fn read(
    shared: &mut WarpContext<'_, '_>,
    warp_access: &WarpAccess,
    lane: usize,
) -> Result<u64, LaneFault> {
    let mut memory = shared.all(&mut []);
    let cell = memory.own_bytes::<8>(Window::Shared, warp_access, lane)?;
    Ok(u64::from_le_bytes(*cell))
}

fn write(
    shared: &mut WarpContext<'_, '_>,
    warp_access: &WarpAccess,
    lane: usize,
    bits: u64,
) -> Result<(), LaneFault> {
    let mut memory = shared.all(&mut []);
    *memory.own_bytes::<8>(Window::Shared, warp_access, lane)? = bits.to_le_bytes();
    Ok(())
}

fn invalid(operation: &'static str, offset: u64, lane: usize, problem: String) -> LaneFault {
    let kind = KernelFaultKind::InvalidBarrierObject {
        operation,
        offset,
        problem,
    };
    (lane, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_round_trips_through_its_bits() {
        for bytes in [0, 1, -1, 1_048_575, -1_048_575] {
            for parity in [false, true] {
                let object = BarrierObject {
                    pending: 7,
                    expected: COUNT_MAX,
                    bytes,
                    parity,
                };
                assert_eq!(BarrierObject::of(object.bits()), Some(object));
            }
        }
        assert_eq!(BarrierObject::of(0), None);
    }

    #[test]
    fn a_phase_completes_after_its_arrivals_and_bytes() {
        let mut object = BarrierObject {
            pending: 2,
            expected: 2,
            bytes: 0,
            parity: false,
        };
        object.expect(16).unwrap();
        object.arrive(2, false).unwrap();
        assert!(!object.settle());
        assert!(object.arrive(1, false).is_err());
        object.expect(-16).unwrap();
        assert!(object.settle() && object.parity);
        object.arrive(1, true).unwrap();
        object.arrive(1, false).unwrap();
        assert!(object.settle());
        assert_eq!((object.pending, object.parity), (1, false));
        assert!(object.expect(1 << 20).is_err());
    }
}
