//! Collectives that fail: usage errors, and lost devices.

use millstream_collective::{Collectives, Reduce};

use crate::scenarios::{
    collective_ranks::{Ranks, devices, each_mut, reduced},
    prelude::*,
};

#[test]
fn p07_each_misuse_is_a_typed_error_and_enqueues_nothing() {
    let gpu = Gpu::new(SimConfig::new().devices(3));
    let calls = Arc::new(Calls::over(gpu.driver()));
    let opened: Vec<_> = (0..3)
        .map(|ordinal| open(&calls, ordinal).unwrap())
        .collect();
    let foreign = Device::open_simulated(&Gpu::new(SimConfig::new()), 0).unwrap();
    let ranks = Ranks::new(&opened[..2]);
    let all = &ranks.collectives;
    let values = vec![vec![1_i32, 2, 3, 4], vec![5, 6, 7, 8]];
    let mut arrays = ranks.upload(&values);
    let mut targets = ranks.upload(&values);
    let float = ranks.streams[0].upload(&[1.0_f32; 4]).unwrap();
    let mut elsewhere = opened[2].stream().unwrap().upload(&[9_i32; 4]).unwrap();
    for stream in &ranks.streams {
        stream.synchronize().unwrap();
    }
    opened[2].stream().unwrap().synchronize().unwrap();
    calls.forget();
    let refused = |result: Result<()>, expected: &str| {
        let Err(Error::Usage(error)) = result else {
            panic!("expected the error {expected}, found {result:?}");
        };
        let text = error.to_string();
        assert!(text.contains(expected), "`{text}` is not `{expected}`");
        assert_eq!(error.location().unwrap().file(), file!());
    };
    let new = |devices: &[Device]| Collectives::new(devices).map(drop);
    refused(
        new(&[]),
        "Collectives::new: a group needs at least one device",
    );
    let twice = [opened[1].clone(), opened[0].clone(), opened[1].clone()];
    refused(new(&twice), "is both rank 0 and rank 2");
    refused(
        new(&[opened[0].clone(), foreign]),
        "belongs to another driver than rank 0",
    );

    let [a, b] = &mut arrays[..] else {
        unreachable!("there are two")
    };
    let [x, y] = &mut targets[..] else {
        unreachable!("there are two")
    };
    refused(
        all.all_reduce(&mut [&mut *a], Reduce::Sum),
        "all_reduce: 1 arrays were passed for 2 ranks",
    );
    refused(
        all.all_reduce(&mut [&mut *b, &mut *a], Reduce::Sum),
        "the array of rank 0 is on device 1",
    );
    refused(
        all.broadcast(0, &mut [&mut *a, &mut elsewhere]),
        "the array of rank 1 is on device 2",
    );
    refused(
        all.all_reduce(&mut [a.slice_mut(..), b.slice_mut(1..)], Reduce::Sum),
        "the array of rank 1 has 3 elements and that of rank 0 4; they must be equal",
    );
    refused(
        all.all_reduce(&mut [&mut *a, &mut *b], Reduce::Avg),
        "the average is not defined for elements of type `i32`",
    );
    refused(
        all.reduce_scatter(
            &[a.slice(..3), b.slice(..3)],
            &mut [x.slice_mut(..1), y.slice_mut(..1)],
            Reduce::Sum,
        ),
        "reduce_scatter: the array of rank 0 has 3 elements, which is not a multiple of 2 ranks",
    );
    refused(
        all.reduce_scatter(
            &[&*a, &*b],
            &mut [x.slice_mut(..2), y.slice_mut(..3)],
            Reduce::Sum,
        ),
        "the source of rank 1 has 4 elements and the target 3; the target must have 2",
    );
    refused(
        all.all_gather(&[&*a, &*b], &mut [&mut *x, &mut *y]),
        "the source of rank 0 has 4 elements and the target 4; the target must have 8",
    );
    refused(
        all.all_gather_uneven(&[4, 4, 4], &[&*a, &*b], &mut [&mut *x, &mut *y]),
        "all_gather_uneven: 3 lengths were passed for 2 ranks",
    );
    refused(
        all.all_gather_uneven(&[4, 3], &[&*a, &*b], &mut [&mut *x, &mut *y]),
        "the array of rank 1 has 4 elements; its length was passed as 3",
    );
    refused(
        all.all_gather_uneven(
            &[1, 2],
            &[a.slice(..1), b.slice(..2)],
            &mut [&mut *x, &mut *y],
        ),
        "the source of rank 0 has 1 elements and the target 4; the target must have 3",
    );
    refused(
        all.all_to_all(&[&*a, &*b], &mut [x.slice_mut(..), y.slice_mut(1..)]),
        "the source of rank 1 has 4 elements and the target 3; the target must have 4",
    );
    refused(
        all.broadcast(2, &mut [&mut *a, &mut *b]),
        "broadcast: there is no rank 2 among 2 ranks",
    );
    refused(
        all.reduce(7, &mut [&mut *a, &mut *b], Reduce::Sum),
        "reduce: there is no rank 7 among 2 ranks",
    );
    refused(
        all.group(|group| group.send(0, 2, &*a)),
        "send: there is no rank 2",
    );
    refused(
        all.group(|group| group.recv(2, 0, &mut *x)),
        "recv: there is no rank 2",
    );
    refused(
        all.group(|group| group.send(1, 0, &*a)),
        "send: the array of rank 1 is on device 0",
    );
    refused(
        all.group(|group| group.send(0, 1, &*a)),
        "group: rank 0 sends 1 arrays to rank 1, which receives 0 from it",
    );
    refused(
        all.group(|group| {
            group.send(0, 1, &*a)?;
            group.recv(1, 0, &mut *y)?;
            group.recv(0, 1, &mut *x)
        }),
        "rank 1 sends 0 arrays to rank 0, which receives 1",
    );
    refused(
        all.group(|group| {
            group.send(0, 1, a.slice(1..))?;
            group.recv(1, 0, &mut *y)
        }),
        "message 0 from rank 0 to rank 1 is sent as 3 elements of `i32` and received as 4 of `i32`",
    );
    refused(
        all.group(|group| {
            group.send(0, 1, &float)?;
            group.recv(1, 0, &mut *y)
        }),
        "is sent as 4 elements of `f32` and received as 4 of `i32`",
    );
    let counts = calls.counts();
    let enqueued: Vec<_> = counts
        .keys()
        .filter(|call| !call.contains("query"))
        .collect();
    assert!(enqueued.is_empty(), "enqueued: {enqueued:?}");
    ranks.assert_equal("the sources", &arrays, &values);
    ranks.assert_equal("the targets", &targets, &values);
    ranks.check_all::<i32>(9, 0);
}

