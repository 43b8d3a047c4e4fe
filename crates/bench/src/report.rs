//! The results: rows of figures, and whether they meet their targets.

use std::fmt;

/// The bound that a figure has to keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// No bound.
    None,
    /// An upper bound.
    AtMost(f64),
    /// A lower bound.
    AtLeast(f64),
}

impl Goal {
    /// Returns whether `value` keeps the bound, if there is one.
    fn is_met_by(self, value: f64) -> Option<bool> {
        match self {
            Self::None => None,
            Self::AtMost(most) => Some(value <= most),
            Self::AtLeast(least) => Some(value >= least),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::AtMost(most) => f.pad(&format!("<= {}", Short(*most))),
            Self::AtLeast(least) => f.pad(&format!(">= {}", Short(*least))),
        }
    }
}

/// A number, rounded for display.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0.abs() {
            0.0 => "0".into(),
            size if size >= 100.0 => format!("{:.0}", self.0),
            size if size >= 10.0 => format!("{:.1}", self.0),
            _ => format!("{:.2}", self.0),
        };
        f.pad(&text)
    }
}

/// One line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The target's name: `T4`.
    pub(crate) target: String,
    /// The library that was measured.
    pub(crate) who: String,
    /// A description of the measured work.
    pub(crate) what: String,
    /// The unit of `figure` and `raw`.
    pub(crate) unit: String,
    pub(crate) figure: Option<f64>,
    /// The figure of the same work in raw driver calls, measured in the same run.
    pub(crate) raw: Option<f64>,
    /// The value to compare with the goal: the figure, or its ratio to `raw`.
    pub(crate) judged: Option<f64>,
    /// The bound for `judged`.
    pub(crate) goal: Goal,
    /// The reason why there is no figure, or a remark about it.
    pub(crate) note: String,
}

/// The library that most rows are about.
const OURS: &str = "Millstream";

impl Row {
    /// Creates a row with a figure and its baseline in raw driver calls. Their ratio is compared
    /// with the goal.
    pub(crate) fn times(
        target: &str,
        what: impl Into<String>,
        unit: &str,
        figure: f64,
        raw: f64,
        goal: Goal,
    ) -> Self {
        Self {
            judged: Some(figure / raw),
            ..Self::count(target, what, unit, figure, raw, goal)
        }
    }

    /// Creates a row with a figure and its baseline in raw driver calls. The figure itself is
    /// compared with the goal.
    pub(crate) fn count(
        target: &str,
        what: impl Into<String>,
        unit: &str,
        figure: f64,
        raw: f64,
        goal: Goal,
    ) -> Self {
        Self {
            raw: Some(raw),
            ..Self::judged(target, what, unit, figure, goal)
        }
    }

    /// Creates a row with a figure that has no baseline. The figure is compared with the goal.
    pub(crate) fn judged(
        target: &str,
        what: impl Into<String>,
        unit: &str,
        figure: f64,
        goal: Goal,
    ) -> Self {
        Self {
            unit: unit.into(),
            figure: Some(figure),
            judged: Some(figure),
            goal,
            ..Self::absent(target, what, "")
        }
    }

    /// Creates a row for work that cannot be measured here, with the reason.
    pub(crate) fn absent(target: &str, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            target: target.into(),
            who: OURS.into(),
            what: what.into(),
            unit: String::new(),
            figure: None,
            raw: None,
            judged: None,
            goal: Goal::None,
            note: why.into(),
        }
    }

    /// Sets the library that was measured.
    pub(crate) fn by(self, who: impl Into<String>) -> Self {
        Self {
            who: who.into(),
            ..self
        }
    }

    pub(crate) fn with_note(mut self, note: &str) -> Self {
        if !self.note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(note);
        self
    }

    pub(crate) fn of_raw(&self) -> Option<f64> {
        Some(self.figure? / self.raw?)
    }

    /// Returns the target's number, by which rows are sorted.
    pub(crate) fn number(&self) -> u32 {
        self.target[1..]
            .parse()
            .expect("a target is a T and a number")
    }

    /// Returns whether the target is met, if there is a goal and a figure.
    pub(crate) fn is_met(&self) -> Option<bool> {
        self.goal.is_met_by(self.judged?)
    }

    fn verdict(&self) -> &str {
        match self.is_met() {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "",
        }
    }
}

/// A target: its name, the measured work, the unit of the figures, and the bound of their ratio.
#[derive(Clone, Copy)]
pub(crate) struct Target(
    pub(crate) &'static str,
    pub(crate) &'static str,
    pub(crate) &'static str,
    pub(crate) Goal,
);

impl Target {
    /// Creates the row of figures of the library and of raw driver calls.
    pub(crate) fn row(self, ours: f64, raw: f64) -> Row {
        Row::times(self.0, self.1, self.2, ours, raw, self.3)
    }

    /// Creates the row of another library, which has no bound.
    pub(crate) fn by(self, who: &str, theirs: f64, raw: f64) -> Row {
        Target(self.0, self.1, self.2, Goal::None)
            .row(theirs, raw)
            .by(who)
    }
}

pub(crate) struct Table<'a>(pub(crate) &'a [Row]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |text: fn(&Row) -> &str| {
            self.0
                .iter()
                .map(|row| text(row).chars().count())
                .max()
                .unwrap_or(0)
        };
        let (what, who) = (width(|row| &row.what), width(|row| &row.who));
        let number = |value: Option<f64>| {
            value
                .map(|value| Short(value).to_string())
                .unwrap_or_default()
        };
        writeln!(
            f,
            "{:<4} {:<what$} {:<who$} {:>10} {:>10} {:<12} {:>7} {:>9}",
            "", "", "", "figure", "raw", "", "x raw", "target"
        )?;
        for row in self.0 {
            let line = format!(
                "{:<4} {:<what$} {:<who$} {:>10} {:>10} {:<12} {:>7} {:>9} {:<7} {}",
                row.target,
                row.what,
                row.who,
                number(row.figure),
                number(row.raw),
                row.unit,
                number(row.of_raw()),
                row.goal,
                row.verdict(),
                row.note,
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_met_if_it_keeps_its_bound() {
        let row = |figure, goal| Row::count("T4", "x", "instructions", figure, 10.0, goal);
        assert_eq!(row(400.0, Goal::AtMost(400.0)).is_met(), Some(true));
        assert_eq!(row(401.0, Goal::AtMost(400.0)).is_met(), Some(false));
        assert_eq!(row(9.0, Goal::AtLeast(9.0)).is_met(), Some(true));
        assert_eq!(row(8.9, Goal::AtLeast(9.0)).is_met(), Some(false));
        let times = Row::times("T1", "x", "ns", 12.0, 10.0, Goal::AtMost(1.2));
        assert_eq!(
            times.is_met(),
            Some(true),
            "the ratio is judged, not the figure"
        );
        assert_eq!(row(1.0, Goal::None).is_met(), None);
        assert_eq!(Row::absent("T6", "x", "needs a GPU").is_met(), None);
    }

    #[test]
    fn the_table_has_a_line_for_each_row() {
        let rows = [
            Row::count(
                "T4",
                "one stream",
                "instructions",
                500.0,
                20.0,
                Goal::AtMost(400.0),
            ),
            Row::absent("T6", "upload", "needs a GPU"),
        ];
        let table = Table(&rows).to_string();
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        for part in ["T4", "one stream", "500", "25.0", "<= 400", "NOT MET"] {
            assert!(lines[1].contains(part), "{part} in {}", lines[1]);
        }
        assert!(lines[2].ends_with("needs a GPU"));
    }
}
