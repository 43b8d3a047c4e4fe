//! The textual form of a [`SimConfig`]: `sim`, `sim:seed=7`, `sim:schedule=lazy,rules=strict`.

use crate::{Rules, Schedule, SimConfig};

/// A device specification that does not say what it means.
///
/// ```
/// use millstream_sim::SimConfig;
/// let error = SimConfig::from_spec("sim:sched=lazy").unwrap_err();
/// assert!(error.to_string().contains("sched"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("device specification `{spec}`: {problem}")]
pub struct SpecError {
    spec: String,
    problem: String,
}

impl SimConfig {
    /// Reads `sim`, or `sim:` and options separated by commas:
    ///
    /// | option | meaning |
    /// |---|---|
    /// | `seed=N` | [`Schedule::Random`] with this seed |
    /// | `schedule=timed`, `eager`, `lazy`, `random` | that schedule; `random` takes its seed from `seed=`, else 0 |
    /// | `rules=observed`, `strict` | [`Rules::observed`] or [`Rules::strict`] |
    /// | `devices=N` | that many devices |
    /// | `race=on`, `off` | whether [races](crate::race) are looked for |
    /// | `memory=N`, `NK`, `NM`, `NG` | memory of each device in bytes, KiB, MiB, GiB |
    ///
    /// # Errors
    ///
    /// Anything else: an unknown or repeated option, a value that is none, a seed beside a schedule that is not random.
    pub fn from_spec(spec: &str) -> Result<Self, SpecError> {
        parse(spec).map_err(|problem| SpecError {
            spec: spec.to_owned(),
            problem,
        })
    }
}

fn parse(spec: &str) -> Result<SimConfig, String> {
    let options = match spec.strip_prefix("sim") {
        Some("") => return Ok(SimConfig::new()),
        Some(rest) => rest.strip_prefix(':'),
        None => None,
    }
    .ok_or("expected `sim` or `sim:option=value,…`")?;
    let mut config = SimConfig::new();
    let mut seed = None;
    let mut schedule = None;
    let mut seen = Vec::new();
    for option in options.split(',') {
        let (key, value) = option
            .split_once('=')
            .ok_or_else(|| format!("`{option}` is not of the form option=value"))?;
        if seen.contains(&key) {
            return Err(format!("`{key}` is given twice"));
        }
        seen.push(key);
        match key {
            "seed" => seed = Some(number(key, value)?),
            "schedule" => schedule = Some(value),
            "rules" => config = config.rules(rules(value)?),
            "devices" => match number(key, value)? {
                n @ 1..=64 => config = config.devices(n as u32),
                n => {
                    return Err(format!(
                        "devices={n}, but 1 to {} can be had",
                        SimConfig::DEVICES_MAX
                    ));
                }
            },
            "memory" => config = config.memory_bytes(bytes(value)?),
            "race" => match value {
                "on" | "off" => config = config.race_check(value == "on"),
                _ => return Err(format!("race={value} is neither `on` nor `off`")),
            },
            _ => {
                return Err(format!(
                    "there is no option `{key}`; there are seed, schedule, rules, devices, memory, race"
                ));
            }
        }
    }
    config.schedule = match (schedule, seed) {
        (None, None) => Schedule::Timed,
        (None | Some("random"), seed) => Schedule::Random(seed.unwrap_or(0)),
        (Some("timed"), None) => Schedule::Timed,
        (Some("eager"), None) => Schedule::Eager,
        (Some("lazy"), None) => Schedule::Lazy,
        (Some(name @ ("timed" | "eager" | "lazy")), Some(_)) => {
            return Err(format!("schedule `{name}` takes no seed"));
        }
        (Some(name), _) => {
            return Err(format!(
                "there is no schedule `{name}`; there are timed, eager, lazy, random"
            ));
        }
    };
    Ok(config)
}

fn number(key: &str, value: &str) -> Result<u64, String> {
    value
        .parse()
        .map_err(|_| format!("{key}={value} is not a whole number of 64 bits"))
}

fn rules(value: &str) -> Result<Rules, String> {
    match value {
        "observed" => Ok(Rules::observed()),
        "strict" => Ok(Rules::strict()),
        _ => Err(format!(
            "there are no rules `{value}`; there are observed, strict"
        )),
    }
}

fn bytes(value: &str) -> Result<u64, String> {
    let (digits, shift) = match value.as_bytes().last() {
        Some(b'K') => (&value[..value.len() - 1], 10),
        Some(b'M') => (&value[..value.len() - 1], 20),
        Some(b'G') => (&value[..value.len() - 1], 30),
        _ => (value, 0),
    };
    number("memory", digits)?
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("memory={value} does not fit 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schedule_has_a_spelling() {
        for (spec, schedule) in [
            ("sim", Schedule::Timed),
            ("sim:schedule=timed", Schedule::Timed),
            ("sim:schedule=eager", Schedule::Eager),
            ("sim:schedule=lazy", Schedule::Lazy),
            ("sim:schedule=random", Schedule::Random(0)),
            ("sim:seed=7", Schedule::Random(7)),
            ("sim:schedule=random,seed=7", Schedule::Random(7)),
            ("sim:seed=7,schedule=random", Schedule::Random(7)),
        ] {
            assert_eq!(SimConfig::from_spec(spec).unwrap().schedule, schedule, "{spec}");
        }
    }

    #[test]
    fn sizes_and_counts_are_read() {
        let config = SimConfig::from_spec("sim:devices=2,memory=3G,rules=strict,race=off").unwrap();
        assert_eq!(config, config.clone().race_check(false));
        assert_ne!(config, config.clone().race_check(true));
        assert_eq!(config.devices, 2);
        assert_eq!(config.memory_bytes, 3 << 30);
        assert_eq!(config.rules, Rules::strict());
    }

    #[test]
    fn what_means_nothing_is_refused_with_the_reason() {
        for (spec, reason) in [
            ("", "expected `sim`"),
            ("simulator", "expected `sim`"),
            ("cuda:0", "expected `sim`"),
            ("sim:", "not of the form"),
            ("sim:lazy", "not of the form"),
            ("sim:seed=", "not a whole number"),
            ("sim:seed=-1", "not a whole number"),
            ("sim:seed=1,seed=2", "twice"),
            ("sim:schedule=slow", "no schedule `slow`"),
            ("sim:schedule=lazy,seed=1", "takes no seed"),
            ("sim:devices=0", "1 to 64"),
            ("sim:memory=G", "not a whole number"),
            ("sim:memory=99999999999999999G", "does not fit"),
            ("sim:rules=loose", "no rules `loose`"),
            ("sim:race=maybe", "neither `on` nor `off`"),
        ] {
            let error = SimConfig::from_spec(spec).unwrap_err().to_string();
            assert!(error.contains(reason), "{spec}: {error}");
        }
    }
}
