//! Rows as JSON: written for other programs, and read from programs that measure.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::report::{Goal, Row};

pub(crate) fn write(device: &str, rows: &[Row]) -> String {
    let rows: Vec<Value> = rows.iter().map(row).collect();
    let whole = json!({ "millstream": env!("CARGO_PKG_VERSION"), "device": device, "rows": rows });
    format!("{whole:#}\n")
}

fn row(row: &Row) -> Value {
    let (at_most, at_least) = match row.goal {
        Goal::None => (None, None),
        Goal::AtMost(most) => (Some(most), None),
        Goal::AtLeast(least) => (None, Some(least)),
    };
    json!({
        "target": row.target,
        "who": row.who,
        "what": row.what,
        "unit": row.unit,
        "figure": row.figure,
        "raw": row.raw,
        "ratio": row.of_raw(),
        "judged": row.judged,
        "at_most": at_most,
        "at_least": at_least,
        "met": row.is_met(),
        "note": row.note,
    })
}

/// Reads the rows of a program that prints `{"who": …, "rows": [{"target", "what", "unit",
/// "figure"}, …]}`, where a row may have its own `who`. A row takes the raw figure of the row in
/// `ours` that measures the same.
pub(crate) fn read(text: &str, ours: &[Row]) -> Result<Vec<Row>> {
    let whole: Value = serde_json::from_str(text).context("the output is not JSON")?;
    let who = whole["who"].as_str().context("the output has no `who`")?;
    let rows = whole["rows"]
        .as_array()
        .context("the output has no `rows`")?;
    let read = |row: &Value| {
        let text = |key: &str| {
            row[key]
                .as_str()
                .with_context(|| format!("a row has no `{key}`: {row}"))
        };
        let (target, what, unit) = (text("target")?, text("what")?, text("unit")?);
        let digits = target.strip_prefix('T').unwrap_or_default();
        ensure!(
            digits.parse::<u32>().is_ok(),
            "`{target}` is not a target, which is T and a number"
        );
        let figure = row["figure"]
            .as_f64()
            .with_context(|| format!("a row has no `figure`: {row}"))?;
        let same = ours
            .iter()
            .find(|ours| ours.target == target && ours.what == what && ours.unit == unit);
        let row = match same.and_then(|same| same.raw) {
            Some(raw) => Row::times(target, what, unit, figure, raw, Goal::None),
            None => Row::judged(target, what, unit, figure, Goal::None),
        };
        Ok(row.by(text("who").unwrap_or(who)))
    };
    rows.iter().map(read).collect()
}

/// Reads the rows with a figure and a raw figure from a text of [`write()`].
pub(crate) fn read_written(text: &str) -> Result<Vec<Row>> {
    let whole: Value = serde_json::from_str(text).context("not JSON")?;
    let mut rows = Vec::new();
    for row in whole["rows"].as_array().context("no rows")? {
        let text = |key: &str| {
            row[key]
                .as_str()
                .with_context(|| format!("no {key}: {row}"))
        };
        let (target, what, unit) = (text("target")?, text("what")?, text("unit")?);
        if let (Some(figure), Some(raw)) = (row["figure"].as_f64(), row["raw"].as_f64()) {
            let goal = match (row["at_most"].as_f64(), row["at_least"].as_f64()) {
                (Some(most), _) => Goal::AtMost(most),
                (_, Some(least)) => Goal::AtLeast(least),
                _ => Goal::None,
            };
            rows.push(Row {
                judged: row["judged"].as_f64(),
                ..Row::times(target, what, unit, figure, raw, goal).by(text("who")?)
            });
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_rows_contain_every_value() {
        let rows = [
            Row::times("T6", "upload", "GB/s", 44.0, 8.0, Goal::AtLeast(5.5)),
            Row::absent("T13", "GPU to GPU", "needs two GPUs"),
        ];
        let whole: Value = serde_json::from_str(&write("a GPU", &rows)).unwrap();
        assert_eq!(whole["device"], "a GPU");
        let [first, second] = [&whole["rows"][0], &whole["rows"][1]];
        assert_eq!(
            (&first["figure"], &first["ratio"], &first["met"]),
            (&json!(44.0), &json!(5.5), &json!(true))
        );
        assert_eq!(
            (&first["at_least"], &first["at_most"]),
            (&json!(5.5), &Value::Null)
        );
        assert_eq!(
            (&second["figure"], &second["note"]),
            (&Value::Null, &json!("needs two GPUs"))
        );
    }

    #[test]
    fn rows_of_other_programs_are_read() {
        let text = r#"{"who": "PyTorch", "rows": [
            {"target": "T6", "what": "upload", "unit": "GB/s", "figure": 18.0},
            {"target": "T6", "what": "another", "unit": "GB/s", "figure": 2}]}"#;
        let ours = [Row::times(
            "T6",
            "upload",
            "GB/s",
            40.0,
            9.0,
            Goal::AtLeast(5.5),
        )];
        let rows = read(text, &ours).unwrap();
        assert_eq!(
            (rows[0].who.as_str(), rows[0].of_raw(), rows[0].is_met()),
            ("PyTorch", Some(2.0), None)
        );
        assert_eq!((rows[1].figure, rows[1].of_raw()), (Some(2.0), None));
        assert!(read("{}", &ours).is_err());
        assert!(read(r#"{"who": "x", "rows": [{"target": "six"}]}"#, &ours).is_err());
    }

    #[test]
    fn rows_that_were_written_are_read_again() {
        let rows = [
            Row::times("T6", "upload", "GB/s", 44.0, 8.0, Goal::AtLeast(5.5)).by("cudarc"),
            Row::absent("T13", "GPU to GPU", "needs two GPUs"),
        ];
        let read = read_written(&write("a GPU", &rows)).unwrap();
        let [read] = &read[..] else {
            panic!("{read:?}");
        };
        assert_eq!(
            (read.what.as_str(), read.who.as_str(), read.of_raw()),
            ("upload", "cudarc", Some(5.5))
        );
        assert_eq!(read.is_met(), Some(true));
        assert!(read_written("{}").is_err());
    }
}
