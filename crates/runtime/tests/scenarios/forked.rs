//! Forked processes: the child opens its own devices, which work fully. Devices of the parent
//! return an error there.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "forks the process")]

use std::{io::Write, process};

use bytes::Bytes;

use crate::scenarios::prelude::*;

/// Uses every thread that the library starts: for futures, large copies, host functions, kernels
/// and logging.
fn use_all_threads(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let large = vec![7_u8; 16 << 20];
    let array = stream.upload(&large)?;
    assert!(pollster::block_on(stream.download(&array)?)? == large);
    let owned = stream.upload_owned(Bytes::from_owner(large))?;
    assert!(pollster::block_on(stream.download(&owned)?)? == vec![7; 16 << 20]);
    let sums = sums::load(device)?;
    let floats = stream.upload(&[1.0_f32; 5000])?;
    let mut sum = stream.zeros::<f32>(5000)?;
    sums.vecadd(&stream, 5000, &floats, &floats, &mut sum, 5000)?;
    assert_eq!(pollster::block_on(stream.download(&sum)?)?, [2.0; 5000]);
    Ok(())
}

fn simulated() -> Device {
    Device::open(Select::Simulated(Box::new(SimConfig::new()))).expect("a simulated device opens")
}

/// Prints the child's current step directly to standard error, because the test harness would show
/// captured output only at the end.
fn step(what: &str) {
    let _ = writeln!(std::io::stderr(), "child: {what}");
}

/// Runs the checks of the child process.
fn child(before: &Device, stream: &Stream, pending: millstream::Pending<Vec<u8>>) {
    step("a new device");
    use_all_threads(&simulated()).expect("the child's new device works");
    let refused: [(&str, &mut dyn FnMut() -> Result<()>); 4] = [
        ("a stream", &mut || before.stream().map(drop)),
        ("an array", &mut || stream.zeros::<u8>(4).map(drop)),
        ("an upload", &mut || stream.upload(&[1_u8]).map(drop)),
        ("a wait", &mut || stream.synchronize()),
    ];
    let mut answers = Vec::new();
    for (what, call) in refused {
        step(what);
        answers.push(call());
    }
    step("a future");
    answers.push(pollster::block_on(pending).map(drop));
    for answer in &answers {
        let error = answer.as_ref().expect_err("a device of the parent's");
        assert_says(&error, "fork");
    }
    step("another device");
    let opened_again = Device::open(Select::Auto);
    if on_gpu() {
        // CUDA cannot be used in the child of a process that has used it.
        let used = opened_again.and_then(|device| device.stream().map(drop));
        assert_says(&used.expect_err("a GPU in a forked child"), "fork");
    } else {
        use_all_threads(&opened_again.expect("the child gets a new shared simulated device"))
            .expect("it works");
    }
}

/// Waits until every other thread of the process has slept for a while. A thread in the middle of a
/// call may hold a lock, which would stay locked forever in the child.
fn wait_until_other_threads_sleep() {
    let own = format!("/proc/self/task/{}", thread_id());
    let mut quiet = 0;
    // A GPU driver's threads may never sleep, but they hold no lock of this library.
    for _ in 0..1000 {
        if quiet == 20 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
        let tasks = std::fs::read_dir("/proc/self/task").expect("this is Linux");
        let states = tasks.filter_map(|task| {
            let path = task.ok()?.path();
            let text = std::fs::read_to_string(path.join("stat")).ok()?;
            // The state follows the name, which is in parentheses and may contain any character.
            let state = text.rsplit_once(')')?.1.trim_start().chars().next()?;
            (path.to_str() != Some(&own)).then_some(state)
        });
        let all_sleep = states.into_iter().all(|state| state != 'R');
        quiet = if all_sleep { quiet + 1 } else { 0 };
    }
}

fn thread_id() -> i64 {
    // SAFETY: the call takes no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

#[test]
#[ignore = "the inner half of a_forked_child_opens_its_own_devices"]
fn inner_fork() {
    let before = if on_gpu() {
        Device::open(Select::Auto)
    } else {
        Ok(simulated())
    };
    let before = before.expect("the device opens");
    use_all_threads(&before).expect("the parent's device works");
    if !on_gpu() {
        use_all_threads(&Device::open(Select::Auto).expect("the shared device opens"))
            .expect("it works");
    }
    let stream = before.stream().expect("a stream");
    let array = Arc::new(stream.upload(&[1_u8, 2]).expect("an upload"));
    let pending = stream.download(&*array).expect("a download");
    wait_until_other_threads_sleep();
    // SAFETY: the child uses only what this test checks, holds no locks of sleeping threads, and
    // ends by `_exit`.
    let forked = unsafe { libc::fork() };
    assert!(forked >= 0, "the process forks");
    if forked == 0 {
        let outcome = std::panic::AssertUnwindSafe(|| child(&before, &stream, pending));
        let code = i32::from(std::panic::catch_unwind(outcome).is_err());
        let _ = std::io::stderr().flush();
        // SAFETY: `_exit` ends the child without running the parent's clean-up.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the child is this process's, and the status is written to a local variable.
    let waited = unsafe { libc::waitpid(forked, &mut status, 0) };
    assert!(
        waited == forked && status == 0,
        "the child ended with status {status:#x}"
    );
    // The parent's device still works.
    assert_eq!(pending_value(&stream, &array), [1, 2]);
    use_all_threads(&before).expect("the parent's device works");
    println!("forked by {}", process::id());
}

fn pending_value(stream: &Stream, array: &millstream::Buffer<u8>) -> Vec<u8> {
    let pending = stream.download(array).expect("a download");
    pollster::block_on(pending).expect("the value")
}

#[test]
fn a_forked_child_opens_its_own_devices() {
    assert_says(&in_process("forked::inner_fork", &[]).text(), "forked by");
}
