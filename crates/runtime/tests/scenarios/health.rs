//! D3: the health of a lost device: the time of the loss, its cause, and the suspected operation.

#![allow(unsafe_code, reason = "launches kernels that fault")]

use millstream::{device::Health, error::Suspect};

use crate::scenarios::prelude::*;

/// Runs a test under every schedule, on two devices of one driver.
fn everywhere(run: impl Fn(&Gpu, &Device, &Device)) {
    for schedule in schedules(3..5) {
        let _watch = Watch::over(format!("{schedule:?}"));
        let gpu = Gpu::new(SimConfig::new().devices(2).schedule(schedule));
        let [first, second] = [0, 1].map(|ordinal| Device::open_simulated(&gpu, ordinal).unwrap());
        run(&gpu, &first, &second);
    }
}

/// Enqueues a kernel that reads an unallocated address; returns the line of the launch.
fn fault(stream: &Stream) -> u32 {
    let kernels = gate_kernel::load(&stream.device()).unwrap();
    let config = LaunchConfig::new([1, 1, 1], [1, 1, 1]);
    // SAFETY: violated on purpose; on the simulated device an unallocated address is only an error.
    let (line, launched) = (line!(), unsafe { kernels.gate(stream, config, 64) });
    launched.unwrap();
    line
}

fn suspects(device: &Device) -> Vec<Suspect> {
    match device.health() {
        Health::Lost {
            cause, suspects, ..
        } => {
            assert_eq!(cause.code(), ResultCode::ILLEGAL_ADDRESS);
            assert_eq!(device.lost(), Some(cause));
            suspects.to_vec()
        }
        health => panic!("the device is lost: {health:?}"),
    }
}

#[run_by(everywhere, |gpu, device, other|)]
fn d03_the_only_kernel_that_was_not_done_is_named_to_everyone() {
    let [s1, s2] = [device.stream().unwrap(), device.stream().unwrap()];
    let array = s1.upload(&[1_u8; 100]).unwrap();
    assert!(matches!(device.health(), Health::Alive));
    let hold = gpu.hold(s1.as_raw());
    let line = fault(&s1);
    let mut copy = s1.zeros::<u8>(100).unwrap();
    s1.copy(&array, &mut copy).unwrap();
    let downloads: Vec<_> = (0..4).map(|_| s2.download(&copy).unwrap()).collect();
    let waiters: Vec<_> = downloads
        .into_iter()
        .map(|download| thread::spawn(move || download.wait()))
        .collect();
    drop(hold);
    for waiter in waiters {
        let error = waiter.join().unwrap().unwrap_err();
        let text = error.to_string();
        let named = format!("; probably by `gate` at {}:{line}", file!());
        assert!(
            text.starts_with("the device is lost: ") && text.ends_with(&named),
            "{text}"
        );
        assert!(
            text.contains("kernel") && text.contains("gate"),
            "the simulated driver names what it ran: {text}"
        );
        let Error::DeviceLost { suspects, .. } = error else {
            panic!("{text}");
        };
        assert_eq!(suspects.len(), 1);
    }
    let [suspect] = suspects(device)[..] else {
        panic!(
            "exactly one operation must be suspected: {:?}",
            device.health()
        );
    };
    assert_eq!((suspect.label, suspect.location.line()), ("gate", line));
    assert_eq!((suspect.stream, suspect.ticket), (s1.id(), 3));
    assert!(matches!(other.health(), Health::Alive));
    let elsewhere = other.stream().unwrap();
    let array = elsewhere.upload(&[5_u8]).unwrap();
    assert_eq!(elsewhere.values(&array).unwrap(), [5]);
}

/// Records a fill, a kernel that faults, and a copy. Returns the graph and the line of the launch.
fn faulting_graph(device: &Device) -> (Graph, u32) {
    let (stream, mut line) = (device.stream().unwrap(), 0);
    let mut x = stream.zeros::<u8>(100).unwrap();
    let mut y = stream.zeros::<u8>(100).unwrap();
    let graph = device.record("faulting", |r| {
        let recorded = r.stream()?;
        recorded.fill(&mut x, 1)?;
        line = fault(&recorded);
        recorded.copy(&x, &mut y)
    });
    (graph.unwrap(), line)
}

