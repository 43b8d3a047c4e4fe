//! Texts of reports: out-of-bounds accesses, the names of streams and devices, live objects.

use millstream_sim::{Report, race::Label};

use crate::rules::prelude::*;

/// A kernel that writes a word at its address argument.
const WRITE: &str = include_str!("write.ptx");

/// Launches `write` on the word at `offset` of 64 bytes. Returns the error and all reports.
fn write_at(sim: &SimHarness, offset: i64) -> (String, Vec<Report>) {
    let (stream, memory) = {
        let _label = Label::new("input");
        (sim.stream(), sim.mem_alloc(64).unwrap())
    };
    let kernel = {
        let _label = Label::new("writers");
        sim.kernel(WRITE, "write")
    };
    {
        let _label = Label::new("first pass");
        let address = DevicePtr::from_raw(memory.as_raw().wrapping_add_signed(offset));
        sim.launch(kernel, (1, 1), stream, &[Arg::Pointer(address)])
            .unwrap();
    }
    let error = sim.stream_synchronize(stream).unwrap_err();
    (error.to_string(), sim.gpu.reports())
}

#[test]
fn an_access_out_of_bounds_is_reported_once_with_all_that_is_known() {
    for config in [SimConfig::new(), SimConfig::new().race_check(false)] {
        for (offset, bytes, place) in [
            (64, 4, "lie right behind the end of"),
            (72, 4, "lie 8 bytes behind the end of"),
            (-4, 4, "lie 4 bytes in front of"),
        ] {
            each_schedule_with(config.clone(), |sim| {
                let (error, reports) = write_at(sim, offset);
                let [report] = &reports[..] else {
                    panic!("expected one report: {reports:#?}");
                };
                assert_eq!(report.kind, ReportKind::KernelFault);
                let here = "at crates/sim/tests/rules/texts.rs:";
                let launched =
                    format!("kernel `write`, operation 1 on stream 1, `first pass` {here}");
                assert!(report.text.starts_with(&launched), "{report}");
                for part in [
                    "line 12 of the PTX of `writers` (write.cu:4) in block (0, 0, 0), thread (0, \
                     0, 0): ",
                    &format!("write of {bytes} bytes at 0x"),
                    &format!(", which {place} allocation 1 at 0x"),
                    &format!("(64 bytes, cuMemAlloc, `input` {here}"),
                ] {
                    assert_eq!(report.text.matches(part).count(), 1, "{part} in {report}");
                }
                assert_contains(&error, &report.text);
                if config == SimConfig::new() {
                    let [finding] = &sim.gpu.findings()[..] else {
                        panic!("expected one finding");
                    };
                    assert_eq!(finding.kind, ReportKind::OutOfBounds);
                    let thread = finding.later.thread.as_ref().unwrap();
                    assert_eq!((thread.ptx_line, thread.write), (12, true));
                    assert_eq!(finding.memory.as_ref().unwrap().allocation, 1);
                }
            });
        }
    }
}

#[test]
fn a_null_pointer_and_memory_of_the_host_are_called_that() {
    let sim = SimHarness::new(SimConfig::new());
    let kernel = sim.kernel(WRITE, "write");
    let stream = sim.stream();
    sim.launch(kernel, (1, 1), stream, &[Arg::U64(8)]).unwrap();
    sim.stream_synchronize(stream)
        .fails(ResultCode::ILLEGAL_ADDRESS);
    sim.assert_reported(
        ReportKind::KernelFault,
        &["write of 4 bytes at 0x8, which lie next to the null pointer"],
    );
    assert_eq!(sim.gpu.reports().len(), 1);

    let sim = SimHarness::new(SimConfig::new());
    let (kernel, stream) = (sim.kernel(WRITE, "write"), sim.stream());
    let host = Host::pageable(64).address();
    sim.launch(kernel, (1, 1), stream, &[Arg::Pointer(host)])
        .unwrap();
    sim.stream_synchronize(stream).unwrap_err();
    sim.assert_reported(
        ReportKind::KernelFault,
        &["lie in no memory that the device reaches"],
    );
}

