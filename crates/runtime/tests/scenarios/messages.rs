//! Messages of errors and panics: they name the caller's line, the operand, the device and the
//! file.

use std::panic::Location;

use millstream::kernel::{self, ModuleSource, Param, ParamKind, Signature};

use crate::scenarios::{harness::somewhere, prelude::*};

/// Asserts that the result is a usage error that names the caller's line.
#[track_caller]
fn assert_here<T>(result: Result<T>) {
    let (usage_error, here) = (usage_error(result), Location::caller());
    let location = usage_error
        .location()
        .unwrap_or_else(|| panic!("the usage error has no location: {usage_error}"));
    assert_eq!(
        (location.file(), location.line()),
        (here.file(), here.line()),
        "{usage_error}"
    );
    let text = usage_error.to_string();
    assert!(text.ends_with(&format!("({location})")), "{text}");
}

#[run_by(everywhere, |harness|)]
fn usage_errors_name_the_line_of_the_call() {
    let (stream, kernels) = (harness.stream(), sums::load(&harness.device).unwrap());
    let mut a = stream.zeros::<f32>(1000).unwrap();
    let mut c = stream.zeros::<f32>(500).unwrap();
    let text = usage_error(a.try_slice(900..1100)).to_string();
    let start = "slice: range 900..1100 is out of bounds for an array of 1000 elements (";
    assert!(text.starts_with(start), "{text}");
    assert_here(a.try_slice(900..1100));
    assert_here(a.try_slice_mut(900..1100));
    assert_here(a.view().try_slice(900..1100));
    assert_here(a.view_mut().try_slice(900..1100));
    assert_here(a.view_mut().try_slice_mut(900..1100));
    assert_here(a.view().cast::<[u64; 3]>());
    assert_here(a.view_mut().cast::<[u64; 3]>().map_err(Rejected::into));
    let bytes = stream.zeros::<u8>(3).unwrap();
    assert_here(bytes.cast::<u16>().map_err(Rejected::into));
    assert_here(a.view_2d(3, 4));
    assert_here(a.view_2d_mut(3, 4));
    assert_here(a.view_2d_pitched(30, 40, 50));
    assert_here(a.view().view_2d_pitched(30, 40, 30));
    assert_here(a.view_mut().view_2d_pitched_mut(30, 40, 50));
    assert_here(a.view_2d(10, 100).unwrap().rect(5..11, ..));
    assert_here(a.view_2d_mut(10, 100).unwrap().rect(5..11, ..));
    assert_here(a.view_2d_mut(10, 100).unwrap().rect_mut(.., 5..101));
    assert_here(stream.zeros::<u64>(usize::MAX / 4));
    assert_here(harness.device.pinned::<u64>(usize::MAX / 4));
    assert_here(harness.device.managed::<u64>(usize::MAX / 4));
    let mut pinned = harness.device.pinned::<u8>(4).unwrap();
    assert_here(pinned.view_2d(3, 4));
    assert_here(pinned.view_2d_pitched_mut(3, 4, 5));
    let mut managed = harness.device.managed::<u8>(4).unwrap();
    assert_here(managed.read_range(3..5));
    assert_here(managed.write_range(3..5));
    assert_here(managed.try_slice(3..5));
    assert_here(kernels.vecadd(&stream, LaunchConfig::linear(1), &a, &a, &mut c, 1000));
    let wide = LaunchConfig::new([1; 3], [2048, 1, 1]);
    assert_here(kernels.vecadd(&stream, wide, &a, &a, &mut c, 1));
    let greedy = LaunchConfig::linear(1).with_shared_bytes(1 << 30);
    assert_here(kernels.vecadd(&stream, greedy, &a, &a, &mut c, 1));
}

/// Prints the caller's line, and runs a closure that must panic on it.
#[track_caller]
fn provoke(call: &mut dyn FnMut()) {
    let here = Location::caller();
    println!("\nto panic at {}:{}", here.file(), here.line());
    let panics = catch_unwind(AssertUnwindSafe(call));
    assert!(panics.is_err(), "the call at {here} did not panic");
}