#[test]
fn p07_the_loss_of_a_device_poisons_what_its_group_was_to_write() {
    for schedule in schedules(1..3) {
        for links in [Links::default(), Links::all(Link::NoPeerAccess)] {
            let _watch = Watch::over(format!("{schedule:?}, {links:?}"));
            let config = SimConfig::new().devices(3).schedule(schedule).links(links);
            let gpu = Gpu::new(config);
            let opened = devices(&gpu, 3);
            let ranks = Ranks::new(&opened);
            let rest = Ranks::new(&opened[1..]);
            let values = ranks.values::<u32>(300, None);
            let mut arrays = ranks.upload(&values);
            let mut gathered = ranks.upload(&ranks.values::<u32>(900, None));
            // Loads the kernels before the stream is held.
            rest.check_all::<u32>(1, 0);
            let hold = gpu.hold(ranks.streams[0].as_raw());
            fault(&ranks.streams[0]);
            // Orders the collective after the fault.
            ranks.streams[0].fill(arrays[0].slice_mut(..1), 1).unwrap();
            ranks
                .collectives
                .all_gather(&arrays, &mut each_mut(&mut gathered))
                .unwrap();
            ranks
                .collectives
                .all_reduce(&mut each_mut(&mut arrays), Reduce::Sum)
                .unwrap();
            let pending: Vec<_> = (1..3)
                .flat_map(|rank| {
                    let download = |array| ranks.streams[rank].download(array).unwrap();
                    [download(&arrays[rank]), download(&gathered[rank])]
                })
                .collect();
            drop(hold);
            for pending in pending {
                assert_is!(pending.wait(), Err(Error::Poisoned { .. }));
            }
            assert_lost(ranks.streams[0].synchronize());
            assert_lost(
                ranks
                    .collectives
                    .all_reduce(&mut each_mut(&mut arrays), Reduce::Sum),
            );

            // The others work on. What was computed from invalid contents is refused.
            let error = rest
                .collectives
                .all_reduce(&mut each_mut(&mut arrays[1..]), Reduce::Sum);
            assert_is!(error, Err(Error::Poisoned { .. }));
            // Also if only one is invalid, and nothing is enqueued.
            let valid = rest.values::<u32>(300, None);
            rest.streams[0]
                .upload_into(&valid[0], &mut arrays[1])
                .unwrap();
            let unchanged = rest.values::<u32>(600, None);
            let mut targets = rest.upload(&unchanged);
            let error = rest
                .collectives
                .all_gather(&arrays[1..], &mut each_mut(&mut targets));
            assert_is!(error, Err(Error::Poisoned { .. }));
            rest.assert_equal("the targets", &targets, &unchanged);
            // Overwritten as a whole, they are valid again.
            let values = rest.values::<u32>(450, None);
            let sources = rest.upload(&values);
            rest.collectives
                .all_gather(&sources, &mut each_mut(&mut gathered[1..]))
                .unwrap();
            rest.assert_equal("all_gather", &gathered[1..], &vec![values.concat(); 2]);
            let values = rest.values::<u32>(300, None);
            for (array, (stream, values)) in
                arrays[1..].iter_mut().zip(rest.streams.iter().zip(&values))
            {
                stream.upload_into(values, array).unwrap();
            }
            rest.collectives
                .all_reduce(&mut each_mut(&mut arrays[1..]), Reduce::Sum)
                .unwrap();
            let expected = vec![reduced(&values, Reduce::Sum); 2];
            rest.assert_equal("all_reduce", &arrays[1..], &expected);
        }
    }
}