#[run_by(by_default, |sim|)]
fn a_copy_out_of_bounds_is_reported_once_with_the_allocation() {
    let (stream, pinned) = (sim.stream(), sim.pinned(64));
    let memory = {
        let _label = Label::new("input");
        sim.mem_alloc(60).unwrap()
    };
    sim.upload(memory, pinned, stream)
        .fails(ResultCode::INVALID_VALUE);
    assert_eq!(sim.gpu.reports().len(), 1);
    sim.assert_reported(
        ReportKind::OutOfBounds,
        &[
            "reach 4 bytes beyond the end of allocation 2",
            "`input` at crates/sim/tests/rules/texts.rs:",
        ],
    );
}

#[run_by(by_default, |sim|)]
fn reports_have_no_control_characters() {
    let _label = Label::new("\x1b[2J");
    let (memory, pinned) = (sim.mem_alloc(60).unwrap(), sim.pinned(64));
    let streams = [sim.stream(), sim.stream()];
    // One report of a call, and one of the race checker.
    sim.upload(memory, pinned, streams[0]).unwrap_err();
    for stream in streams {
        sim.memset_async(memory, FillPattern::U8(1), 4, stream)
            .unwrap();
    }
    sim.context_synchronize().unwrap();
    let reports = sim.gpu.reports();
    assert_eq!(reports.len(), 2, "{reports:?}");
    for report in reports {
        let text = &report.text;
        assert!(
            !text.contains('\x1b') && text.contains("\u{fffd}[2J"),
            "{text:?}"
        );
    }
}

/// Enqueues two unordered fills of one array, on streams of one device or of two.
fn race(first: (&SimHarness, StreamHandle), second: (&SimHarness, StreamHandle)) -> Report {
    let pinned = first.0.pinned(64);
    for (sim, stream) in [first, second] {
        sim.fill(pinned.address(), 1, 64, stream);
    }
    let memory = first.0.mem_alloc(64).unwrap();
    first.0.upload(memory, pinned, first.1).unwrap();
    second.0.download(pinned, memory, second.1).unwrap_or(());
    first.0.context_synchronize().unwrap();
    second.0.context_synchronize().unwrap();
    first
        .0
        .gpu
        .reports()
        .last()
        .expect("no race was reported")
        .clone()
}

#[test]
fn streams_are_numbered_from_1_on_each_device_and_default_streams_have_names() {
    each_schedule(|sim| {
        let streams = [sim.stream(), sim.blocking_stream(), sim.stream()];
        let numbers = streams.map(|stream| sim.gpu.stream_number(stream));
        assert_eq!(numbers, [Some(1), Some(2), Some(3)]);
        sim.stream_destroy(streams[1]).unwrap();
        assert_eq!(
            sim.gpu.stream_number(sim.stream()),
            Some(4),
            "numbers are never given twice"
        );
        for default in [
            StreamHandle::LEGACY,
            StreamHandle::PER_THREAD,
            StreamHandle::from_raw(0),
        ] {
            assert_eq!(sim.gpu.stream_number(default), None);
        }
    });
    let sim = SimHarness::new(SimConfig::new());
    let memory = sim.mem_alloc(4).unwrap();
    for stream in [StreamHandle::PER_THREAD, sim.stream(), StreamHandle::LEGACY] {
        sim.fill(memory, 1, 4, stream);
    }
    sim.context_synchronize().unwrap();
    let texts: Vec<_> = sim
        .gpu
        .reports()
        .into_iter()
        .map(|report| report.text)
        .collect();
    assert!(texts[0].contains("operation 2 on stream 1,"), "{texts:#?}");
    assert!(texts[0].contains("operation 1 on per-thread default stream 1,"));
    assert!(texts[1].contains("operation 3 on the legacy default stream,"));
}

#[test]
fn a_context_that_is_made_anew_goes_on_counting_its_device_s_streams() {
    let sim = SimHarness::new(SimConfig::new());
    let old = sim.stream();
    sim.release_context().unwrap();
    let sim = SimHarness::over(sim.gpu.clone());
    let new = sim.stream();
    assert_eq!(sim.gpu.stream_number(new), Some(2));
    sim.stream_synchronize(old)
        .fails(ResultCode::INVALID_HANDLE);
    sim.assert_reported(ReportKind::DeadHandle, &["stream 1 "]);
}

