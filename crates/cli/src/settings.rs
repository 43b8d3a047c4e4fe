//! The settings of the simulated device: those of `MILLSTREAM_DEVICE` together with options.

use millstream_sim::SimConfig;

/// The environment variable of the settings.
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
    // Only what the variable has can be said of it.
    SimConfig::parse(value).map_err(|error| format!("{VARIABLE}: {error}"))?;
    let mut settings: Vec<String> = given.split(',').map(str::to_owned).collect();
    settings.retain(|setting| !setting.is_empty());
    for (name, option) in options {
        let Some(option) = option else {
            continue;
        };
        if option.contains(',') {
            return Err(format!("--{name} {option}: a value has no comma"));
        }
        let setting = format!("{name}={option}");
        let is_of_option = |other: &&String| other.split('=').next() == Some(name);
        match settings.iter().find(is_of_option) {
            None => settings.push(setting),
            Some(present) if means_the_same(present, &setting) => {}
            Some(present) => {
                return Err(format!(
                    "--{name} {option} contradicts `{present}` in {VARIABLE}={value}"
                ));
            }
        }
    }
    if settings.is_empty() {
        return Ok("sim".to_owned());
    }
    let merged = format!("sim:{}", settings.join(","));
    match SimConfig::parse(&merged) {
        Ok(_) => Ok(merged),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns whether two settings have the same effect, such as `memory=1G` and `memory=1024M`.
fn means_the_same(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|setting| SimConfig::parse(&format!("sim:{setting}")));
    one.is_ok() && one == other
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(value: &str, name: &str, option: &str) -> Result<String, String> {
        merged(Some(value), &[(name, Some(option.to_owned()))])
    }

    #[test]
    fn options_are_added_to_the_variable() {
        assert_eq!(merged(None, &[("seed", None)]).unwrap(), "sim");
        assert_eq!(with("", "seed", "7").unwrap(), "sim:seed=7");
        let both = with("sim:memory=1G,rules=strict", "schedule", "lazy");
        assert_eq!(both.unwrap(), "sim:memory=1G,rules=strict,schedule=lazy");
        let same = with("sim:memory=1G", "memory", "1024M");
        assert_eq!(same.unwrap(), "sim:memory=1G");
    }

    #[test]
    fn contradictions_and_unknown_words_are_errors() {
        for (value, name, option, problem) in [
            (
                "sim:memory=1G",
                "memory",
                "2G",
                "--memory 2G contradicts `memory=1G`",
            ),
            ("sim:schedule=lazy", "seed", "7", "`lazy` takes no seed"),
            (
                "sim:replay=1e-0000000a-0",
                "schedule",
                "lazy",
                "a replay takes no schedule",
            ),
            ("cuda:0", "seed", "7", "MILLSTREAM_DEVICE=cuda:0"),
            ("simulated", "seed", "7", "MILLSTREAM_DEVICE=simulated"),
            ("sim:speed=7", "seed", "7", "there is no option `speed`"),
            ("sim", "schedule", "bogus", "no schedule `bogus`"),
            ("sim", "memory", "1Q", "memory=1Q"),
            ("sim", "schedule", "lazy,devices=2", "comma"),
            ("sim", "rules", "loose", "no rules `loose`"),
        ] {
            let error = with(value, name, option).unwrap_err();
            assert!(error.contains(problem), "{value}, {name}: {error}");
        }
    }
}
