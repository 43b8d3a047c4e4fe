//! The settings of the simulated device: those of `MILLSTREAM_DEVICE` together with options.

use std::env;

use millstream_sim::SimConfig;

pub(crate) const VARIABLE: &str = "MILLSTREAM_DEVICE";

/// Returns the value of `MILLSTREAM_DEVICE` that has the settings of its present `value` and those
/// of the options, each with its name.
///
/// # Errors
///
/// A sentence about a value that names no simulated device, an option that contradicts it, or
/// settings that are not valid.
pub(crate) fn merged(
    value: Option<&str>,
    options: &[(&str, Option<String>)],
) -> Result<String, String> {
    let value = value.filter(|value| !value.is_empty()).unwrap_or("sim");
    let given = match value.strip_prefix("sim") {
        Some("") => "",
        Some(rest) if rest.starts_with(':') => &rest[1..],
        _ => {
            return Err(format!(
                "{VARIABLE}={value}: the program runs on the simulated device; use `sim` or \
                 `sim:` with settings, or unset the variable"
            ));
        }
    };
    // A mistake in the variable is no mistake in an option.
    let _ = SimConfig::parse(value).map_err(|error| format!("{VARIABLE}: {error}"))?;
    let settings = given.split(',').filter(|setting| !setting.is_empty());
    let mut settings: Vec<String> = settings.map(str::to_owned).collect();
    let options = options.iter();
    for (name, option) in options.filter_map(|(name, option)| Some((*name, option.as_ref()?))) {
        if option.contains(',') {
            return Err(format!("--{name} {option}: a value has no comma"));
        }
        let setting = format!("{name}={option}");
        let is_of_option = |other: &&String| other.split('=').next() == Some(name);
        match settings.iter().find(is_of_option) {
            None => settings.push(setting),
            Some(present) if *present == setting => {}
            Some(present) => {
                let problem = format!("--{name} {option} contradicts `{present}` in");
                return Err(format!("{problem} {VARIABLE}={value}"));
            }
        }
    }
    let merged = format!("sim:{}", settings.join(","));
    let merged = merged.trim_end_matches(':').to_owned();
    match SimConfig::parse(&merged) {
        Ok(_) => Ok(merged),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns a value of `MILLSTREAM_DEVICE` with the setting of `--profile-sim`, if that is given.
pub(crate) fn with_profile(value: String, is_given: bool) -> Result<String, String> {
    if !is_given {
        return Ok(value);
    }
    merged(Some(&value), &[("profile", Some("on".to_owned()))])
        .map_err(|error| error.replacen("--profile on", "--profile-sim", 1))
}

/// Returns the value of an environment variable, if it is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    let value = env::var_os(name)?;
    let value = value.to_string_lossy();
    (!value.is_empty()).then(|| value.into_owned())
}

/// Returns a word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_change_them() {
        assert_eq!(quoted("a/b.py"), "a/b.py");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("two words"), "'two words'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
