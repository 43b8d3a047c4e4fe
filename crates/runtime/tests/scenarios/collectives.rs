//! Collectives: every operation on every element type against plain Rust, to the bit; concurrent
//! groups; usage errors; lost devices. Tests named after two devices run on two GPUs as well, and
//! are excluded by name on a machine with one.

#![allow(unsafe_code, reason = "launches a kernel that faults")]

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use millstream::{
    Buffer, CollectiveElement, Collectives, Device, Error, LaunchConfig, Reduce, Result, Stream,
    driver::Driver,
    sim::{Gpu, Link, Links, Schedule, SimConfig},
};

use crate::{
    calls::Calls,
    harness::{Watch, assert_nothing_left, everywhere, gate_kernel},
};

/// An element type with the arithmetic of plain Rust.
trait Element: CollectiveElement + Debug {
    const REDUCTIONS: &'static [Reduce];

    /// Returns an element of a rank's array. Sums and products of them depend on the order.
    fn value(rank: usize, index: usize, reduce: Option<Reduce>) -> Self;

    fn combine(self, other: Self, reduce: Reduce) -> Self;

    fn divided(self, by: usize) -> Self;

    /// Returns whether both have the same bits, or both are NaNs, whose payloads may differ.
    fn is_same(self, other: Self) -> bool;
}

macro_rules! floats {
    ($($type:ty),*) => {
        $(
            impl Element for $type {
                const REDUCTIONS: &'static [Reduce] =
                    &[Reduce::Sum, Reduce::Prod, Reduce::Min, Reduce::Max, Reduce::Avg];

                fn value(rank: usize, index: usize, reduce: Option<Reduce>) -> Self {
                    match (index % 13, reduce) {
                        (0, Some(Reduce::Min | Reduce::Max)) if rank == 1 => <$type>::NAN,
                        (1, _) => if rank % 2 == 0 { 0.0 } else { -0.0 },
                        (2, _) if rank == 0 => <$type>::INFINITY,
                        (3, _) => (rank as $type - 1.5) * 1e30,
                        _ => ((index * 37 + rank * 101) % 1009) as $type * 0.37 - 99.9,
                    }
                }

                fn combine(self, other: Self, reduce: Reduce) -> Self {
                    match reduce {
                        Reduce::Sum | Reduce::Avg => self + other,
                        Reduce::Prod => self * other,
                        _ if self.is_nan() => other,
                        _ if other.is_nan() => self,
                        Reduce::Min if self.total_cmp(&other).is_lt() => self,
                        Reduce::Max if self.total_cmp(&other).is_gt() => self,
                        _ => other,
                    }
                }

                fn divided(self, by: usize) -> Self {
                    self / by as $type
                }

                fn is_same(self, other: Self) -> bool {
                    self.to_bits() == other.to_bits() || self.is_nan() && other.is_nan()
                }
            }
        )*
    };
}

