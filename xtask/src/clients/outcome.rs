//! The outcomes of a project's tests.

use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// The project itself left the test out, or expects it to fail, with this reason.
    Skipped(String),
    /// The test failed with this message, or did not end.
    Failed(String),
}

#[derive(Debug, Default)]
pub(super) struct Outcomes(pub(super) BTreeMap<String, Outcome>);

impl Outcomes {
    /// Enters an outcome. Of several, as of subtests, the worst counts.
    pub(super) fn add(&mut self, test: &str, outcome: Outcome) {
        let rank = |outcome: &Outcome| match outcome {
            Outcome::Passed => 0,
            Outcome::Skipped(_) => 1,
            Outcome::Failed(_) => 2,
        };
        let known = self.0.entry(test.to_owned());
        let known = known.or_insert_with(|| outcome.clone());
        if rank(&outcome) > rank(known) {
            *known = outcome;
        }
    }

    /// Reads the lines that `outcomes.py` writes. A test that started and has no outcome ended its
    /// process, or did not end.
    pub(super) fn add_lines(&mut self, text: &str) {
        let mut started: BTreeMap<&str, bool> = BTreeMap::new();
        for line in text.lines() {
            let mut fields = line.splitn(3, '\t');
            let (Some(test), Some(outcome)) = (fields.next(), fields.next()) else {
                continue;
            };
            let reason = fields.next().unwrap_or("").to_owned();
            let outcome = match outcome {
                "started" => {
                    started.entry(test).or_insert(false);
                    continue;
                }
                "passed" => Outcome::Passed,
                "skipped" => Outcome::Skipped(reason),
                _ => Outcome::Failed(reason),
            };
            started.insert(test, true);
            self.add(test, outcome);
        }
        for (test, _) in started.into_iter().filter(|(_, ended)| !ended) {
            self.add(test, Outcome::Failed("the process did not end".into()));
        }
    }

    pub(super) fn summary(&self) -> String {
        let count =
            |matches: fn(&Outcome) -> bool| self.0.values().filter(|it| matches(it)).count();
        format!(
            "{} passed, {} failed, {} skipped",
            count(|it| *it == Outcome::Passed),
            count(|it| matches!(it, Outcome::Failed(_))),
            count(|it| matches!(it, Outcome::Skipped(_))),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_outcome_counts_and_a_test_without_one_failed() {
        let mut outcomes = Outcomes::default();
        outcomes.add_lines(
            "a\tstarted\t\na\tpassed\t\nb\tstarted\t\nb\tfailed\twrong\nb\tpassed\t\n\
             c\tstarted\t\nd\tskipped\tno GPU\n",
        );
        let failed = |text: &str| Outcome::Failed(text.into());
        let expected = [
            ("a", Outcome::Passed),
            ("b", failed("wrong")),
            ("c", failed("the process did not end")),
            ("d", Outcome::Skipped("no GPU".into())),
        ];
        let expected = expected.map(|(name, outcome)| (name.to_owned(), outcome));
        assert_eq!(outcomes.0, BTreeMap::from(expected));
        assert_eq!(outcomes.summary(), "1 passed, 2 failed, 1 skipped");
    }
}
