//! Collectives over a group of devices, compared with plain Rust to the bit: the element types, the
//! arrays, and the checks of each operation.

use std::{fmt::Debug, ops::Range};

use millstream_collective::{CollectiveElement, Collectives, Reduce};

use crate::scenarios::prelude::*;

/// An element type with the arithmetic of plain Rust.
pub(crate) trait Element: CollectiveElement + Debug {
    const REDUCTIONS: &'static [Reduce];

    /// Returns an element of a rank's array. Sums and products of them depend on the order.
    fn value(rank: usize, index: usize, reduce: Option<Reduce>) -> Self;

    fn combine(self, other: Self, reduce: Reduce) -> Self;

    fn divided(self, by: usize) -> Self;

    /// Returns whether both have the same bits, or both are NaNs, whose payloads may differ.
    fn is_same(self, other: Self) -> bool;
}

/// Implements [`Element`]. The operations of types of 16 bits are those of `f32`, rounded.
macro_rules! element {
    (float $type:ty) => {
        impl Element for $type {
            const REDUCTIONS: &'static [Reduce] = &[
                Reduce::Sum,
                Reduce::Prod,
                Reduce::Min,
                Reduce::Max,
                Reduce::Avg,
            ];

            fn value(rank: usize, index: usize, reduce: Option<Reduce>) -> Self {
                match (index % 13, reduce) {
                    (0, Some(Reduce::Min | Reduce::Max)) if rank == 1 => <$type>::NAN,
                    (1, _) => {
                        if rank % 2 == 0 {
                            0.0
                        } else {
                            -0.0
                        }
                    }
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
    };
    (integer $type:ty) => {
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
    };
    (half $type:ty) => {
        impl Element for $type {
            const REDUCTIONS: &'static [Reduce] = f32::REDUCTIONS;

            fn value(rank: usize, index: usize, reduce: Option<Reduce>) -> Self {
                Self::from_f32(f32::value(rank, index, reduce))
            }

            fn combine(self, other: Self, reduce: Reduce) -> Self {
                Self::from_f32(self.to_f32().combine(other.to_f32(), reduce))
            }

            fn divided(self, by: usize) -> Self {
                Self::from_f32(self.to_f32().divided(by))
            }

            fn is_same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits() || self.is_nan() && other.is_nan()
            }
        }
    };
}

macro_rules! implement {
    ($(
        $type:ty: $name:ident = $number:literal, $text:literal, $kind:ident, $doc:literal;
    )*) => {
        $(element!($kind $type);)*

        /// The checks of every operation, for each element type.
        const CHECKS: &[fn(&Ranks, usize, usize)] = &[$(Ranks::check_all::<$type>),*];
    };
}

millstream_collective::elements!(implement);

pub(crate) const TYPES: usize = CHECKS.len();

pub(crate) fn each_mut<T>(arrays: &mut [Buffer<T>]) -> Vec<&mut Buffer<T>> {
    arrays.iter_mut().collect()
}

/// A group of devices with a stream of each.
pub(crate) struct Ranks {
    pub(crate) streams: Vec<Stream>,
    pub(crate) collectives: Collectives,
}

impl Ranks {
    pub(crate) fn new(devices: &[Device]) -> Self {
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
    pub(crate) fn simulated(gpu: &Gpu, ranks: usize) -> Self {
        Self::new(&devices(gpu, ranks))
    }

    pub(crate) fn len(&self) -> usize {
        self.streams.len()
    }

    pub(crate) fn values<T: Element>(&self, len: usize, reduce: Option<Reduce>) -> Vec<Vec<T>> {
        let array = |rank| {
            (0..len)
                .map(|index| T::value(rank, index, reduce))
                .collect()
        };
        (0..self.len()).map(array).collect()
    }

    pub(crate) fn upload<T: Element>(&self, values: &[Vec<T>]) -> Vec<Buffer<T>> {
        let each = self.streams.iter().zip(values);
        each.map(|(stream, values)| stream.upload(values).unwrap())
            .collect()
    }

    #[track_caller]
    pub(crate) fn assert_equal<T: Element>(
        &self,
        what: &str,
        arrays: &[Buffer<T>],
        expected: &[Vec<T>],
    ) {
        for (rank, (stream, array)) in self.streams.iter().zip(arrays).enumerate() {
            let found = stream.values(array).unwrap();
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
    pub(crate) fn check_all<T: Element>(&self, len: usize, offset: usize) {
        for &reduce in T::REDUCTIONS {
            self.check_reductions::<T>(len, offset, reduce);
        }
        self.check_copies::<T>(len);
        self.check_messages::<T>(len);
    }

    pub(crate) fn check_reductions<T: Element>(&self, len: usize, offset: usize, reduce: Reduce) {
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
        self.collectives
            .reduce(root, &mut each_mut(&mut arrays), reduce)
            .unwrap();
        let mut expected = values.clone();
        expected[root] = reduced(&values, reduce);
        self.assert_equal("reduce", &arrays, &expected);

        let values = self.values::<T>(len * ranks, Some(reduce));
        let sources = self.upload(&values);
        let mut targets = self.upload(&self.values::<T>(len, Some(reduce)));
        self.collectives
            .reduce_scatter(&sources, &mut each_mut(&mut targets), reduce)
            .unwrap();
        self.assert_equal(
            "reduce_scatter",
            &targets,
            &parts(&reduced(&values, reduce), ranks),
        );
        self.assert_equal("the sources of reduce_scatter", &sources, &values);
    }

    pub(crate) fn check_copies<T: Element>(&self, len: usize) {
        let ranks = self.len();
        let root = (len + 1) % ranks;
        let values = self.values::<T>(len, None);
        let mut arrays = self.upload(&values);
        self.collectives
            .broadcast(root, &mut each_mut(&mut arrays))
            .unwrap();
        self.assert_equal("broadcast", &arrays, &vec![values[root].clone(); ranks]);

        let sources = self.upload(&values);
        let longer = self.values::<T>(len * ranks, None);
        let mut targets = self.upload(&longer);
        self.collectives
            .all_gather(&sources, &mut each_mut(&mut targets))
            .unwrap();
        self.assert_equal("all_gather", &targets, &vec![values.concat(); ranks]);

        // The first rank has no elements.
        let lengths: Vec<_> = (0..ranks).map(|rank| len * rank / 2).collect();
        let uneven: Vec<_> = lengths
            .iter()
            .zip(&longer)
            .map(|(&length, array)| array[..length].to_vec())
            .collect();
        let joined = uneven.concat();
        let sources = self.upload(&uneven);
        let mut gathered = self.upload(&self.values::<T>(joined.len(), None));
        self.collectives
            .all_gather_uneven(&lengths, &sources, &mut each_mut(&mut gathered))
            .unwrap();
        self.assert_equal("all_gather_uneven", &gathered, &vec![joined; ranks]);

        let sources = self.upload(&longer);
        self.collectives
            .all_to_all(&sources, &mut each_mut(&mut targets))
            .unwrap();
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
    pub(crate) fn check_messages<T: Element>(&self, len: usize) {
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

    pub(crate) fn check_types(&self, types: Range<usize>, len: usize, offset: usize) {
        for number in types {
            CHECKS[number % TYPES](self, len, offset);
        }
    }
}

pub(crate) fn reduced<T: Element>(arrays: &[Vec<T>], reduce: Reduce) -> Vec<T> {
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

pub(crate) fn parts<T: Element>(array: &[T], count: usize) -> Vec<Vec<T>> {
    let len = array.len() / count;
    (0..count)
        .map(|part| array[part * len..(part + 1) * len].to_vec())
        .collect()
}

pub(crate) fn devices(gpu: &Gpu, count: usize) -> Vec<Device> {
    (0..count)
        .map(|ordinal| Device::open_simulated(gpu, ordinal as i32).unwrap())
        .collect()
}