/// Parses the file and line after the word `at`.
fn place(text: &str) -> (&str, u32) {
    let (_, place) = text.split_once(" at ").expect("a place");
    let mut parts = place.split(':');
    let (file, line) = (parts.next(), parts.next());
    (
        file.expect("a file"),
        line.and_then(|line| line.parse().ok()).expect("a line"),
    )
}

/// Panics by each method that can, and prints the lines.
#[test]
#[ignore = "the inner half of panics_name_the_line_of_the_call"]
fn inner_panics() {
    let harness = somewhere();
    let stream = harness.stream();
    let mut a = stream.zeros::<u8>(1000).unwrap();
    let mut managed = harness.device.managed::<u8>(1000).unwrap();
    provoke(&mut || drop(a.slice(900..1100)));
    provoke(&mut || drop(a.slice_mut(900..1100)));
    provoke(&mut || drop(a.view().slice(900..1100)));
    provoke(&mut || drop(a.view_mut().slice(900..1100)));
    provoke(&mut || drop(a.view_mut().slice_mut(900..1100)));
    provoke(&mut || drop(a.split_at_mut(1001)));
    provoke(&mut || drop(a.view_mut().split_at_mut(1001)));
    provoke(&mut || drop(a.chunks_mut(0)));
    provoke(&mut || drop(a.view_mut().chunks_mut(0)));
    provoke(&mut || drop(managed.slice(900..1100)));
    provoke(&mut || drop(managed.slice_mut(900..1100)));
    let mut view = a.view_2d_mut(10, 100).unwrap();
    provoke(&mut || drop(view.reborrow().split_rows_mut(11)));
    provoke(&mut || drop(view.reborrow().split_cols_mut(101)));
    provoke(&mut || drop(view.reborrow().tiles_mut(0, 1)));
    provoke(&mut || {
        let _ = LaunchConfig::tiled((1, 1), (0, 1));
    });
}

#[test]
fn panics_name_the_line_of_the_call() {
    let ended = in_process("messages::inner_panics", &[("RUST_BACKTRACE", "0")]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.output, ended.errors);
    let wanted = ended
        .output
        .lines()
        .filter(|line| line.starts_with("to panic at "));
    let panics = ended
        .errors
        .lines()
        .filter(|line| line.contains("panicked at "));
    let (wanted, panics): (Vec<_>, Vec<_>) =
        (wanted.map(place).collect(), panics.map(place).collect());
    assert_eq!((wanted.len(), panics.len()), (15, 15), "{}", ended.errors);
    for ((file, line), (panic_file, panic_line)) in wanted.into_iter().zip(panics) {
        // A call may span several lines.
        let is_there = file == panic_file && (line..line + 3).contains(&panic_line);
        assert!(
            is_there,
            "the panic was reported at {panic_file}:{panic_line}, expected {file}:{line}"
        );
    }
}

#[run_by(everywhere, |harness|)]
fn an_operand_of_another_device_is_named_and_the_devices_are_distinguished() {
    let (stream, kernels) = (harness.stream(), sums::load(&harness.device).unwrap());
    let a = stream.zeros::<f32>(4).unwrap();
    let line = line!() + 1;
    let simulated = || Device::simulated().unwrap();
    let [near, far] = [(); 2].map(|()| simulated());
    let mut elsewhere = near.stream().unwrap().zeros::<f32>(4).unwrap();
    let usage_error =
        usage_error(kernels.vecadd(&stream, LaunchConfig::linear(4), &a, &a, &mut elsewhere, 4));
    let UsageErrorKind::OtherDevice {
        operand: 2,
        name: Some("c"),
        operand_device,
        stream_device,
        advice: "",
    } = usage_error.problem()
    else {
        panic!("{usage_error}");
    };
    assert_ne!(operand_device, stream_device);
    let text = usage_error.to_string();
    assert!(text.contains("operand 2 (`c`) is on device 0 ("), "{text}");
    if on_gpu() {
        return;
    }
    // The harness's device was opened on another line. Devices opened on the same line are
    // distinguished by a number.
    assert_says(&operand_device, &format!(", opened at {}:{line}:", file!()));
    assert!(stream_device.contains("harness.rs:"), "{text}");
    let (one, other) = near.told_apart(&far);
    assert_ne!(one, other);
    for text in [one, other] {
        assert_says(&text, &format!("{}:{line}:", file!()));
        assert_says(&text, " as number ");
    }
    let (one, other) = near.told_apart(&near.clone());
    assert_eq!(
        one, other,
        "two handles of one device have the same description"
    );
}

