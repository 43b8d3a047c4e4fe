//! Random updates of parts of matrices against `ndarray` on the host. Unlike the programs of the
//! differential tests, these drop arrays, so that many updates happen in place.

use crate::fusion::prelude::*;

const ROWS: usize = 9;
const COLUMNS: usize = 12;

struct Random(Pcg64Mcg);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        below(&mut self.0, end)
    }

    /// Returns the start and the step of a slice with this many elements of an axis.
    fn slice(&mut self, count: usize, length: usize) -> (isize, isize, isize) {
        let step = 1 + self.below(3);
        let step = if (count - 1) * step < length { step } else { 1 };
        let extent = (count - 1) * step + 1;
        let start = self.below(length - extent + 1) as isize;
        let step = step as isize * [1, 1, -1][self.below(3)];
        (start, start + extent as isize, step)
    }
}

/// A matrix on the device and on the host.
#[derive(Clone)]
struct Pair {
    device: Array<i32, Ix2>,
    host: Array2<i32>,
}

impl Pair {
    /// Changes a part of the matrix, or all of it.
    fn change(&mut self, random: &mut Random) {
        let (height, width) = (1 + random.below(ROWS), 1 + random.below(COLUMNS));
        let (top, bottom, by) = random.slice(height, ROWS);
        let (left, right, along) = random.slice(width, COLUMNS);
        let written = s![top..bottom;by, left..right;along];
        let (top, bottom, by) = random.slice(height, ROWS);
        let (left, right, along) = random.slice(width, COLUMNS);
        let read = s![top..bottom;by, left..right;along];
        let number = random.below(100) as i32;
        match random.below(8) {
            0 => {
                self.device.slice_mut(written).fill(number);
                self.host.slice_mut(written).fill(number);
            }
            1 => {
                let mut part = self.device.slice_mut(written);
                part *= 3;
                part += number;
                let mut part = self.host.slice_mut(written);
                part *= 3;
                part += number;
            }
            2 => {
                let value = self.device.slice(read) * 2 + number;
                self.device.slice_mut(written).assign(&value);
                let value = &self.host.slice(read) * 2 + number;
                self.host.slice_mut(written).assign(&value);
            }
            3 => {
                let value = self.device.slice(read);
                let mut part = self.device.slice_mut(written);
                part -= &value;
                let value = self.host.slice(read).to_owned();
                let mut part = self.host.slice_mut(written);
                part -= &value;
            }
            4 => {
                let row = random.below(ROWS);
                let value = self.device.row(row).slice(s![..width as isize]).to_owned();
                let mut part = self.device.slice_mut(written);
                part += &value;
                let value = self.host.row(row).slice(s![..width as isize]).to_owned();
                let mut part = self.host.slice_mut(written);
                part += &value;
            }
            5 => {
                self.device = &self.device ^ number;
                self.host.mapv_inplace(|element| element ^ number);
            }
            6 => {
                let part = self.device.slice(written);
                let value = &part + &part.slice(s![..;-1, ..]);
                self.device.slice_mut(written).assign(&value);
                let part = self.host.slice(written);
                let value = &part + &part.slice(s![..;-1, ..]);
                self.host.slice_mut(written).assign(&value);
            }
            _ => {
                let rows: Vec<i64> = (0..height).map(|_| random.below(ROWS) as i64).collect();
                let index = Array2::from_shape_fn((height, 1), |(row, _)| rows[row]);
                let value = &self.host.slice(s![..height, ..]) + number;
                let device = self.device.device();
                let on_device = (
                    Array::from_host(device, &index).unwrap(),
                    Array::from_host(device, &value).unwrap(),
                );
                self.device = self.device.scatter_add(Axis(0), &on_device.0, &on_device.1);
                for (&row, value) in rows.iter().zip(value.outer_iter()) {
                    let mut target = self.host.row_mut(row as usize);
                    target += &value;
                }
            }
        }
    }
}

fn check(counted: &Counted, seed: u64) {
    let random = &mut Random(Pcg64Mcg::seed_from_u64(seed));
    let host = Array2::from_shape_fn((ROWS, COLUMNS), |(row, column)| (row * 31 + column) as i32);
    let device = counted.array(&host);
    let mut pairs = vec![Pair { device, host }];
    for _ in 0..2 + random.below(20) {
        let number = random.below(pairs.len());
        match random.below(10) {
            0 => pairs.push(pairs[number].clone()),
            1 if pairs.len() > 1 => drop(pairs.swap_remove(number)),
            2 => assert_eq!(pairs[number].device.to_host().unwrap(), pairs[number].host),
            _ => pairs[number].change(random),
        }
    }
    for Pair { device, host } in pairs {
        assert_eq!(device.to_host().unwrap(), host, "MILLSTREAM_SEED={seed}");
    }
}

#[test]
fn random_updates_give_the_elements_of_the_host() {
    Counted::somewhere(|counted| seeds(150).for_each(|seed| check(counted, seed)));
}
