//! A sweep that makes every driver call of a program fail, once or permanently, and checks the
//! outcome: a typed error or the correct values, without hangs, panics, races or leaks.

use std::{
    collections::BTreeSet,
    env,
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
    sim::{Gpu, Links, LiveObjectCounts, Report, Schedule},
};

use crate::{
    calls::{Calls, Failure},
    configurations::Sizes,
    harness::{CLOSED_WITHIN, Watch},
    instrumented::instrumented_devices,
    share,
};

/// The time limit of a run on the device's virtual clock, which every wait advances. Without a
/// fault a program takes a few milliseconds, or more where a busy machine delays a host function:
/// the waiting caller's pauses advance the virtual clock at once.
const HUNG_AFTER_NS: u64 = 120_000_000_000;

/// A code of each kind: the device is out of memory, is lost, works on.
pub const KINDS_OF_CODES: [ResultCode; 3] = [
    ResultCode::OUT_OF_MEMORY,
    ResultCode::ILLEGAL_ADDRESS,
    ResultCode::UNKNOWN,
];

pub const CODES: [ResultCode; 5] = [
    ResultCode::OUT_OF_MEMORY,
    ResultCode::INVALID_VALUE,
    ResultCode::LAUNCH_FAILED,
    ResultCode::ILLEGAL_ADDRESS,
    ResultCode::UNKNOWN,
];

/// The environment variable that makes every call fail with every code instead of one in turn.
const EVERY_CODE: &str = "MILLSTREAM_EVERY_CODE";

/// The number of days in which every call fails in every mode.
const SHARE: u64 = 14;

/// The memory that a probe of peer access allocates on both devices, in bytes.
const PROBE_BYTES: u64 = 4 * 4096;

/// The set of calls that fail.
#[derive(Clone, Copy, Debug)]
enum FaultTarget {
    NthCall,
    FromNthCall,
    SameFunction,
}

/// The way in which calls fail.
#[derive(Clone, Copy, Debug)]
struct FaultMode {
    extent: FaultTarget,
    /// Set if calls are forwarded before they fail. Calls that create an object are exempt, because
    /// the object could never be destroyed.
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

/// The calls that create an object.
const MAKING: [&str; 12] = [
    "array_create",
    "texture_create",
    "surface_create",
    "graph_create",
    "graph_instantiate",
    "stream_create",
    "event_create",
    "mem_alloc_async",
    "mem_alloc_managed",
    "host_alloc",
    "host_register",
    "module_load",
];

/// The names of the calls that failed.
type Failed = Arc<Mutex<BTreeSet<&'static str>>>;

/// Makes calls fail from the `number`th on, as `mode` selects.
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
            // A capture is over even if ending it reports an error.
            let is_done = call == "stream_end_capture";
            if is_done || mode.afterwards && !MAKING.contains(&call) {
                Failure::Afterwards(error)
            } else {
                Failure::Instead(error)
            }
        })
    });
    failed
}

/// A program whose calls are made to fail.
pub struct Subject<'a> {
    pub name: String,
    pub schedule: Schedule,
    pub devices: u32,
    pub links: Links,
    pub sizes: Sizes,
    /// Runs the program on all devices of the GPU; panics if it observes a wrong value.
    pub run: &'a dyn Fn(&Gpu, &[Device]) -> Result<()>,
}

impl<'a> Subject<'a> {
    /// Creates a subject of one device with chunks of its own sizes.
    pub fn new(
        name: impl Into<String>,
        schedule: Schedule,
        run: &'a dyn Fn(&Gpu, &[Device]) -> Result<()>,
    ) -> Self {
        Self {
            name: name.into(),
            schedule,
            devices: 1,
            links: Links::default(),
            sizes: Sizes::Own,
            run,
        }
    }

    /// Makes every call fail in every mode within `SHARE` days, with one of the codes in turn, or
    /// with each of them if `EVERY_CODE` is set; returns the number of runs.
    pub fn sweep(&self) -> usize {
        self.sweep_with(&CODES)
    }

    /// As [`sweep`](Self::sweep), with these codes only.
    pub fn sweep_with(&self, codes: &[ResultCode]) -> usize {
        let turns = match env::var_os(EVERY_CODE) {
            Some(_) => codes.len(),
            None => 1,
        };
        let mut runs = 0;
        // The modes begin with different codes, so that a call fails with several of them.
        let modes = FAULT_MODES.into_iter().enumerate();
        for (first, mode) in modes.flat_map(|(at, mode)| (at..at + turns).map(move |f| (f, mode))) {
            let is_in_turn = |number: &u64| share::has(number + first as u64, SHARE);
            for number in (1..).filter(is_in_turn) {
                let code = codes[(number as usize + first) % codes.len()];
                let name = format!(
                    "{}, {:?}, {}, {}, call {number}, {mode:?}, {code}, {}={}",
                    self.name,
                    self.schedule,
                    self.links,
                    self.sizes,
                    share::DAY,
                    share::day()
                );
                let _watch = Watch::over(name);
                runs += 1;
                if !self.attempt(number, mode, code) {
                    break;
                }
            }
        }
        runs
    }

