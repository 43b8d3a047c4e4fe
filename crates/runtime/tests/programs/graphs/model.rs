//! The oracle of graph programs: plain vectors, and the rules by which steps are refused.

use super::{
    found::{Access, Place, Recorded, by_name},
    step::{
        ARRAYS, BYTES, GRAPHS, How, Op, Part, SLAB_BYTES, Source, Step, THEIRS, VARIABLES, Way,
    },
};

/// The names of the kinds of usage error that a refused step may return, with `|` between them.
pub(super) type Refused = &'static str;

/// The alignment of an array of the device's pool, and of a variable.
const ALIGNMENT: usize = 256;

#[derive(Clone)]
struct Memory {
    bytes: Vec<u8>,
    source: Source,
    /// The address, behind a multiple of [`ALIGNMENT`].
    address: usize,
    lease: Option<Lease>,
}

#[derive(Clone, Copy)]
struct Lease {
    writes: bool,
    /// Set if it is over, but could not end, because the borrower's stream was captured.
    is_put_off: bool,
}

impl Memory {
    fn alignment(&self) -> usize {
        1 << (self.address | ALIGNMENT).trailing_zeros()
    }

    /// Returns an error if a graph cannot keep the memory.
    fn keep(&self) -> Result<(), Refused> {
        match self.source {
            Source::Managed => Err("Recording"),
            Source::Adopted(_, _, true) => Err("LentForScope"),
            _ => Ok(()),
        }
    }

    fn is_variable(&self) -> bool {
        matches!(self.source, Source::Variable(_))
    }
}

/// An array: its memory, and whether it was moved to the owner.
#[derive(Clone, Copy)]
struct Array {
    memory: usize,
    is_moved: bool,
}

/// The contents of all slots, once every step so far is complete.
#[derive(Clone, Default)]
pub(super) struct Model {
    /// The variables first.
    memories: Vec<Memory>,
    arrays: [Option<Array>; ARRAYS],
    graphs: [Option<Recorded>; GRAPHS],
    pub(super) downloads: Vec<Option<Vec<u8>>>,
    used: usize,
    pub(super) is_capturing: bool,
    pub(super) leaks: bool,
}

impl Model {
    pub(super) fn new() -> Self {
        let mut model = Self::default();
        for number in 0..VARIABLES {
            model.remember(vec![0; BYTES], Source::Variable(number), 0);
        }
        model
    }

    fn remember(&mut self, bytes: Vec<u8>, source: Source, address: usize) -> usize {
        self.memories.push(Memory {
            bytes,
            source,
            address,
            lease: None,
        });
        self.memories.len() - 1
    }

    /// Returns the array in a slot, unless it was moved to the owner.
    fn array(&self, slot: usize) -> Option<usize> {
        let array = self.arrays[slot].filter(|array| !array.is_moved)?;
        Some(array.memory)
    }

    fn place(&self, part: Part, unit: usize) -> Option<Place> {
        let memory = self.array(part.slot)?;
        let (first, len) = part.within(self.memories[memory].bytes.len(), unit);
        Some(Place { memory, first, len })
    }

    fn drop_array(&mut self, slot: usize) {
        if let Some(array) = self.arrays[slot].take().filter(|array| array.is_moved) {
            self.end_lease(array.memory);
            self.leaks |= self.is_capturing;
        }
    }

    fn end_lease(&mut self, memory: usize) {
        let is_put_off = self.is_capturing;
        let lease = self.memories[memory].lease.filter(|_| is_put_off);
        self.memories[memory].lease = lease.map(|lease| Lease {
            is_put_off,
            ..lease
        });
    }

    fn make(&mut self, slot: usize, source: Source) {
        let memory = match source {
            Source::Pool(bytes) => self.remember(vec![1; bytes], source, 0),
            Source::Managed => self.remember(vec![0; BYTES], source, 0),
            Source::Variable(number) => number,
            Source::Adopted(gap, bytes, _) => {
                let first = self.used + gap;
                if self.is_capturing || first + bytes > SLAB_BYTES {
                    return;
                }
                self.used = first + bytes;
                self.remember(vec![2; bytes], source, first)
            }
        };
        self.drop_array(slot);
        let is_moved = false;
        self.arrays[slot] = Some(Array { memory, is_moved });
    }

