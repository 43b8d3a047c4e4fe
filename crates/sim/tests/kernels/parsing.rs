//! Parser tests: accepted texts, errors, and damaged texts.

use millstream_sim::ptx::{ParamType, PtxErrorKind, parse, signatures};
use proptest::prelude::*;

const HEAD: &str = ".version 8.0\n.target sm_75\n.address_size 64\n";

/// Returns the error of a text, or the first refusal of a kernel in it.
fn problem(source: &str) -> String {
    let found = parse(source).map(|module| module.kernels().find_map(|k| k.refusal().cloned()));
    found
        .map_or_else(|error| error, |refusal| refusal.expect("it is refused"))
        .to_string()
}

/// Returns the error of a kernel with this body, which begins on line 5.
fn refused(body: &str) -> String {
    problem(&format!(
        "{HEAD}.visible .entry k(.param .u64 p) {{\n{body}\n}}\n"
    ))
}

#[test]
fn errors_name_the_line_and_the_thing() {
    for line in include_str!("parsing.txt").lines() {
        let (body, problem) = line.split_once(" | ").unwrap();
        let body = body.replace("\\n", "\n");
        assert_eq!(refused(&body), problem);
    }
    let source = format!("{HEAD}.visible .entry k() {{ ret;");
    assert_eq!(
        parse(&source).unwrap_err().to_string(),
        "line 4: the text ends where a statement was expected"
    );
}

#[test]
fn code_does_not_grow_without_bounds() {
    // A recursive function cannot be inlined.
    let source = format!(
        "{HEAD}.func f() {{ call f; call f; ret; }}\n.visible .entry k() {{ call f; ret; }}"
    );
    assert!(parse(&source).is_ok());
    // Each function calls the next one twice, so that inlining doubles the code at each level.
    let mut source = format!("{HEAD}.func f0() {{ ret; }}\n");
    for number in 1..40 {
        source += &format!(
            ".func f{number}() {{ call f{0}; call f{0}; ret; }}\n",
            number - 1
        );
    }
    source += ".visible .entry k() { call f39; ret; }";
    assert!(problem(&source).contains("more than 1048576 operations"));
}

#[test]
fn versions_and_targets() {
    let with = |version: &str, target: &str| {
        parse(&format!(
            ".version {version}\n.target {target}\n.address_size 64\n"
        ))
        .map(|_| ())
        .map_err(|error| error.kind)
    };
    assert_eq!(with("9.1", "sm_90a"), Ok(()));
    assert_eq!(with("3.2", "sm_35, debug"), Ok(()));
    assert_eq!(
        with("10.0", "sm_90"),
        Err(PtxErrorKind::UnsupportedVersion("10.0".to_owned()))
    );
    for target in [
        "gfx90a",
        "sm_",
        "sm_9",
        "sm_90b",
        "sm_a",
        "sm_90af",
        "sm_1200",
        "compute_90",
    ] {
        assert_eq!(
            with("8.0", target),
            Err(PtxErrorKind::UnsupportedTarget(target.to_owned()))
        );
    }
    assert!(matches!(
        parse("").unwrap_err().kind,
        PtxErrorKind::Truncated { .. }
    ));
}

#[test]
fn newer_targets_are_noted_and_lack_only_their_own_instructions() {
    let module = |target: &str, body: &str| {
        parse(&format!(
            ".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k() \
             {{\n{body}\nret; }}"
        ))
    };
    for target in ["sm_100", "sm_100f", "sm_120", "sm_120a", "sm_121, debug"] {
        let found = module(target, ".reg .b32 %r; add.u32 %r, %r, 1;").unwrap();
        let name = target.split(',').next().unwrap();
        let [note] = found.notes() else {
            panic!("{:?}", found.notes());
        };
        assert!(
            note.starts_with(&format!("the target {name} is newer than sm_90a")),
            "{note}"
        );
    }
    for target in ["sm_75", "sm_90", "sm_90a"] {
        assert!(module(target, "").unwrap().notes().is_empty());
    }
    assert_eq!(
        module("sm_90a", "frobnicate.u32 1;")
            .unwrap_err()
            .to_string(),
        "line 5: unknown opcode `frobnicate.u32`"
    );
    const NEWER: &str = "only devices newer than sm_90 have this instruction";
    for (instruction, is_newer) in [
        ("frobnicate.u32 1;", true),
        ("add.rn.f32x2 %d, %d, %d;", true),
        ("cvt.rn.satfinite.e2m1x2.f32 %h, %f, %f;", true),
        ("cvt.rz.satfinite.tf32.f32 %r, %f;", true),
        ("redux.sync.min.f32 %f, %f, -1;", true),
        ("min.f32 %f, %f, %f, %f;", true),
        (
            "atom.global.max.noftz.v2.f16 {%h, %h}, [%d], {%h, %h};",
            false,
        ),
        ("multimem.ld_reduce.global.add.u32 %r, [%d];", false),
        ("mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 1;", false),
        ("vmad.u32.u32.u32.po.shr7 %r, %r, %r, %r;", false),
    ] {
        let body =
            format!(".reg .f32 %f; .reg .b64 %d; .reg .b16 %h; .reg .b32 %r;\n{instruction}");
        let refusal = module("sm_100a", &body).unwrap();
        let refusal = refusal.kernel("k").unwrap().refusal().unwrap().to_string();
        assert_eq!(refusal.contains(NEWER), is_newer, "{refusal}");
    }
}

