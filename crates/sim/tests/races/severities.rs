//! Severities of races within a kernel: threads that write the same bytes are a note, every other
//! race is an error, in every execution order.

use millstream_sim::{Report, exec::RaceClass};

use crate::races::prelude::*;

fn config(notes: bool) -> SimConfig {
    SimConfig::new()
        .kernel_race_check(true)
        .kernel_race_notes(notes)
}

/// Thread numbers in blocks of 64: two of a warp, one of the next warp, one of another block.
const PLACES: [usize; 4] = [0, 1, 32, 64];

/// Returns a kernel in which one thread, given by number, runs each role; `%rd1` is an array.
fn kernel(roles: &[(usize, &str)]) -> String {
    let mut body = String::new();
    for (thread, role) in roles {
        body += &format!("setp.eq.u32 %p1, %r1, {thread};\n");
        for instruction in role
            .split(';')
            .filter(|instruction| !instruction.is_empty())
        {
            body += &format!("@%p1 {};\n", instruction.trim());
        }
    }
    format!(
        ".version 8.0\n.target sm_75\n.address_size 64
.visible .entry k(.param .u64 k_0)
{{
.reg .pred %p<2>;
.reg .b16 %h<2>;
.reg .b32 %r<9>;
.reg .b64 %rd<3>;
ld.param.u64 %rd1, [k_0];
mov.u32 %r2, %tid.x;
mov.u32 %r3, %ctaid.x;
mad.lo.u32 %r1, %r3, 64, %r2;
mov.u32 %r4, 0x01010101;
mov.u32 %r5, 0x02010101;
mov.b64 %rd2, 0x0101010101010101;
mov.u32 %r6, 0;
{body}ret;
}}"
    )
}

/// Returns the reports about one launch of a kernel.
fn reports(text: &str, notes: bool) -> Vec<Report> {
    reports_of(config(notes), text, (4, 64))
}

fn reports_of(config: SimConfig, text: &str, dims: (u32, u32)) -> Vec<Report> {
    let sim = SimHarness::new(config);
    launch(&sim, text, dims);
    sim.context_synchronize().unwrap();
    sim.gpu.reports()
}

fn launch(sim: &SimHarness, text: &str, dims: (u32, u32)) {
    let (stream, args) = (sim.stream(), [Arg::Pointer(zeros(sim, 256))]);
    sim.launch(sim.kernel(text, "k"), dims, stream, &args)
        .unwrap();
}

fn worst(reports: &[Report]) -> Option<Severity> {
    reports.iter().map(|report| report.severity).max()
}

fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(count - 1);
    let insert = |order: &Vec<usize>, at: usize| {
        let mut order = order.clone();
        order.insert(at, count - 1);
        order
    };
    let all = (0..count).flat_map(|at| shorter.iter().map(move |order| insert(order, at)));
    all.collect()
}

/// Asserts that the worst severity is the same for every assignment of the roles to threads, and
/// that all but notes are reported without notes.
fn assert_severity(roles: &[&str], worst: Option<Severity>) {
    for order in orders(PLACES.len()) {
        let places = order.iter().map(|at| PLACES[*at]);
        let roles: Vec<_> = places.zip(roles.iter().copied()).collect();
        let text = kernel(&roles);
        let reports = self::reports(&text, true);
        assert_eq!(self::worst(&reports), worst, "{roles:?}\n{reports:#?}");
        let others: Vec<_> = reports
            .into_iter()
            .filter(|report| report.severity != Severity::Note)
            .collect();
        assert_eq!(self::reports(&text, false), others, "{roles:?}");
    }
}

const ONE: &str = "st.global.u32 [%rd1], %r4";
const ERROR: Option<Severity> = Some(Severity::Error);
const NOTE: Option<Severity> = Some(Severity::Note);

#[test]
fn threads_that_write_the_same_bytes_are_a_note() {
    assert_severity(&[ONE, ONE], NOTE);
    assert_severity(&[ONE, ONE, ONE, ONE], NOTE);
    // The previous content of the bytes does not matter.
    assert_severity(
        &["st.global.u32 [%rd1], %r6", "st.global.u32 [%rd1], %r6"],
        NOTE,
    );
    assert_severity(&["st.global.u32 [%rd1], %r6", ONE], ERROR);
    // Each thread writes a different location.
    assert_severity(&[ONE, "st.global.u32 [%rd1+4], %r4"], None);
}

#[test]
fn accesses_of_different_widths_are_compared_byte_by_byte() {
    let (byte, half) = ("st.global.u8 [%rd1+1], %r5", "st.global.u16 [%rd1+2], %r5");
    let (double, pair) = (
        "st.global.u64 [%rd1], %rd2",
        "st.global.v2.u32 [%rd1], {%r4, %r5}",
    );
    assert_severity(&[ONE, byte, double], NOTE);
    // It stores 1 in bytes 2 and 3, as `ONE` does; byte 3 of the word in `%r5` is 2.
    assert_severity(&[ONE, half], NOTE);
    assert_severity(&["st.global.u32 [%rd1], %r5", half], ERROR);
    // The two words differ only in byte 3, which the 16-bit store does not write.
    assert_severity(
        &["st.global.u32 [%rd1], %r5", "st.global.u16 [%rd1], %r4"],
        NOTE,
    );
    assert_severity(&[double, pair], ERROR);
    assert_severity(&[ONE, pair], NOTE);
}

