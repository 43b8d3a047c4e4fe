//! Kernels of CUDA's libraries, which do not race: those that CUB's device-wide reduction, scan and
//! sorts consist of, and reductions of cooperative groups. Their source is
//! `within/device_libraries.cu`.

use crate::{harness::dims, races::prelude::*};

const PTX: &str = include_str!("within/device_libraries.ptx");

/// The number of items: five tiles and a part of a sixth.
const ITEMS: u32 = 1500;
const TILES: u32 = 6;
/// The number of blocks of the kernels that divide the tiles evenly.
const BLOCKS: u32 = 3;
const THREADS: u32 = 64;
/// The digits of a pass of the sorts, which have five bits.
const DIGITS: u32 = 32;
const PASSES: u32 = 3;

/// Small numbers that are the same on every run.
fn items() -> Vec<u32> {
    (0..ITEMS).map(|item| item * 7919 % 30_011).collect()
}

fn sorted() -> Vec<u32> {
    let mut items = items();
    items.sort_unstable();
    items
}

fn simulated(options: &str) -> SimHarness {
    SimHarness::new(SimConfig::parse(&format!("sim:race=kernels{options}")).unwrap())
}

fn words(sim: &SimHarness, count: u32) -> DevicePtr {
    zeros(sim, count as usize * 4)
}

fn upload(sim: &SimHarness, items: &[u32]) -> DevicePtr {
    let bytes: Vec<u8> = items.iter().flat_map(|item| item.to_le_bytes()).collect();
    let (target, host) = (words(sim, items.len() as u32), Host::pageable(bytes.len()));
    host.write(&bytes);
    sim.upload_now(target, host).unwrap();
    sim.context_synchronize().unwrap();
    target
}

fn download(sim: &SimHarness, source: DevicePtr, count: u32) -> Vec<u32> {
    let host = Host::pageable(count as usize * 4);
    sim.download_now(host, source).unwrap();
    let bytes = host.read();
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|word| u32::from_le_bytes(*word)).collect()
}

fn launch(sim: &SimHarness, name: &str, (grid, block): (u32, u32), args: &[Arg]) {
    let stream = sim.stream();
    let dims = dims([grid, 1, 1], [block, 1, 1]);
    let kernel = sim.kernel(PTX, name);
    match name {
        "grid_reduce" => sim.launch_cooperative(kernel, &dims, stream, args),
        _ => sim.launch_shaped(kernel, &dims, stream, args),
    }
    .unwrap();
    sim.stream_synchronize(stream).unwrap();
}

#[test]
fn device_wide_reductions_do_not_race() {
    let sim = simulated("");
    let (items, sum) = (items(), words(&sim, 1));
    let (all, partial) = (upload(&sim, &items), words(&sim, BLOCKS));
    let [all, partial, out] = [all, partial, sum].map(Arg::Pointer);
    launch(
        &sim,
        "reduce_tiles",
        (BLOCKS, THREADS),
        &[all, partial, Arg::U32(ITEMS)],
    );
    launch(
        &sim,
        "reduce_tile",
        (1, THREADS),
        &[partial, out, Arg::U32(BLOCKS)],
    );
    assert_eq!(download(&sim, sum, 1), [items.iter().sum::<u32>()]);
    sim.assert_clean();
}

#[test]
fn reductions_of_cooperative_groups_across_the_grid_do_not_race() {
    let sim = simulated("");
    let (items, sum) = (items(), words(&sim, 1));
    let arrays = [upload(&sim, &items), sum, words(&sim, 5)].map(Arg::Pointer);
    let args: Vec<Arg> = arrays.into_iter().chain([Arg::U32(ITEMS)]).collect();
    launch(&sim, "grid_reduce", (5, THREADS), &args);
    assert_eq!(download(&sim, sum, 1), [items.iter().sum::<u32>()]);
    sim.assert_clean();
}

#[test]
fn device_wide_scans_do_not_race() {
    let sim = simulated("");
    let (items, out) = (items(), words(&sim, ITEMS));
    // A word of 64 bits for each tile and for a warp of padding.
    let temporary = words(&sim, 2 * (TILES + 32));
    let [all, result, temporary] = [upload(&sim, &items), out, temporary].map(Arg::Pointer);
    launch(
        &sim,
        "scan_init",
        (1, THREADS),
        &[temporary, Arg::U32(TILES)],
    );
    let args = [all, result, temporary, Arg::U32(ITEMS)];
    launch(&sim, "scan", (TILES, THREADS), &args);
    let sums = items.iter().scan(0, |sum, item| {
        let before = *sum;
        *sum += item;
        Some(before)
    });
    assert!(download(&sim, out, ITEMS).into_iter().eq(sums));
    sim.assert_clean();
}

#[test]
fn device_wide_sorts_do_not_race() {
    let sim = simulated("");
    let mut arrays = [upload(&sim, &items()), words(&sim, ITEMS)];
    let counts = BLOCKS * DIGITS;
    let spine = Arg::Pointer(words(&sim, counts));
    for pass in 0..PASSES {
        let [from, to] = arrays.map(Arg::Pointer);
        let (items, bit) = (Arg::U32(ITEMS), Arg::U32(pass * 5));
        launch(
            &sim,
            "sort_upsweep",
            (BLOCKS, THREADS),
            &[from, spine, items, bit],
        );
        launch(&sim, "sort_scan", (1, THREADS), &[spine, Arg::U32(counts)]);
        launch(
            &sim,
            "sort_downsweep",
            (BLOCKS, THREADS),
            &[from, to, spine, items, bit],
        );
        arrays.reverse();
    }
    assert_eq!(download(&sim, arrays[0], ITEMS), sorted());
    sim.assert_clean();
}

/// Sorts by sweeps whose blocks look back at the counts of the blocks before.
fn sort_by_sweeps(sim: &SimHarness) {
    let mut arrays = [upload(sim, &items()), words(sim, ITEMS)];
    for pass in 0..PASSES {
        let [from, to] = arrays.map(Arg::Pointer);
        let (items, bit) = (Arg::U32(ITEMS), Arg::U32(pass * 5));
        let [bins, lookback, counter] =
            [DIGITS, TILES * DIGITS, 1].map(|count| Arg::Pointer(words(sim, count)));
        launch(
            sim,
            "sort_histogram",
            (BLOCKS, THREADS),
            &[from, bins, items, bit],
        );
        launch(sim, "sort_sum", (1, DIGITS), &[bins]);
        let args = [from, to, bins, lookback, counter, items, bit];
        launch(sim, "sort_onesweep", (TILES, THREADS), &args);
        arrays.reverse();
    }
    assert_eq!(download(sim, arrays[0], ITEMS), sorted());
}

#[test]
fn device_wide_sorts_by_one_sweep_race_only_for_the_volatile_counts_that_they_look_back_at() {
    let strong = simulated(",volatile=strong");
    sort_by_sweeps(&strong);
    strong.assert_clean();
    let sim = simulated("");
    sort_by_sweeps(&sim);
    let reports = sim.gpu.reports();
    assert!(!reports.is_empty());
    for report in reports {
        assert_eq!(report.severity, Severity::Warning, "{report}");
        assert!(report.text.contains("volatile"), "{report}");
    }
}
