//! The journal of a rank: its last collectives, which the ranks compare when one is lost.

use std::{collections::VecDeque, fmt::Write, panic::Location};

use super::super::operation::CollectiveOp;

/// The number of collectives that a rank remembers.
const ENTRIES_MAX: usize = 64;

/// A submitted collective.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The number of the collective in its group, from 1.
    pub(super) number: u64,
    pub(super) label: &'static str,
    pub(super) location: &'static Location<'static>,
    /// The operation as the ranks compare it: kind, elements, type.
    pub(super) text: String,
}

/// The last collectives of a rank.
#[derive(Debug, Default)]
pub(super) struct Journal {
    entries: VecDeque<Entry>,
    count: u64,
}

impl Journal {
    /// Adds the operations of one group.
    pub(super) fn add(&mut self, operations: &[CollectiveOp<'_>]) -> Entry {
        self.count += 1;
        let mut text = String::new();
        for operation in operations {
            let part = operation.parts.first();
            let span = part.and_then(|part| part.source.as_ref().or(part.target.as_ref()));
            let bytes = span.map_or(0, |span| span.bytes.len());
            let count = bytes / operation.element.bytes();
            if !text.is_empty() {
                text.push_str(", ");
            }
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "{:?} of {count} {}",
                operation.kind, operation.element
            );
            if let Some(reduce) = operation.reduce {
                let _ = write!(text, " by {reduce:?}");
            }
        }
        let entry = Entry {
            number: self.count,
            label: operations
                .first()
                .map_or("group", |first| first.kind.label()),
            location: operations
                .first()
                .map_or(Location::caller(), |first| first.location),
            text,
        };
        self.entries.push_back(entry.clone());
        if self.entries.len() > ENTRIES_MAX {
            self.entries.pop_front();
        }
        entry
    }

    /// Returns the journal as text, a line for each collective: number, operation, source line.
    pub(super) fn to_text(&self) -> String {
        let line =
            |entry: &Entry| format!("{}\t{}\t{}\n", entry.number, entry.text, entry.location);
        self.entries.iter().map(line).collect()
    }
}

/// A line of another rank's journal.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line<'a> {
    number: u64,
    text: &'a str,
    location: &'a str,
}

/// Parses a journal. Lines of another form are left out.
fn parse(journal: &str) -> Vec<Line<'_>> {
    let line = |line| -> Option<Line<'_>> {
        let mut fields = str::splitn(line, 3, '\t');
        Some(Line {
            number: fields.next()?.parse().ok()?,
            text: fields.next()?,
            location: fields.next()?,
        })
    };
    journal.lines().filter_map(line).collect()
}

/// Describes the first difference between the journals of the ranks, if there is one. A rank without
/// a journal did not answer.
pub(super) fn first_difference(journals: &[Option<String>]) -> Option<String> {
    let silent: Vec<String> = (0..journals.len())
        .filter(|&rank| journals[rank].is_none())
        .map(|rank| rank.to_string())
        .collect();
    if !silent.is_empty() {
        let ranks = silent.join(", ");
        return Some(match silent.len() {
            1 => format!("rank {ranks} does not answer: its process may have ended"),
            _ => format!("ranks {ranks} do not answer: their processes may have ended"),
        });
    }
    let journals: Vec<Vec<Line<'_>>> = journals.iter().flatten().map(|text| parse(text)).collect();
    let last = |lines: &[Line<'_>]| lines.last().map_or(0, |line| line.number);
    let newest = journals.iter().map(|lines| last(lines)).max()?;
    let oldest = journals
        .iter()
        .filter_map(|lines| Some(lines.first()?.number));
    let from = oldest.max()?;
    for number in from..=newest {
        let at = |rank: usize| journals[rank].iter().find(|line| line.number == number);
        let Some((first, known)) = (0..journals.len()).find_map(|rank| Some((rank, at(rank)?)))
        else {
            continue;
        };
        for (rank, lines) in journals.iter().enumerate() {
            match at(rank) {
                Some(line) if line.text == known.text => {}
                Some(line) => {
                    return Some(format!(
                        "collective {number} is {} on rank {first} ({}) and {} on rank {rank} ({})",
                        known.text, known.location, line.text, line.location
                    ));
                }
                None => {
                    return Some(format!(
                        "collective {number}, {} on rank {first} ({}), was not called on rank {rank}, \
                         whose last was number {}",
                        known.text,
                        known.location,
                        last(lines)
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

    fn journal(lines: &[(u64, &str)]) -> Option<String> {
        let line = |(number, text): &(u64, &str)| format!("{number}\t{text}\tlib.rs:{number}:5\n");
        Some(lines.iter().map(line).collect())
    }

    #[test]
    fn the_first_difference_is_named_with_both_ranks_and_lines() {
        let sum = "AllReduce of 8 f32 by Sum";
        let one = journal(&[(3, sum), (4, sum), (5, sum)]);
        let two = journal(&[(4, sum), (5, "AllReduce of 9 f32 by Sum"), (6, sum)]);
        let difference = first_difference(&[one.clone(), two]).expect("they differ");
        assert_eq!(
            difference,
            "collective 5 is AllReduce of 8 f32 by Sum on rank 0 (lib.rs:5:5) and AllReduce of 9 \
             f32 by Sum on rank 1 (lib.rs:5:5)"
        );
        assert_eq!(first_difference(&[one.clone(), one.clone()]), None);
        let behind = journal(&[(3, sum), (4, sum)]);
        assert_eq!(
            first_difference(&[one.clone(), behind]).expect("they differ"),
            "collective 5, AllReduce of 8 f32 by Sum on rank 0 (lib.rs:5:5), was not called on rank \
             1, whose last was number 4"
        );
        assert_eq!(
            first_difference(&[one, None]).expect("they differ"),
            "rank 1 does not answer: its process may have ended"
        );
    }
}