#[test]
fn of_several_devices_every_report_names_the_one_that_is_meant() {
    each_schedule_with(SimConfig::new().devices(2), |sim| {
        let there = sim.on_device(1);
        let (here, other) = (sim.stream(), there.stream());
        assert_eq!(
            [here, other].map(|stream| sim.gpu.stream_number(stream)),
            [Some(1); 2]
        );
        let report = race((sim, here), (&there, other));
        for part in ["stream 1 of device 0", "stream 1 of device 1"] {
            assert!(report.text.contains(part), "{report}");
        }
        let error = there.mem_alloc(1 << 50).unwrap_err();
        assert!(error.to_string().ends_with("(on device 1)"), "{error}");
        let memory = there.mem_alloc(64).unwrap();
        let fill = there.memset_async(memory, FillPattern::U8(0), 65, other);
        fill.fails(ResultCode::INVALID_VALUE);
        let report = sim.gpu.reports().pop().unwrap();
        assert_eq!(report.device, Some(1));
        assert!(
            report
                .to_string()
                .contains("in cuMemsetD8Async on device 1: ")
        );
        assert!(report.text.contains("cuMemAlloc on device 1"), "{report}");
    });
    // With a single device, reports do not name it.
    let sim = SimHarness::new(SimConfig::new());
    sim.memset_async(DevicePtr::from_raw(0), FillPattern::U8(0), 1, sim.stream())
        .unwrap_err();
    assert_eq!(sim.gpu.reports()[0].device, None);
}

/// A wait during which another thread calls another device is still attributed to its own device.
#[test]
fn a_call_that_waited_is_reported_as_itself() {
    let sim = SimHarness::new(SimConfig::new().devices(2));
    let (stream, there) = (sim.stream(), sim.on_device(1));
    let kernel = sim.kernel(WRITE, "write");
    let hold = sim.hold(stream);
    sim.launch(kernel, (1, 1), stream, &[Arg::U64(8)]).unwrap();
    let error = std::thread::scope(|scope| {
        let waits = scope.spawn(|| sim.stream_synchronize(stream).unwrap_err());
        std::thread::sleep(std::time::Duration::from_millis(5));
        there.event();
        hold.release();
        waits.join().unwrap()
    });
    assert!(error.to_string().ends_with("(on device 0)"), "{error}");
}

#[run_by(by_default, |sim|)]
fn live_objects_are_listed_with_their_size_and_the_line_that_made_them() {
    let made = line!() + 1;
    let _label = Label::new("setup");
    let (stream, memory) = (sim.stream(), sim.mem_alloc(48).unwrap());
    let pooled = sim.mem_alloc_async(32, stream).unwrap();
    let (pinned, managed) = (sim.pinned(16), sim.managed(8));
    let event = sim.event();
    let module = sim.module_load(WRITE.as_bytes()).unwrap();
    drop(_label);
    let unnamed = sim.event();
    let listed =
        |gpu: &Gpu| -> Vec<String> { gpu.live_objects().iter().map(ToString::to_string).collect() };
    let site = format!("`setup` at crates/sim/tests/rules/texts.rs:{made}");
    assert_eq!(
        listed(&sim.gpu),
        [
            format!("device memory of 48 bytes (allocation 1, cuMemAlloc, {site})"),
            format!(
                "device memory of 32 bytes (allocation 2, cuMemAllocAsync by operation 1 on stream \
                 1, {site})"
            ),
            format!("page-locked memory of 16 bytes (allocation 3, cuMemHostAlloc, {site})"),
            format!("managed memory of 8 bytes (allocation 4, cuMemAllocManaged, {site})"),
            format!("stream 1 ({site})"),
            format!("event 1 ({site})"),
            "event 2".into(),
            format!("module 1 ({site})"),
        ]
    );
    let kinds: Vec<_> = sim
        .gpu
        .live_objects()
        .iter()
        .map(|object| object.kind)
        .collect();
    assert!(kinds.is_sorted() && kinds[2] == LiveKind::PageLockedMemory);
    sim.mem_free(memory).unwrap();
    sim.mem_free_async(pooled, stream).unwrap();
    sim.stream_synchronize(stream).unwrap();
    sim.host_free(pinned).unwrap();
    sim.mem_free(managed.address()).unwrap();
    sim.event_destroy(event).unwrap();
    sim.event_destroy(unnamed).unwrap();
    sim.stream_destroy(stream).unwrap();
    assert_eq!(listed(&sim.gpu), [format!("module 1 ({site})")]);
    sim.module_unload(module).unwrap();
    assert!(sim.gpu.live_objects().is_empty());
}
