//! The journal of a rank: its last collectives, which the ranks compare when one is lost.
//!
//! Collectives are numbered in the order of the calls, which is the same on all ranks. Messages are
//! numbered for each pair of ranks, because only these two take part.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Write,
    panic::Location,
};

use crate::{
    Reduce,
    element::DataType,
    operation::{CollectiveKind, CollectiveOp},
};

/// The number of calls that a rank remembers, of each sequence.
const CALLS_MAX: usize = 64;

/// The longest line of another rank's journal that is read.
const LINE_BYTES_MAX: usize = 4096;

/// A submitted group of operations, as errors name it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) label: &'static str,
    pub(super) location: &'static Location<'static>,
}

/// A sequence of calls that two or more ranks make in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sequence {
    /// The collectives, in which all ranks take part.
    Collectives,
    /// The messages between two ranks.
    Messages { from: usize, to: usize },
}

#[derive(Clone, Copy, Debug)]
struct Call {
    /// The number in its sequence, from 1.
    number: u64,
    kind: CollectiveKind,
    count: usize,
    element: DataType,
    reduce: Option<Reduce>,
    location: &'static Location<'static>,
}

/// The last calls of a rank.
#[derive(Debug, Default)]
pub(super) struct Journal {
    sequences: BTreeMap<Sequence, VecDeque<Call>>,
    last: Option<Entry>,
}

impl Journal {
    /// Adds the operations of one group. `ranks` are the local ranks.
    pub(super) fn add(&mut self, operations: &[CollectiveOp<'_>], ranks: &[usize]) {
        for operation in operations {
            let Some(part) = operation.parts.first() else {
                continue;
            };
            let own = ranks[part.local];
            let sequence = match operation.kind {
                CollectiveKind::Send { to } => Sequence::Messages { from: own, to },
                // The sender has noted it.
                CollectiveKind::Recv { from } if ranks.contains(&from) => continue,
                CollectiveKind::Recv { from } => Sequence::Messages { from, to: own },
                _ => Sequence::Collectives,
            };
            // The length is the same on all ranks.
            let span = match operation.kind {
                CollectiveKind::AllGatherUneven => part.target.as_ref(),
                _ => part.source.as_ref().or(part.target.as_ref()),
            };
            let bytes = span.map_or(0, |span| span.bytes());
            let calls = self.sequences.entry(sequence).or_default();
            calls.push_back(Call {
                number: calls.back().map_or(0, |last| last.number) + 1,
                kind: operation.kind,
                count: bytes / operation.element.size(),
                element: operation.element,
                reduce: operation.reduce,
                location: operation.location,
            });
            if calls.len() > CALLS_MAX {
                calls.pop_front();
            }
        }
        self.last = entry_of(operations).or(self.last);
    }

    pub(super) fn last(&self) -> Option<Entry> {
        self.last
    }

    /// Returns the journal as text, a line for each call: sequence, number, operation, source line.
    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        for (sequence, calls) in &self.sequences {
            for call in calls {
                // Writing to a string cannot fail.
                let _ = match sequence {
                    Sequence::Collectives => write!(text, "*"),
                    Sequence::Messages { from, to } => write!(text, "{from}>{to}"),
                };
                let (number, operation) = (call.number, call.to_text());
                let _ = writeln!(text, "\t{number}\t{operation}\t{}", call.location);
            }
        }
        text
    }
}

/// Returns the name and the line of the first operation.
pub(super) fn entry_of(operations: &[CollectiveOp<'_>]) -> Option<Entry> {
    operations.first().map(|first| Entry {
        label: first.kind.label(),
        location: first.location,
    })
}

impl Call {
    /// Describes the call, as it must be the same on all ranks.
    fn to_text(self) -> String {
        let (count, element) = (self.count, self.element);
        let mut text = match self.kind {
            CollectiveKind::Send { .. } | CollectiveKind::Recv { .. } => String::new(),
            kind => format!("{} of ", kind.label()),
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "{count} {element}");
        if let Some(reduce) = self.reduce {
            let _ = write!(text, " by {reduce:?}");
        }
        if let CollectiveKind::Broadcast { root } | CollectiveKind::Reduce { root } = self.kind {
            let _ = write!(text, " with root {root}");
        }
        text
    }
}

/// A line of a rank's journal.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line<'a> {
    sequence: Sequence,
    number: u64,
    text: &'a str,
    location: &'a str,
}

