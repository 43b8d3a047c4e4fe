//! Leak reports: the objects that remain after the devices of a run were closed, with sizes and
//! origins.

use std::{
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use millstream_sim::{Gpu, LiveKind, LiveObject, LiveObjectCounts};

use crate::{Device, context::DeviceState, device::closing, disposal::log, page_locked::POOLED};

/// The number of looks in a row, each behind a further pass of the thread that closes devices, at
/// which nothing more has been freed when the rest counts as leaked. The time that they take grows
/// with the load of the machine.
const LOOKS_IN_VAIN: u32 = 5000;

/// The time without anything freed after which the rest counts as leaked although the closing
/// thread made no pass: a driver may block it.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// The maximum number of objects that a report lists.
const LISTED_MAX: usize = 20;

/// Describes the objects, except contexts, that remain after a grace period. Returns `None` if
/// there are none.
pub(super) fn find_leaks(gpu: &Gpu, devices: &[Weak<DeviceState>]) -> Option<String> {
    let (mut before, mut passes, mut in_vain) = (LiveObjectCounts::default(), None, 0);
    let mut freed_at = Instant::now();
    while in_vain < LOOKS_IN_VAIN && freed_at.elapsed() < STUCK_AFTER {
        let left = gpu.live_object_counts();
        let nothing = LiveObjectCounts {
            contexts: left.contexts,
            ..LiveObjectCounts::default()
        };
        if left == nothing {
            return None;
        }
        let passes_now = closing::passes();
        if left != before {
            (in_vain, freed_at) = (0, Instant::now());
        } else if passes_now.is_none() || passes_now != passes {
            in_vain += 1;
        }
        (before, passes) = (left, passes_now);
        // Work that was pending when the devices were closed completes meanwhile.
        thread::sleep(Duration::from_micros(100));
    }
    Some(describe(gpu, &before, devices))
}

fn describe(gpu: &Gpu, left: &LiveObjectCounts, devices: &[Weak<DeviceState>]) -> String {
    let open: Vec<Arc<DeviceState>> = devices.iter().filter_map(Weak::upgrade).collect();
    for state in &open {
        // Memory that the device caches for reuse is not a leak. If trimming fails, it is listed.
        if let Err(error) = Device::from_state(Arc::clone(state)).trim() {
            log!(debug, %error, "cannot trim the cache of an open device");
        }
    }
    let mut objects = gpu.live_objects();
    objects.retain(|object| {
        let owner = open
            .iter()
            .find(|state| i64::from(state.ordinal.as_raw()) == i64::from(object.device));
        owner.is_none_or(|owner| is_held(object, owner))
    });
    let mut text = String::from("the closed device leaked:");
    for object in objects.iter().take(LISTED_MAX) {
        text += &format!("\n    {object}");
    }
    if objects.len() > LISTED_MAX {
        text += &format!("\n    and {} more", objects.len() - LISTED_MAX);
    }
    if open.is_empty() && left.pending_operations > 0 {
        text += &format!("\n    {} pending operations", left.pending_operations);
    }
    for state in &open {
        text += &format!("\n    {state} itself: a value that keeps it open was never dropped");
    }
    text
}

/// Returns whether the program owns the object. An open device also owns internal objects.
fn is_held(object: &LiveObject, device: &DeviceState) -> bool {
    let site = object.site.as_deref();
    match object.kind {
        LiveKind::Stream => {
            let number = object
                .name
                .split(' ')
                .nth(1)
                .and_then(|number| number.parse().ok());
            let is_held = number.is_some_and(|number| device.held_streams().contains(&number));
            is_held && site.is_some_and(|site| site.starts_with("`stream` "))
        }
        LiveKind::Event => site.is_some(),
        LiveKind::Module => false,
        LiveKind::PageLockedMemory => {
            site.is_some_and(|site| !site.starts_with(&format!("`{POOLED}` ")))
        }
        _ => true,
    }
}
