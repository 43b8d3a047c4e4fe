//! One measurement: a variant of each library that is wanted and works here.

use std::collections::HashSet;

use anyhow::Result;

use crate::{
    harness::Harness,
    report::{Goal, Row},
    timing::{SampleSize, Variant, medians_of},
};

/// The libraries, by the start of the names of their variants.
pub(crate) const LIBRARIES: [&str; 4] = ["Millstream", "cudarc", "cuda-core", "cuda-async"];

/// What all measurements have in common.
pub(crate) struct Bench {
    pub(crate) harness: Harness,
    /// The libraries to measure.
    pub(crate) only: HashSet<String>,
    /// Set for a simulated device: arrays are small, and rounds few.
    pub(crate) small: bool,
}

impl Bench {
    /// Returns whether a variant's library is to be measured.
    pub(crate) fn is_wanted(&self, who: &str) -> bool {
        let library = who.split_once(", ").map_or(who, |(library, _)| library);
        library == "raw" || self.only.contains(library)
    }

    /// Begins a measurement with the variant of raw driver calls. The goal is Millstream's.
    pub(crate) fn table<'a>(
        &'a self,
        (target, what): (&'static str, &'a str),
        goal: Goal,
        sample_size: SampleSize,
        raw: Variant<'a>,
    ) -> Table<'a> {
        Table {
            bench: self,
            target,
            what,
            goal,
            sample_size,
            names: Vec::new(),
            variants: vec![raw],
            failures: Vec::new(),
        }
    }
}

/// A measurement to which libraries are added.
pub(crate) struct Table<'a> {
    bench: &'a Bench,
    target: &'static str,
    what: &'a str,
    goal: Goal,
    sample_size: SampleSize,
    names: Vec<&'static str>,
    /// The raw one, and one for each name.
    variants: Vec<Variant<'a>>,
    failures: Vec<Row>,
}

impl<'a> Table<'a> {
    /// Adds a library, if it is wanted. If its variant fails when it is first run, the others are
    /// measured without it.
    pub(crate) fn add(&mut self, who: &'static str, make: impl FnOnce() -> Result<Variant<'a>>) {
        if !self.bench.is_wanted(who) {
            return;
        }
        let tried = make().and_then(|mut variant| {
            variant.run(&self.bench.harness, 1)?;
            Ok(variant)
        });
        match tried {
            Ok(variant) => {
                self.names.push(who);
                self.variants.push(variant);
            }
            Err(error) => {
                let row = Row::absent(self.target, self.what, format!("FAILED: {error:#}"));
                self.failures.push(row.by(who));
            }
        }
    }

    /// Measures all in turns, and returns a row for each library.
    pub(crate) fn rows(mut self) -> Result<Vec<Row>> {
        if self.bench.small {
            self.sample_size.rounds = 1;
        }
        let medians = medians_of(&self.bench.harness, self.sample_size, &mut self.variants)?;
        let mut rows = Vec::new();
        for (&who, &figure) in self.names.iter().zip(&medians[1..]) {
            let goal = match who {
                "Millstream" => self.goal,
                _ => Goal::None,
            };
            let row = Row::times(self.target, self.what, "ns", figure, medians[0], goal);
            rows.push(row.by(who));
        }
        rows.extend(self.failures);
        Ok(rows)
    }
}

/// Creates a variant whose time is the host's, or that until the device is done.
pub(crate) fn variant<'a>(
    is_complete: bool,
    mut work: impl FnMut() -> Result<()> + 'a,
    mut drain: impl FnMut() -> Result<()> + 'a,
) -> Variant<'a> {
    match is_complete {
        true => Variant::complete(move || {
            work()?;
            drain()
        }),
        false => Variant::new(work, drain),
    }
}