    /// Makes every call fail once, in a program that repeats what has failed: it must succeed.
    pub fn sweep_once_with(&self, code: ResultCode) {
        let once = [false, true].map(|afterwards| FaultMode::new(FaultTarget::NthCall, afterwards));
        for (first, mode) in (0..).zip(once) {
            for number in (1..).filter(|number| share::has(number + first, SHARE)) {
                let name = format!(
                    "{}, call {number}, {mode:?}, {code}, {}={}",
                    self.name,
                    share::DAY,
                    share::day()
                );
                let _watch = Watch::over(name.clone());
                let (gpu, calls, devices) =
                    instrumented_devices(self.schedule, self.devices, self.links.clone());
                let failed = arm(&calls, number, mode, code);
                (self.run)(&gpu, &devices)
                    .unwrap_or_else(|error| panic!("{name}, {failed:?}: {error}"));
                calls.fail_no_more();
                let failed = std::mem::take(&mut *failed.lock().unwrap());
                drop(devices);
                check_what_is_left(&gpu, &failed, false);
                check_reports(&gpu, &[]);
                if failed.is_empty() {
                    break;
                }
            }
        }
    }

    /// Runs once; returns whether the program reached the fault.
    fn attempt(&self, number: u64, mode: FaultMode, code: ResultCode) -> bool {
        let (gpu, calls, devices) =
            instrumented_devices(self.schedule, self.devices, self.links.clone());
        for device in &devices {
            assert!(
                self.sizes.set(device, true),
                "the sizes must be set before the first copy"
            );
        }
        let failed = arm(&calls, number, mode, code);
        let result = (self.run)(&gpu, &devices);
        calls.fail_no_more();
        let failed = std::mem::take(&mut *failed.lock().unwrap());
        if failed.is_empty() {
            result.expect("the program succeeds without a fault");
            return false;
        }
        check_result(code, &result, (self.run)(&gpu, &devices));
        let lost = devices_lost(&devices);
        drop(devices);
        check_what_is_left(&gpu, &failed, code.is_sticky());
        check_reports(&gpu, &lost);
        let waited_ns = gpu.virtual_time_ns();
        assert!(
            waited_ns < HUNG_AFTER_NS,
            "the run took {waited_ns} ns of virtual time, the limit is {HUNG_AFTER_NS} ns"
        );
        true
    }
}

/// Returns the names in reports of those of several devices that are lost.
fn devices_lost(devices: &[Device]) -> Vec<String> {
    let lost = devices
        .iter()
        .enumerate()
        .filter(|(_, device)| devices.len() > 1 && device.lost().is_some());
    lost.map(|(ordinal, _)| format!("of device {ordinal}"))
        .collect()
}

/// Checks that there are no reports, except of work of a lost device and another: nothing waits for
/// a lost device, and this one only says that it is lost and works on.
fn check_reports(gpu: &Gpu, lost: &[String]) {
    let is_unexpected =
        |report: &Report| !lost.iter().any(|device| report.text.contains(&device[..]));
    let reports: Vec<_> = gpu.reports().into_iter().filter(is_unexpected).collect();
    assert!(reports.is_empty(), "{reports:#?}");
}

/// Checks that the error fits the injected code and that afterwards the device works or is lost.
/// After a sticky code the device may still work if the failure of that call is ignored, as it is
/// for calls that destroy.
fn check_result(code: ResultCode, result: &Result<()>, afterwards: Result<()>) {
    match result {
        Ok(()) | Err(Error::Driver(_) | Error::OutOfMemory(_)) if !code.is_sticky() => {
            afterwards.expect("the device still works");
        }
        // `Poisoned`: the value came from the lost device.
        Ok(()) | Err(Error::DeviceLost { .. } | Error::Poisoned { .. }) if code.is_sticky() => {
            match afterwards {
                Ok(()) => assert!(result.is_ok(), "a lost device must stay lost"),
                // The reactor may note the loss only now.
                Err(Error::DeviceLost { .. } | Error::Poisoned { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        _ => panic!("{result:?}"),
    }
}

/// Checks the objects left by a closed device. A failed call that frees an object is not repeated,
/// and objects that only an idle device can free stay when the device is lost.
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
        // Memory of the probe of peer access is leaked if no order behind its uses can be had.
        let ordering = ["event_create", "event_record", "stream_wait_event"];
        if ordering.into_iter().any(gave_up) {
            expected.device_bytes = left.device_bytes.min(PROBE_BYTES);
        }
        if gave_up("mem_free_async") || gave_up("array_destroy") || may_be_lost {
            expected.device_bytes = left.device_bytes;
        }
        if gave_up("graph_destroy") || gave_up("stream_end_capture") || may_be_lost {
            expected.graphs = left.graphs;
        }
        if gave_up("graph_exec_destroy") || may_be_lost {
            expected.executable_graphs = left.executable_graphs;
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
