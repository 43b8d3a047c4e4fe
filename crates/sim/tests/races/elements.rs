//! Floating-point accesses whose size differs from the declared elements, and other accesses.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use millstream_driver::{FloatOperand, FunctionHandle};
use millstream_sim::{ptx, race::Finding};

use crate::races::prelude::*;

/// Returns a kernel of two arrays, `%rd1` and `%rd2`, and a number, `%r1`.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64
.visible .entry k(.param .u64 k_x, .param .u64 k_y, .param .u32 k_n)
{{
.reg .pred %p<3>;
.reg .b16 %h<5>;
.reg .b32 %r<9>;
.reg .b64 %rd<19>;
.reg .f32 %f<9>;
.reg .f64 %d<9>;
.shared .align 8 .f32 box[2];
ld.param.u64 %rd1, [k_x];
ld.param.u64 %rd2, [k_y];
ld.param.u32 %r1, [k_n];
{body}
ret;
}}"
    )
}

/// Declares the element types of `x`, the first array, and `y`, the second.
fn declare(sim: &SimHarness, function: FunctionHandle, elements: [(&'static str, usize); 2]) {
    let operands = [(0, "x"), (1, "y")].map(|(param, name)| FloatOperand {
        param,
        name,
        element: elements[param].0,
        element_bytes: elements[param].1,
    });
    sim.gpu.note_float_operands(function, &operands);
}

const F32: (&str, usize) = ("f32", 4);
const F64: (&str, usize) = ("f64", 8);
const F16: (&str, usize) = ("f16", 2);

fn launch(sim: &SimHarness, body: &str, elements: [(&'static str, usize); 2]) {
    let function = sim.kernel(&kernel(body), "k");
    declare(sim, function, elements);
    let (stream, x, y) = (sim.stream(), zeros(sim, 1024), zeros(sim, 1024));
    let args = [Arg::Pointer(x), Arg::Pointer(y), Arg::U32(0)];
    for _ in 0..2 {
        sim.launch(function, (2, 64), stream, &args).unwrap();
    }
    sim.stream_synchronize(stream).unwrap();
}

fn found(config: &SimConfig, body: &str, elements: [(&'static str, usize); 2]) -> Vec<String> {
    let sim = SimHarness::new(config.clone());
    launch(&sim, body, elements);
    let mut findings = sim.gpu.findings();
    findings.retain(|finding| finding.kind == ReportKind::ElementType);
    let mut reports = sim.gpu.reports();
    reports.retain(|report| report.kind == ReportKind::ElementType);
    assert_eq!(reports.len(), findings.len());
    let param = |finding: &Finding| finding.problem.split('`').nth(5).unwrap().to_owned();
    findings.iter().map(param).collect()
}

fn assert_found(body: &str, elements: [(&'static str, usize); 2], params: &[&str]) {
    for config in [SimConfig::new(), SimConfig::new().kernel_race_check(true)] {
        assert_eq!(found(&config, body, elements), params, "{body}");
    }
    let off = SimHarness::new(SimConfig::new().race_check(false));
    launch(&off, body, elements);
    off.assert_clean();
}

#[test]
fn a_float_of_another_size_is_found_once_for_each_array() {
    let body =
        "ld.global.f32 %f1, [%rd1];\nld.global.f32 %f2, [%rd1+4];\nst.global.f32 [%rd2], %f1;";
    assert_found(body, [F64, F32], &["x"]);
    assert_found(body, [F32, F64], &["y"]);
    assert_found(body, [F64, F64], &["x", "y"]);
    assert_found(body, [F16, F16], &["x", "y"]);
    assert_found(body, [F32, F32], &[]);
    expect("element_type", |sim| launch(sim, body, [F32, F64]));
}

#[test]
fn every_way_to_the_array_is_followed() {
    let ways = [
        // A generic access, an index in a register, a loop's pointer, and a selected pointer.
        "ld.f64 %d1, [%rd1];",
        "cvta.to.global.u64 %rd3, %rd1;\nmul.wide.u32 %rd4, %r1, 8;\nadd.s64 %rd5, %rd3, %rd4;\nld.global.f64 %d1, [%rd5+8];",
        "mad.wide.u32 %rd3, %r1, 8, %rd1;\nld.global.f64 %d1, [%rd3];",
        "ld.global.u64 %rd6, [%rd2];\nshl.b64 %rd7, %rd6, 3;\nadd.s64 %rd8, %rd1, %rd7;\nst.global.f64 [%rd8], %d1;",
        "mov.u64 %rd3, %rd1;\nmov.u32 %r2, 0;\nAGAIN:\nld.global.f64 %d1, [%rd3];\nadd.s64 %rd3, %rd3, 8;\n\
         add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 3;\n@%p1 bra AGAIN;",
        "add.s64 %rd3, %rd1, 8;\nsetp.eq.u32 %p1, %r1, 0;\nselp.b64 %rd4, %rd3, %rd1, %p1;\nld.global.f64 %d1, [%rd4];",
        "mov.f64 %d1, 0d3FF0000000000000;\nred.global.add.f64 [%rd1], %d1;",
        "mov.f64 %d1, 0d3FF0000000000000;\natom.global.add.f64 %d2, [%rd1], %d1;",
        "st.volatile.global.f64 [%rd1], %d1;",
    ];
    for way in ways {
        assert_found(way, [F32, F32], &["x"]);
        assert_found(way, [F64, F32], &[]);
    }
}

#[test]
fn nothing_else_is_taken_for_one() {
    let bodies = [
        // Vectors, packed pairs, and types that are not floating-point.
        "ld.global.v2.f64 {%d1, %d2}, [%rd1];",
        "st.global.v4.f32 [%rd1], {%f1, %f2, %f3, %f4};",
        "mov.u32 %r2, 0;\nred.global.add.noftz.f16x2 [%rd1], %r2;",
        "ld.global.b64 %rd3, [%rd1];\nst.global.u64 [%rd2], %rd3;",
        "ld.global.u32 %r2, [%rd1];\nld.global.b16 %h1, [%rd1+2];\nld.global.s8 %r3, [%rd1];",
        // Not executed.
        "setp.ne.u32 %p1, %r1, 0;\n@%p1 ld.global.f64 %d1, [%rd1];",
        // An address in either array, in other memory, or loaded from memory.
        "setp.eq.u32 %p1, %r1, 0;\nselp.b64 %rd3, %rd1, %rd2, %p1;\nld.global.f64 %d1, [%rd3];",
        "mov.u64 %rd3, %rd1;\n@%p1 mov.u64 %rd3, %rd2;\nld.global.f64 %d1, [%rd3];",
        "mov.u64 %rd3, box;\nst.shared.f64 [%rd3], %d1;",
        "st.global.u64 [%rd1], %rd2;\nld.global.u64 %rd1, [%rd1];\nld.global.f64 %d1, [%rd1];",
    ];
    for body in bodies {
        assert_found(body, [F32, F32], &[]);
    }
    assert_found(
        "mov.b16 %h1, 0;\nred.global.add.noftz.f16 [%rd1], %h1;",
        [F16, F32],
        &[],
    );
    // Only parameters with declared elements are checked.
    let sim = SimHarness::new(SimConfig::new());
    let function = sim.kernel(&kernel("ld.global.f64 %d1, [%rd1];"), "k");
    sim.gpu.note_float_operands(function, &[]);
    let args = [Arg::Pointer(zeros(&sim, 64)), Arg::U64(0), Arg::U32(0)];
    sim.launch(function, (1, 1), sim.stream(), &args).unwrap();
    sim.context_synchronize().unwrap();
    sim.assert_clean();
}

/// Other programs may remove folders and files meanwhile.
fn ptx_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            ptx_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            files.push(path);
        }
    }
}

/// Checks that a correct declaration of element types is never reported.
#[test]
fn no_kernel_of_the_project_accesses_an_array_as_floats_of_two_sizes() {
    let mut files = Vec::new();
    ptx_files(
        &Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("../.."),
        &mut files,
    );
    let (mut params, mut kernels) = (0, 0);
    for file in files {
        // Some files are deliberately invalid.
        let text = fs::read_to_string(&file).unwrap_or_default();
        let Ok(module) = ptx::parse(&text) else {
            continue;
        };
        for kernel in module.kernels() {
            kernels += 1;
            let mut sizes: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
            for access in kernel.float_accesses() {
                sizes
                    .entry(access.param)
                    .or_default()
                    .insert(access.ty.bytes());
            }
            params += sizes.len();
            for (param, sizes) in sizes {
                assert!(
                    sizes.len() == 1,
                    "{}: {}, parameter {param}: {sizes:?}",
                    file.display(),
                    kernel.name()
                );
            }
        }
    }
    assert!(
        kernels > 100 && params > 100,
        "{params} arrays of {kernels} kernels"
    );
}

#[test]
fn a_load_whose_lanes_lie_apart_is_part_of_a_race() {
    // The first load is of the same memory, so that its region is at hand for the second.
    let body = "ld.global.u32 %r2, [%rd1];
mov.u32 %r3, %tid.x;
mad.lo.u32 %r4, %r3, 7, %r2;
and.b32 %r4, %r4, 63;
mul.wide.u32 %rd3, %r4, 4;
add.s64 %rd4, %rd1, %rd3;
ld.global.u32 %r5, [%rd4+256];
st.global.u32 [%rd2], %r5;";
    let sim = SimHarness::new(SimConfig::new());
    let function = sim.kernel(&kernel(body), "k");
    let (one, other, x, y) = (
        sim.stream(),
        sim.stream(),
        zeros(&sim, 1024),
        zeros(&sim, 1024),
    );
    let args = [Arg::Pointer(x), Arg::Pointer(y), Arg::U32(0)];
    sim.launch(function, (1, 64), one, &args).unwrap();
    let words = [0, 31, 37, 63];
    for word in words {
        sim.fill(x.offset(256 + 4 * word), 1, 4, other);
    }
    sim.context_synchronize().unwrap();
    assert_eq!(sim.gpu.findings().len(), words.len());
}
