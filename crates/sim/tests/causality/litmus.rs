//! Litmus tests: short programs and outcomes, whose verdicts the model must reproduce. They are in
//! `litmus.txt`.

use super::{Accessed, Event, Execution, Relation, permutations};

/// An operation of a litmus test: its event, and the value that it writes or reads.
struct Operation {
    event: Event,
    value: u32,
    /// True if it depends on the operation before it.
    depends: bool,
}

impl Operation {
    fn parse(text: &str, block: usize, thread: usize) -> Self {
        let (depends, text) = match text.strip_prefix("dep ") {
            Some(text) => (true, text),
            None => (false, text),
        };
        let (name, target) = text.split_once(' ').unwrap_or((text, ""));
        let mut words = name.split('.');
        let kind = words.next().unwrap();
        let modifiers: Vec<&str> = words.collect();
        let has = |modifier: &str| modifiers.contains(&modifier);
        let (location, value) = target.split_once('=').unwrap_or(("", "0"));
        let fence = kind == "F";
        let any = !(has("acq") || has("rel") || has("acqrel"));
        let atomic = matches!(kind, "A" | "red");
        let access = (!matches!(kind, "F" | "B")).then(|| Accessed {
            memory: location.as_bytes()[0].into(),
            start: 0,
            bytes: 1,
            reads: kind == "R" || atomic,
            writes: kind == "W" || atomic,
            strong: !has("weak"),
            reduction: kind == "red",
        });
        Self {
            event: Event {
                block,
                thread,
                access,
                acquires: has("acq") || has("acqrel") || fence && any,
                releases: has("rel") || has("acqrel") || fence && any,
                sequential: fence && any,
                block_only: has("cta"),
                barrier: kind == "B",
            },
            value: value.parse().unwrap(),
            depends,
        }
    }

    /// Returns the value that the operation writes.
    fn written(&self) -> u32 {
        self.value + u32::from(self.event.reads())
    }
}

/// Returns the operations of all threads, one thread after the other.
fn operations(blocks: &str, threads: &str) -> Vec<Operation> {
    let blocks = blocks.split(' ').map(|block| block.parse().unwrap());
    let threads = threads.split(" || ").enumerate();
    let of_thread = |(block, (thread, text)): (usize, (usize, &str))| {
        let texts: Vec<String> = text.split("; ").map(str::to_owned).collect();
        let parsed = texts.into_iter();
        parsed.map(move |text| Operation::parse(&text, block, thread))
    };
    blocks.zip(threads).flat_map(of_thread).collect()
}

/// Returns each way to choose one item of each list.
fn choices<T: Clone>(lists: &[Vec<T>]) -> Vec<Vec<T>> {
    let mut chosen = vec![Vec::new()];
    for list in lists {
        let longer = chosen.iter().flat_map(|chosen| {
            list.iter().map(|item| {
                let mut longer: Vec<T> = chosen.clone();
                longer.push(item.clone());
                longer
            })
        });
        chosen = longer.collect();
    }
    chosen
}

/// Returns whether the outcome is possible.
fn is_allowed(operations: &[Operation]) -> bool {
    let events: Vec<Event> = operations.iter().map(|operation| operation.event).collect();
    let numbers = 0..events.len();
    let (mut barriers, mut dependencies) = (Relation::default(), Relation::default());
    for one in numbers.clone() {
        if operations[one].depends {
            dependencies.set(one - 1, one, true);
        }
        for other in numbers.clone() {
            let meet = events[one].barrier
                && events[other].barrier
                && events[one].block == events[other].block;
            barriers.set(one, other, meet && one != other);
        }
    }
    // The writes that each read may read its value from.
    let sources = |read: usize| -> Vec<Vec<Option<usize>>> {
        if !events[read].reads() {
            return vec![Vec::new()];
        }
        let value = operations[read].value;
        let writes = numbers.clone().filter(|write| {
            let same = events[*write].writes() && events[*write].overlaps(&events[read]);
            *write != read && same && operations[*write].written() == value
        });
        let initial = (value == 0).then_some(None);
        let all = writes.map(Some).chain(initial);
        all.map(|source| vec![source]).collect()
    };
    let of_location = |memory: usize| -> Vec<Relation> {
        let writes = numbers.clone().filter(|at| {
            let access = events[*at].access;
            access.is_some_and(|access| access.writes && access.memory == memory)
        });
        let orders = permutations(&writes.collect::<Vec<_>>());
        orders
            .iter()
            .map(|order| Relation::of_sequence(order))
            .collect()
    };
    let sources = choices(&numbers.clone().map(sources).collect::<Vec<_>>());
    let coherences = choices(&(0..128).map(of_location).collect::<Vec<_>>());
    sources.iter().any(|sources| {
        coherences.iter().any(|coherence| {
            let execution = Execution {
                events: events.clone(),
                sources: sources.clone(),
                coherence: coherence
                    .iter()
                    .fold(Relation::default(), |all, one| all.or(one)),
                barriers: barriers.clone(),
                dependencies: dependencies.clone(),
                ..Execution::default()
            };
            !execution.causality_orders().is_empty()
        })
    })
}

#[test]
fn published_litmus_tests_have_their_verdicts() {
    let mut counts = [0; 2];
    for line in include_str!("litmus.txt").lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (head, threads) = line.split_once("] ").unwrap();
        let (name, blocks) = head.split_once(" [").unwrap();
        let allowed = is_allowed(&operations(blocks, threads));
        let expected = name.starts_with("allowed ");
        assert_eq!(allowed, expected, "{line}");
        counts[usize::from(expected)] += 1;
    }
    assert!(counts.iter().all(|count| *count > 30), "{counts:?}");
}