/// Each line of the file has the kernels that are refused, a colon, and the text.
#[test]
fn only_the_kernels_that_reach_an_unsupported_feature_are_refused() {
    for line in include_str!("refused.txt").lines() {
        let (expected, text) = line.split_once(": ").unwrap();
        let text = text.replace("WGMMA", "wgmma.fence.sync.aligned");
        let parsed = parse(&format!("{HEAD}{text} .entry plain() {{ ret; }}"));
        // An invalid text refuses the module, also behind an unsupported instruction.
        let Ok(module) = parsed else {
            assert_eq!(expected, "all", "{text}");
            continue;
        };
        let refused = module.kernels().filter(|kernel| kernel.refusal().is_some());
        let names: Vec<_> = refused.map(|kernel| kernel.name()).collect();
        assert_eq!(names.join(" "), expected, "{text}");
        for (name, note) in names.iter().zip(module.notes()) {
            assert!(note.starts_with(&format!("kernel `{name}` cannot run")));
        }
        assert_eq!(names.len(), module.notes().len());
    }
}

#[test]
fn parameters_are_limited_by_version_and_target() {
    let limit = |version: &str, target: &str| {
        let takes = |bytes: usize| {
            let source = format!(
                ".version {version}\n.target {target}\n.address_size 64\n.entry k(.param .b8 \
                 p[{bytes}]) {{ ret; }}"
            );
            let taken = parse(&source).map(|_| ()).map_err(|error| error.kind);
            assert_eq!(
                taken,
                signatures(&source).map(|_| ()).map_err(|error| error.kind)
            );
            taken
        };
        let limits = [256, 4352, 32_764];
        let limit = limits
            .into_iter()
            .rfind(|limit| takes(*limit).is_ok())
            .unwrap();
        let error = takes(limit + 1).unwrap_err();
        let PtxErrorKind::ParameterSpace {
            kernel,
            bytes,
            limit: said,
            reason,
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!((kernel.as_str(), bytes, said), ("k", limit + 1, limit));
        assert!(reason.contains("pass the address of a table"), "{reason}");
        limit
    };
    assert_eq!(limit("1.4", "sm_13"), 256);
    assert_eq!(limit("1.5", "sm_13"), 4352);
    assert_eq!(limit("8.0", "sm_90"), 4352);
    assert_eq!(limit("8.1", "sm_61"), 4352);
    assert_eq!(limit("8.1", "sm_70"), 32_764);
    assert_eq!(limit("9.0", "sm_120f"), 32_764);
}

#[test]
fn signatures_need_no_body_that_can_run() {
    let source = format!(
        "{HEAD}.visible .entry first(.param .u32 a, .param .align 8 .b8 b[24], .param .u8 c, \
         .param .u64 .ptr .global .align 16 d)\n\
         .maxntid 128, 1, 1\n{{ tcgen05.mma ¿ {{ nested }} [a, {{b}}]; }}\n\
         .visible .entry second() {{ ret; }}"
    );
    let found = signatures(&source).unwrap();
    assert_eq!(found.len(), 2);
    let layout: Vec<_> = found[0]
        .params
        .iter()
        .map(|p| (p.ty, p.offset, p.size, p.align))
        .collect();
    assert_eq!(
        layout,
        [
            (ParamType::U32, 0, 4, 4),
            (ParamType::B8, 8, 24, 8),
            (ParamType::U8, 32, 1, 1),
            (ParamType::U64, 40, 8, 8)
        ]
    );
    assert_eq!(found[0].param_bytes(), 48);
    assert_eq!(
        (found[1].name.as_str(), found[1].params.len()),
        ("second", 0)
    );
    assert!(parse(&source).is_err());
}

#[test]
fn variables_have_their_initial_bytes() {
    let source = format!(
        "{HEAD}.visible .global .align 4 .u32 answer = 42;\n\
         .const .align 4 .f32 table[2][3] = {{{{0f3F800000, 2.0}}, {{0f40400000}}}};\n\
         .global .align 16 .b8 room[100];\n.global .s16 many[] = {{1, -1, 0x10}};\n.shared .b8 \
         not_here[4];"
    );
    let module = parse(&source).unwrap();
    let variables = module.variables();
    let names: Vec<_> = variables
        .iter()
        .map(|v| (v.name.as_str(), v.size, v.align, v.constant))
        .collect();
    assert_eq!(
        names,
        [
            ("answer", 4, 4, false),
            ("table", 24, 4, true),
            ("room", 100, 16, false),
            ("many", 6, 2, false)
        ]
    );
    assert_eq!(variables[0].initial, 42u32.to_le_bytes());
    let table: Vec<f32> = variables[1]
        .initial
        .chunks(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    assert_eq!(table, [1.0, 2.0, 0.0, 3.0, 0.0, 0.0]);
    assert!(variables[2].initial.is_empty());
    assert_eq!(variables[3].initial, [1, 0, 0xff, 0xff, 0x10, 0]);
}

#[test]
fn sizes_that_would_exhaust_memory_are_refused() {
    for declaration in [
        ".global .b8 x[][99999999999999][9999999999] = {{1}};",
        ".global .b8 x[2][2147483647] = {{1}, {2}};",
        ".global .b64 x[9999999999999999999];",
        ".global .b64 x[999999999999][999999999999];",
        ".visible .entry k() { .local .b8 x[99999999]; ret; }",
        ".visible .entry k(.param .b8 x[99999999]) { ret; }",
        ".visible .entry k() { .reg .b32 %r<4294967295>; ret; } .visible .entry k2() { .reg .b32 \
         %r<4294967296>; ret; }",
    ] {
        assert!(!problem(&format!("{HEAD}{declaration}")).is_empty());
    }
    let deep = format!("{HEAD}.visible .entry k() {}", "{".repeat(100_000));
    assert!(matches!(
        parse(&deep).unwrap_err().kind,
        PtxErrorKind::TooLarge(_)
    ));
    let deep = format!(
        "{HEAD}.visible .entry k() {{ mov.u32 {}",
        "(".repeat(100_000)
    );
    assert!(matches!(
        parse(&deep).unwrap_err().kind,
        PtxErrorKind::TooLarge(_)
    ));
}

/// Returns the files of `kernels/`, and a text with calls and local memory.
fn texts() -> Vec<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut paths = vec![format!("{root}/tests/kernels/oracle/kernels.ptx")];
    let names = [
        "histogram",
        "mandel",
        "matmul",
        "nbody",
        "reduce",
        "saxpy",
        "stencil",
        "transpose",
        "vecadd",
    ];
    paths.extend(
        names
            .iter()
            .map(|name| format!("{root}/../../kernels/{name}.ptx")),
    );
    paths
        .into_iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A truncated or damaged text gives an error with a line of that text, or parses as another
    /// valid text, but never panics.
    #[test]
    fn damaged_texts_do_not_panic(
        which in 0usize..10,
        end in 0.0f64..1.2,
        damages in proptest::collection::vec((0.0f64..1.0, "[ -~]{0,3}", 0usize..12), 0..6),
    ) {
        let mut text = texts().swap_remove(which);
        for (at, insert, remove) in damages {
            let at = (at * text.len() as f64) as usize;
            let end = (at + remove).min(text.len());
            text.replace_range(at..end, &insert);
        }
        text.truncate((end * text.len() as f64) as usize);
        let lines = text.lines().count().max(1) as u32;
        if let Err(error) = signatures(&text) {
            prop_assert!(error.line >= 1 && error.line <= lines + 1, "{}", error);
        }
        if let Err(error) = parse(&text) {
            prop_assert!(error.line >= 1 && error.line <= lines + 1, "{}", error);
            prop_assert!(!error.to_string().is_empty());
        }
    }

    /// Words of PTX in any order never panic.
    #[test]
    fn words_in_any_order_do_not_panic(words in proptest::collection::vec(
        prop::sample::select(vec![
            "add.s32", "mov.u32", "%r1", "%rd1", "%p1", ",", ";", "[", "]", "{", "}", "(", ")",
            "@", "!", "|", "+", "-", "1", "0x",
            "0f3F800000", ".reg", ".b32", "%r<5>", "ld.global.u32", "st.shared.v2.f32", "bra",
            "L", ":", "call", "f", "ret",
            ".shared", ".align", "4", ".b8", "x[4]", "bar.sync", "setp.lt.s32",
            "shfl.sync.up.b32", ".branchtargets", "brx.idx", "=",
            "cvt.rn.f32.s32", "lop3.b32", "vote.sync.all.pred", ".pragma", "\"", "_",
            "mad.wide.u32", "atom.global.add.u32",
        ]), 0..40)) {
        let body = words.join(" ");
        let _ = parse(&format!("{HEAD}.visible .entry k(.param .u64 p) {{ .reg .b32 %r<9>; .reg \
        .b64 %rd<9>; .reg .pred %p<9>; {body} }}"));
        let _ = parse(&format!("{HEAD}{body}"));
        let _ = signatures(&body);
    }
}

#[test]
fn kernels_that_print_run_their_blocks_in_order() {
    let module = parse(include_str!("../ptx/files/system.ptx")).unwrap();
    assert!(module.kernel("prints").unwrap().is_ordered());
    assert!(!module.kernel("asserts").unwrap().is_ordered());
}