macro_rules! integers {
    ($($type:ty),*) => {
        $(
            impl Element for $type {
                const REDUCTIONS: &'static [Reduce] =
                    &[Reduce::Sum, Reduce::Prod, Reduce::Min, Reduce::Max];

                fn value(rank: usize, index: usize, _: Option<Reduce>) -> Self {
                    let scattered = (index * 31 + rank * 7 + 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    (scattered as $type).rotate_left(5)
                }

                fn combine(self, other: Self, reduce: Reduce) -> Self {
                    match reduce {
                        Reduce::Prod => self.wrapping_mul(other),
                        Reduce::Min => self.min(other),
                        Reduce::Max => self.max(other),
                        _ => self.wrapping_add(other),
                    }
                }

                fn divided(self, _: usize) -> Self {
                    unreachable!("integers have no average")
                }

                fn is_same(self, other: Self) -> bool {
                    self == other
                }
            }
        )*
    };
}

floats!(f32, f64);
integers!(i32, i64, u32, u64);

/// A group of devices with a stream of each.
struct Ranks {
    streams: Vec<Stream>,
    collectives: Collectives,
}

impl Ranks {
    fn new(devices: &[Device]) -> Self {
        let collectives = Collectives::new(devices).unwrap();
        assert_eq!(collectives.ranks(), devices.len());
        Self {
            streams: devices
                .iter()
                .map(|device| device.stream().unwrap())
                .collect(),
            collectives,
        }
    }

    /// Opens the devices of a simulated machine.
    fn simulated(gpu: &Gpu, ranks: usize) -> Self {
        Self::new(&devices(gpu, ranks))
    }

    fn len(&self) -> usize {
        self.streams.len()
    }

    /// Returns an array of each rank.
    fn values<T: Element>(&self, len: usize, reduce: Option<Reduce>) -> Vec<Vec<T>> {
        let array = |rank| {
            (0..len)
                .map(|index| T::value(rank, index, reduce))
                .collect()
        };
        (0..self.len()).map(array).collect()
    }

    fn upload<T: Element>(&self, values: &[Vec<T>]) -> Vec<Buffer<T>> {
        let each = self.streams.iter().zip(values);
        each.map(|(stream, values)| stream.upload(values).unwrap())
            .collect()
    }

    #[track_caller]
    fn assert_equal<T: Element>(&self, what: &str, arrays: &[Buffer<T>], expected: &[Vec<T>]) {
        for (rank, (stream, array)) in self.streams.iter().zip(arrays).enumerate() {
            let found = stream.download(array).unwrap().wait().unwrap();
            assert_eq!(found.len(), expected[rank].len(), "{what}");
            for (index, (&found, &expected)) in found.iter().zip(&expected[rank]).enumerate() {
                assert!(
                    found.is_same(expected),
                    "{what} of {}, rank {rank} of {}, element {index}: {found:?}, not {expected:?}",
                    std::any::type_name::<T>(),
                    self.len()
                );
            }
        }
    }

    /// Checks every operation on arrays of `len` elements, or parts of that length. Reductions run
    /// on views that begin at the element `offset`.
    fn check_all<T: Element>(&self, len: usize, offset: usize) {
        for &reduce in T::REDUCTIONS {
            self.check_reductions::<T>(len, offset, reduce);
        }
        self.check_copies::<T>(len);
        self.check_messages::<T>(len);
    }

    fn check_reductions<T: Element>(&self, len: usize, offset: usize, reduce: Reduce) {
        let ranks = self.len();
        let root = len % ranks;
        let values = self.values::<T>(offset + len, Some(reduce));
        let mut arrays = self.upload(&values);
        let mut views: Vec<_> = arrays
            .iter_mut()
            .map(|array| array.slice_mut(offset..))
            .collect();
        self.collectives.all_reduce(&mut views, reduce).unwrap();
        let mut expected = values.clone();
        for array in &mut expected {
            array[offset..].copy_from_slice(&reduced(&values, reduce)[offset..]);
        }
        self.assert_equal("all_reduce", &arrays, &expected);

        let mut arrays = self.upload(&values);
        let mut views: Vec<_> = arrays.iter_mut().collect();
        self.collectives.reduce(root, &mut views, reduce).unwrap();
        let mut expected = values.clone();
        expected[root] = reduced(&values, reduce);
        self.assert_equal("reduce", &arrays, &expected);

        let values = self.values::<T>(len * ranks, Some(reduce));
        let sources = self.upload(&values);
        let mut targets = self.upload(&self.values::<T>(len, Some(reduce)));
        let mut views: Vec<_> = targets.iter_mut().collect();
        self.collectives
            .reduce_scatter(&sources, &mut views, reduce)
            .unwrap();
        self.assert_equal(
            "reduce_scatter",
            &targets,
            &parts(&reduced(&values, reduce), ranks),
        );
        self.assert_equal("the sources of reduce_scatter", &sources, &values);
    }

    fn check_copies<T: Element>(&self, len: usize) {
        let ranks = self.len();
        let root = (len + 1) % ranks;
        let values = self.values::<T>(len, None);
        let mut arrays = self.upload(&values);
        let mut views: Vec<_> = arrays.iter_mut().collect();
        self.collectives.broadcast(root, &mut views).unwrap();
        self.assert_equal("broadcast", &arrays, &vec![values[root].clone(); ranks]);

        let sources = self.upload(&values);
        let longer = self.values::<T>(len * ranks, None);
        let mut targets = self.upload(&longer);
        let mut views: Vec<_> = targets.iter_mut().collect();
        self.collectives.all_gather(&sources, &mut views).unwrap();
        self.assert_equal("all_gather", &targets, &vec![values.concat(); ranks]);

        let sources = self.upload(&longer);
        let mut views: Vec<_> = targets.iter_mut().collect();
        self.collectives.all_to_all(&sources, &mut views).unwrap();
        let of_source: Vec<_> = longer.iter().map(|array| parts(array, ranks)).collect();
        let expected: Vec<_> = (0..ranks)
            .map(|rank| {
                of_source
                    .iter()
                    .flat_map(|parts| parts[rank].clone())
                    .collect()
            })
            .collect();
        self.assert_equal("all_to_all", &targets, &expected);
    }

    /// Sends two arrays of different lengths around the ring, the second also to the rank itself.
    fn check_messages<T: Element>(&self, len: usize) {
        let ranks = self.len();
        let (values, longer) = (self.values::<T>(len, None), self.values::<T>(len + 3, None));
        let (first, second) = (self.upload(&values), self.upload(&longer));
        let mut received = self.upload(&self.values::<T>(len, None));
        let mut also = self.upload(&self.values::<T>(len + 3, None));
        let mut own = self.upload(&self.values::<T>(len + 3, None));
        self.collectives
            .group(|group| {
                for (rank, array) in received.iter_mut().enumerate() {
                    group.recv(rank, (rank + ranks - 1) % ranks, array)?;
                }
                for rank in 0..ranks {
                    group.send(rank, (rank + 1) % ranks, &first[rank])?;
                    group.send(rank, (rank + 1) % ranks, second[rank].slice(..))?;
                }
                for (rank, array) in also.iter_mut().enumerate() {
                    group.recv(rank, (rank + ranks - 1) % ranks, array.slice_mut(..))?;
                }
                for (rank, array) in own.iter_mut().enumerate() {
                    group.recv(rank, rank, array)?;
                    group.send(rank, rank, Arc::new(second[rank].slice(..)))?;
                }
                Ok(())
            })
            .unwrap();
        let rotated = |mut arrays: Vec<Vec<T>>| {
            arrays.rotate_right(1);
            arrays
        };
        self.assert_equal("the first message", &received, &rotated(values));
        self.assert_equal("the second message", &also, &rotated(longer.clone()));
        self.assert_equal("the message to itself", &own, &longer);
    }

    fn check_types(&self, types: std::ops::Range<usize>, len: usize, offset: usize) {
        for number in types {
            match number % 6 {
                0 => self.check_all::<f32>(len, offset),
                1 => self.check_all::<i64>(len, offset),
                2 => self.check_all::<f64>(len, offset),
                3 => self.check_all::<u32>(len, offset),
                4 => self.check_all::<u64>(len, offset),
                _ => self.check_all::<i32>(len, offset),
            }
        }
    }
}

/// Reduces the arrays in their order.
fn reduced<T: Element>(arrays: &[Vec<T>], reduce: Reduce) -> Vec<T> {
    let (first, rest) = arrays.split_first().unwrap();
    let mut result = first.clone();
    for array in rest {
        for (element, &other) in result.iter_mut().zip(array) {
            *element = element.combine(other, reduce);
        }
    }
    if reduce == Reduce::Avg {
        result = result
            .into_iter()
            .map(|sum| sum.divided(arrays.len()))
            .collect();
    }
    result
}

/// Divides an array in `count` equal parts.
fn parts<T: Element>(array: &[T], count: usize) -> Vec<Vec<T>> {
    let len = array.len() / count;
    (0..count)
        .map(|part| array[part * len..(part + 1) * len].to_vec())
        .collect()
}

fn devices(gpu: &Gpu, count: usize) -> Vec<Device> {
    (0..count)
        .map(|ordinal| Device::open_simulated(gpu, ordinal as i32).unwrap())
        .collect()
}

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
            ranks.check_types(0..6, 100_003, 0);
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

#[test]
fn p07_every_type_of_four_devices_equals_plain_rust() {
    on_machine(SimConfig::new().devices(4), |gpu| {
        let ranks = Ranks::simulated(gpu, 4);
        ranks.check_types(0..6, 515, 0);
        ranks.check_types(0..6, 2, 1);
        ranks.check_types(0..6, 0, 0);
    });
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

#[test]
fn p07_collectives_of_two_devices_are_ordered_by_their_arrays() {
    everywhere(|harness| {
        let second = harness.second();
        let ranks = Ranks::new(&[harness.device.clone(), second.clone()]);
        let collectives = &ranks.collectives;
        for gated in [&harness.device, &second] {
            let gated = gated.stream().unwrap();
            let mut arrays = ranks.upload(&[vec![1_u32; 500], vec![2; 500]]);
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
            assert_eq!(free.download(&target[0]).unwrap().wait().unwrap(), [3; 9]);
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
    });
}

#[test]
fn p08_two_groups_of_the_same_devices_in_two_threads_do_not_deadlock() {
    for schedule in [
        Schedule::Timed,
        Schedule::Lazy,
        Schedule::Random(1),
        Schedule::Random(2),
        Schedule::Random(3),
    ] {
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

#[test]
fn p08_two_groups_of_two_devices_in_two_threads_do_not_deadlock() {
    everywhere(|harness| {
        let devices = [harness.device.clone(), harness.second()];
        let first = Ranks::new(&devices);
        let second = Ranks::new(&[devices[1].clone(), devices[0].clone()]);
        thread::scope(|scope| {
            for ranks in [&first, &second] {
                scope.spawn(|| in_turn(ranks));
            }
        });
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
        let mut targets: Vec<_> = scattered.iter_mut().collect();
        collectives
            .reduce_scatter(&arrays, &mut targets, Reduce::Sum)
            .unwrap();
        let mut views: Vec<_> = arrays.iter_mut().collect();
        collectives.all_gather(&scattered, &mut views).unwrap();
        let summed = reduced(&expected, Reduce::Sum);
        let summed = reduced(&vec![summed; count], Reduce::Sum);
        expected = vec![summed; count];
    }
    ranks.assert_equal("the last sum", &arrays, &expected);
}

#[test]
fn p07_each_misuse_is_a_typed_error_and_enqueues_nothing() {
    let gpu = Gpu::new(SimConfig::new().devices(3));
    let calls = Arc::new(Calls::over(gpu.driver()));
    let opened: Vec<_> = (0..3)
        .map(|ordinal| {
            // SAFETY: the wrapper forwards every call to a conforming driver.
            unsafe { Device::with_driver(Arc::clone(&calls) as Arc<dyn Driver>, ordinal) }.unwrap()
        })
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
    for schedule in [
        Schedule::Timed,
        Schedule::Eager,
        Schedule::Lazy,
        Schedule::Random(1),
        Schedule::Random(2),
    ] {
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
            let kernels = gate_kernel::load(&opened[0]).unwrap();
            // SAFETY: violated on purpose: the address is unallocated, which the simulated device
            // reports as an error.
            unsafe {
                kernels.gate(
                    &ranks.streams[0],
                    LaunchConfig::new([1, 1, 1], [1, 1, 1]),
                    64,
                )
            }
            .unwrap();
            // Orders the collective after the fault.
            ranks.streams[0].fill(arrays[0].slice_mut(..1), 1).unwrap();
            let mut views: Vec<_> = gathered.iter_mut().collect();
            ranks.collectives.all_gather(&arrays, &mut views).unwrap();
            let mut views: Vec<_> = arrays.iter_mut().collect();
            ranks
                .collectives
                .all_reduce(&mut views, Reduce::Sum)
                .unwrap();
            let pending: Vec<_> = (1..3)
                .flat_map(|rank| {
                    let download = |array| ranks.streams[rank].download(array).unwrap();
                    [download(&arrays[rank]), download(&gathered[rank])]
                })
                .collect();
            drop(hold);
            for pending in pending {
                let result = pending.wait();
                assert!(matches!(result, Err(Error::Poisoned { .. })), "{result:?}");
            }
            let error = ranks.streams[0].synchronize();
            assert!(matches!(error, Err(Error::DeviceLost { .. })), "{error:?}");
            let mut views: Vec<_> = arrays.iter_mut().collect();
            let error = ranks.collectives.all_reduce(&mut views, Reduce::Sum);
            assert!(matches!(error, Err(Error::DeviceLost { .. })), "{error:?}");

            // The others work on. What was computed from invalid contents is refused.
            let mut views: Vec<_> = arrays[1..].iter_mut().collect();
            let error = rest.collectives.all_reduce(&mut views, Reduce::Sum);
            assert!(matches!(error, Err(Error::Poisoned { .. })), "{error:?}");
            // Also if only one is invalid, and nothing is enqueued.
            let valid = rest.values::<u32>(300, None);
            rest.streams[0]
                .upload_into(&valid[0], &mut arrays[1])
                .unwrap();
            let unchanged = rest.values::<u32>(600, None);
            let mut targets = rest.upload(&unchanged);
            let mut views: Vec<_> = targets.iter_mut().collect();
            let error = rest.collectives.all_gather(&arrays[1..], &mut views);
            assert!(matches!(error, Err(Error::Poisoned { .. })), "{error:?}");
            rest.assert_equal("the targets", &targets, &unchanged);
            // Overwritten as a whole, they are valid again.
            let values = rest.values::<u32>(450, None);
            let sources = rest.upload(&values);
            let mut views: Vec<_> = gathered[1..].iter_mut().collect();
            rest.collectives.all_gather(&sources, &mut views).unwrap();
            rest.assert_equal("all_gather", &gathered[1..], &vec![values.concat(); 2]);
            let values = rest.values::<u32>(300, None);
            for (array, (stream, values)) in
                arrays[1..].iter_mut().zip(rest.streams.iter().zip(&values))
            {
                stream.upload_into(values, array).unwrap();
            }
            let mut views: Vec<_> = arrays[1..].iter_mut().collect();
            rest.collectives
                .all_reduce(&mut views, Reduce::Sum)
                .unwrap();
            let expected = vec![reduced(&values, Reduce::Sum); 2];
            rest.assert_equal("all_reduce", &arrays[1..], &expected);
        }
    }
}
