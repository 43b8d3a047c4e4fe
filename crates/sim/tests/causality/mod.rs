//! The axiomatic memory model of the PTX ISA, executable for programs of litmus size: an oracle for
//! the race check, which the verdicts of published litmus tests check in turn.
//!
//! Section numbers are those of the PTX ISA 8.8 to 9.0, chapter 8. The formal reading is that of
//! Lustig, Sahasrabuddhe and Giroux, *A Formal Analysis of the NVIDIA PTX Memory Consistency
//! Model*, ASPLOS 2019, <https://doi.org/10.1145/3297858.3304043>.

mod litmus;
mod relation;

pub(crate) use relation::Relation;

/// The maximum number of events of an execution.
pub(crate) const EVENTS_MAX: usize = 128;

/// The bytes of one memory that an access reads, writes or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accessed {
    /// The memory: locations of different memories never overlap.
    pub(crate) memory: usize,
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    /// True for a relaxed, volatile, acquire or release access, and for an atomic.
    pub(crate) strong: bool,
    /// True for `red`, whose read begins no acquire pattern.
    pub(crate) reduction: bool,
}

impl Accessed {
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.memory == other.memory
            && self.start < other.start + other.bytes
            && other.start < self.start + self.bytes
    }

    fn is_at(&self, other: &Self) -> bool {
        (self.memory, self.start, self.bytes) == (other.memory, other.start, other.bytes)
    }
}

/// An operation of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Event {
    pub(crate) block: usize,
    pub(crate) thread: usize,
    /// `None` for a fence or a barrier.
    pub(crate) access: Option<Accessed>,
    pub(crate) acquires: bool,
    pub(crate) releases: bool,
    /// True for `fence.sc`.
    pub(crate) sequential: bool,
    /// True for the scope `.cta`.
    pub(crate) block_only: bool,
    /// True for an operation at a barrier, which the execution relates to others.
    pub(crate) barrier: bool,
}

impl Event {
    fn is_same_thread(&self, other: &Self) -> bool {
        (self.block, self.thread) == (other.block, other.thread)
    }

    fn reads(&self) -> bool {
        self.access.is_some_and(|access| access.reads)
    }

    fn writes(&self) -> bool {
        self.access.is_some_and(|access| access.writes)
    }

    fn is_strong(&self) -> bool {
        self.access.is_none_or(|access| access.strong)
    }

    fn is_fence(&self) -> bool {
        self.access.is_none() && !self.barrier
    }

    fn overlaps(&self, other: &Self) -> bool {
        let accesses = self.access.zip(other.access);
        accesses.is_some_and(|(one, other)| one.overlaps(&other))
    }

    /// Moral strength (8.7.2).
    pub(crate) fn is_morally_strong(&self, other: &Self) -> bool {
        let scopes = self.block == other.block || !(self.block_only || other.block_only);
        let strong = self.is_strong() && other.is_strong() && scopes;
        let accesses = self.access.zip(other.access);
        (strong || self.is_same_thread(other))
            && accesses.is_none_or(|(one, other)| one.is_at(&other))
    }
}

/// Deviations from the ISA.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// Makes every strong read but those of `red` an acquire operation.
    pub(crate) lenient: bool,
    /// Forgets what only accesses that race with each other communicate.
    pub(crate) races_order_nothing: bool,
}

/// A candidate execution: events in an order that extends each thread's, and what each reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Execution {
    pub(crate) events: Vec<Event>,
    /// For each byte that an event reads, the write that it reads from; `None` for the initial one.
    pub(crate) sources: Vec<Vec<Option<usize>>>,
    /// The order in which the writes of each location become coherent, as far as they are related.
    pub(crate) coherence: Relation,
    /// The arrivals at barriers, before the waits that they complete (8.9.4).
    pub(crate) barriers: Relation,
    /// The dependencies of instructions on earlier ones of their thread.
    pub(crate) dependencies: Relation,
    pub(crate) reading: Reading,
}

