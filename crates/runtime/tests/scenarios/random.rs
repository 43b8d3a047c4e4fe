//! Random programs over several streams, against plain vectors that do the same in the order of the calls.

use millstream::{Buffer, Pending, Pinned, Result, Stream};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::{
    places::on_gpu,
    rig::{Gate, Rig, everywhere},
};

/// Elements of each array: few, so that ranges meet often.
const LEN: usize = 48;
const ARRAYS: usize = 4;
const STREAMS: usize = 4;
const STEPS: usize = 60;

/// An array on the device and what must be in it once everything called for so far is done.
struct Array {
    buffer: Buffer<u32>,
    expected: Vec<u32>,
}

/// A download on its way and what it must bring.
struct Arrival {
    pending: Pending<Vec<u32>>,
    expected: Vec<u32>,
}

struct Program<'a> {
    rig: &'a Rig,
    random: Pcg64Mcg,
    streams: Vec<Stream>,
    arrays: Vec<Array>,
    pinned: Pinned<u32>,
    pinned_expected: Vec<u32>,
    arrivals: Vec<Arrival>,
    gate: Option<Gate>,
}

impl<'a> Program<'a> {
    fn new(rig: &'a Rig, seed: u64) -> Result<Self> {
        let mut program = Self {
            rig,
            random: Pcg64Mcg::seed_from_u64(seed),
            streams: (0..STREAMS).map(|_| rig.stream()).collect(),
            arrays: Vec::new(),
            pinned: rig.device.pinned(LEN)?,
            pinned_expected: vec![0; LEN],
            arrivals: Vec::new(),
            gate: None,
        };
        for _ in 0..ARRAYS {
            let array = program.make()?;
            program.arrays.push(array);
        }
        Ok(program)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.next_u32() as usize % bound
    }

    fn stream(&mut self) -> Stream {
        let at = self.below(STREAMS);
        self.streams[at].clone()
    }

    /// Where a range of `len` elements begins.
    fn start(&mut self, len: usize) -> usize {
        self.below(LEN - len + 1)
    }

    fn make(&mut self) -> Result<Array> {
        let stream = self.stream();
        if self.below(2) == 0 {
            return Ok(Array {
                buffer: stream.zeros(LEN)?,
                expected: vec![0; LEN],
            });
        }
        let expected: Vec<u32> = (0..LEN).map(|_| self.random.next_u32()).collect();
        Ok(Array {
            buffer: stream.upload(&expected)?,
            expected,
        })
    }

    fn step(&mut self) -> Result<()> {
        let (stream, at, len) = (self.stream(), self.below(ARRAYS), 1 + self.below(LEN));
        let (from, to) = (self.start(len), self.start(len));
        let value = self.random.next_u32();
        match self.below(11) {
            0 | 1 => {
                let array = &mut self.arrays[at];
                stream.fill(array.buffer.slice_mut(to..to + len), value)?;
                array.expected[to..to + len].fill(value);
            }
            2 | 3 => {
                let other = (at + 1 + self.below(ARRAYS - 1)) % ARRAYS;
                let [source, target] = self.arrays.get_disjoint_mut([at, other]).expect("two arrays");
                let part = source.buffer.slice(from..from + len);
                stream.copy(part, target.buffer.slice_mut(to..to + len))?;
                target.expected[to..to + len].copy_from_slice(&source.expected[from..from + len]);
            }
            4 => {
                let array = &mut self.arrays[at];
                let source = vec![value; len];
                stream.upload_into(&source, array.buffer.slice_mut(to..to + len))?;
                array.expected[to..to + len].copy_from_slice(&source);
            }
            5 | 6 => {
                let array = &self.arrays[at];
                let pending = stream.download(array.buffer.slice(from..from + len))?;
                let expected = array.expected[from..from + len].to_vec();
                self.arrivals.push(Arrival { pending, expected });
            }
            7 => {
                let array = self.make()?;
                self.arrays[at] = array;
            }
            8 => {
                let array = &mut self.arrays[at];
                if value.is_multiple_of(2) {
                    stream.copy(&array.buffer, &mut self.pinned)?;
                    self.pinned_expected.clone_from(&array.expected);
                } else {
                    stream.copy(&self.pinned, &mut array.buffer)?;
                    array.expected.clone_from(&self.pinned_expected);
                }
            }
            9 => {
                let retired = self.below(STREAMS);
                self.streams[retired] = self.rig.stream();
            }
            _ => match self.gate.take() {
                Some(gate) => {
                    gate.open();
                    self.check_some()?;
                }
                None => self.gate = Some(self.rig.gate(&stream)),
            },
        }
        Ok(())
    }

    /// Waits for some of what is on its way, and drops some.
    fn check_some(&mut self) -> Result<()> {
        for arrival in std::mem::take(&mut self.arrivals) {
            match self.below(3) {
                0 => assert_eq!(arrival.pending.wait()?, arrival.expected),
                1 => drop(arrival),
                _ => self.arrivals.push(arrival),
            }
        }
        if self.below(2) == 0 {
            assert_eq!(*self.pinned.read()?, self.pinned_expected);
        } else {
            let value = self.random.next_u32();
            self.pinned.write()?.fill(value);
            self.pinned_expected.fill(value);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        drop(self.gate.take());
        for arrival in std::mem::take(&mut self.arrivals) {
            assert_eq!(arrival.pending.wait()?, arrival.expected);
        }
        for at in 0..ARRAYS {
            let stream = self.stream();
            let Array { buffer, expected } = &self.arrays[at];
            assert_eq!(stream.download(buffer)?.wait()?, *expected);
        }
        assert_eq!(*self.pinned.read()?, self.pinned_expected);
        Ok(())
    }
}

#[test]
fn random_programs_give_what_plain_vectors_give() {
    let programs = if on_gpu() { 2000 } else { 300 };
    everywhere(|rig| {
        for seed in 0..programs {
            let run = || -> Result<()> {
                let mut program = Program::new(rig, seed)?;
                for _ in 0..STEPS {
                    program.step()?;
                }
                program.finish()
            };
            run().unwrap_or_else(|error| panic!("program {seed}: {error}"));
        }
    });
}
