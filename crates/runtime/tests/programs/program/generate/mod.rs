//! The program generator. The slots that a step names are mostly filled and its ranges mostly fit;
//! a few steps are wrong on purpose.

mod steps;

use millstream::sim::{Link, Links};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{
    elem::Elem,
    step::{
        ARRAYS, By, EVENTS, Made, On, Owner, Part, Placed, Program, Rect, STREAMS, Step, THREADS,
        Via,
    },
};

/// The kind of program to draw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sort {
    pub(crate) steps: usize,
    pub(crate) devices: usize,
    /// Lets several threads execute the steps, in program order or concurrently.
    pub(crate) threads: bool,
    pub(crate) gates: bool,
    /// Allows steps that leak arrays and pending values by `mem::forget`.
    pub(crate) forgets: bool,
    /// Bounds the devices' memory, or makes it small.
    pub(crate) scarce: bool,
    /// Makes the first array so large that its upload reads the source chunk by chunk.
    pub(crate) large: bool,
}

impl Sort {
    /// Returns the kind of the program with this seed; consecutive seeds cover all kinds.
    pub(crate) fn of(seed: u64) -> Self {
        Self {
            steps: 20 + (seed % 21) as usize,
            devices: match seed % 10 {
                1 | 6 => 2,
                8 => 4,
                _ => 1,
            },
            threads: seed % 3 == 1,
            gates: seed % 4 == 2,
            forgets: seed % 7 == 3,
            scarce: seed % 6 == 5,
            large: seed % 128 == 64,
        }
    }
}

/// Array sizes in bytes: small ones, so that ranges often overlap, and one larger than a page.
const SIZES: [usize; 12] = [0, 1, 2, 7, 16, 33, 64, 96, 100, 240, 256, 5000];
/// A size in bytes above what an upload captures at once.
const LARGE: usize = (1 << 20) + 16;
/// Scarce memory sizes and limits of some programs' devices, in bytes.
const SCARCE: [u64; 4] = [64, 1000, 6000, 20_000];
/// Cache limits in bytes: no cache, an array or two, more, everything.
const CACHES: [u64; 4] = [0, 4 << 10, 64 << 10, 1 << 30];

