//! The values of a clause's operands, for the error of a clause that does not hold.

use std::{
    cell::RefCell,
    fmt::{self, Write},
};

use super::{FAILED, Outer};

/// The maximum length of the text of one value, in bytes.
const VALUE_BYTES_MAX: usize = 100;

/// The operands of a clause and their values, in the order of evaluation.
#[derive(Debug, Default)]
pub struct Values(RefCell<Vec<(&'static str, String)>>);

impl Values {
    /// Notes the value of an operand, and returns it.
    pub fn noted<T>(
        &self,
        operand: &'static str,
        value: T,
        show: impl FnOnce(&T) -> Option<String>,
    ) -> T {
        self.note(operand, show(&value));
        value
    }

    /// Notes the value of an operand, unless it cannot be shown or has been noted.
    pub fn note(&self, operand: &'static str, value: Option<String>) {
        let mut noted = self.0.borrow_mut();
        if let Some(value) = value
            && !noted.iter().any(|(other, _)| *other == operand)
        {
            noted.push((operand, value));
        }
    }
}

/// Evaluates a false clause again, noting the values of its operands. Returns them as text, with a
/// remark if its arithmetic had no result.
#[cold]
#[inline(never)]
pub fn values(clause: impl FnOnce(&Values) -> bool) -> String {
    let _outer = Outer::begin();
    let values = Values::default();
    clause(&values);
    let mut text = String::new();
    for (operand, value) in values.0.into_inner() {
        let comma = if text.is_empty() { "" } else { ", " };
        text.extend([comma, operand, " = ", &value]);
    }
    if FAILED.get() {
        let semicolon = if text.is_empty() { "" } else { "; " };
        text.extend([semicolon, "its arithmetic overflows or divides by zero"]);
    }
    text
}

/// A value to be formatted, if its type allows.
///
/// The method `text` formats a type that implements [`Debug`](fmt::Debug). For any other type, the
/// method of the same name of [`Opaque`] returns `None`.
pub struct Shown<'a, T>(pub &'a T);

impl<T: fmt::Debug> Shown<'_, T> {
    /// Returns the value as text, truncated if it is long.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let mut short = Short(String::new());
        // `Short` fails if the text was truncated.
        let whole = write!(short, "{:?}", self.0).is_ok();
        let Short(mut text) = short;
        if !whole {
            text.push('…');
        }
        Some(text)
    }
}

/// The fallback for types that cannot be formatted.
pub trait Opaque {
    /// Returns `None`.
    fn text(&self) -> Option<String> {
        None
    }
}

impl<T> Opaque for Shown<'_, T> {}

/// A writer with a maximum length.
struct Short(String);

impl Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = VALUE_BYTES_MAX - self.0.len();
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        let starts = text.char_indices().map(|(start, _)| start);
        let end = starts.take_while(|&start| start <= room).last();
        self.0.push_str(&text[..end.unwrap_or(0)]);
        Err(fmt::Error)
    }
}
