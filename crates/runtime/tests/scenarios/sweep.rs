//! What makes every driver call of a program fail, once or for good, and looks at what comes of it:
//! a typed error or the right values, and nothing that hangs, panics, races or leaks.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use millstream::{
    Device, Error, Result,
    driver::{DriverError, ResultCode},
    sim::{Gpu, LiveObjectCounts, Schedule},
};

use crate::{
    calls::{Calls, Failure},
    configurations::Sizes,
    harness::{CLOSED_WITHIN, Watch},
    instrumented::instrumented_devices,
};

/// What a run may take on the device's clock, which every wait moves on. Without a fault a program
/// takes a few milliseconds, and more where a busy machine keeps a host function waiting: its
/// caller's pauses pass in no time.
const HUNG_AFTER_NS: u64 = 120_000_000_000;

pub(crate) const CODES: [ResultCode; 5] = [
    ResultCode::OUT_OF_MEMORY,
    ResultCode::INVALID_VALUE,
    ResultCode::LAUNCH_FAILED,
    ResultCode::ILLEGAL_ADDRESS,
    ResultCode::UNKNOWN,
];

/// Which calls fail.
#[derive(Clone, Copy, Debug)]
enum FaultTarget {
    NthCall,
    FromNthCall,
    SameFunction,
}

/// In which way calls fail.
#[derive(Clone, Copy, Debug)]
struct FaultMode {
    extent: FaultTarget,
    /// Whether calls are passed on before they fail, but for those that make something: nobody can
    /// give it back then.
    afterwards: bool,
}

impl FaultMode {
    const fn new(extent: FaultTarget, afterwards: bool) -> Self {
        Self { extent, afterwards }
    }
}

const FAULT_MODES: [FaultMode; 5] = [
    FaultMode::new(FaultTarget::NthCall, false),
    FaultMode::new(FaultTarget::NthCall, true),
    FaultMode::new(FaultTarget::FromNthCall, false),
    FaultMode::new(FaultTarget::FromNthCall, true),
    FaultMode::new(FaultTarget::SameFunction, false),
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
fn arm(calls: &Calls, number: u64, mode: FaultMode, code: ResultCode) -> Failed {
    let failed = Failed::default();
    let theirs = Arc::clone(&failed);
    let made = AtomicU64::new(0);
    calls.fail_so(move |call| {
        let this = made.fetch_add(1, Ordering::Relaxed) + 1;
        let mut failed = theirs.lock().unwrap();
        let hit = match mode.extent {
            FaultTarget::NthCall => this == number,
            FaultTarget::FromNthCall => this >= number,
            FaultTarget::SameFunction => this == number || failed.contains(call),
        };
        hit.then(|| {
            failed.insert(call);
            let error = DriverError::new(call, code);
            if mode.afterwards && !MAKING.contains(&call) {
                Failure::Afterwards(error)
            } else {
                Failure::Instead(error)
            }
        })
    });
    failed
}

/// A program whose calls are to fail.
pub(crate) struct Subject<'a> {
    pub(crate) name: String,
    pub(crate) schedule: Schedule,
    pub(crate) devices: u32,
    pub(crate) sizes: Sizes,
    /// Runs it; panics if it sees a wrong value. It uses all of the devices.
    pub(crate) run: &'a dyn Fn(&[Device]) -> Result<()>,
}

impl Subject<'_> {
    /// Makes every call fail in every way; gives the number of runs.
    pub(crate) fn sweep(&self) -> usize {
        let mut runs = 0;
        for mode in FAULT_MODES {
            for code in CODES {
                for number in 1.. {
                    let name = format!(
                        "{}, {:?}, {}, call {number}, {mode:?}, {code}",
                        self.name, self.schedule, self.sizes
                    );
                    let _watch = Watch::over(name);
                    runs += 1;
                    if !self.attempt(number, mode, code) {
                        break;
                    }
                }
            }
        }
        runs
    }

    /// One run; says whether the program got as far as the fault.
    fn attempt(&self, number: u64, mode: FaultMode, code: ResultCode) -> bool {
        let (gpu, calls, devices) = instrumented_devices(self.schedule, self.devices);
        for device in &devices {
            assert!(self.sizes.set(device, true), "nothing was copied yet");
        }
        let failed = arm(&calls, number, mode, code);
        let result = (self.run)(&devices);
        calls.fail_no_more();
        let failed = std::mem::take(&mut *failed.lock().unwrap());
        if failed.is_empty() {
            result.expect("nothing failed");
            return false;
        }
        check_result(code, &result, (self.run)(&devices));
        drop(devices);
        check_what_is_left(&gpu, &failed, code.is_sticky());
        assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
        let waited_ns = gpu.virtual_time_ns();
        assert!(waited_ns < HUNG_AFTER_NS, "it waited for {waited_ns} ns");
        true
    }
}

/// The error is one of the device's, and afterwards the device works or is lost. It need not be
/// lost if the call was one whose failure nobody asks about, as those that destroy are.
fn check_result(code: ResultCode, result: &Result<()>, afterwards: Result<()>) {
    match result {
        Ok(()) | Err(Error::Driver(_) | Error::OutOfMemory(_)) if !code.is_sticky() => {
            afterwards.expect("the device still works");
        }
        Ok(()) | Err(Error::DeviceLost { .. }) if code.is_sticky() => match afterwards {
            Ok(()) => assert!(result.is_ok(), "it was lost, and then it was not"),
            Err(error) => assert!(matches!(error, Error::DeviceLost { .. }), "{error:?}"),
        },
        _ => panic!("{result:?}"),
    }
}

/// What may be left of a closed device. A call that gives something back and fails is not made
/// again; and what only an idle device can give back stays when the device is lost.
fn check_what_is_left(gpu: &Gpu, failed: &BTreeSet<&'static str>, may_be_lost: bool) {
    let closing = Instant::now();
    let gave_up = |call| failed.contains(call);
    loop {
        let left = gpu.live_object_counts();
        let mut expected = LiveObjectCounts {
            contexts: left.contexts,
            ..LiveObjectCounts::default()
        };
        if gave_up("event_destroy") {
            expected.events = left.events;
        }
        if gave_up("mem_free_async") || may_be_lost {
            expected.device_bytes = left.device_bytes;
        }
        if gave_up("mem_free") || may_be_lost {
            expected.managed_bytes = left.managed_bytes;
        }
        if gave_up("module_unload") || may_be_lost {
            expected.modules = left.modules;
        }
        if gave_up("host_unregister") || gave_up("host_free") || may_be_lost {
            expected.pinned_bytes = left.pinned_bytes;
        }
        if may_be_lost {
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