pub(crate) fn generate(seed: u64, sort: Sort) -> Program {
    let mut draw = Draw {
        random: Pcg64Mcg::seed_from_u64(seed),
        sort,
        streams: [None; STREAMS],
        arrays: [None; ARRAYS],
        events: [None; EVENTS],
        odd: None,
    };
    let links = draw.links();
    let is_small = sort.scarce && draw.one_in(2);
    let memory_bytes = is_small.then(|| (64 << 10) + draw.pick(&SCARCE));
    let mut steps: Vec<Step> = (0..3).map(|stream| draw.make_stream(stream)).collect();
    steps.extend((0..3).map(|array| draw.make(array)));
    if sort.large {
        let owner = draw.pick(&[Owner::Vec, Owner::Arc]);
        let (stream, elem) = (0, Elem::U8);
        steps[3] = draw.make_buffer(0, On { stream, elem }, LARGE, Made::Owned(owner, 7));
    }
    for _ in 0..sort.steps {
        let step = draw.step();
        steps.push(step);
    }
    let mut thread = 0;
    let place = |step| {
        if sort.threads && draw.one_in(3) {
            thread = draw.below(THREADS);
        }
        Placed { thread, step }
    };
    Program {
        devices: sort.devices,
        links,
        memory_bytes,
        steps: steps.into_iter().map(place).collect(),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Buffer,
    Managed,
    Pinned,
}

/// The array that a slot holds if all steps so far have succeeded.
#[derive(Clone, Copy)]
struct Array {
    kind: Kind,
    device: usize,
    bytes: usize,
}

struct Draw {
    random: Pcg64Mcg,
    sort: Sort,
    streams: [Option<usize>; STREAMS],
    arrays: [Option<Array>; ARRAYS],
    events: [Option<usize>; EVENTS],
    /// The index of the list being drawn, of two that run concurrently; `None` elsewhere.
    odd: Option<usize>,
}

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        (self.random.next_u64() % bound as u64) as usize
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Draws the links between several devices: all alike, or those of two pairs.
    fn links(&mut self) -> Links {
        let alike = [Link::NvLink, Link::NvLink, Link::Pcie, Link::NoPeerAccess];
        if self.sort.devices == 1 {
            return Links::default();
        }
        if self.sort.devices == 4 && self.one_in(2) {
            let others = self.pick(&[Link::Pcie, Link::NoPeerAccess]);
            return Links::all(others)
                .pair(0, 1, Link::NvLink)
                .pair(2, 3, Link::NvLink);
        }
        Links::all(self.pick(&alike))
    }

    /// Draws whether a kernel takes its operands as views for its device, and its stream, mostly
    /// one of the device of an operand.
    fn kernel(&mut self, operands: &[usize]) -> By {
        let peer = self.sort.devices > 1 && !self.one_in(3);
        let near = self.pick(operands);
        let stream = self.stream_for(near);
        By { stream, peer }
    }

    fn value(&mut self) -> u32 {
        self.random.next_u32() % 10_000
    }

    fn elem(&mut self) -> Elem {
        self.pick(&Elem::ALL)
    }

    fn device(&mut self) -> usize {
        self.below(self.sort.devices)
    }

    /// Draws a slot of an array or a value; each of two concurrent lists has its own half of the
    /// slots.
    fn place(&mut self, places: usize) -> usize {
        match self.odd {
            None => self.below(places),
            Some(odd) => 2 * self.below(places / 2) + odd,
        }
    }

    /// Draws the slot of an array of one of these kinds, or an arbitrary slot if none is found.
    fn array(&mut self, kinds: &[Kind]) -> usize {
        let mut place = self.place(ARRAYS);
        for _ in 0..ARRAYS {
            if self.arrays[place].is_some_and(|array| kinds.contains(&array.kind)) {
                break;
            }
            place = self.place(ARRAYS);
        }
        place
    }

    /// Draws a stream, mostly one of the array's device.
    fn stream_for(&mut self, array: usize) -> usize {
        let mut place = self.below(STREAMS);
        let device = self.arrays[array].map(|array| array.device);
        for _ in 0..STREAMS {
            if self.streams[place].is_some() && (self.streams[place] == device || self.one_in(40)) {
                break;
            }
            place = self.below(STREAMS);
        }
        place
    }

    /// Returns the number of whole elements in an array.
    fn len_of(&self, array: usize, elem: Elem) -> usize {
        self.arrays[array].map_or(0, |array| array.bytes) / elem.bytes()
    }

    /// Draws a range of an array, with this length if one is given.
    fn part(&mut self, array: usize, elem: Elem, len: Option<usize>) -> Part {
        let elements = self.len_of(array, elem);
        let len = match len {
            Some(len) => len,
            None if self.one_in(4) => elements,
            None => self.below(elements.min(300) + 1),
        };
        let room = elements.saturating_sub(len);
        let wrong = usize::from(self.one_in(60));
        Part {
            array,
            first: self.below(room + 1) + wrong * (room + 1),
            len,
            via: self.pick(&[Via::Slice, Via::Split, Via::Chunks]),
        }
    }

    /// Draws two ranges of the same length in two arrays, which may be the same array.
    fn two_parts(&mut self, kinds: &[Kind], elem: Elem) -> [Part; 2] {
        let (from, to) = (self.array(kinds), self.array(kinds));
        let longest = self.len_of(from, elem).min(self.len_of(to, elem));
        let len = if self.one_in(4) {
            longest
        } else {
            self.below(longest.min(300) + 1)
        };
        let wrong = usize::from(self.one_in(60));
        [
            self.part(from, elem, Some(len)),
            self.part(to, elem, Some(len + wrong)),
        ]
    }

    /// Draws a rectangle in a table with rows of any length, of the given size if one is given.
    fn rect(&mut self, array: usize, elem: Elem, size: Option<[usize; 2]>) -> Rect {
        let elements = self.len_of(array, elem);
        let wanted = size.map_or(1, |size| size[1].max(1));
        let pitch = wanted + self.below(24);
        let rows = elements / pitch;
        let size = size.unwrap_or_else(|| [self.below(rows.min(12) + 1), self.below(pitch + 1)]);
        let wrong = usize::from(self.one_in(60));
        let first = [
            self.below(rows.saturating_sub(size[0]) + 1) + wrong,
            self.below(pitch.saturating_sub(size[1]) + 1),
        ];
        Rect {
            array,
            pitch,
            first,
            size,
        }
    }
}
