//! Scenarios D: missing devices and malformed inputs are errors that name the cause.

use millstream::kernel::{self, ModuleSource, Param, ParamKind, Signature};
use millstream::signature;

use crate::scenarios::prelude::*;

/// Prints the result of opening a device; run in child processes with a changed environment.
#[test]
#[ignore = "the inner half of the d04 tests"]
fn inner_open() {
    match Device::open(Select::Auto) {
        Ok(device) => println!("opened {device}: {}", device.selection_reason()),
        Err(error) => println!("refused: {error}"),
    }
}

const INNER: &str = "failures::inner_open";

#[test]
fn d04_no_gpu_is_a_clear_error_and_auto_simulates_and_says_so() {
    if let Err(error) = Device::open(Select::Cuda(0)) {
        assert!(!on_gpu(), "MILLSTREAM_DEVICE names a GPU: {error}");
        assert!(matches!(error, Error::Unavailable { .. }));
        assert!(error.to_string().contains("libcuda.so.1"), "{error}");
        let text = in_process(INNER, &[("MILLSTREAM_DEVICE", "cuda:0")]).text();
        assert_says(&text, "refused: ");
        assert_says(&text, "libcuda.so.1");
        let text = in_process(INNER, &[("MILLSTREAM_DEVICE", "")]).text();
        assert_says(&text, "opened ");
        assert_says(&text, "simulated, because there is no usable GPU");
    }
}

#[test]
fn d04_hidden_devices_are_a_clear_error() {
    let hidden = ("CUDA_VISIBLE_DEVICES", "");
    let text = in_process(INNER, &[hidden, ("MILLSTREAM_DEVICE", "cuda:0")]).text();
    assert!(text.contains("refused: "), "{text}");
    let text = in_process(INNER, &[hidden, ("MILLSTREAM_DEVICE", "")]).text();
    assert_says(&text, "simulated, because there is no usable GPU");
}

#[test]
fn d04_a_malformed_choice_is_a_clear_error() {
    for value in ["gpu", "cuda", "cuda:", "cuda:x", "sim:sead=1", "sim:seed=x"] {
        let text = in_process(INNER, &[("MILLSTREAM_DEVICE", value)]).text();
        assert!(text.contains("refused: ") && text.contains(value), "{text}");
    }
    let text = in_process(INNER, &[("MILLSTREAM_DEVICE", "sim:seed=7")]).text();
    assert_says(&text, "opened ");
    assert_says(&text, "sim:seed=7");
}

#[run_by(everywhere, |harness|)]
fn d04_a_device_that_is_not_there_is_a_clear_error() {
    let error = if on_gpu() {
        Device::open(Select::Cuda(99)).unwrap_err()
    } else {
        Device::open_simulated(harness.simulated(), 99).unwrap_err()
    };
    assert_says(&error, "cannot open device 99");
    assert!(
        harness.stream().is_idle().unwrap(),
        "the existing devices still work"
    );
}

const SAXPY: &str = include_str!("../../../../kernels/saxpy.ptx");
const SCALAR: ParamKind = ParamKind::Scalar { size: 4, align: 4 };
const SLICE: ParamKind = ParamKind::Slice { writable: false };

