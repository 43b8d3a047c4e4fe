//! Barrier objects: `object` and the arrivals of asynchronous copies.
//!
//! An object lies in eight bytes of shared memory, as on a GPU, where programs may put it anywhere
//! and move on. Its format is ours: arrivals that the phase waits for, arrivals that each phase
//! begins with, bytes that the phase waits for, and the phase's parity. What an arrival returns is
//! the object as it was before.

use super::block::WarpContext;
use super::fault::KernelFaultKind;
use super::memory::in_window;
use super::observer::{IssuePoint, Observer};
use super::registers::{LANES, lanes};
use super::warp::Warp;
use super::warp_access::{LaneFault, WarpAccess};
use crate::ptx::ir::{AccessSpace, Mbarrier, MbarrierOp, PENDING_MASK, Window};

/// The most arrivals of a phase, and the most bytes that it waits for.
const COUNT_MAX: u64 = PENDING_MASK;

/// Set in the eight bytes of an object that has been made and not given up.
const ALIVE: u64 = 1 << 63;

const PARITY_AT: u32 = 62;
const EXPECTED_AT: u32 = 20;
const BYTES_AT: u32 = 40;
const BYTES_BITS: u32 = 21;

/// An object's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BarrierObject {
    /// Arrivals that the phase still waits for.
    pending: u64,
    /// Arrivals that each phase begins with.
    expected: u64,
    /// Bytes that the phase still waits for.
    bytes: i64,
    parity: bool,
}

impl BarrierObject {
    /// The state in the bytes of an object, if they are one.
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

    /// Begins the next phase, if nothing is left to wait for; true if so.
    fn settle(&mut self) -> bool {
        let complete = self.pending == 0 && self.bytes == 0;
        if complete {
            self.parity = !self.parity;
            self.pending = self.expected;
        }
        complete
    }

    /// Arrives so many times; the error says what is wrong with that.
    fn arrive(&mut self, count: u64, drop: bool) -> Result<(), String> {
        if count == 0 || count > COUNT_MAX {
            return Err(format!("{count} arrivals are not from 1 to {COUNT_MAX}"));
        }
        if count > self.pending {
            let pending = self.pending;
            return Err(format!(
                "{count} arrivals where the phase waits for {pending}"
            ));
        }
        if drop {
            self.expected = self.expected.saturating_sub(count);
        }
        self.pending -= count;
        Ok(())
    }

    /// Changes the number of bytes that the phase waits for.
    fn expect(&mut self, bytes: i64) -> Result<(), String> {
        self.bytes += bytes;
        if self.bytes.unsigned_abs() <= COUNT_MAX {
            Ok(())
        } else {
            Err(format!("the phase would wait for {} bytes", self.bytes))
        }
    }
}

/// What a lane does to an object.
struct MbarrierUpdate {
    /// The eight bytes from now on.
    bits: u64,
    /// Whether a phase has completed by it.
    completes: bool,
    /// What a wait is told.
    answer: bool,
}

/// Runs an `object` instruction, the lowest lane first.
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

/// Makes the thread's arrival on an object follow its copies so far.
pub(super) fn arrive_behind_copies(
    shared: &mut WarpContext<'_, '_>,
    warp_access: &WarpAccess,
    lane: usize,
    increments: bool,
) -> Result<(), LaneFault> {
    let offset = warp_access.addresses[lane];
    let name = "cp.async.mbarrier.arrive";
    let wrong = |problem: String| invalid(name, offset, lane, problem);
    let found = BarrierObject::of(read(shared, warp_access, lane)?);
    let mut object = found.ok_or_else(|| wrong(NO_OBJECT.to_owned()))?;
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

/// Lets the arrivals on an object take place that wait for copies, and the copies before them.
fn arrivals_of_copies<O: Observer>(
    shared: &mut WarpContext<'_, '_>,
    observer: &mut O,
    offset: u64,
    waiting: usize,
) -> Result<(), LaneFault> {
    while let Some((warp, lane)) = shared.copies.arrive(offset, shared.memory) {
        let warp_access = WarpAccess {
            addresses: [offset; LANES],
            mask: 1 << waiting,
            bytes: 8,
            write: true,
        };
        let wrong = |problem| invalid("cp.async.mbarrier.arrive", offset, waiting, problem);
        let found = BarrierObject::of(read(shared, &warp_access, waiting)?);
        let mut object = found.ok_or_else(|| wrong(NO_OBJECT.to_owned()))?;
        object.arrive(1, false).map_err(wrong)?;
        let completes = object.settle();
        write(shared, &warp_access, waiting, object.bits())?;
        observer.mbarrier_arrived((warp, lane), offset, false, completes);
    }
    Ok(())
}

const NO_OBJECT: &str = "there is none: `mbarrier.init` makes one";

/// What the instruction makes of an object, or why it cannot.
fn apply(op: &Mbarrier, bits: u64, count: u32, given: u64) -> Result<MbarrierUpdate, String> {
    let done = |bits, completes| MbarrierUpdate {
        bits,
        completes,
        answer: false,
    };
    let count = u64::from(count);
    if op.f == MbarrierOp::Init {
        if count == 0 || count > COUNT_MAX {
            return Err(format!("{count} arrivals are not from 1 to {COUNT_MAX}"));
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
                return Err("the phase completes, which `.noComplete` rules out".to_owned());
            }
        }
        MbarrierOp::Expect => object.expect(count.cast_signed())?,
        MbarrierOp::Complete => object.expect(-count.cast_signed())?,
        MbarrierOp::Wait { parity } => {
            let asked = if parity {
                count & 1 == 1
            } else {
                BarrierObject::of(given)
                    .ok_or("the state is not what an arrival has returned")?
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

/// The addresses as offsets in shared memory.
fn in_shared_memory(op: &Mbarrier, warp_access: WarpAccess) -> Result<WarpAccess, LaneFault> {
    if op.space != AccessSpace::Generic {
        return Ok(warp_access);
    }
    let outside = |lane: &usize| Window::of(warp_access.addresses[*lane]) != Window::Shared;
    match lanes(warp_access.mask).find(outside) {
        Some(lane) => {
            let problem = "the address is not one of the block's shared memory".to_owned();
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

/// The eight bytes of a lane's object.
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
    fn states_survive_their_bytes() {
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
    fn a_phase_completes_when_arrivals_and_bytes_have_come() {
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