impl Execution {
    fn pairs(&self, related: impl Fn(&Event, &Event) -> bool) -> Relation {
        let events = || self.events.iter().enumerate();
        let mut relation = Relation::default();
        for (one, first) in events() {
            for (other, second) in events().filter(|(other, _)| *other != one) {
                relation.set(one, other, related(first, second));
            }
        }
        relation
    }

    fn program_order(&self) -> Relation {
        let mut order = self.pairs(Event::is_same_thread);
        order.retain(|one, other| one < other);
        order
    }

    /// Each write before the reads that it supplies with a byte.
    fn reads_from(&self) -> Relation {
        let mut relation = Relation::default();
        for (read, sources) in self.sources.iter().enumerate() {
            for write in sources.iter().flatten() {
                relation.set(*write, read, true);
            }
        }
        relation
    }

    /// Each write before the reads that return its whole value.
    fn whole_values(&self) -> Relation {
        let mut relation = self.reads_from();
        relation.retain(|write, read| {
            let mut sources = self.sources[read].iter();
            sources.all(|source| *source == Some(write))
        });
        relation
    }

    /// Observation order (8.9.2).
    fn observation(&self, strong: &Relation) -> Relation {
        let mut order = self.whole_values().and(strong);
        for (atomic, event) in self.events.iter().enumerate() {
            if event.reads() && event.writes() {
                order.connect(atomic);
            }
        }
        order
    }

    /// The release patterns (8.8): the first operation of each, before its write.
    fn releases(&self) -> Relation {
        let mut patterns = self.pairs(|first, write| {
            let here = first.access.zip(write.access);
            first.is_same_thread(write)
                && first.releases
                && (first.is_fence() || here.is_some_and(|(one, other)| one.is_at(&other)))
                && write.writes()
                && write.is_strong()
        });
        patterns.retain(|first, write| first < write);
        for (at, event) in self.events.iter().enumerate() {
            patterns.set(at, at, event.writes() && event.releases);
        }
        patterns
    }

    /// The acquire patterns (8.8): the read of each, before its last operation.
    fn acquires(&self) -> Relation {
        let begins = |read: &Event| {
            let access = read.access.filter(|access| !access.reduction);
            access.is_some_and(|access| access.reads && access.strong)
        };
        let mut patterns = self.pairs(|read, last| {
            let here = read.access.zip(last.access);
            read.is_same_thread(last)
                && begins(read)
                && last.acquires
                && (last.is_fence()
                    || last.reads() && here.is_some_and(|(one, other)| one.is_at(&other)))
        });
        patterns.retain(|read, last| read < last);
        for (at, event) in self.events.iter().enumerate() {
            let alone = begins(event) && (event.acquires || self.reading.lenient);
            patterns.set(at, at, alone);
        }
        patterns
    }

    /// The release patterns that synchronise with acquire patterns (8.9.4): their first operations,
    /// before the last ones.
    fn synchronisation(&self, observation: &Relation) -> Relation {
        let acquires = self.acquires();
        let mut relation = self.releases().then(observation).then(&acquires);
        let events = &self.events;
        relation.retain(|first, last| {
            !events[first].is_same_thread(&events[last])
                && events[first].is_morally_strong(&events[last])
        });
        relation
    }

    /// Fence-SC orders (8.9.3): each a permutation of the fences, as far as it relates those that
    /// are morally strong.
    fn fence_orders(&self) -> Vec<Relation> {
        let fences = (0..self.events.len()).filter(|at| self.events[*at].sequential);
        let orders = permutations(&fences.collect::<Vec<_>>());
        let related = |order: &Vec<usize>| {
            let mut relation = Relation::of_sequence(order);
            let events = &self.events;
            relation.retain(|one, other| events[one].is_morally_strong(&events[other]));
            relation.close();
            relation
        };
        let mut relations: Vec<_> = orders.iter().map(related).collect();
        relations.sort_unstable();
        relations.dedup();
        relations
    }

