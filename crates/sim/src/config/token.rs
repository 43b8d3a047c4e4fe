//! A run's choices as a short text without spaces, to print and paste.

use std::{fmt, str::FromStr};

/// The choices of a run: the points at which the schedule ran each operation. A run depends on
/// these, its calls and its configuration only.
///
/// [`Gpu::replay_token`](crate::Gpu::replay_token) returns the token of a run,
/// [`SimConfig::replay`](crate::SimConfig::replay) configures a GPU that repeats its choices, and
/// `sim:replay=…` does so in text. The textual form has a version, `e` or `t` (operations complete
/// when they run, or by the clock), a checksum, and a digit for each choice: 0 lets the host go on,
/// n runs the n-th eligible operation; `3x12.` is twelve times 3, `z40.` is 40.
///
/// ```
/// use millstream_sim::ReplayToken;
/// let token: ReplayToken = "1e-00c0ffee-01x12.2z40.".parse()?;
/// assert_eq!(token.to_string(), "1e-00c0ffee-01x12.2z40.");
/// assert_eq!(token.choices(), 15);
/// # Ok::<(), millstream_sim::ReplayTokenError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayToken {
    pub(crate) goes_by_clock: bool,
    pub(crate) checksum: u32,
    /// The choices, each with its number of consecutive repetitions.
    pub(crate) choices: Vec<(u32, u32)>,
}

/// The error for text that is not a [`ReplayToken`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("replay token: {0}")]
pub struct ReplayTokenError(&'static str);

/// The radix of choices: smaller ones are written as one digit.
const RADIX: u32 = 32;
/// The minimum length of a repetition written with `x`; shorter ones are written out.
const ROW_MIN: u32 = 4;

impl ReplayToken {
    /// Returns the number of choices.
    #[must_use]
    pub fn choices(&self) -> u64 {
        self.choices
            .iter()
            .map(|(_, times)| u64::from(*times))
            .sum()
    }
}

impl fmt::Display for ReplayToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = if self.goes_by_clock { 't' } else { 'e' };
        write!(f, "1{clock}-{:08x}-", self.checksum)?;
        for (choice, times) in &self.choices {
            let digit = match char::from_digit(*choice, RADIX) {
                Some(digit) => digit.to_string(),
                None => format!("z{choice}."),
            };
            if *times < ROW_MIN {
                f.write_str(&digit.repeat(*times as usize))?;
            } else {
                write!(f, "{digit}x{times}.")?;
            }
        }
        Ok(())
    }
}

impl FromStr for ReplayToken {
    type Err = ReplayTokenError;

    fn from_str(text: &str) -> Result<Self, ReplayTokenError> {
        let (goes_by_clock, rest) = match (text.strip_prefix("1e-"), text.strip_prefix("1t-")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            (None, None) => {
                return Err(ReplayTokenError(
                    "the text starts with neither `1e-` nor `1t-`",
                ));
            }
        };
        let (checksum, digits) = rest
            .split_once('-')
            .filter(|(checksum, _)| checksum.len() == 8)
            .and_then(|(checksum, digits)| Some((u32::from_str_radix(checksum, 16).ok()?, digits)))
            .ok_or(ReplayTokenError(
                "the version must be followed by a checksum of eight hexadecimal digits and `-`",
            ))?;
        let mut choices: Vec<(u32, u32)> = Vec::new();
        let mut digits = digits.chars();
        while let Some(digit) = digits.next() {
            match digit {
                'z' => push(&mut choices, number(&mut digits)?),
                'x' => {
                    let more = number(&mut digits)?.checked_sub(1);
                    let row = choices.last_mut().zip(more);
                    let sum = row.and_then(|((_, times), more)| {
                        *times = times.checked_add(more)?;
                        Some(())
                    });
                    sum.ok_or(ReplayTokenError(
                        "a repetition `x` has no choice before it, or its count is 0 or too large",
                    ))?;
                }
                _ => match digit.to_digit(RADIX) {
                    Some(choice) => push(&mut choices, choice),
                    None => return Err(ReplayTokenError("a character is not a digit, `x` or `z`")),
                },
            }
        }
        Ok(Self {
            goes_by_clock,
            checksum,
            choices,
        })
    }
}

/// Appends a choice to the run-length encoding.
fn push(choices: &mut Vec<(u32, u32)>, choice: u32) {
    match choices.last_mut() {
        Some((last, times)) if *last == choice && *times < u32::MAX => *times += 1,
        _ => choices.push((choice, 1)),
    }
}

/// Parses a decimal number that ends with a full stop.
fn number(digits: &mut std::str::Chars<'_>) -> Result<u32, ReplayTokenError> {
    let rest = digits.as_str();
    let (number, after) = rest
        .split_once('.')
        .ok_or(ReplayTokenError("a number is not followed by a full stop"))?;
    *digits = after.chars();
    number
        .parse()
        .map_err(|_| ReplayTokenError("a number is not an unsigned 32-bit integer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip_through_text() {
        for choices in [
            vec![],
            vec![(0, 1)],
            vec![(1, 3), (0, 4), (31, 2), (32, 1), (1000, 900), (2, u32::MAX)],
        ] {
            for goes_by_clock in [false, true] {
                let token = ReplayToken {
                    goes_by_clock,
                    checksum: 7,
                    choices: choices.clone(),
                };
                assert_eq!(token.to_string().parse(), Ok(token));
            }
        }
    }

    #[test]
    fn invalid_tokens_are_rejected() {
        for text in [
            "",
            "1e",
            "1e-",
            "1e-7-0",
            "1e-0000000g-0",
            "1e-00000007-w",
            "1e-00000007-x3.",
            "1e-00000007-1x3",
            "1e-00000007-1x0.",
            "1e-00000007-z99999999999.",
            "2e-00000007-0",
            "1e-00000007-1,2",
            "1e-00000007-1x4294967295.x9.",
        ] {
            assert!(text.parse::<ReplayToken>().is_err(), "{text}");
        }
    }
}
