//! Races between the threads of one kernel, in shared and in global memory; the kernels are in
//! `within/kernels.cu`.

use std::path::Path;

use millstream_driver::LaunchDims;
use millstream_sim::race::{Finding, Party};

use crate::{harness::dims, races::prelude::*};

const BYTES: usize = 4096;

fn config() -> SimConfig {
    SimConfig::parse("sim:race=kernels").unwrap()
}

const PTX: &str = include_str!("within/kernels.ptx");

/// Launches a kernel with `arrays` zeroed arrays and, if it has such a parameter, a number.
fn launch(sim: &SimHarness, name: &str, shape: (u32, u32), arrays: usize, number: Option<u32>) {
    launch_text(sim, (PTX, name), shape, arrays, number);
}

fn launch_text(
    sim: &SimHarness,
    (ptx, name): (&str, &str),
    (grid, block): (u32, u32),
    arrays: usize,
    number: Option<u32>,
) {
    let stream = sim.stream();
    let arrays: Vec<DevicePtr> = (0..arrays).map(|_| zeros(sim, BYTES)).collect();
    let pointers = arrays.iter().map(|array| Arg::Pointer(*array));
    let args: Vec<Arg> = pointers.chain(number.map(Arg::U32)).collect();
    let dims = LaunchDims {
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        shared_bytes: if name.starts_with("warp_sum") { 128 } else { 0 },
    };
    let kernel = sim.kernel(ptx, name);
    sim.launch_shaped(kernel, &dims, stream, &args).unwrap();
    sim.stream_synchronize(stream).unwrap();
}

/// A line of `within/kernels.txt`: whether the kernel races, its name, the numbers of blocks,
/// threads and arrays, and a number that it takes.
type Line = (bool, &'static str, (u32, u32), usize, Option<u32>);

fn lines() -> impl Iterator<Item = Line> {
    let lines = include_str!("within/kernels.txt").lines();
    lines.filter_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind @ ("racy" | "right"), name, shape, arrays, number @ ..] = &words[..] else {
            assert!(line.starts_with('#'), "{line}");
            return None;
        };
        let (grid, block) = shape.split_once('x').unwrap();
        let shape = (grid.parse().unwrap(), block.parse().unwrap());
        let number = number.first().map(|number| number.parse().unwrap());
        Some((
            *kind == "racy",
            *name,
            shape,
            arrays.parse().unwrap(),
            number,
        ))
    })
}

#[test]
fn kernels_without_an_order_have_the_expected_findings_and_ordered_ones_have_none() {
    for (races, name, shape, arrays, number) in lines() {
        let program = |sim: &SimHarness| launch(sim, name, shape, arrays, number);
        if !races {
            clean_with(config(), program);
            continue;
        }
        expect_with(config(), &format!("within/{name}"), program);
        // Without the option the accesses are not checked.
        let off = SimHarness::new(SimConfig::new());
        program(&off);
        off.assert_clean();
    }
}

/// V5: the synchronisation that is proposed, inserted into the PTX.
#[test]
fn v05_a_kernel_with_the_proposed_synchronisation_has_no_race() {
    let places = |findings: &[Finding]| -> BTreeSet<(u32, u32)> {
        let lines = findings.iter().map(|finding| {
            let line = |party: &Party| party.thread.as_ref().unwrap().ptx_line;
            let [one, other] = [&finding.later, finding.earlier.as_ref().unwrap()].map(line);
            (one.min(other), one.max(other))
        });
        lines.collect()
    };
    let mut without = BTreeSet::new();
    for (_, name, shape, arrays, number) in lines().filter(|line| line.0) {
        let found = |ptx: &str| {
            let sim = SimHarness::new(config());
            launch_text(&sim, (ptx, name), shape, arrays, number);
            sim.gpu.findings()
        };
        let findings = found(PTX);
        for finding in &findings {
            let proposal = finding.proposal.as_ref();
            let Some(repair) = proposal.and_then(|proposal| proposal.repair.as_ref()) else {
                without.insert(name);
                continue;
            };
            let left = places(&found(&repair.apply(PTX).unwrap()));
            let own = places(std::slice::from_ref(finding));
            assert!(left.is_disjoint(&own), "{name}: {finding}");
            assert!(
                left.is_subset(&places(&findings)),
                "{name}: {left:?} after {repair}"
            );
        }
    }
    // Updates and flags need atomics, and neighbours a barrier of the grid.
    let expected = [
        "count_both_ways",
        "count_plainly",
        "hand_volatile",
        "neighbours",
    ];
    assert!(without.iter().eq(&expected), "{without:?}");
}

/// V01: every thread fences, one takes a ticket between two barriers, and the last block fences and
/// reads.
#[test]
fn v01_each_thread_is_ordered_by_its_fences_around_the_ticket_of_one() {
    let found = |name| {
        let sim = SimHarness::new(config());
        launch(&sim, name, (4, 64), 3, None);
        let text = sim.gpu.findings().first().map(ToString::to_string);
        text.unwrap_or_default()
    };
    assert_eq!(found("ticket_fenced"), "");
    assert!(found("ticket_unreleased").contains("nothing orders the two blocks"));
    assert!(found("ticket_unacquired").contains("must call __threadfence()"));
}

