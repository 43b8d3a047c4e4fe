//! Scenarios D: what is missing or malformed is an error that says what.

use std::{env, process::Command};

use millstream::{
    Device, Error, Problem, Select,
    kernel::{self, Param, ParamKind, Signature, Source},
};

use crate::{places::on_gpu, rig::everywhere};

/// Runs one of this program's own tests in a process with another environment; gives what it printed.
fn in_process(test: &str, environment: &[(&str, &str)]) -> String {
    let program = env::current_exe().expect("the test's own program");
    let mut command = Command::new(program);
    command.args(["--exact", test, "--include-ignored", "--nocapture"]);
    command.envs(environment.iter().copied());
    let output = command.output().expect("the process starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// Prints what opening gives; called in processes whose environment has been changed.
#[test]
#[ignore = "the inner half of the d04 tests"]
fn inner_open() {
    match Device::open(Select::Auto) {
        Ok(device) => println!("opened {device}: {}", device.note()),
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
        let text = in_process(INNER, &[("MILLSTREAM_DEVICE", "cuda:0")]);
        assert!(
            text.contains("refused: ") && text.contains("libcuda.so.1"),
            "{text}"
        );
        let text = in_process(INNER, &[("MILLSTREAM_DEVICE", "")]);
        assert!(
            text.contains("opened ") && text.contains("simulated, for there is no GPU"),
            "{text}"
        );
    }
}

#[test]
fn d04_hidden_devices_are_a_clear_error() {
    let hidden = ("CUDA_VISIBLE_DEVICES", "");
    let text = in_process(INNER, &[hidden, ("MILLSTREAM_DEVICE", "cuda:0")]);
    assert!(text.contains("refused: "), "{text}");
    let text = in_process(INNER, &[hidden, ("MILLSTREAM_DEVICE", "")]);
    assert!(text.contains("simulated, for there is no GPU"), "{text}");
}

#[test]
fn d04_a_malformed_choice_is_a_clear_error() {
    for value in ["gpu", "cuda", "cuda:", "cuda:x", "sim:sead=1", "sim:seed=x"] {
        let text = in_process(INNER, &[("MILLSTREAM_DEVICE", value)]);
        assert!(text.contains("refused: ") && text.contains(value), "{text}");
    }
    let text = in_process(INNER, &[("MILLSTREAM_DEVICE", "sim:seed=7")]);
    assert!(text.contains("opened ") && text.contains("sim:seed=7"), "{text}");
}

#[test]
fn d04_a_device_that_is_not_there_is_a_clear_error() {
    everywhere(|rig| {
        let error = if on_gpu() {
            Device::open(Select::Cuda(99)).unwrap_err()
        } else {
            Device::of(rig.simulated(), 99).unwrap_err()
        };
        assert!(error.to_string().contains("no device 99"), "{error}");
        assert!(
            rig.stream().is_idle().unwrap(),
            "the devices that are there still work"
        );
    });
}

const SAXPY: &str = include_str!("../../../../kernels/saxpy.ptx");
const SCALAR: ParamKind = ParamKind::Scalar { size: 4, align: 4 };
const SLICE: ParamKind = ParamKind::Slice { writable: false };

/// A declaration of one kernel; leaked, for declarations are `static`.
fn declare(ptx: &str, name: &'static str, params: &[ParamKind]) -> &'static Source {
    let params: Vec<Param> = params.iter().map(|&kind| Param { name: "p", kind }).collect();
    let kernels = vec![Signature {
        name,
        params: Vec::leak(params),
    }];
    let ptx: &'static str = Box::leak(ptx.into());
    Box::leak(Box::new(Source {
        module: "tested",
        ptx,
        kernels: Vec::leak(kernels),
    }))
}

/// Why the declaration does not load.
fn refusal(device: &Device, source: &'static Source) -> Problem {
    match kernel::load(device, source) {
        Err(Error::Misuse(misuse)) => misuse.problem().clone(),
        Err(other) => panic!("not a misuse: {other}"),
        Ok(_) => panic!("it was loaded"),
    }
}

#[test]
fn d05_ptx_that_does_not_load_says_where_and_why() {
    everywhere(|rig| {
        let right = [SCALAR, SCALAR, SLICE, SLICE];
        let bad = [
            ("", "saxpy"),
            ("this is not PTX", "saxpy"),
            (&SAXPY[..SAXPY.len() / 2], "saxpy"),
            (&SAXPY.replace("fma.rn.f32", "fma.rn.f33"), "saxpy"),
            (&SAXPY.replace("setp.ge.s32", "frobnicate.s32"), "frobnicate"),
        ];
        for (ptx, named) in bad {
            let problem = refusal(&rig.device, declare(ptx, "saxpy", &right));
            let text = problem.to_string();
            match problem {
                Problem::Ptx { detail } => assert!(
                    named != "frobnicate" || detail.contains(named) || on_gpu() && detail.contains("line"),
                    "{detail}"
                ),
                Problem::Signature { .. } => {}
                _ => panic!("{text}"),
            }
        }
        let newer = SAXPY.replace("8.8", "99.0");
        let problem = refusal(&rig.device, declare(&newer, "saxpy", &right)).to_string();
        assert!(
            problem.contains("99.0") || problem.to_lowercase().contains("version"),
            "{problem}"
        );
    });
}

#[test]
fn d05_a_signature_that_does_not_match_says_which_parameter() {
    everywhere(|rig| {
        let refuse =
            |name, params: &[ParamKind]| refusal(&rig.device, declare(SAXPY, name, params)).to_string();
        assert!(refuse("sxapy", &[]).contains("there are saxpy"));
        let text = refuse("saxpy", &[SCALAR, SCALAR, SLICE]);
        assert!(
            text.contains("3 parameters are declared, the entry has 4"),
            "{text}"
        );
        let text = refuse("saxpy", &[SCALAR, SLICE, SLICE, SLICE]);
        assert!(text.contains("saxpy_param_1"), "{text}");
        let right = declare(SAXPY, "saxpy", &[SCALAR, SCALAR, SLICE, SLICE]);
        assert!(kernel::load(&rig.device, right).is_ok());
    });
}