    /// Finds the arrays of an operation.
    fn find(&mut self, op: &Op<Part>, is_recorded: bool) -> Result<Vec<Op<Place>>, Refused> {
        let pair = |parts: [Part; 2], unit| {
            let [from, to] = parts.map(|part| self.place(part, unit));
            // The target is borrowed when the source is.
            let (from, to) = from.zip(to)?;
            (parts[0].slot != parts[1].slot).then_some([from, to])
        };
        let found = match *op {
            Op::Set(part, how, value) => {
                let found = self.place(part, op.unit());
                found.map(|place| Op::Set(place, how, value))
            }
            Op::Copy(parts, is_indirect) => pair(parts, 1).map(|places| {
                let len = places[0].len.min(places[1].len);
                Op::Copy(places.map(|place| Place { len, ..place }), is_indirect)
            }),
            Op::Add(kernel, operands, k) => {
                pair(operands, op.unit()).map(|operands| Op::Add(kernel, operands, k))
            }
            Op::If(part, ref body) => {
                let flag = self.place(part, op.unit()).filter(|flag| flag.len > 0);
                let Some(flag) = flag.filter(|_| is_recorded) else {
                    return Ok(Vec::new());
                };
                self.check(&Op::If(flag, Vec::new()), true)?;
                let taken = self.arrays[part.slot].take();
                let body: Result<Vec<_>, _> = body.iter().map(|op| self.find(op, true)).collect();
                self.arrays[part.slot] = taken;
                let body = body?.concat();
                (!body.is_empty()).then_some(Op::If(flag, body))
            }
            Op::Replay(graph) => return Ok(self.graphs[graph].clone().unwrap_or_default().ops),
        };
        if let Some(found) = &found {
            self.check(found, is_recorded)?;
        }
        Ok(found.into_iter().filter(|op| !op.is_empty()).collect())
    }

    /// Returns an error if the operation is refused for its operands.
    fn check(&self, op: &Op<Place>, is_recorded: bool) -> Result<(), Refused> {
        let memory = |place: &Place| &self.memories[place.memory];
        let mut operands = op.operands().iter();
        let address = |place: &Place| memory(place).address + place.first;
        if operands.any(|place| !address(place).is_multiple_of(op.unit())) {
            return Err("CastAlignment");
        }
        if op.is_empty() {
            return Ok(());
        }
        if let [from, to] = op.operands()
            && !matches!(op, Op::Copy(_, true))
            && from.overlaps(*to)
        {
            return Err("Overlap");
        }
        if let Op::Add(kernel, [from, to], _) = op
            && let Some((by_name, writes)) = by_name(*kernel)
            && (to.overlaps(by_name) || writes && from.overlaps(by_name))
        {
            return Err("UsedByName");
        }
        let operands = op.operands().iter().filter(|_| is_recorded);
        let refused = operands.filter_map(|place| memory(place).keep().err());
        match refused.collect::<Vec<_>>()[..] {
            [] => Ok(()),
            [first, second] if first != second => Err("Recording|LentForScope"),
            [first, ..] => Err(first),
        }
    }

    fn record(&mut self, ops: &[(usize, Op<Part>)]) -> Result<Recorded, Refused> {
        let ops = ops.iter().map(|(_, op)| self.find(op, true));
        let mut recorded = Recorded {
            ops: ops.collect::<Result<Vec<_>, _>>()?.concat(),
            ..Recorded::default()
        };
        for (place, _) in recorded.accesses() {
            let alignment = self.memories[place.memory].alignment();
            recorded.alignments.insert(place.memory, alignment);
        }
        Ok(recorded)
    }

    /// Returns an error if an access conflicts with a lease, or the stream is captured.
    fn admit(&mut self, stream: usize, accesses: &[Access]) -> Result<(), Refused> {
        let is_captured = self.is_capturing && stream == THEIRS;
        for (place, writes) in accesses.iter().filter(|(place, _)| place.len > 0) {
            let lease = &mut self.memories[place.memory].lease;
            match lease.filter(|lease| lease.writes || *writes) {
                None => {}
                Some(lease) if !lease.is_put_off && is_captured => return Err("Captured|Lent"),
                Some(lease) if !lease.is_put_off => return Err("Lent"),
                Some(_) if self.is_capturing => return Err("Captured"),
                Some(_) => *lease = None,
            }
        }
        if is_captured { Err("Captured") } else { Ok(()) }
    }