#[test]
fn a_volatile_flag_is_no_race_where_volatile_accesses_are_strong() {
    let strong = SimConfig::parse("sim:race=kernels,volatile=strong").unwrap();
    clean_with(strong, |sim| launch(sim, "hand_volatile", (2, 1), 3, None));
}

#[test]
fn the_lenient_model_wants_no_acquire() {
    let lenient = SimConfig::parse("sim:race=kernels,acquire=lenient").unwrap();
    for (name, arrays) in [
        ("last_block_unacquired", 4),
        ("last_block_acquired_for_itself", 4),
        ("locked_unacquired", 2),
        ("locked_acquired_for_itself", 2),
        ("hand_unacquired", 3),
    ] {
        clean_with(lenient.clone(), |sim| {
            launch(sim, name, (2, 1), arrays, None)
        });
    }
    for (name, arrays) in [
        ("last_block_unfenced", 4),
        ("last_block_fenced_for_itself", 4),
        ("locked_unreleased", 2),
        ("hand_unreleased", 3),
    ] {
        let sim = SimHarness::new(lenient.clone());
        launch(&sim, name, (2, 1), arrays, None);
        assert!(!sim.gpu.findings().is_empty(), "{name}");
    }
}

#[test]
fn bytes_are_told_apart_and_lanes_of_one_instruction_race() {
    let all_write = |sim: &SimHarness| launch(sim, "all_write", (1, 96), 1, None);
    // All threads write the same value, which is a note.
    let notes = SimConfig::parse("sim:race=notes").unwrap();
    expect_with(notes, "within/all_write", all_write);
    clean_with(config(), all_write);
}

#[test]
fn one_block_among_many_is_not_forgotten() {
    for blocks in 2..20 {
        let sim = SimHarness::new(config());
        launch(&sim, "read_by_all", (blocks, 32), 2, None);
        assert_eq!(sim.gpu.findings().len(), 1, "{blocks} blocks");
    }
    for silent in 0..12 {
        let sim = SimHarness::new(config());
        launch(&sim, "read_by_most", (12, 32), 3, Some(silent));
        let findings = sim.gpu.findings();
        // The last block has read the location itself.
        assert_eq!(
            findings.len(),
            usize::from(silent < 11),
            "block {silent} is silent"
        );
        let reader = findings
            .first()
            .and_then(|finding| finding.earlier.as_ref()?.thread.clone());
        assert_eq!(reader.map_or(11, |thread| thread.block[0]), silent);
    }
}

#[test]
fn findings_are_in_parts_and_in_json() {
    let sim = SimHarness::new(config());
    launch(&sim, "shift_unsynced", (1, 64), 2, None);
    let findings = sim.gpu.findings();
    let finding = &findings[0];
    assert_eq!(finding.kind, ReportKind::SharedMemoryRace);
    assert_eq!(sim.gpu.reports()[0].text, finding.to_string());
    let json: serde_json::Value = serde_json::from_str(&finding.to_json()).unwrap();
    assert_eq!(json["kind"], "SharedMemoryRace");
    assert_eq!(json["earlier"]["thread"]["source"], "kernels.cu:9");
    assert_eq!(
        json["later"]["thread"]["block"],
        serde_json::json!([0, 0, 0])
    );
    assert_eq!(
        json["later"]["thread"]["write"],
        finding.later.thread.as_ref().unwrap().write
    );
    assert_eq!(json["memory"]["allocation_bytes"], 256);
    assert_eq!(json["severity"], "error");
    assert_eq!(json["class"], "one of the two reads the bytes");
}

#[test]
fn a_kernel_that_fails_tells_its_races_first() {
    let folder =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("../../kernels/transpose.ptx");
    let ptx = std::fs::read_to_string(folder).unwrap();
    let sim = SimHarness::new(config());
    // Without the barrier it races; with sizes too large it accesses memory out of bounds.
    let kernel = sim.kernel(&ptx.replace("bar.sync", "// bar.sync"), "transpose");
    let (one, other) = (zeros(&sim, BYTES), zeros(&sim, BYTES));
    let args = [
        Arg::Pointer(one),
        Arg::Pointer(other),
        Arg::U32(32),
        Arg::U32(33),
    ];
    let dims = dims([1, 2, 1], [32, 8, 1]);
    let stream = sim.stream();
    sim.launch_shaped(kernel, &dims, stream, &args).unwrap();
    sim.stream_synchronize(stream).unwrap_err();
    let kinds: Vec<_> = sim
        .gpu
        .findings()
        .iter()
        .map(|finding| finding.kind)
        .collect();
    assert!(kinds.contains(&ReportKind::SharedMemoryRace), "{kinds:?}");
    assert_eq!(kinds.last(), Some(&ReportKind::OutOfBounds));
}