/// Declares one kernel. The declaration is leaked, because declarations are `static`.
fn declare(ptx: &str, name: &'static str, params: &[ParamKind]) -> &'static ModuleSource {
    let params: Vec<Param> = params
        .iter()
        .map(|&kind| Param { name: "p", kind })
        .collect();
    let kernels = vec![Signature {
        name,
        params: Vec::leak(params),
    }];
    let ptx: &'static str = Box::leak(ptx.into());
    Box::leak(Box::new(ModuleSource {
        module: "tested",
        origin: "a test's text",
        declared: "failures.rs",
        ptx,
        cuda: None,
        kernels: Vec::leak(kernels),
        variables: &[],
    }))
}

/// Returns the usage error with which the declaration fails to load.
fn refusal(device: &Device, source: &'static ModuleSource) -> UsageErrorKind {
    match kernel::load(device, source) {
        Err(Error::Usage(usage_error)) => usage_error.problem().clone(),
        Err(other) => panic!("not a usage error: {other}"),
        Ok(_) => panic!("the module loaded, although an error was expected"),
    }
}

/// Returns the error with which a correct declaration of `saxpy` fails to load from this PTX.
fn refused_text(device: &Device, ptx: &str) -> String {
    match refusal(
        device,
        declare(ptx, "saxpy", &[SCALAR, SCALAR, SLICE, SLICE]),
    ) {
        UsageErrorKind::Ptx { detail } => detail,
        other => panic!("an error in the PTX was expected, got {other:?}"),
    }
}

/// Returns the number of the first line that contains `what`.
fn line_of(ptx: &str, what: &str) -> usize {
    1 + ptx
        .lines()
        .position(|line| line.contains(what))
        .expect("the PTX contains the text")
}

#[run_by(everywhere, |harness|)]
fn d05_text_that_is_not_ptx_names_the_line() {
    let text = refused_text(&harness.device, "");
    assert!(text.contains("line 1") && text.contains("ends"), "{text}");
    let text = refused_text(&harness.device, "this is not PTX");
    assert!(text.contains("line 1") && text.contains("`this`"), "{text}");
    let malformed = SAXPY.replace("mov.u32 \t%r4, %ntid.x;", "mov.u32 \t%r4, , %ntid.x;");
    let text = refused_text(&harness.device, &malformed);
    let line = format!("line {}", line_of(&malformed, ", , "));
    assert!(text.contains(&line), "{line}: {text}");
}

#[run_by(once, |harness|)]
fn d05_a_kernel_that_the_simulated_device_cannot_run_is_refused_when_it_is_asked_for() -> Result<()>
{
    if on_gpu() {
        return Ok(());
    }
    let device = &harness.device;
    let text = format!("{SAXPY}\n.visible .entry tensor() {{ wgmma.fence.sync.aligned; }}");
    let line = format!("line {}", line_of(&text, "wgmma"));
    let names_it = |error: UsageErrorKind| {
        let UsageErrorKind::Ptx { detail } = error else {
            panic!("another error: {error}");
        };
        assert!(
            detail.contains("kernel `tensor`") && detail.contains(&line),
            "{detail}"
        );
    };
    kernel::load(
        device,
        declare(&text, "saxpy", &[SCALAR, SCALAR, SLICE, SLICE]),
    )?;
    names_it(refusal(device, declare(&text, "tensor", &[])));
    let module = device.module(Ptx::text("both.ptx", text.clone()))?;
    module.function::<signature!(f32, u32, &[f32], &mut [f32])>("saxpy")?;
    names_it(problem(module.function::<signature!()>("tensor")));
    Ok(())
}

#[run_by(everywhere, |harness|)]
fn d05_a_binary_in_place_of_generated_ptx_is_refused() {
    let load = |ptx: &str| kernel::load_generated(&harness.device, ptx, "saxpy", || "generated", 4);
    let cut = format!("{}\0{}", &SAXPY[..200], &SAXPY[200..]);
    for ptx in [
        "\x7fELF\x02\x01\x01",
        "\x7fELF\0",
        "P\u{fffd}U\u{fffd}",
        "",
        "saxpy",
        &cut,
    ] {
        match load(ptx) {
            Err(Error::Usage(usage_error)) => {
                assert_is!(usage_error.problem(), UsageErrorKind::Ptx { .. });
                assert!(
                    usage_error.to_string().starts_with("generated: "),
                    "{usage_error}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(
        load(SAXPY).is_ok(),
        "PTX without a trailing zero byte loads"
    );
}

#[run_by(everywhere, |harness|)]
fn d05_truncated_ptx_names_the_line_where_it_ends() {
    let body = SAXPY.find('{').expect("a body");
    for end in (body..SAXPY.rfind('}').expect("its end")).step_by(67) {
        let cut = &SAXPY[..end];
        let text = refused_text(&harness.device, cut);
        let last = cut.trim_end().lines().count();
        let named = (last - 1..=last + 1).any(|line| text.contains(&format!("line {line}")));
        assert!(named, "{last} lines: {text}");
    }
    assert_eq!(
        harness.stream().zeros::<u8>(3).unwrap().len(),
        3,
        "the device still works"
    );
}

#[run_by(everywhere, |harness|)]
fn d05_a_newer_version_or_target_is_named() {
    let text = refused_text(
        &harness.device,
        &SAXPY.replace(".version 8.8", ".version 99.0"),
    );
    assert!(text.contains("99.0"), "{text}");
    // A GPU's compiler rejects an unknown target; the simulated device rejects unknown
    // instructions and names the target.
    let newer = SAXPY.replace("sm_75", "sm_999");
    if on_gpu() {
        assert_says(&refused_text(&harness.device, &newer), "sm_999");
    } else {
        let params = &[SCALAR, SCALAR, SLICE, SLICE];
        assert!(kernel::load(&harness.device, declare(&newer, "saxpy", params)).is_ok());
        let unknown = newer.replace("setp.ge.s32", "frobnicate.s32");
        let text = refused_text(&harness.device, &unknown);
        let parts = ["`frobnicate", "only devices newer than sm_90"];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[run_by(everywhere, |harness|)]
fn d05_an_unsupported_opcode_is_named_with_its_line() {
    for (known, unknown) in [
        ("setp.ge.s32", "frobnicate.s32"),
        ("fma.rn.f32", "fma.rn.f33"),
    ] {
        let ptx = SAXPY.replace(known, unknown);
        let text = refused_text(&harness.device, &ptx);
        let line = format!("line {}", line_of(&ptx, unknown));
        assert!(text.contains(&line), "{line}: {text}");
        // A GPU's compiler words its messages differently.
        assert!(on_gpu() || text.contains(unknown), "{text}");
    }
}

#[run_by(everywhere, |harness|)]
fn d05_a_signature_that_does_not_match_says_which_parameter() {
    let refuse = |name, params: &[ParamKind]| {
        refusal(&harness.device, declare(SAXPY, name, params)).to_string()
    };
    assert!(refuse("sxapy", &[]).contains("there are saxpy"));
    let text = refuse("saxpy", &[SCALAR, SCALAR, SLICE]);
    assert_says(&text, "3 parameters are declared, but the entry has 4");
    for at in 0..4 {
        let mut wrong = [SCALAR, SCALAR, SLICE, SLICE];
        wrong[at] = if at < 2 { SLICE } else { SCALAR };
        let text = refuse("saxpy", &wrong);
        assert!(text.contains(&format!("`saxpy_param_{at}`")), "{text}");
    }
    let unaligned = ParamKind::Scalar { size: 4, align: 1 };
    let text = refuse("saxpy", &[unaligned, SCALAR, SLICE, SLICE]);
    assert_says(&text, "aligned to 1");
    assert_says(&text, "saxpy_param_0");
    let right = declare(SAXPY, "saxpy", &[SCALAR, SCALAR, SLICE, SLICE]);
    assert!(kernel::load(&harness.device, right).is_ok());
}