    fn bytes(&mut self, place: Place) -> &mut [u8] {
        &mut self.memories[place.memory].bytes[place.first..place.first + place.len]
    }

    fn word(&mut self, place: Place, number: usize) -> u32 {
        let bytes = &self.bytes(place)[4 * number..4 * number + 4];
        u32::from_ne_bytes(bytes.try_into().expect("four bytes"))
    }

    fn set_word(&mut self, place: Place, number: usize, word: u32) {
        self.bytes(place)[4 * number..4 * number + 4].copy_from_slice(&word.to_ne_bytes());
    }

    fn run(&mut self, op: &Op<Place>) {
        match op {
            Op::Set(to, _, value) => self.bytes(*to).fill(*value),
            Op::Copy([from, to], _) => {
                let source = self.bytes(*from).to_vec();
                self.bytes(*to).copy_from_slice(&source);
            }
            &Op::Add(kernel, [from, to], k) => {
                for number in 0..from.len.min(to.len) / 4 {
                    let mut sum = self.word(from, number);
                    if let Some((variable, writes)) = by_name(kernel) {
                        let element = if writes { number } else { 0 };
                        sum = sum.wrapping_add(self.word(variable, element));
                        if writes {
                            self.set_word(variable, element, sum);
                        }
                    }
                    self.set_word(to, number, sum.wrapping_add(k));
                }
            }
            Op::If(flag, body) => {
                if self.word(*flag, 0) != 0 {
                    body.iter().for_each(|op| self.run(op));
                }
            }
            Op::Replay(_) => {}
        }
    }

    /// Runs operations one by one, each only if no lease conflicts with it.
    fn run_stepwise(&mut self, stream: usize, ops: &[Op<Place>]) -> Result<(), Refused> {
        for op in ops {
            if let Op::If(flag, body) = op {
                self.admit(stream, &[(*flag, false)])?;
                if self.word(*flag, 0) != 0 {
                    self.run_stepwise(stream, body)?;
                }
            } else {
                self.admit(stream, &op.accesses())?;
                self.run(op);
            }
        }
        Ok(())
    }

    fn swap(&mut self, at: usize, slots: [usize; 2], exclusive: [bool; 2]) -> Result<(), Refused> {
        let arrays = slots.map(|slot| self.array(slot));
        let ([Some(old), Some(new)], Some(mut graph)) = (arrays, self.graphs[at].clone()) else {
            return Ok(());
        };
        if slots[0] == slots[1] {
            return Ok(());
        }
        let memory = |at: usize| &self.memories[at];
        if memory(old).bytes.len() != memory(new).bytes.len() {
            return Err("Length");
        }
        memory(new).keep()?;
        let places = [old, new].map(|at| graph.alignments.get(&at).copied());
        let fits = |array: usize, place: usize, is_exclusive: bool| {
            let alignment = graph.alignments.get(&place);
            alignment.is_none_or(|&alignment| {
                memory(array).alignment() >= alignment
                    && memory(array).is_variable() == memory(place).is_variable()
                    && (is_exclusive || !graph.writes(place) || graph.writes(array))
            })
        };
        if places[0].is_none()
            || graph.is_fixed_to(old)
            || graph.is_fixed_to(new)
            || !fits(new, old, exclusive[1])
            || !fits(old, new, exclusive[0])
        {
            return Err("Graph");
        }
        for place in graph.ops.iter_mut().flat_map(Op::places) {
            place.memory = match place.memory {
                at if at == old => new,
                at if at == new => old,
                other => other,
            };
        }
        graph.alignments.remove(&old);
        graph
            .alignments
            .extend(places[1].map(|alignment| (old, alignment)));
        graph
            .alignments
            .extend(places[0].map(|alignment| (new, alignment)));
        self.graphs[at] = Some(graph);
        Ok(())
    }

    fn lend(&mut self, slot: usize, is_moved: bool) -> Result<(), Refused> {
        let Some(place) = self.place(Part::whole(slot), 1) else {
            return Ok(());
        };
        let memory = place.memory;
        if matches!(
            self.memories[memory].source,
            Source::Pool(_) | Source::Adopted(..)
        ) {
            self.admit(THEIRS, &[(place, is_moved)])?;
            if place.len > 0 {
                self.memories[memory].lease = Some(Lease {
                    writes: is_moved,
                    is_put_off: false,
                });
            }
            self.arrays[slot] = Some(Array { memory, is_moved });
            self.leaks |= !is_moved;
        }
        Ok(())
    }