/// Parses a journal. Lines of another form are left out.
fn parse(journal: &str) -> impl Iterator<Item = Line<'_>> {
    fn line(line: &str) -> Option<Line<'_>> {
        // Errors print what another process has written here.
        if line.len() > LINE_BYTES_MAX || line.replace('\t', "").contains(char::is_control) {
            return None;
        }
        let mut fields = str::splitn(line, 4, '\t');
        let sequence = match fields.next()? {
            "*" => Sequence::Collectives,
            pair => {
                let (from, to) = pair.split_once('>')?;
                let (from, to) = (from.parse().ok()?, to.parse().ok()?);
                Sequence::Messages { from, to }
            }
        };
        Some(Line {
            sequence,
            number: fields.next()?.parse().ok()?,
            text: fields.next()?,
            location: fields.next()?,
        })
    }
    journal.lines().filter_map(line)
}

/// Names the ranks without a journal, if there are any: they did not answer.
pub(super) fn silent_ranks(journals: &[Option<String>]) -> Option<String> {
    let silent: Vec<String> = (0..journals.len())
        .filter(|&rank| journals[rank].is_none())
        .map(|rank| rank.to_string())
        .collect();
    let ranks = silent.join(", ");
    match silent.len() {
        0 => None,
        1 => Some(format!(
            "rank {ranks} does not answer: its process may have ended"
        )),
        _ => Some(format!(
            "ranks {ranks} do not answer: their processes may have ended"
        )),
    }
}

/// The calls of one sequence by rank and number.
type Calls<'a> = BTreeMap<usize, BTreeMap<u64, Line<'a>>>;

/// Describes the first difference between the journals of the ranks, if there is one.
pub(super) fn first_difference(journals: &[Option<String>]) -> Option<String> {
    let ranks = 0..journals.len();
    let mut sequences: BTreeMap<Sequence, Calls<'_>> = BTreeMap::new();
    for (rank, text) in journals.iter().enumerate() {
        for line in parse(text.as_deref().unwrap_or_default()) {
            let calls = sequences.entry(line.sequence).or_insert_with(|| {
                let mut taking_part = match line.sequence {
                    Sequence::Collectives => ranks.clone().collect(),
                    Sequence::Messages { from, to } => vec![from, to],
                };
                taking_part.retain(|rank| ranks.contains(rank));
                let calls = taking_part.into_iter();
                calls.map(|rank| (rank, BTreeMap::new())).collect()
            });
            if let Some(calls) = calls.get_mut(&rank) {
                calls.insert(line.number, line);
            }
        }
    }
    let mut sequences = sequences.iter();
    sequences.find_map(|(sequence, calls)| difference_in(*sequence, calls))
}