#[test]
fn an_atomic_reads() {
    let exchange = "atom.global.exch.b32 %r7, [%rd1], %r4";
    assert_severity(&[ONE, exchange], ERROR);
    assert_severity(&[ONE, "red.global.or.b32 [%rd1], %r4"], ERROR);
    // The compare-and-swap fails its comparison, and only reads.
    assert_severity(&[ONE, "atom.global.cas.b32 %r7, [%rd1], %r5, %r4"], ERROR);
    assert_severity(&[exchange, exchange], None);
}

#[test]
fn volatile_accesses_are_strong_on_request() {
    let roles = [
        (0, "st.volatile.global.u32 [%rd1], %r4"),
        (1, "ld.volatile.global.u32 %r7, [%rd1]"),
        (32, "atom.global.exch.b32 %r7, [%rd1], %r4"),
        (64, "st.volatile.global.u32 [%rd1], %r5"),
    ];
    let strong = SimConfig::parse("sim:race=kernels,volatile=strong").unwrap();
    let reports = |text: &str| reports_of(strong.clone(), text, (4, 64));
    assert_eq!(reports(&kernel(&roles)), []);
    let plain = kernel(&[roles[0], (1, "ld.global.u32 %r7, [%rd1]")]);
    assert_eq!(reports(&plain).len(), 1);
    let apart = [roles[1], (64, roles[2].1)];
    let by_default = reports_of(config(false), &kernel(&apart), (4, 64));
    let text = &by_default[0].text;
    assert!(!text.contains("one of the two is atomic"), "{text}");
}

#[test]
fn one_block_of_many_that_writes_something_else_is_found() {
    let text = |odd: usize| {
        let threads = (0..4).flat_map(|block| [64 * block, 64 * block + 1, 64 * block + 32]);
        let role = |thread| {
            if thread == odd {
                "st.global.u32 [%rd1], %r5"
            } else {
                ONE
            }
        };
        let roles: Vec<_> = threads.map(|thread| (thread, role(thread))).collect();
        kernel(&roles)
    };
    for odd in [0, 1, 32, 64, 65, 96, 192, 193, 224] {
        assert_eq!(worst(&reports(&text(odd), true)), ERROR, "thread {odd}");
    }
    assert_eq!(worst(&reports(&text(999), true)), NOTE);
}

/// Returns a kernel in which all threads run the steps with `*`, and one thread each other step.
fn steps(steps: &[(usize, &str)]) -> String {
    let roles: Vec<_> = steps
        .iter()
        .map(|(thread, step)| (*thread, *step))
        .collect();
    // The steps of all threads have no guard.
    kernel(&roles).replace("@%p1 *", "")
}

/// A barrier for some threads orders their writes, and not those of other threads.
#[test]
fn a_write_that_only_some_threads_know_of_is_compared_with_those_of_others() {
    let two = "st.global.u32 [%rd1], %r5";
    let text = |last: &'static str| {
        steps(&[
            (0, two),
            // The first two warps of a block.
            (0, "*setp.lt.u32 %p1, %r2, 64; *@%p1 bar.sync 1, 64"),
            (32, ONE),
            (64, last),
        ])
        .replace("%r3, 64", "%r3, 96")
    };
    for (last, worst) in [
        (ONE, Severity::Error),
        ("add.u32 %r7, %r7, 1", Severity::Note),
    ] {
        let reports = reports_of(config(true), &text(last), (1, 96));
        let found = self::worst(&reports).unwrap_or(Severity::Note);
        assert_eq!(found, worst, "{reports:#?}");
    }
}

/// Every value that a block wrote to a byte is compared, even if many blocks write the word.
#[test]
fn all_values_that_a_block_wrote_are_remembered() {
    let byte = |at: usize, register: &str| format!("st.global.u8 [%rd1+{at}], {register}");
    let (one, other) = (byte(0, "%r4"), byte(0, "%r6"));
    let others: Vec<_> = (0..12).map(|_| byte(1, "%r4")).collect();
    let mut all = vec![(0, &*other), (0, "*bar.warp.sync 0xffffffff"), (1, &*one)];
    all.extend(
        others
            .iter()
            .enumerate()
            .map(|(at, role)| (64 + at, role.as_str())),
    );
    for (last, expected) in [
        (&*one, true),
        (&*other, true),
        ("add.u32 %r7, %r7, 1", false),
    ] {
        let mut all = all.clone();
        all.push((128, last));
        let errors = reports(&steps(&all), true);
        assert_eq!(worst(&errors) == ERROR, expected, "{last}: {errors:#?}");
    }
}

#[test]
fn notes_say_so_in_text_and_json() {
    let write = |sim: &SimHarness| launch(sim, &kernel(&[(0, ONE), (1, ONE)]), (1, 64));
    expect_with(config(true), "within/note", write);
    clean_with(config(false), write);

    let sim = SimHarness::new(config(true));
    write(&sim);
    sim.context_synchronize().unwrap();
    let finding = &sim.gpu.findings()[0];
    assert_eq!(finding.class, Some(RaceClass::SameBytes));
    let json: serde_json::Value = serde_json::from_str(&finding.to_json()).unwrap();
    assert_eq!(json["severity"], "note");
    assert_eq!(json["class"], RaceClass::SameBytes.to_string());
}
