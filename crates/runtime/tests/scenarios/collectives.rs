//! Collectives: every operation on every element type against plain Rust, and concurrent groups.
//! Tests named after two devices run on two GPUs as well, and are excluded by name on a machine
//! with one.

use millstream_collective::{Collectives, Reduce};

use crate::scenarios::{
    collective_ranks::{Element, Ranks, TYPES, devices, each_mut, reduced},
    prelude::*,
};

/// Runs a test on a simulated machine, and checks that nothing is reported or left.
fn on_machine(config: SimConfig, run: impl FnOnce(&Gpu)) {
    let _watch = Watch::over(format!("{config:?}"));
    let gpu = Gpu::new(config);
    run(&gpu);
    assert_nothing_left(&gpu);
}

#[test]
fn p07_collectives_of_two_devices_equal_plain_rust() {
    let number = AtomicUsize::new(0);
    everywhere(|harness| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        let ranks = Ranks::new(&[harness.device.clone(), harness.second()]);
        let len = [67, 300, 1][number % 3];
        ranks.check_types(number..number + 1, len, number / 3 % 2);
        if harness.if_simulated().is_none() {
            ranks.check_types(0..TYPES, 100_003, 0);
        }
    });
}

#[test]
fn p07_collectives_of_one_to_four_devices_equal_plain_rust_under_every_schedule() {
    let mixed = Links::all(Link::Pcie)
        .pair(0, 1, Link::NvLink)
        .pair(1, 2, Link::NoPeerAccess);
    let links = [
        Links::default(),
        mixed,
        Links::all(Link::Pcie),
        Links::all(Link::NoPeerAccess),
    ];
    let schedules = [Schedule::Timed, Schedule::Eager, Schedule::Lazy];
    let random = (0..9).map(Schedule::Random);
    for (number, schedule) in schedules.into_iter().chain(random).enumerate() {
        for ranks in 1..=4 {
            let links = links[(number + ranks) % links.len()].clone();
            let config = SimConfig::new().devices(4).schedule(schedule).links(links);
            on_machine(config, |gpu| {
                // With four ranks and 130 elements, the last have no chunk.
                let len = [130, 7, 401][(number + ranks) % 3];
                let own = Ranks::simulated(gpu, ranks);
                own.check_types(number + ranks..number + ranks + 1, len, number % 2);
            });
        }
    }
}

#[run_by(on_machine(SimConfig::new().devices(4)), |gpu|)]
fn p07_every_type_of_four_devices_equals_plain_rust() {
    let ranks = Ranks::simulated(gpu, 4);
    ranks.check_types(0..TYPES, 515, 0);
    ranks.check_types(0..TYPES, 2, 1);
    ranks.check_types(0..TYPES, 0, 0);
}

#[test]
fn p07_more_devices_than_one_launch_folds_equal_plain_rust() {
    for (ranks, links) in [
        (8, Links::default()),
        (11, Links::default()),
        (18, Links::all(Link::Pcie).pair(3, 9, Link::NoPeerAccess)),
    ] {
        let config = SimConfig::new().devices(18).links(links);
        on_machine(config.schedule(Schedule::Random(3)), |gpu| {
            let own = Ranks::simulated(gpu, ranks);
            for &reduce in f32::REDUCTIONS {
                own.check_reductions::<f32>(ranks * 64 + 9, 0, reduce);
            }
            own.check_copies::<f32>(5);
        });
    }
}

#[run_by(everywhere, |harness|)]
fn p07_collectives_of_two_devices_are_ordered_by_their_arrays() {
    let second = harness.second();
    let ranks = Ranks::new(&[harness.device.clone(), second.clone()]);
    let collectives = &ranks.collectives;
    for gated in [&harness.device, &second] {
        let gated = gated.stream().unwrap();
        let mut arrays = ranks.upload(&[vec![1_u32; 500], vec![2; 500]]);
        if on_gpu() {
            // Loads the kernels, which would wait for a gate (rule 53).
            let mut warm = ranks.upload(&[vec![0_u32; 500], vec![0; 500]]);
            let [a, b] = &mut warm[..] else {
                unreachable!("there are two")
            };
            collectives.all_reduce(&mut [a, b], Reduce::Sum).unwrap();
        }
        let at = usize::from(gated.device() == second);
        let gate = harness.gate(&gated);
        gated.fill(&mut arrays[at], 40).unwrap();
        let [a, b] = &mut arrays[..] else {
            unreachable!("there are two")
        };
        collectives
            .all_reduce(&mut [&mut *a, &mut *b], Reduce::Sum)
            .unwrap();
        // Overwritten on another stream after the collective has read and written it.
        let later = b.slice_mut(..250);
        ranks.streams[1].fill(later, 0).unwrap();
        let found = [
            ranks.streams[0].download(&*a).unwrap(),
            ranks.streams[1].download(&*b).unwrap(),
        ];
        // Other work of both devices is not held up.
        let free = second.stream().unwrap();
        let mut other = [
            harness.stream().upload(&[3_u32; 9]).unwrap(),
            free.zeros(9).unwrap(),
        ];
        let (source, target) = other.split_at_mut(1);
        free.copy(&source[0], &mut target[0]).unwrap();
        assert_eq!(free.values(&target[0]).unwrap(), [3; 9]);
        for pending in &found {
            harness.assert_pending(pending);
        }
        drop((arrays, other));
        gate.open();
        let sum = if at == 0 { 42 } else { 41 };
        let [a, b] = found.map(|pending| pending.wait().unwrap());
        assert_eq!(a, [sum; 500]);
        assert_eq!((&b[..250], &b[250..]), (&[0; 250][..], &[sum; 250][..]));
    }
}

