//! Reports about streams, devices, arrays and leaks: ids, suspects, timelines and the simulated
//! device's reports use the same names.

#![allow(unsafe_code, reason = "launches kernels that go out of bounds")]

use std::mem;

use millstream::{
    Check, Device, Pinned, Result, Stream,
    device::Health,
    driver::Driver,
    sim::{Gpu, ReportKind, Rules, Schedule, Severity, SimConfig},
};
use millstream_testkit::configurations::schedules;

use crate::{check::only, scenarios::prelude::assert_says};

millstream::kernels! {
    // SAFETY: the signature is that of vecadd.cu.
    pub(crate) unsafe mod sums from include_str!("../../../kernels/vecadd.ptx") {
        /// Adds arrays; `n` must be at most the length of each.
        pub(crate) unsafe fn vecadd(a: &[f32], b: &[f32], c: &mut [f32], n: u64);
    }
}

const HERE: &str = "crates/runtime/tests/reports.rs";

/// Adds arrays of 64 elements beyond their ends; returns the line that made the first array.
fn leave_arrays(stream: &Stream) -> Result<u32> {
    let kernels = sums::load(&stream.device())?;
    let (ones, made) = (stream.upload(&[1.0_f32; 64])?, line!());
    let mut sum = stream.zeros::<f32>(128)?;
    // SAFETY: violated on purpose; on the simulated device an out-of-bounds access is only an
    // error.
    unsafe { kernels.vecadd(stream, 128, &ones, &ones, &mut sum, 128) }?;
    assert!(stream.synchronize().is_err());
    Ok(made)
}

#[test]
fn an_out_of_bounds_kernel_is_reported_once_with_the_lines_of_launch_and_array() {
    for schedule in schedules(1..2) {
        let gpu = Gpu::new(SimConfig::new().schedule(schedule));
        let device = Device::open_simulated(&gpu, 0).unwrap();
        let stream = device.stream().unwrap();
        let made = leave_arrays(&stream).unwrap();
        let reports = gpu.reports();
        let [report] = &reports[..] else {
            panic!("one report: {reports:#?}");
        };
        assert_eq!(report.kind, ReportKind::KernelFault);
        for part in [
            format!("kernel `vecadd`, operation 5 on stream 1, `vecadd` at {HERE}:"),
            "of the PTX of `sums`".into(),
            "read of 4 bytes at 0x".into(),
            "which lie right behind the end of allocation".into(),
            format!(
                "(256 bytes, cuMemAllocAsync by operation 1 on stream 1, `allocate` \
                 at {HERE}:{made})"
            ),
        ] {
            assert_eq!(
                report.text.matches(&part).count(),
                1,
                "`{part}` in {report}"
            );
        }
    }
}

fn streams_in(text: &str) -> Vec<u64> {
    let rests = text.split("stream ").skip(1);
    let digits = rests.map(|rest| {
        rest.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
    });
    digits.filter_map(|digits| digits.parse().ok()).collect()
}

