//! Modules of many functions, names and statements: the cost of loading grows with their size, and
//! no nesting overflows the stack.

use std::time::{Duration, Instant};

use millstream_sim::ptx;

/// Returns a module with `kernel` as the body of its kernel, behind `declarations`.
fn module(declarations: &str, kernel: &str) -> String {
    format!(
        ".version 8.8\n.target sm_90\n.address_size 64\n{declarations}\n\
         .visible .entry k(.param .u64 p) {{ .reg .pred %p<3>; .reg .b32 %r<9>; \
         .reg .b64 %d<9>; .param .b32 a;\n{kernel}\nret; }}\n"
    )
}

/// Kinds of modules: declarations, and statements of a kernel. Both are repeated; `#` stands for
/// the number, and `$` for the number above it.
const KINDS: [[&str; 2]; 9] = [
    [
        ".func f$(.param .b32 x); .func f#(.param .b32 x) { .param .b32 a; call f$, (a); ret; }\n",
        "call f#, (a);\n",
    ],
    [
        ".func f#(.param .b32 x) { .param .b32 a; call f#, (a); ret; }\n",
        "call f#, (a);\n",
    ],
    [".func f#(.param .b32 x) { ret; }\n", "mov.u64 %d1, f#;\n"],
    [
        ".func g#(.param .b32 x) { ret; }\n.alias f#, g#;\n",
        "call f#, (a);\n",
    ],
    [
        ".visible .entry k#(.param .u64 p) { .reg .b32 %r; mov.u32 %r, %tid.x; ret; }\n",
        "",
    ],
    [
        ".global .align 4 .u32 v#;\n.global .align 8 .u64 w# = v#;\n",
        "ld.global.u32 %r1, [v#];\nld.global.u64 %d1, [w#];\n",
    ],
    [
        ".global .u32 o#;\n",
        "{ .shared .align 4 .b32 s; .global .align 4 .b32 g#; st.shared.b32 [s], %r1; }\n",
    ],
    [
        "",
        "setp.eq.u32 %p1, %r1, #;\n@%p1 bra L#;\nadd.u32 %r1, %r1, 1;\nL#:\n",
    ],
    // Addresses are passed on in front of their origin.
    ["", "mov.u64 a#, a$;\n"],
];

/// The number of repetitions of all modules whose time is taken together.
const COUNT: usize = 16_000;

/// Returns the time of loading modules of this kind with `count` repetitions each.
fn time_of([declaration, statement]: [&str; 2], count: usize) -> Duration {
    let repeated = |text: &str| -> String {
        let numbers = 0..count;
        let texts = numbers.map(|n| text.replace('#', &n.to_string()));
        texts
            .zip(1..)
            .map(|(text, n): (_, usize)| text.replace('$', &n.to_string()))
            .collect()
    };
    let last = format!(".global .u32 v;\n.func f{count}(.param .b32 x) {{ ret; }}\n");
    let registers = format!(".reg .b64 a<{}>;\n", count + 1);
    let origin = format!("mov.u64 a{count}, v;\n");
    let text = module(
        &(repeated(declaration) + &last),
        &(registers + &repeated(statement) + &origin),
    );
    let start = Instant::now();
    for _ in 0..COUNT / count {
        let (parsed, interface) = (ptx::parse(&text), millstream_ptx::interface(&text));
        assert!(interface.is_ok(), "{interface:?}");
        parsed.unwrap_or_else(|error| panic!("{declaration}{statement}: {error}"));
    }
    start.elapsed()
}

#[test]
fn the_time_to_load_a_module_grows_with_its_size_and_not_with_the_square() {
    for kind in KINDS {
        let mut grown = 0.0;
        // The square would be 16, and a busy machine may delay one of the two.
        let is_flat = (0..3).any(|_| {
            grown = time_of(kind, COUNT).as_secs_f64() / time_of(kind, COUNT / 16).as_secs_f64();
            grown < 2.0
        });
        assert!(
            is_flat,
            "{grown:.0} times as long as 16 small ones: {kind:?}"
        );
    }
}

#[test]
fn no_nesting_overflows_the_stack() {
    for (open, close) in [
        ("{", "}"),
        ("(", ")"),
        ("[", "]"),
        ("-", ""),
        ("!", ""),
        ("1 ? 2 : ", ""),
    ] {
        let nested = open.repeat(100_000) + "1" + &close.repeat(100_000);
        for text in [
            module("", &nested),
            module("", &format!("mov.b64 %d1, {nested};")),
            module("", &format!("call {nested}, k;")),
            module(&format!(".global .u32 v[2] = {nested};"), ""),
            module(&format!(".global .u32 v{nested};"), ""),
            module("", &format!("mov.u32 %r1, %r2{};", ".x".repeat(100_000))),
        ] {
            if let Ok(module) = ptx::parse(&text) {
                assert!(module.kernel("k").unwrap().refusal().is_some());
            }
            let _refused_or_skipped = millstream_ptx::interface(&text);
        }
    }
}

#[test]
fn vectors_that_the_type_has_not_are_refused() {
    for (vector, count) in [("v2", 2), ("v4", 4), ("v8", 8)] {
        for bits in [8, 16, 32, 64, 128] {
            let names: Vec<_> = (0..count).map(|at| format!("x{at}")).collect();
            let names = names.join(", ");
            let registers = format!(".reg .b{} {names};", bits.max(16));
            let accepted = |line: &str| {
                let line = line.replace("V", vector).replace("T", &format!("b{bits}"));
                let line = line.replace("X", &format!("{{{names}}}"));
                let text = module("", &format!("{registers} {line}"));
                ptx::parse(&text)
                    .is_ok_and(|module| module.kernel("k").unwrap().refusal().is_none())
            };
            let fits = bits * count <= 128 && count < 8 || bits * count == 256 && bits >= 32;
            for line in [
                "ld.global.V.T X, [%d1];",
                "ldu.V.T X, [%d1];",
                "st.shared.V.T [%d1], X;",
                "ld.global.V.T x0, [%d1];",
                "st.shared.V.T [%d1], x0;",
            ] {
                assert_eq!(
                    accepted(line),
                    line.contains('X') && fits && bits < 128,
                    "{line}: {vector}.b{bits}"
                );
            }
        }
    }
}