#[run_by(everywhere, |harness|)]
#[ignore = "two GPUs and NCCL; MILLSTREAM_DEVICE=cuda:0 scenarios nccl_of_two --include-ignored"]
fn nccl_of_two_devices_adds_and_is_lost_at_its_deadline() {
    let devices = [harness.device.clone(), harness.second()];
    let collectives = Collectives::by_nccl(&devices).expect("NCCL connects two GPUs");
    let streams = devices.each_ref().map(|device| device.stream().unwrap());
    let mut a = streams[0].upload(&[1_u64; 1000]).unwrap();
    let mut b = streams[1].upload(&[2_u64; 1000]).unwrap();
    // Each doubles the sum, on both.
    for _ in 0..50 {
        collectives
            .all_reduce(&mut [&mut a, &mut b], Reduce::Sum)
            .unwrap();
    }
    for (stream, array) in streams.iter().zip([&a, &b]) {
        let found = stream.values(array).unwrap();
        assert_eq!(found, [3 << 49; 1000]);
    }
    collectives.set_deadline(Some(Duration::from_millis(300)));
    let gated = devices[1].stream().unwrap();
    let gate = harness.gate(&gated);
    gated.fill(&mut b, 7).unwrap();
    collectives
        .all_reduce(&mut [&mut a, &mut b], Reduce::Sum)
        .unwrap();
    let lost = streams[0].download(&a).and_then(Pending::wait);
    assert_is!(lost, Err(Error::CollectiveLost { .. }));
    gate.open();
    let lost = streams[1].download(&b).and_then(Pending::wait);
    assert_is!(lost, Err(Error::CollectiveLost { .. }));
    streams[1].fill(&mut b, 9).unwrap();
    assert_eq!(streams[1].values(&b).unwrap(), [9; 1000]);
}

#[test]
fn p08_two_groups_of_the_same_devices_in_two_threads_do_not_deadlock() {
    for schedule in schedules(1..4) {
        for links in [Links::default(), Links::all(Link::NoPeerAccess)] {
            let config = SimConfig::new().devices(3).schedule(schedule).links(links);
            on_machine(config, |gpu| {
                let mut opened = devices(gpu, 3);
                let first = Ranks::new(&opened);
                opened.rotate_left(1);
                opened.swap(0, 1);
                let second = Ranks::new(&opened);
                thread::scope(|scope| {
                    for ranks in [&first, &second] {
                        scope.spawn(|| in_turn(ranks));
                    }
                });
            });
        }
    }
}

#[run_by(everywhere, |harness|)]
fn p08_two_groups_of_two_devices_in_two_threads_do_not_deadlock() {
    let devices = [harness.device.clone(), harness.second()];
    let first = Ranks::new(&devices);
    let second = Ranks::new(&[devices[1].clone(), devices[0].clone()]);
    thread::scope(|scope| {
        for ranks in [&first, &second] {
            scope.spawn(|| in_turn(ranks));
        }
    });
}

/// Enqueues several collectives that depend on each other, without waiting in between.
fn in_turn(ranks: &Ranks) {
    const ROUNDS: usize = 4;
    let count = ranks.len();
    let collectives = &ranks.collectives;
    let values = ranks.values::<u32>(100 * count, None);
    let mut arrays = ranks.upload(&values);
    let mut expected = values;
    let mut scattered = ranks.upload(&ranks.values::<u32>(100, None));
    for round in 0..ROUNDS {
        let mut views: Vec<_> = arrays.iter_mut().collect();
        collectives.all_reduce(&mut views, Reduce::Sum).unwrap();
        collectives.broadcast(round % count, &mut views).unwrap();
        collectives
            .reduce_scatter(&arrays, &mut each_mut(&mut scattered), Reduce::Sum)
            .unwrap();
        collectives
            .all_gather(&scattered, &mut each_mut(&mut arrays))
            .unwrap();
        let summed = reduced(&expected, Reduce::Sum);
        let summed = reduced(&vec![summed; count], Reduce::Sum);
        expected = vec![summed; count];
    }
    ranks.assert_equal("the last sum", &arrays, &expected);
}
