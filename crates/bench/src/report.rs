//! What came of the measurements: rows of figures, and whether each target is met.

use std::fmt;

/// What a figure is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// Not judged.
    None,
    /// No more than this.
    AtMost(f64),
}

impl Goal {
    /// Whether `value` is what it is to be, if anything is asked.
    fn is_met_by(self, value: f64) -> Option<bool> {
        match self {
            Self::None => None,
            Self::AtMost(most) => Some(value <= most),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::AtMost(most) => f.pad(&format!("<= {}", Short(*most))),
        }
    }
}

/// A number in as few digits as say something.
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
    /// The target's number: `T4`.
    pub(crate) target: &'static str,
    /// What was measured.
    pub(crate) what: String,
    /// The unit of `figure` and `raw`.
    pub(crate) unit: &'static str,
    /// Millstream's figure.
    pub(crate) figure: Option<f64>,
    /// The figure of the same work written directly against the driver, in the same run.
    pub(crate) raw: Option<f64>,
    /// What is judged.
    pub(crate) judged: Option<f64>,
    /// What it is to be.
    pub(crate) goal: Goal,
    /// Why there is no figure, or what is to be known of it.
    pub(crate) note: String,
}

impl Row {
    /// A count or a time that is judged itself, with what the same work takes without Millstream.
    pub(crate) fn count(
        target: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        figure: f64,
        raw: f64,
        goal: Goal,
    ) -> Self {
        Self {
            target,
            what: what.into(),
            unit,
            figure: Some(figure),
            raw: Some(raw),
            judged: Some(figure),
            goal,
            note: String::new(),
        }
    }

    /// A ratio of two figures of Millstream's.
    pub(crate) fn ratio(target: &'static str, what: impl Into<String>, ratio: f64, goal: Goal) -> Self {
        Self {
            target,
            what: what.into(),
            unit: "ratio",
            figure: Some(ratio),
            raw: None,
            judged: Some(ratio),
            goal,
            note: String::new(),
        }
    }

    /// Something that cannot be measured here, and why.
    pub(crate) fn absent(target: &'static str, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            target,
            what: what.into(),
            unit: "",
            figure: None,
            raw: None,
            judged: None,
            goal: Goal::None,
            note: why.into(),
        }
    }

    /// The figure as a multiple of the raw one.
    pub(crate) fn of_raw(&self) -> Option<f64> {
        Some(self.figure? / self.raw?)
    }

    /// Whether the target is met, if there is one and a figure.
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

/// The rows as a table for people.
pub(crate) struct Table<'a>(pub(crate) &'a [Row]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .0
            .iter()
            .map(|row| row.what.chars().count())
            .max()
            .unwrap_or(0);
        let number = |value: Option<f64>| value.map(|value| Short(value).to_string()).unwrap_or_default();
        writeln!(
            f,
            "{:<4} {:<width$} {:>10} {:>10} {:<12} {:>7} {:>9}",
            "", "", "Millstream", "raw", "", "x raw", "target"
        )?;
        for row in self.0 {
            let line = format!(
                "{:<4} {:<width$} {:>10} {:>10} {:<12} {:>7} {:>9} {:<7} {}",
                row.target,
                row.what,
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
    fn a_row_says_whether_its_target_is_met() {
        let row = |figure, goal| Row::count("T4", "x", "instructions", figure, 10.0, goal);
        assert_eq!(row(400.0, Goal::AtMost(400.0)).is_met(), Some(true));
        assert_eq!(row(401.0, Goal::AtMost(400.0)).is_met(), Some(false));
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
