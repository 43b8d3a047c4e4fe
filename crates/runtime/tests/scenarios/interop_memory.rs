//! Scenarios I: memory of other libraries, its return to its owner, and what cannot be adopted.

#![allow(unsafe_code, reason = "adopts streams and memory")]

use millstream::driver::{DevicePtr, StreamHandle};

use crate::scenarios::{
    interop::{assert_problem, refusal},
    outsiders::{BYTES as N, Keeper},
    prelude::*,
};

#[run_by(everywhere, |harness|)]
fn i03_forgotten_leases_and_arrays_are_leaks_and_no_races() {
    harness.leaks();
    let (outsider, theirs, [ours]) = with_outsider(harness);
    let drops = Drops::default();
    // The memory of a forgotten lease is not used again, although its array is dropped.
    let mut lent = ours.zeros::<u8>(N).unwrap();
    let address = lent.as_raw();
    mem::forget(lent.lend_mut(&theirs).unwrap());
    outsider.fill(address, N, 1);
    drop(lent);
    for _ in 0..4 {
        assert_ne!(ours.zeros::<u8>(N).unwrap().as_raw(), address);
    }
    let make = |release: fn(Keeper) -> Release| {
        let tensor = outsider.allocate(N);
        adopted(&harness.device, &theirs, (tensor, &drops), release)
    };
    mem::forget(make(Release::when_done));
    let mut lent = make(Release::when_done);
    mem::forget(lent.lend_mut(&theirs).unwrap());
    drop(lent);
    ours.synchronize().unwrap();
    theirs.synchronize().unwrap();
    assert_eq!(drops.count(), 0);
    drop(make(Release::when_done));
    drops.assert_one();
}

#[run_by(everywhere, |harness|)]
fn i04_a_keeper_is_dropped_once_after_the_last_use() {
    let (outsider, theirs, [a, b]) = with_outsider(harness);
    let drops = Drops::default();
    let tensor = outsider.allocate(N);
    let mut array = adopted(
        &harness.device,
        &theirs,
        (tensor, &drops),
        Release::when_done,
    );
    a.fill(&mut array, 1).unwrap();
    let gate = harness.gate(&b);
    let found = b.download(&array).unwrap();
    drop(array);
    if harness.gates_hold() {
        thread::sleep(Duration::from_millis(1));
        assert_eq!(drops.count(), 0, "a download is pending");
    }
    gate.open();
    assert_eq!(found.wait().unwrap(), [1; N]);
    drops.assert_one();
}

/// The owner frees the memory in the order of its stream and allocates it again there, while our
/// work on another stream is pending.
fn i04_memory_returns_in_order(harness: &Harness, behind: bool) {
    let (outsider, theirs, [a, b]) = with_outsider(harness);
    let drops = Drops::default();
    let tensor = outsider.allocate(N);
    outsider.fill(tensor.pointer, N, 1);
    let release = |keeper| match behind {
        true => Release::behind(&theirs, keeper),
        false => Release::when_done(keeper),
    };
    let array = adopted(&harness.device, &theirs, (tensor, &drops), release);
    let mut copies = [a.zeros::<u8>(N).unwrap(), b.zeros::<u8>(N).unwrap()];
    let gates = [harness.gate(&a), harness.gate(&b)];
    a.copy(&array, &mut copies[0]).unwrap();
    b.copy(&array, &mut copies[1]).unwrap();
    drop(array);
    if behind {
        // In stream order the owner gets it back although our copies are pending.
        drops.assert_one();
    } else if harness.gates_hold() {
        assert_eq!(drops.count(), 0);
    }
    let next = outsider.allocate(N);
    outsider.fill(next.pointer, N, 2);
    drop(next);
    for (gate, copy) in gates.into_iter().zip(&copies) {
        gate.open();
        assert_eq!(a.values(copy).unwrap(), [1; N]);
    }
    drops.assert_one();
}

#[test]
fn i04_memory_that_is_released_behind_a_stream_returns_in_its_order() {
    everywhere(|harness| i04_memory_returns_in_order(harness, true));
}

#[test]
fn i04_memory_that_is_released_when_done_returns_after_its_uses() {
    everywhere(|harness| i04_memory_returns_in_order(harness, false));
}