/// Describes the first difference in one sequence.
fn difference_in(sequence: Sequence, calls: &Calls<'_>) -> Option<String> {
    let name = match sequence {
        Sequence::Collectives => "collective".to_owned(),
        Sequence::Messages { from, to } => format!("from rank {from} to rank {to}, message"),
    };
    let oldest = calls.values().filter_map(|lines| lines.keys().next());
    let from = *oldest.max()?;
    // Numbers of which no rank has a call are passed over, however many there are.
    let numbers: BTreeSet<u64> = calls
        .values()
        .flat_map(|lines| lines.range(from..).map(|(number, _)| *number))
        .collect();
    for number in numbers {
        let mut made = calls
            .iter()
            .filter_map(|(rank, lines)| Some((rank, lines.get(&number)?)));
        let Some((first, known)) = made.next() else {
            continue;
        };
        let Line { text, location, .. } = known;
        for (rank, lines) in calls {
            match lines.get(&number) {
                Some(line) if line.text == *text => {}
                Some(line) => {
                    return Some(format!(
                        "{name} {number} is {text} on rank {first} ({location}), and {} on rank \
                         {rank} ({})",
                        line.text, line.location
                    ));
                }
                None => {
                    let last = lines.keys().next_back().unwrap_or(&0);
                    return Some(format!(
                        "{name} {number}, {text} on rank {first} ({location}), was not called on \
                         rank {rank}, whose last is number {last}"
                    ));
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(lines: &[(&str, u64, &str)]) -> Option<String> {
        let line = |(sequence, number, text): &(&str, u64, &str)| {
            format!("{sequence}\t{number}\t{text}\tlib.rs:{number}:5\n")
        };
        Some(lines.iter().map(line).collect())
    }

    #[test]
    fn the_first_difference_is_named_with_both_ranks_and_lines() {
        let sum = "all_reduce of 8 f32 by Sum";
        let one = journal(&[("*", 3, sum), ("*", 4, sum), ("*", 5, sum)]);
        let other = "all_reduce of 9 f32 by Sum";
        let two = journal(&[("*", 4, sum), ("*", 5, other), ("*", 6, sum)]);
        assert_eq!(
            first_difference(&[one.clone(), two]).as_deref(),
            Some(
                "collective 5 is all_reduce of 8 f32 by Sum on rank 0 (lib.rs:5:5), and \
                 all_reduce of 9 f32 by Sum on rank 1 (lib.rs:5:5)"
            )
        );
        assert_eq!(first_difference(&[one.clone(), one.clone()]), None);
        let behind = journal(&[("*", 3, sum), ("*", 4, sum)]);
        assert_eq!(
            first_difference(&[one.clone(), behind]).as_deref(),
            Some(
                "collective 5, all_reduce of 8 f32 by Sum on rank 0 (lib.rs:5:5), was not called \
                 on rank 1, whose last is number 4"
            )
        );
        assert_eq!(
            silent_ranks(&[one, None]).as_deref(),
            Some("rank 1 does not answer: its process may have ended")
        );
    }

    #[test]
    fn messages_are_compared_between_their_two_ranks() {
        let sent = journal(&[("0>1", 1, "8 f32"), ("0>1", 2, "8 f32"), ("*", 1, "a")]);
        let received = journal(&[("0>1", 1, "8 f32"), ("0>1", 2, "9 f32"), ("*", 1, "a")]);
        let neither = journal(&[("*", 1, "a")]);
        assert_eq!(
            first_difference(&[sent.clone(), received, neither.clone()]).as_deref(),
            Some(
                "from rank 0 to rank 1, message 2 is 8 f32 on rank 0 (lib.rs:2:5), and 9 f32 on \
                 rank 1 (lib.rs:2:5)"
            )
        );
        assert_eq!(
            first_difference(&[sent.clone(), neither.clone(), neither.clone()]).as_deref(),
            Some(
                "from rank 0 to rank 1, message 1, 8 f32 on rank 0 (lib.rs:1:5), was not called \
                 on rank 1, whose last is number 0"
            )
        );
        assert_eq!(first_difference(&[sent.clone(), sent, neither]), None);
    }

    #[test]
    fn crafted_journals_are_compared_in_little_time() {
        let one = journal(&[("*", 1, "a"), ("*", 2, "\u{1b}[2J"), ("*", u64::MAX, "a")]);
        assert_eq!(first_difference(&[one.clone(), one.clone()]), None);
        // Many calls, and many sequences, most of them of ranks that there are not.
        let many = |line: fn(u64) -> String| Some((0..200_000).map(line).collect::<String>());
        let calls = many(|number| format!("*\t{number}\ta\tb\n"));
        let pairs = many(|number| format!("{number}>{}\t1\ta\tb\n", u64::MAX - number));
        let start = std::time::Instant::now();
        assert_eq!(first_difference(&[calls.clone(), calls]), None);
        assert!(first_difference(&[one.clone(), pairs, one]).is_some());
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }
}