    fn give_back(&mut self, slot: usize) -> Result<(), Refused> {
        let Some(memory) = self.array(slot).filter(|_| !self.is_capturing) else {
            return Ok(());
        };
        match &self.memories[memory].source {
            Source::Pool(_) => return Err("NotAdopted"),
            Source::Variable(_) | Source::Managed => return Ok(()),
            Source::Adopted(..) => {}
        }
        let mut graphs = self.graphs.iter().flatten();
        if graphs.any(|graph| graph.alignments.contains_key(&memory)) {
            return Err("Graph");
        }
        let whole = self.place(Part::whole(slot), 1);
        self.admit(
            THEIRS,
            &whole.map_or(Vec::new(), |place| vec![(place, true)]),
        )?;
        self.arrays[slot] = None;
        Ok(())
    }

    /// Applies a step that succeeds; returns the kind of the error of one that is refused.
    pub(super) fn apply(&mut self, step: &Step) -> Result<(), Refused> {
        match *step {
            Step::Make(slot, source) => self.make(slot, source),
            Step::Drop(slot) => self.drop_array(slot),
            Step::Do(stream, ref op) => {
                for op in self.find(op, false)? {
                    self.admit(stream, &op.accesses())?;
                    self.run(&op);
                }
            }
            Step::Download(stream, part) => {
                let place = self.place(part, 1);
                if let Some(place) = place.filter(|place| place.len > 0) {
                    self.admit(stream, &[(place, false)])?;
                }
                let bytes = place.map(|place| self.bytes(place).to_vec());
                self.downloads.push(bytes);
            }
            Step::Lend(slot) => return self.lend(slot, true),
            Step::LendForEver(slot) => return self.lend(slot, false),
            Step::OwnersFill(slot, value) => {
                let moved = self.arrays[slot].filter(|array| array.is_moved);
                if let Some(array) = moved.filter(|_| !self.is_capturing) {
                    self.memories[array.memory].bytes.fill(value);
                }
            }
            Step::EndLease(slot) => {
                if let Some(array) = self.arrays[slot].as_mut().filter(|array| array.is_moved) {
                    array.is_moved = false;
                    let memory = array.memory;
                    self.end_lease(memory);
                }
            }
            Step::Return(slot, _) => return self.give_back(slot),
            Step::Capture => self.is_capturing = true,
            Step::EndCapture => self.is_capturing = false,
            Step::Record(graph, _, ref ops) => self.graphs[graph] = Some(self.record(ops)?),
            Step::Update(graph, ref ops) => {
                if let Some(before) = self.graphs[graph].take() {
                    let recorded = self.record(ops);
                    self.graphs[graph] = Some(recorded.clone().unwrap_or(before));
                    recorded?;
                }
            }
            Step::Replay(graph, stream, way) => {
                let recorded = self.graphs[graph].clone().unwrap_or_default();
                if way == Way::Stepwise {
                    return self.run_stepwise(stream, &recorded.ops);
                }
                if !recorded.ops.is_empty() {
                    self.admit(stream, &recorded.accesses())?;
                }
                for _ in 0..if way == Way::Twice { 2 } else { 1 } {
                    recorded.ops.iter().for_each(|op| self.run(op));
                }
            }
            Step::Swap(graph, slots, exclusive) => return self.swap(graph, slots, exclusive),
            Step::SetScalar(graph, kernel, value) => {
                let Some(graph) = &mut self.graphs[graph] else {
                    return Ok(());
                };
                let mut found = graph.ops.iter_mut().filter_map(|op| match op {
                    Op::Add(of, _, k) if *of == kernel => Some(k),
                    _ => None,
                });
                match (found.next(), found.next()) {
                    (Some(k), None) => *k = value,
                    _ => return Err("Graph"),
                }
            }
            Step::Instance(graph, to) => {
                if let Some(graph) = self.graphs[graph].clone() {
                    let is_captured = |op: &Op<Place>| matches!(op, Op::Set(_, How::Foreign, _));
                    if graph.ops.iter().any(|op| op.any(&is_captured)) {
                        return Err("Graph");
                    }
                    self.graphs[to] = Some(graph);
                }
            }
            Step::DropGraph(graph) => self.graphs[graph] = None,
        }
        Ok(())
    }
}