#[test]
fn a_stream_has_one_number_in_ids_debug_suspects_timelines_and_reports() {
    let gpu = Gpu::new(SimConfig::new().devices(2).schedule(Schedule::Lazy));
    for ordinal in [1, 0] {
        let device = Device::open_simulated(&gpu, ordinal).unwrap();
        let streams: [Stream; 3] = std::array::from_fn(|_| device.stream().unwrap());
        assert_eq!(streams.each_ref().map(Stream::id), [1, 2, 3]);
        for stream in &streams {
            assert_eq!(gpu.stream_number(stream.as_raw()), Some(stream.id()));
            let text = format!("{stream:?}");
            assert!(
                text.starts_with(&format!("Stream({} of device {ordinal} ", stream.id())),
                "{text}"
            );
        }
        let timeline = device.timeline().unwrap();
        let mut array = streams[2].zeros::<u32>(4).unwrap();
        streams[1].fill(&mut array, 1).unwrap();
        let trace = timeline.finish().unwrap();
        let of = |id| {
            trace
                .operations
                .iter()
                .any(|operation| operation.stream == id)
        };
        assert!(of(3) && of(2) && !of(1));
        let waits: Vec<_> = trace
            .operations
            .iter()
            .flat_map(|operation| &operation.waits)
            .collect();
        assert!(waits.iter().any(|(stream, _)| *stream == 3), "{waits:?}");
        let (svg, json) = (trace.to_svg(), trace.to_chrome_trace());
        assert!(
            [2, 3].iter().all(|id| streams_in(&svg).contains(id)),
            "{svg}"
        );
        assert!(!streams_in(&svg).contains(&1) && !streams_in(&json).contains(&1));
        assert!(
            json.contains(r#""name":"stream 3""#) && json.contains(r#""tid":3"#),
            "{json}"
        );

        let before = gpu.reports().len();
        leave_arrays(&streams[1]).unwrap();
        let report = &gpu.reports()[before];
        let place = format!("stream 2 of device {ordinal}, `vecadd` at");
        assert!(report.text.contains(&place), "{report}");
        assert_eq!(report.device, Some(ordinal as u32));
        let Health::Lost {
            cause, suspects, ..
        } = device.health()
        else {
            panic!("the device is lost");
        };
        assert!(cause.to_string().contains(&place), "{cause}");
        let named: Vec<_> = suspects
            .iter()
            .map(|suspect| (suspect.device, suspect.stream))
            .collect();
        assert_eq!(named, [(ordinal, 2)]);
    }
}

#[test]
fn foreign_streams_have_their_own_numbers() {
    let gpu = Gpu::new(SimConfig::new());
    let device = Device::open_simulated(&gpu, 0).unwrap();
    // SAFETY: the device keeps the context alive.
    let foreign = unsafe { gpu.stream_create(device.as_raw(), true, 0) }.unwrap();
    let stream = device.stream().unwrap();
    assert_eq!(gpu.stream_number(foreign), Some(1));
    assert_eq!(stream.id(), 2);
    leave_arrays(&stream).unwrap();
    assert_eq!(streams_in(&gpu.reports()[0].text), [2, 2]);
}

fn one_run() -> Check {
    only(&Check::new(), Schedule::Lazy).rules([Rules::observed()])
}

/// Returns the lines of a check's leak report.
fn left(program: impl Fn(&Device) -> Result<()>) -> Vec<String> {
    let failure = one_run().find(program).unwrap_err();
    let problem = failure.problem();
    let list = problem
        .strip_prefix("the closed device leaked:")
        .expect(problem);
    list.lines()
        .filter(|line| !line.is_empty())
        .map(|line| line.trim().to_owned())
        .collect()
}

/// Leaks one object of each kind; returns the line that made each and its expected description.
fn leak_all(device: &Device) -> Result<[(u32, &'static str); 6]> {
    let stream = device.stream()?;
    // The device caches the memory and the event for reuse.
    drop((stream.zeros::<u8>(1000)?, device.pinned::<u8>(5000)?));
    drop(stream.record()?);
    let (buffer, buffer_line) = (stream.zeros::<u32>(100)?, line!());
    let (pinned, pinned_line) = (device.pinned::<u8>(5000)?, line!());
    let (registered, registered_line) = (Pinned::register(device, vec![0_u64; 500]), line!());
    let (managed, managed_line) = (device.managed::<u8>(5000)?, line!());
    let (other, other_line) = (device.stream()?, line!());
    let (event, event_line) = (stream.record()?, line!());
    mem::forget((
        buffer,
        pinned,
        registered.expect("it is registered"),
        managed,
        other,
        event,
    ));
    Ok([
        (
            buffer_line,
            "device memory of 400 bytes (allocation 3, cuMemAllocAsync by operation 6 on stream 1, \
             `allocate`",
        ),
        (
            pinned_line,
            "page-locked memory of 8192 bytes (allocation 2, cuMemHostAlloc, `pinned`",
        ),
        (
            registered_line,
            "registered memory of 4000 bytes (allocation 4, cuMemHostRegister, `register`",
        ),
        (
            managed_line,
            "managed memory of 8192 bytes (allocation 5, cuMemAllocManaged, `managed`",
        ),
        (other_line, "stream 2 (`stream`"),
        (event_line, "event 6 (`record`"),
    ])
}

#[test]
fn a_leak_is_reported_with_its_kind_size_and_line() {
    let made = std::cell::Cell::new(None);
    let lines = left(|device| {
        made.set(Some(leak_all(device)?));
        Ok(())
    });
    let made = made.get().expect("it ran");
    let mut expected: Vec<_> = made
        .map(|(line, what)| format!("{what} at {HERE}:{line})"))
        .into();
    expected.push(
        "device 0 (Simulated GPU by the simulator) itself: a value that keeps it open was never \
         dropped"
            .into(),
    );
    assert_eq!(lines, expected);
}

#[test]
fn a_leaked_device_handle_is_reported() {
    let lines = left(|device| {
        // A device that never made a stream would leave no object.
        drop(device.stream()?);
        mem::forget(device.clone());
        Ok(())
    });
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(
        lines[0].contains("a value that keeps it open was never dropped"),
        "{lines:#?}"
    );
}

/// A kernel in which every thread writes the same value to one word.
const ALIKE: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry alike(.param .u64 alike_0)
{
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [alike_0];
    cvta.to.global.u64 %rd2, %rd1;
    st.global.u32 [%rd2], 1;
    ret;
}";

millstream::kernels! {
    // SAFETY: the signature is that above.
    unsafe mod notes from crate::reports::ALIKE {
        safe fn alike(out: &mut [u32]) requires out.len() >= 1;
    }
}

#[test]
fn notes_are_reports_but_not_failures() {
    let config = SimConfig::new()
        .kernel_race_check(true)
        .kernel_race_notes(true);
    let program = |device: &Device| {
        let stream = device.stream()?;
        let mut out = stream.zeros::<u32>(1)?;
        notes::load(device)?.alike(&stream, 64, &mut out)?;
        stream.synchronize()
    };
    one_run().config(config.clone()).run(program);
    let gpu = Gpu::new(config);
    program(&Device::open_simulated(&gpu, 0).unwrap()).unwrap();
    let grades: Vec<_> = gpu.reports().iter().map(|report| report.severity).collect();
    assert_eq!(grades, [Severity::Note]);
}

millstream::kernels! {
    // SAFETY: violated on purpose: `a` is `f32` in vecadd.cu. Every access still stays within 64
    // elements.
    unsafe mod wrong_sums from include_str!("../../../kernels/vecadd.ptx") {
        safe fn vecadd(a: &[f64], b: &[f32], c: &mut [f32], n: u64)
            requires a.len() >= n, b.len() >= n, c.len() >= n;
    }
    // SAFETY: the signature is that of vecadd.cu, with `a`'s elements as 32-bit integers.
    unsafe mod sums_of_words from include_str!("../../../kernels/vecadd.ptx") {
        safe fn vecadd(a: &[u32], b: &[f32], c: &mut [f32], n: u64)
            requires a.len() >= n, b.len() >= n, c.len() >= n;
    }
}

#[test]
fn an_array_declared_with_floats_of_another_size_fails_a_check() {
    let failure = one_run()
        .find(|device| {
            let stream = device.stream()?;
            let (a, b) = (
                stream.upload(&[1.0_f64; 64])?,
                stream.upload(&[1.0_f32; 64])?,
            );
            let mut c = stream.zeros::<f32>(64)?;
            let kernels = wrong_sums::load(device)?;
            for _ in 0..3 {
                kernels.vecadd(&stream, 64, &a, &b, &mut c, 64)?;
            }
            stream.synchronize()
        })
        .unwrap_err();
    let [report] = failure.reports() else {
        panic!("one report: {failure}");
    };
    assert_eq!(report.kind, ReportKind::ElementType);
    let expected = "kernel `vecadd` reads `f32` of 4 bytes where the array `a` is declared \
                    to hold `f64` of 8 bytes\n  \
                    operation 13 on stream 1, kernel `vecadd`, block (0, 0, 0), \
                    thread (0, 0, 0), line ";
    assert!(report.text.starts_with(expected), "{report}");
    assert_says(&report.text, &format!("`vecadd` at {HERE}:"));
}

#[test]
fn words_may_be_read_as_floats() {
    one_run().run(|device| {
        let stream = device.stream()?;
        let a = stream.upload(&[1.0_f32.to_bits(); 64])?;
        let b = stream.upload(&[1.0_f32; 64])?;
        let mut c = stream.zeros::<f32>(64)?;
        let kernels = sums_of_words::load(device)?;
        kernels.vecadd(&stream, 64, &a, &b, &mut c, 64)?;
        assert_eq!(stream.download(&c)?.wait()?, [2.0; 64]);
        Ok::<(), millstream::Error>(())
    });
}
