//! D1: every driver call of a program fails, once or for good. Each run ends in a typed error or with the right values,
//! and nothing hangs, panics, races or leaks.

use std::{
    collections::BTreeSet,
    panic::resume_unwind,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use millstream::{
    Device, Error, Result,
    driver::{DriverError, ResultCode},
    sim::{Gpu, Ledger, Schedule},
};

use crate::{
    calls::{Calls, Failure},
    faults::world,
    machine::run,
    rig::{CLOSED_WITHIN, Watch},
    steps::{Step, program},
};

const PROGRAMS: u64 = 40;
const STEPS: usize = 16;
/// More than one for each core: a run sleeps while the reactor still holds its device.
const THREADS: usize = 4;
/// What a run may take on the device's clock, which every wait moves on. Without a fault a program takes less than 1 ms.
const HUNG_AFTER_NS: u64 = 2_000_000_000;

const CODES: [ResultCode; 5] = [
    ResultCode::OUT_OF_MEMORY,
    ResultCode::INVALID_VALUE,
    ResultCode::LAUNCH_FAILED,
    ResultCode::ILLEGAL_ADDRESS,
    ResultCode::UNKNOWN,
];

/// Which calls fail.
#[derive(Clone, Copy, Debug)]
enum Extent {
    TheNumberth,
    AllFromThere,
    AllOfItsName,
}

/// In which way calls fail.
#[derive(Clone, Copy, Debug)]
struct Way {
    extent: Extent,
    /// Whether calls are passed on before they fail, but for those that make something: nobody can give it back then.
    afterwards: bool,
}

impl Way {
    const fn new(extent: Extent, afterwards: bool) -> Self {
        Self { extent, afterwards }
    }
}

const WAYS: [Way; 5] = [
    Way::new(Extent::TheNumberth, false),
    Way::new(Extent::TheNumberth, true),
    Way::new(Extent::AllFromThere, false),
    Way::new(Extent::AllFromThere, true),
    Way::new(Extent::AllOfItsName, false),
];

/// The calls that make something.
const MAKING: [&str; 7] = [
    "stream_create",
    "event_create",
    "mem_alloc_async",
    "mem_alloc_managed",
    "host_alloc",
    "host_register",
    "module_load",
];

/// The names of the calls that were made to fail.
type Failed = Arc<Mutex<BTreeSet<&'static str>>>;

/// Makes calls fail from the `number`th on.
fn arm(calls: &Calls, number: u64, way: Way, code: ResultCode) -> Failed {
    let failed = Failed::default();
    let theirs = Arc::clone(&failed);
    let made = AtomicU64::new(0);
    calls.fail_so(move |call| {
        let this = made.fetch_add(1, Ordering::Relaxed) + 1;
        let mut failed = theirs.lock().unwrap();
        let hit = match way.extent {
            Extent::TheNumberth => this == number,
            Extent::AllFromThere => this >= number,
            Extent::AllOfItsName => this == number || failed.contains(call),
        };
        hit.then(|| {
            failed.insert(call);
            let error = DriverError::new(call, code);
            if way.afterwards && !MAKING.contains(&call) {
                Failure::Afterwards(error)
            } else {
                Failure::Instead(error)
            }
        })
    });
    failed
}

/// The schedule under which a program runs.
fn schedule_of(seed: u64) -> Schedule {
    match seed % 4 {
        0 => Schedule::Timed,
        1 => Schedule::Eager,
        2 => Schedule::Lazy,
        _ => Schedule::Random(seed),
    }
}

/// One run; says whether the program got as far as the fault.
fn attempt(seed: u64, steps: &[Step], number: u64, way: Way, code: ResultCode) -> bool {
    let (gpu, calls, device) = world(schedule_of(seed));
    let failed = arm(&calls, number, way, code);
    let result = run(&device, None, steps);
    calls.fail_no_more();
    let failed = std::mem::take(&mut *failed.lock().unwrap());
    if failed.is_empty() {
        result.expect("nothing failed");
        return false;
    }
    check_result(&device, result);
    let is_lost = device.lost().is_some();
    drop(device);
    check_what_is_left(&gpu, &failed, is_lost);
    assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
    assert!(
        gpu.virtual_time_ns() < HUNG_AFTER_NS,
        "it waited for {} ns",
        gpu.virtual_time_ns()
    );
    true
}

/// The error is one of the device's, and after it the device works or is lost.
fn check_result(device: &Device, result: Result<()>) {
    let after = run(device, None, &program(0, STEPS, false));
    match (result, device.lost()) {
        (Ok(()) | Err(Error::Driver(_) | Error::OutOfMemory(_)), None) => {
            after.expect("the device still works");
        }
        // The program does not ask whether what it drops could be destroyed.
        (Ok(()) | Err(Error::DeviceLost { .. }), Some(_)) => {
            assert!(matches!(after, Err(Error::DeviceLost { .. })), "{after:?}");
        }
        (result, lost) => panic!("{result:?} on a device that is lost: {lost:?}"),
    }
}

/// What may be left of a closed device. A call that gives something back and fails is not made again; and what only an
/// idle device can give back stays when the device is lost.
fn check_what_is_left(gpu: &Gpu, failed: &BTreeSet<&'static str>, is_lost: bool) {
    let closing = Instant::now();
    let gave_up = |call| failed.contains(call);
    loop {
        let left = gpu.ledger();
        let mut expected = Ledger {
            contexts: left.contexts,
            ..Ledger::default()
        };
        if gave_up("event_destroy") {
            expected.events = left.events;
        }
        if gave_up("mem_free_async") || is_lost {
            expected.device_bytes = left.device_bytes;
        }
        if gave_up("mem_free") || is_lost {
            expected.managed_bytes = left.managed_bytes;
        }
        if gave_up("module_unload") || is_lost {
            expected.modules = left.modules;
        }
        if gave_up("host_unregister") || is_lost {
            expected.pinned_bytes = left.pinned_bytes;
        }
        if is_lost {
            expected.pending_operations = left.pending_operations;
        }
        if left == expected {
            return;
        }
        assert!(
            closing.elapsed() < CLOSED_WITHIN,
            "left of a closed device: {left:?}"
        );
        thread::sleep(Duration::from_micros(100));
    }
}

/// Every way for every call of one program to fail; gives the number of runs.
fn sweep(seed: u64) -> usize {
    let steps = program(seed, STEPS, false);
    let mut runs = 0;
    for way in WAYS {
        for code in CODES {
            for number in 1.. {
                let _watch = Watch::over(format!("program {seed}, call {number}, {way:?}, {code}"));
                runs += 1;
                if !attempt(seed, &steps, number, way, code) {
                    break;
                }
            }
        }
    }
    runs
}

#[test]
fn d01_every_driver_call_of_a_program_may_fail() {
    let next = AtomicU64::new(0);
    let runs = AtomicUsize::new(0);
    thread::scope(|scope| {
        let work = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= PROGRAMS {
                    break;
                }
                runs.fetch_add(sweep(seed), Ordering::Relaxed);
            }
        };
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            if let Err(panic) = worker.join() {
                resume_unwind(panic);
            }
        }
    });
    println!("{} runs", runs.into_inner());
}
