//! Random programs over rectangles, on several streams, against plain vectors.

use millstream::{Buffer, Pending, PlaneMut, Result, Stream};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::rig::{Rig, everywhere};

/// Elements of each array: 12 rows of 17.
const LEN: usize = 12 * 17;
const OPERATIONS: usize = 60;

/// Rows and columns of one of two tables, so that rows of different distances meet.
#[derive(Clone, Copy, Debug)]
struct Rect {
    pitch: usize,
    first: [usize; 2],
    size: [usize; 2],
}

impl Rect {
    /// The places of its elements, row after row.
    fn places(self) -> impl Iterator<Item = usize> {
        let Self { pitch, first, size } = self;
        (0..size[0] * size[1]).map(move |at| (first[0] + at / size[1]) * pitch + first[1] + at % size[1])
    }

    fn of(self, buffer: &mut Buffer<u16>) -> Result<PlaneMut<'_, u16>> {
        let plane = buffer.plane_pitched_mut(LEN / self.pitch, self.pitch, self.pitch)?;
        let [row, col] = self.first;
        plane.rect_mut(row..row + self.size[0], col..col + self.size[1])
    }
}

struct Program {
    random: Pcg64Mcg,
    streams: [Stream; 3],
    buffers: [Buffer<u16>; 2],
    expected: [Vec<u16>; 2],
    downloads: Vec<(Pending<Vec<u16>>, Vec<u16>)>,
}

impl Program {
    fn below(&mut self, end: usize) -> usize {
        (self.random.next_u64() % end as u64) as usize
    }

    fn rect(&mut self, size: Option<[usize; 2]>) -> Rect {
        let pitch = if self.below(4) == 0 { 20 } else { 17 };
        let table = [LEN / pitch, pitch];
        let size = size.unwrap_or_else(|| [1 + self.below(table[0]), 1 + self.below(table[1])]);
        let size = [size[0].min(table[0]), size[1].min(table[1])];
        Rect {
            pitch,
            first: [
                self.below(table[0] - size[0] + 1),
                self.below(table[1] - size[1] + 1),
            ],
            size,
        }
    }

    fn step(&mut self, number: usize) -> Result<()> {
        let (stream, which) = (self.below(3), self.below(2));
        let value = number as u16;
        let rect = self.rect(None);
        match self.below(6) {
            0 => {
                self.streams[stream].fill_2d(rect.of(&mut self.buffers[which])?, value)?;
                rect.places().for_each(|at| self.expected[which][at] = value);
            }
            1 => {
                let pitch = rect.size[1] + self.below(3);
                let source: Vec<u16> = (0..rect.size[0] * pitch)
                    .map(|at| value + 100 * at as u16)
                    .collect();
                self.streams[stream].upload_2d(&source, pitch, rect.of(&mut self.buffers[which])?)?;
                for (at, place) in rect.places().enumerate() {
                    self.expected[which][place] = source[at / rect.size[1] * pitch + at % rect.size[1]];
                }
            }
            2 => {
                let to = self.rect(Some(rect.size));
                if to.size == rect.size {
                    let (left, right) = self.buffers.split_at_mut(1);
                    self.streams[stream].copy_2d(rect.of(&mut left[0])?, to.of(&mut right[0])?)?;
                    let values: Vec<u16> = rect.places().map(|at| self.expected[0][at]).collect();
                    for (place, value) in to.places().zip(values) {
                        self.expected[1][place] = value;
                    }
                }
            }
            3 => {
                let pending = self.streams[stream].download_2d(rect.of(&mut self.buffers[which])?)?;
                let expected = rect.places().map(|at| self.expected[which][at]).collect();
                self.downloads.push((pending, expected));
            }
            4 => {
                let (from, len) = (self.below(LEN), self.below(LEN));
                let len = len.min(LEN - from);
                let to = self.below(LEN - len + 1);
                self.streams[stream].copy_within(&mut self.buffers[which], from..from + len, to)?;
                self.expected[which].copy_within(from..from + len, to);
            }
            _ => {
                self.streams[stream].fill(&mut self.buffers[which], value)?;
                self.expected[which].fill(value);
            }
        }
        Ok(())
    }
}

fn run(rig: &Rig, seed: u64) -> Result<()> {
    let streams: [Stream; 3] = rig.streams();
    let buffers = [streams[0].zeros(LEN)?, streams[1].zeros(LEN)?];
    let mut program = Program {
        random: Pcg64Mcg::seed_from_u64(seed),
        streams,
        buffers,
        expected: [vec![0; LEN], vec![0; LEN]],
        downloads: Vec::new(),
    };
    let gate = rig.gate(&program.streams[2]);
    for number in 0..OPERATIONS {
        program.step(number)?;
    }
    gate.open();
    for (number, (pending, expected)) in program.downloads.into_iter().enumerate() {
        assert_eq!(pending.wait()?, expected, "download {number} with seed {seed}");
    }
    for (buffer, expected) in program.buffers.iter().zip(&program.expected) {
        let found = program.streams[0].download(buffer)?.wait()?;
        assert_eq!(&found, expected, "the end, with seed {seed}");
    }
    Ok(())
}

#[test]
fn random_programs_over_rectangles_give_what_plain_vectors_give() {
    everywhere(|rig| {
        for seed in 0..6 {
            run(rig, seed).unwrap();
        }
    });
}
