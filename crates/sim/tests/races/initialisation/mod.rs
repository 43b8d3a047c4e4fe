//! Uses of shared and local memory that was never written, and accesses that leave their variable.

use rand_core::RngCore as _;
use rand_pcg::Pcg32;

use crate::races::prelude::*;

/// Launches a kernel with the given body and 64 threads. Thread `%r1` has a word of global memory
/// at `%rd2`, four words of shared memory at `%r2`, and 64 bytes of local memory. Returns the
/// words.
fn launch(sim: &SimHarness, body: &str) -> Vec<u8> {
    let text = include_str!("frame.ptx").replace("BODY", body);
    let (stream, array) = (sim.stream(), zeros(sim, 1024));
    let dims = millstream_driver::LaunchDims {
        grid: [1; 3],
        block: [64, 1, 1],
        shared_bytes: 64,
    };
    let kernel = sim.kernel(&text, "k");
    sim.launch_shaped(kernel, &dims, stream, &[Arg::Pointer(array)])
        .unwrap();
    sim.read(array, 256, stream)
}

fn findings(options: &str, body: &str) -> Vec<String> {
    let sim = SimHarness::new(SimConfig::parse(options).unwrap());
    launch(&sim, body);
    sim.gpu.findings().iter().map(ToString::to_string).collect()
}

/// V3: the report names the line of the use and that of the load.
#[test]
fn v3_uninitialised_memory_that_decides_or_leaves_the_kernel_is_found_with_both_lines() {
    let config = SimConfig::parse("sim:init=on").unwrap();
    for (name, body) in [
        (
            "shared",
            "ld.shared.u32 %r3, [%r2+4];\nst.global.u32 [%rd2], %r3;",
        ),
        (
            "local",
            "ld.local.u8 %r3, [own+5];\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 bra end;\nend:",
        ),
    ] {
        let name = format!("within/uninitialised_{name}");
        expect_with(config.clone(), &name, |sim| drop(launch(sim, body)));
    }
}

#[test]
fn each_use_and_each_overrun_is_found_and_nothing_else() {
    let cases = include_str!("cases.txt").lines();
    for case in cases.filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (expected, body) = case.split_once(" | ").unwrap();
        let body = body.replace("LOAD", "ld.shared.u32 %r3, [%r2];");
        let body = body.replace("STORE", "st.global.u32 [%rd2], %r4;");
        let found = findings("sim:init=on", &body);
        let all = expected
            .split(" & ")
            .all(|part| found.concat().contains(part));
        let right = found.len() == 1 && all || expected == "clean" && found.is_empty();
        assert!(right, "{case}\n{found:#?}");
        assert_eq!(findings("sim", &body), [""; 0]);
        // The checks do not disturb each other.
        let with_races = findings("sim:init=on,race=kernels", &body);
        assert!(
            found.iter().all(|text| with_races.contains(text)),
            "{case}\n{with_races:#?}"
        );
    }
}

/// Returns a body of operations that move bits, or combine them with constants, so that each bit of
/// its output is a constant or one bit of memory, possibly inverted. Each thread has 16 bytes, and
/// has written each of them in the threads of a random mask; `others` is the value of the rest.
fn random_body(seed: u64, others: Option<u32>) -> String {
    let mut random = Pcg32::new(seed, 5);
    let mut below = |limit: u32| random.next_u32() % limit;
    let (space, base) = [("shared", "%r2"), ("local", "own")][seed as usize % 2];
    let mut body = "and.b32 %r3, %r1, 31; mov.u32 %r4, 1; shl.b32 %r4, %r4, %r3;".to_owned();
    for byte in 0..16 {
        let mask = below(u32::MAX) | below(u32::MAX) | below(u32::MAX);
        body += &format!("and.b32 %r5, %r4, {mask}; setp.ne.u32 %p1, %r5, 0;");
        body += &format!("@%p1 st.{space}.u8 [{base}+{byte}], {};", below(256));
        let rest = |value| format!("@!%p1 st.{space}.u8 [{base}+{byte}], {value};");
        body += &others.map_or(String::new(), rest);
    }
    for at in 0..4 {
        body += &format!("ld.{space}.u32 %r{}, [{base}+{}];", 8 + at, 4 * at);
    }
    for _ in 0..12 {
        let (d, a, b) = (8 + below(4), 8 + below(4), 8 + below(4));
        let (at, length, bits, sign) = (
            below(32),
            below(33),
            below(u32::MAX),
            ["u", "s"][below(2) as usize],
        );
        let width = [1, 2, 4][below(3) as usize];
        let place = format!("{base}+{}", below(16 / width) * width);
        body += &match below(12) {
            0 => format!("and.b32 %r{d}, %r{a}, {bits};"),
            1 => format!("or.b32 %r{d}, %r{a}, {bits};"),
            2 => format!("xor.b32 %r{d}, %r{a}, {bits};"),
            3 => format!("shl.b32 %r{d}, %r{a}, {at};"),
            4 => format!("shr.{sign}32 %r{d}, %r{a}, {at};"),
            5 => format!("prmt.b32 %r{d}, %r{a}, %r{b}, {};", bits & 0xffff),
            6 => format!("bfi.b32 %r{d}, %r{a}, %r{b}, {at}, {length};"),
            7 => format!("bfe.{sign}32 %r{d}, %r{a}, {at}, {length};"),
            8 => format!("shf.l.wrap.b32 %r{d}, %r{a}, %r{b}, {at};"),
            9 => format!("shfl.sync.bfly.b32 %r{d}, %r{a}, {at}, 31, -1;"),
            10 => format!("st.{space}.u{} [{place}], %r{a};", 8 * width),
            _ => format!("ld.{space}.{sign}{} %r{d}, [{place}];", 8 * width),
        };
    }
    body
}

/// The kernel runs with zeros and with ones in the place of what it has not written: an output is
/// undefined if it changes. The check must find those outputs, one thread after the other.
#[test]
fn random_outputs_are_undefined_if_and_only_if_uninitialised_bytes_change_them() {
    let mut counts = [0; 2];
    for seed in 0..100 {
        let store = "st.global.u32 [%rd2], %r8;";
        let outputs = |value| {
            let body = random_body(seed, Some(value)) + store;
            launch(&SimHarness::new(SimConfig::new()), &body)
        };
        let [zeros, ones] = [outputs(0), outputs(255)];
        for thread in 0..8 {
            let differs = zeros[4 * thread..][..4] != ones[4 * thread..][..4];
            let body = format!(
                "{}setp.eq.u32 %p2, %r1, {thread}; @%p2 {store}",
                random_body(seed, None)
            );
            let found = findings("sim:init=on", &body);
            assert_eq!(
                found.len(),
                usize::from(differs),
                "{seed}, {thread}: {found:#?}\n{body}"
            );
            counts[usize::from(differs)] += 1;
        }
    }
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
}