#[run_by(everywhere, |harness|)]
fn a_kernel_of_another_device_is_distinguished_from_an_operand() {
    let elsewhere = Device::simulated().unwrap();
    let kernels = sums::load(&elsewhere).unwrap();
    let stream = harness.stream();
    let a = stream.zeros::<f32>(4).unwrap();
    let mut c = stream.zeros::<f32>(4).unwrap();
    let usage_error =
        usage_error(kernels.vecadd(&stream, LaunchConfig::linear(4), &a, &a, &mut c, 4));
    assert_is!(
        usage_error.problem(),
        UsageErrorKind::KernelElsewhere { .. }
    );
    let text = usage_error.to_string();
    assert!(
        text.starts_with("vecadd: the kernel is loaded on device 0 (Simulated GPU"),
        "{text}"
    );
    assert_says(&text, "load the module on the stream's device (");
}

const VECADD: &str = include_str!("../../../../kernels/vecadd.ptx");

millstream::kernels! {
    // SAFETY: no kernel of this module is launched.
    unsafe mod misnamed from include_str!("../../../../kernels/vecadd.ptx") {
        safe fn vecsub(a: &[f32]);
    }
}

millstream::kernels! {
    // SAFETY: no kernel of this module is launched.
    unsafe mod cut from CUT {
        safe fn vecadd(a: &[f32]);
    }
}

/// PTX without a version directive.
const CUT: &str = ".target sm_75\n";

#[run_by(everywhere, |harness|)]
fn load_errors_name_module_kernel_and_file() {
    let text = usage_error(misnamed::load(&harness.device).map(drop)).to_string();
    for part in [
        "vecsub: ",
        "kernel `vecsub` of module `misnamed` from \
         include_str!(\"../../../../kernels/vecadd.ptx\")",
        &format!("declared at {}:", file!()),
        "there are vecadd",
    ] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    let text = usage_error(cut::load(&harness.device).map(drop)).to_string();
    for part in ["cut: ", "line 2", "module `cut` from CUT, declared at "] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    // The declaration is correct, but the driver rejects the PTX, or the PTX lacks the kernel.
    let broken = VECADD.replace("ret;", "frobnicate.u32 1;");
    let broken = declare(Box::leak(broken.into_boxed_str()));
    let text = usage_error(kernel::load(&harness.device, broken).map(drop)).to_string();
    for part in [
        "tested: ",
        "cuModuleLoadDataEx",
        "line ",
        "module `tested` from a test, declared at here",
    ] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    let absent = kernel::load_generated(&harness.device, VECADD, "absent", || "sum of squares", 4);
    let text = usage_error(absent.map(drop)).to_string();
    for part in [
        "absent: ",
        "kernel `absent` of the module that was generated for `sum of squares`",
    ] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

/// Declares vecadd. The declaration is leaked, because declarations are `static`.
fn declare(ptx: &'static str) -> &'static ModuleSource {
    const SLICE: ParamKind = ParamKind::Slice { writable: true };
    const SCALAR: ParamKind = ParamKind::Scalar { size: 8, align: 8 };
    const PARAMS: &[Param] = &[
        Param {
            name: "a",
            kind: SLICE,
        },
        Param {
            name: "b",
            kind: SLICE,
        },
        Param {
            name: "c",
            kind: SLICE,
        },
        Param {
            name: "n",
            kind: SCALAR,
        },
    ];
    Box::leak(Box::new(ModuleSource {
        module: "tested",
        origin: "a test",
        declared: "here",
        ptx,
        cuda: None,
        kernels: &[Signature {
            name: "vecadd",
            params: PARAMS,
        }],
        variables: &[],
    }))
}
