//! Ranks in several processes: the test program starts itself again for each rank.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
    time::Instant,
};

use super::rank::{SOON, gpu};
use crate::nccl::prelude::*;

/// Starts this program as one rank of a world of two; its output is piped.
fn start(rank: usize, id: &UniqueId, program: &str) -> (Child, BufReader<ChildStdout>) {
    let id: String = id
        .as_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let mut child = Command::new(env::current_exe().expect("the test's own program"))
        .args([
            "--exact",
            "nccl::processes::inner_rank",
            "--include-ignored",
            "--nocapture",
        ])
        .env("LOOPBACK_RANK", rank.to_string())
        .env("LOOPBACK_ID", id)
        .env("LOOPBACK_PROGRAM", program)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the process starts");
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    (child, output)
}

/// Returns the line that begins with `prefix`, without it.
fn line(output: &mut BufReader<ChildStdout>, prefix: &str) -> String {
    let mut all = String::new();
    for line in output.lines() {
        let line = line.expect("the output is text");
        if let Some(rest) = line.strip_prefix(prefix) {
            return rest.to_owned();
        }
        all.push_str(&line);
        all.push('\n');
    }
    panic!("no line begins with {prefix:?}: {all}");
}

#[test]
#[ignore = "a rank of the other tests in this file"]
fn inner_rank() {
    let variable = |name| env::var(name).expect("the parent sets it");
    let text = variable("LOOPBACK_ID");
    let mut bytes = [0; UniqueId::BYTES];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hexadecimal");
    }
    let rank: usize = variable("LOOPBACK_RANK").parse().expect("a number");
    let gpu = gpu(Schedule::Timed);
    let loopback = Arc::new(Loopback::new(gpu.driver()));
    let id = UniqueId::from_bytes(bytes);
    let rank = Rank::join((gpu.driver(), 0, loopback, &id, rank, 2));
    let array = rank.upload(&[rank.rank as f64 + 1.0; 1000]);
    rank.sum(array, 1000, DataType::F64);
    let sums = rank.take::<f64>(array, 1000);
    println!("\nsum {}", sums[999]);
    if variable("LOOPBACK_PROGRAM") == "sleep" {
        thread::sleep(Duration::from_secs(60));
        panic!("this process should have been killed");
    }
    rank.leave();
    assert_eq!(gpu.live_objects(), []);
}

#[test]
fn two_processes_sum() {
    let gpu = gpu(Schedule::Timed);
    let id = Loopback::new(gpu.driver());
    let id = (id.unique_id().expect("the hub starts"), id);
    let mut ranks = [0, 1].map(|rank| start(rank, &id.0, "leave"));
    for (child, output) in &mut ranks {
        assert_eq!(line(output, "sum "), "3");
        assert!(child.wait().expect("the process ends").success());
    }
}

#[test]
fn a_killed_process_is_a_failure_that_names_its_rank() {
    let gpu = gpu(Schedule::Timed);
    let loopback = Arc::new(Loopback::new(gpu.driver()));
    let id = loopback.unique_id().expect("the hub starts");
    let (mut child, mut output) = start(1, &id, "sleep");
    let rank = Rank::join((gpu.driver(), 0, loopback, &id, 0, 2));
    let array = rank.upload(&[1.0_f64; 1000]);
    rank.sum(array, 1000, DataType::F64);
    assert_eq!(rank.take::<f64>(array, 1000), [3.0; 1000]);
    line(&mut output, "sum ");
    // The other rank never makes this call.
    let array = rank.upload(&[1.0_f64; 1000]);
    rank.sum(array, 1000, DataType::F64);
    assert!(!rank.is_idle_after(Duration::from_millis(50)));
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let killed = Instant::now();
    let state = rank.state_after(|state| state != CommState::Success);
    assert_eq!(state, CommState::Failed(NcclCode::REMOTE_ERROR));
    assert_eq!(rank.last_error(), "the connection to rank 1 is lost");
    assert!(
        !rank.is_idle_after(Duration::from_millis(50)),
        "only an abort ends it"
    );
    rank.abort_and_free(array);
    assert!(killed.elapsed() < SOON);
    assert_eq!(gpu.live_objects(), []);
}