#[run_by(everywhere, |_, device, other|)]
fn g13_a_stepwise_replay_names_the_kernel_that_faults_and_a_replay_the_graph() {
    let (graph, _) = faulting_graph(device);
    let stream = device.stream().unwrap();
    let (replay_line, replayed) = (line!(), graph.replay(&stream));
    replayed.unwrap();
    let text = stream.synchronize().unwrap_err().to_string();
    let named = format!(
        "; probably by graph `faulting` at {}:{replay_line}: `Graph::replay_stepwise` names \
         the operation",
        file!()
    );
    assert!(text.ends_with(&named), "{text}");
    let [suspect] = suspects(device)[..] else {
        panic!("only the graph was enqueued: {:?}", device.health());
    };
    assert_eq!((suspect.label, suspect.is_graph), ("faulting", true));

    let (graph, line) = faulting_graph(other);
    let stream = other.stream().unwrap();
    // It may fail already while its steps are enqueued.
    graph.replay_stepwise(&stream).ok();
    let text = stream.synchronize().unwrap_err().to_string();
    let named = format!("; probably by `gate` at {}:{line}", file!());
    assert!(text.ends_with(&named), "{text}");
}

#[run_by(everywhere, |gpu, device, _|)]
fn d03_of_several_kernels_all_streams_are_named_and_the_error_names_none() {
    let [s1, s2, s3] = std::array::from_fn(|_| device.stream().unwrap());
    let hold = [&s1, &s2].map(|stream| gpu.hold(stream.as_raw()));
    fault(&s1);
    let line = fault(&s2);
    fault(&s2);
    let array = s3.zeros::<u8>(100).unwrap();
    drop(hold);
    let error = s1.synchronize().unwrap_err();
    assert!(!error.to_string().contains("probably"), "{error}");
    let named: Vec<_> = suspects(device)
        .iter()
        .map(|suspect| (suspect.label, suspect.location.line(), suspect.stream))
        .collect();
    assert_eq!(named, [("gate", line, s1.id()), ("gate", line, s2.id())]);
    drop(array);
}

#[run_by(everywhere, |gpu, device, _|)]
fn d03_a_kernel_that_was_seen_done_is_not_suspected() {
    let stream = device.stream().unwrap();
    let kernels = sums::load(device).unwrap();
    let ones = stream.upload(&[1.0_f32; 10]).unwrap();
    let mut sum = stream.zeros::<f32>(10).unwrap();
    kernels
        .vecadd(&stream, 10, &ones, &ones, &mut sum, 10)
        .unwrap();
    assert_eq!(stream.values(&sum).unwrap(), [2.0; 10]);
    let hold = gpu.hold(stream.as_raw());
    fault(&stream);
    drop(hold);
    stream.synchronize().unwrap_err();
    let labels: Vec<_> = suspects(device)
        .iter()
        .map(|suspect| suspect.label)
        .collect();
    assert_eq!(labels, ["gate"]);
}

#[test]
fn d03_a_kernel_is_named_when_the_event_right_behind_it_tells_of_the_loss() {
    let gpu = Gpu::new(SimConfig::new());
    let calls = Arc::new(Calls::over(gpu.driver()));
    let device = open(&calls, 0).unwrap();
    let [s1, s2] = [device.stream().unwrap(), device.stream().unwrap()];
    let kernels = sums::load(&device).unwrap();
    let ones = s1.upload(&[1.0_f32; 10]).unwrap();
    let mut sum = s1.zeros::<f32>(10).unwrap();
    let mut add = |stream: &Stream| {
        let launched = kernels.vecadd(stream, 10, &ones, &ones, &mut sum, 10);
        launched.unwrap();
        line!() - 2
    };
    add(&s1);
    add(&s2);
    s1.synchronize().unwrap();
    s2.synchronize().unwrap();
    let error = |call| DriverError::new(call, ResultCode::ILLEGAL_ADDRESS);
    calls.fail(move |call| (call == "event_record").then(|| error(call)));
    let line = add(&s2);
    let named: Vec<_> = suspects(&device)
        .iter()
        .map(|suspect| (suspect.label, suspect.location.line(), suspect.stream))
        .collect();
    assert_eq!(named, [("vecadd", line, s2.id())]);
}