#[run_by(everywhere, |harness|)]
fn i04_an_owner_takes_its_memory_back_in_the_order_of_its_stream() {
    let (outsider, theirs, [ours]) = with_outsider(harness);
    let drops = Drops::default();
    let make = || {
        let tensor = outsider.allocate(N);
        adopted(
            &harness.device,
            &theirs,
            (tensor, &drops),
            Release::when_done,
        )
    };
    let mut array = make();
    // Of the owner's stream: its lease orders nothing.
    let mut copy = theirs.zeros::<u8>(N).unwrap();
    let gate = harness.gate(&ours);
    ours.fill(&mut array, 1).unwrap();
    let keeper = array.return_to_owner(&theirs).unwrap();
    let keeper = keeper.downcast::<Keeper>().unwrap();
    assert_eq!(drops.count(), 0, "the keeper is the owner's again");
    // The owner's copy is behind our fill.
    let lease = copy.lend_mut(&theirs).unwrap();
    outsider.copy(keeper.tensor.pointer, lease.as_raw(), N);
    drop((lease, keeper));
    assert_eq!(harness.opened(gate, ours.download(&copy).unwrap()), [1; N]);
    let own = ours.zeros::<u8>(N).unwrap();
    let rejected = own.return_to_owner(&theirs).unwrap_err();
    assert_eq!(rejected.source.len(), N);
    assert_problem(Err::<(), _>(rejected.error), |problem| {
        *problem == UsageErrorKind::NotAdopted
    });
}

#[test]
fn i07_streams_that_cannot_be_adopted_are_refused() {
    everywhere(|harness| {
        let device = &harness.device;
        for raw in [0, 1, 2] {
            // SAFETY: the stream is refused.
            let adopted = unsafe { device.adopt_stream(StreamHandle::from_raw(raw), ()) };
            let expected = UsageErrorKind::DefaultStream { raw };
            assert_problem(adopted, |problem| *problem == expected);
        }
    });
    everywhere_simulated(
        |config| config.devices(2),
        |harness| {
            let elsewhere = Outsider::new(Some(harness.simulated()), 1);
            // SAFETY: the stream is refused.
            let adopted = unsafe { harness.device.adopt_stream(elsewhere.raw, ()) };
            assert_is!(
                refusal(adopted),
                UsageErrorKind::OtherContext {
                    object: "stream",
                    ..
                }
            );
        },
    );
}

#[test]
fn i07_memory_that_cannot_be_adopted_is_refused_and_its_keeper_dropped() {
    let gpu = Gpu::new(SimConfig::new().devices(2));
    let device = Device::open_simulated(&gpu, 0).unwrap();
    let [here, elsewhere] = [0, 1].map(|ordinal| Outsider::new(Some(&gpu), ordinal));
    let host = device.pinned::<u8>(N).unwrap();
    let freed = here.allocate(N).pointer;
    let (tensor, far) = (here.allocate(N), elsewhere.allocate(N));
    let refused = |pointer: DevicePtr, len| {
        let drops = Drops::default();
        let keeper = Keeper {
            drops: drops.clone(),
            tensor: here.allocate(1),
        };
        let release = Release::when_done(keeper);
        // SAFETY: the memory is refused.
        let adopted = unsafe { device.adopt_buffer::<u32>(pointer, len, After::Done, release) };
        drops.assert_one();
        adopted
    };
    let on_host = host.read().unwrap().as_ptr() as u64;
    for pointer in [freed, DevicePtr::from_raw(0), DevicePtr::from_raw(on_host)] {
        let unknown = refusal(refused(pointer, 10));
        assert_is!(unknown, UsageErrorKind::NoAllocation { bytes: 40, .. });
    }
    assert_is!(
        refusal(refused(tensor.pointer, N)),
        UsageErrorKind::NoAllocation { .. }
    );
    assert_is!(
        refusal(refused(tensor.pointer.offset(2), 10)),
        UsageErrorKind::CastAlignment {
            alignment: 2,
            target_alignment: 4
        }
    );
    assert_is!(
        refusal(refused(far.pointer, 10)),
        UsageErrorKind::OtherContext {
            object: "memory",
            ..
        }
    );
    assert_is!(
        refusal(refused(tensor.pointer, usize::MAX)),
        UsageErrorKind::TooLarge { .. }
    );
}