    /// Returns causality order (8.9.5) for each Fence-SC order that the axioms (8.10) allow.
    pub(crate) fn causality_orders(&self) -> Vec<Relation> {
        let program = self.program_order();
        let strong = self.pairs(Event::is_morally_strong);
        let overlap = self.pairs(Event::overlaps);
        let reads_from = self.reads_from();
        let observation = self.observation(&strong);
        let synchronisation = self.synchronisation(&observation);
        let fixed = program.or(&self.barriers);
        let writes = self.pairs(|one, other| one.writes() && other.writes() && one.overlaps(other));
        // No-thin-air (8.10.4).
        if !reads_from.or(&self.dependencies).is_acyclic() {
            return Vec::new();
        }
        let allowed = self.fence_orders().into_iter().filter_map(|fences| {
            // A pattern affects what is behind its last operation, and not this one (8.8).
            let last = fixed.or(&fences);
            let mut through = last.or(&synchronisation);
            through.close();
            let base = last.or(&through.then(&last));
            let causality = base.or(&observation.then(&base));
            // Fence-SC (8.10.2). Coherence (8.10.1): the order relates writes that are morally
            // strong or in causality order (8.9.6).
            let mut coherence = self.coherence.and(&strong);
            coherence.close();
            let mut by_causality = writes.and(&causality);
            if self.reading.races_order_nothing {
                let related = self.coherence.or(&strong).or(&coherence.transposed());
                by_causality = by_causality.and(&related);
            }
            coherence.add(&by_causality);
            coherence.close();
            let mut numbered = self.events.iter().enumerate();
            let cyclic = numbered.any(|(at, event)| event.writes() && causality.has(at, at));
            if !fences.then(&causality).is_irreflexive() || !coherence.is_irreflexive() || cyclic {
                return None;
            }
            let from_reads = self.reads_before(&coherence);
            let communication = reads_from.or(&coherence).or(&from_reads);
            // Atomicity (8.10.3).
            let between = from_reads.and(&strong).then(&coherence.and(&strong));
            // SC-per-location (8.10.5).
            let local = communication.and(&strong).or(&program.and(&overlap));
            // Causality (8.10.6).
            let seen = match self.reading.races_order_nothing {
                true => self.whole_values().or(&from_reads).and(&strong),
                false => reads_from.or(&from_reads),
            };
            let is_allowed = between.is_irreflexive()
                && local.is_acyclic()
                && seen.then(&causality).is_irreflexive();
            is_allowed.then_some(causality)
        });
        allowed.collect()
    }

    /// Each read before the writes that are coherent after one that it reads from (8.9.7).
    fn reads_before(&self, coherence: &Relation) -> Relation {
        let mut relation = Relation::default();
        for (read, sources) in self.sources.iter().enumerate() {
            let start = self.events[read].access.map_or(0, |access| access.start);
            for (byte, source) in (start..).zip(sources) {
                let memory = self.events[read].access.map(|access| access.memory);
                for (write, event) in self.events.iter().enumerate().filter(|(at, _)| *at != read) {
                    let has = event.access.is_some_and(|access| {
                        let bytes = access.start..access.start + access.bytes;
                        access.writes && Some(access.memory) == memory && bytes.contains(&byte)
                    });
                    let later = match source {
                        Some(source) => coherence.has(*source, write),
                        None => true,
                    };
                    if has && later {
                        relation.set(read, write, true);
                    }
                }
            }
        }
        relation
    }
}

/// Returns all permutations of the items.
fn permutations(items: &[usize]) -> Vec<Vec<usize>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let first = |at: usize| {
        let mut rest = items.to_vec();
        let item = rest.remove(at);
        permutations(&rest).into_iter().map(move |mut order| {
            order.insert(0, item);
            order
        })
    };
    (0..items.len()).flat_map(first).collect()
}
