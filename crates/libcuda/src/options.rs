//! The options of the simulated device, from environment variables.
//!
//! | variable | meaning |
//! |---|---|
//! | `MILLSTREAM_DEVICE` | `sim` or `sim:option=value,…`, as `SimConfig::parse` reads it |
//! | `CUDA_VISIBLE_DEVICES` | the numbers of the devices that the program sees |
//! | `MILLSTREAM_KIND` | the kind of device, `h200` unless given: its name and attributes |
//! | `MILLSTREAM_CUDA` | the CUDA version of the driver, the newest known one unless given |
//! | `MILLSTREAM_SITES` | `off`: reports do not say where the program called, and calls cost less |
//! | `MILLSTREAM_LEAKS` | `on`: memory, streams and events that the program left are problems |
//! | `MILLSTREAM_SUPPRESS` | a file of patterns; problems that match one are left out |
//! | `MILLSTREAM_TIMELINE` | a file to which the operations are appended as a trace |
//! | `MILLSTREAM_PROGRESS` | the seconds after which, and in between which, a running kernel is named |
//! | `MILLSTREAM_REPORT` | a file to which the report is appended, too, in lines of JSON with a list of problems: one when a process opens the driver, one for each problem when it is found, some with the work done so far, and one with all when the process ends by `exit` |

use std::{path::PathBuf, time::Duration};

use millstream_sim::SimConfig;

use crate::{
    kinds::{KINDS, Kind},
    suppress::Suppressions,
    versions::NEWEST_CUDA,
};

/// The advertised memory of a device, unless given: programs choose their sizes by it.
const MEMORY_BYTES: u64 = 2 << 30;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) config: SimConfig,
    pub(crate) kind: &'static Kind,
    /// The version that `cuDriverGetVersion` returns: 1000 × major + 10 × minor.
    pub(crate) cuda_version: i32,
    /// The value of `CUDA_VISIBLE_DEVICES`.
    visible: Option<String>,
    /// True if reports show the places of the program's calls.
    pub(crate) sites: bool,
    /// True if objects that the program left alive are problems.
    pub(crate) leaks: bool,
    /// The problems that the program's owner knows.
    pub(crate) suppressions: Suppressions,
    /// The file to which the reports are appended.
    pub(crate) report: Option<PathBuf>,
    /// The file to which the operations are written.
    pub(crate) timeline: Option<PathBuf>,
    /// True if the report has the real time of each kernel.
    pub(crate) profile: bool,
    /// The time after which, and in between which, standard error names a running kernel.
    pub(crate) progress: Option<Duration>,
}

impl Options {
    /// Reads the options by `variable`, which returns the value of an environment variable.
    ///
    /// # Errors
    ///
    /// A sentence about the first variable whose value is not valid.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        // Most programs rely on it that a download to pageable memory blocks, as every driver does,
        // and some that memory which the host can read holds zeros at first.
        let config = SimConfig::new()
            .rely_on_blocking(true)
            .poison_host_memory(false);
        let mut config = config.memory_bytes(MEMORY_BYTES);
        if let Some(device) = variable("MILLSTREAM_DEVICE") {
            let problem = |why: String| format!("MILLSTREAM_DEVICE=`{device}`: {why}");
            config = match device.strip_prefix("sim") {
                Some("") => config,
                Some(options) if options.starts_with(':') => config
                    .with_options(&options[1..])
                    .map_err(|error| problem(error.to_string()))?,
                _ => {
                    let why = "this library is a simulated device; use `sim` or `sim:options`";
                    return Err(problem(why.to_owned()));
                }
            };
        }
        let kind = match variable("MILLSTREAM_KIND") {
            None => KINDS[0],
            Some(text) => Kind::find(&text).ok_or_else(|| {
                let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
                format!("MILLSTREAM_KIND=`{text}`: use one of {}", names.join(", "))
            })?,
        };
        let cuda_version = match variable("MILLSTREAM_CUDA") {
            None => NEWEST_CUDA,
            Some(text) => parse_version(&text).ok_or_else(|| {
                format!("MILLSTREAM_CUDA=`{text}`: use a version from 11.0 to 13.9, such as `12.8`")
            })?,
        };
        let is_on = |name: &str, default| match variable(name).as_deref() {
            None => Ok(default),
            Some("on") => Ok(true),
            Some("off") => Ok(false),
            Some(text) => Err(format!("{name}=`{text}`: use `on` or `off`")),
        };
        let sites = is_on("MILLSTREAM_SITES", true)?;
        let leaks = is_on("MILLSTREAM_LEAKS", false)?;
        let suppressions = match variable("MILLSTREAM_SUPPRESS") {
            None => Suppressions::default(),
            Some(path) => std::fs::read_to_string(&path)
                .map(|text| Suppressions::parse(&text))
                .map_err(|error| format!("MILLSTREAM_SUPPRESS=`{path}`: {error}"))?,
        };
        let timeline = variable("MILLSTREAM_TIMELINE").map(PathBuf::from);
        let progress = match variable("MILLSTREAM_PROGRESS") {
            None => None,
            Some(text) => {
                let seconds = text.parse().ok().map(Duration::try_from_secs_f64);
                let after = seconds.and_then(Result::ok).filter(|it| !it.is_zero());
                let problem = || format!("MILLSTREAM_PROGRESS=`{text}`: use a number of seconds");
                Some(after.ok_or_else(problem)?)
            }
        };
        // The program cannot read the record of choices, which would grow with the run.
        let config = config.timeline(timeline.is_some()).log_choices(false);
        Ok(Self {
            kind,
            cuda_version,
            visible: variable("CUDA_VISIBLE_DEVICES"),
            sites,
            leaks,
            suppressions,
            report: variable("MILLSTREAM_REPORT").map(PathBuf::from),
            profile: config == config.clone().profile(true),
            timeline,
            progress,
            config,
        })
    }

    /// Returns how many of `count` devices the program sees: those in `CUDA_VISIBLE_DEVICES` before
    /// the first entry that is no number of a device. A device that is listed twice hides all. The
    /// simulated devices are alike, so that their order is of no consequence.
    pub(crate) fn visible_devices(&self, count: i32) -> i32 {
        let Some(list) = &self.visible else {
            return count;
        };
        let entries = list
            .split(',')
            .map(|entry| entry.trim().parse::<i32>().ok());
        let numbers = entries.map_while(|entry| entry.filter(|it| (0..count).contains(it)));
        let mut numbers: Vec<i32> = numbers.collect();
        let listed = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.len() < listed {
            0
        } else {
            listed as i32
        }
    }
}

/// Returns the number of a version such as `12.8`.
fn parse_version(text: &str) -> Option<i32> {
    let (major, minor) = text.split_once('.')?;
    let (major, minor): (i32, i32) = (major.parse().ok()?, minor.parse().ok()?);
    ((11..=13).contains(&major) && (0..=9).contains(&minor)).then_some(1000 * major + 10 * minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Options, String> {
        Options::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        })
    }

    #[test]
    fn without_variables_a_device_advertises_two_gibibytes_and_the_newest_cuda() {
        let options = read(&[]).unwrap();
        let expected = SimConfig::parse("sim:memory=2G,host_memory=zeros").unwrap();
        assert_eq!(
            options.config,
            expected.rely_on_blocking(true).log_choices(false)
        );
        assert_eq!(options.kind.name, "h200");
        assert_eq!(options.cuda_version, NEWEST_CUDA);
        assert!(options.sites);
    }

    #[test]
    fn variables_set_the_simulation_and_the_version() {
        let given = [
            (
                "MILLSTREAM_DEVICE",
                "sim:devices=2,schedule=lazy,host_memory=poison",
            ),
            ("MILLSTREAM_CUDA", "12.8"),
            ("MILLSTREAM_KIND", "A100"),
            ("MILLSTREAM_SITES", "off"),
        ];
        let options = read(&given).unwrap();
        let expected = "sim:memory=2G,devices=2,schedule=lazy,host_memory=poison";
        let expected = SimConfig::parse(expected).unwrap();
        assert_eq!(
            options.config,
            expected.rely_on_blocking(true).log_choices(false)
        );
        assert_eq!(options.cuda_version, 12_080);
        assert_eq!(options.kind.compute_capability(), (8, 0));
        assert!(!options.sites);
    }

    #[test]
    fn devices_are_visible_up_to_the_first_entry_that_is_none() {
        for (list, count) in [
            ("0,1", 2),
            (" 1 ", 1),
            ("0,2,1", 1),
            ("", 0),
            ("-1", 0),
            ("NoDevFiles", 0),
            ("1,1", 0),
        ] {
            let options = read(&[("CUDA_VISIBLE_DEVICES", list)]).unwrap();
            assert_eq!(options.visible_devices(2), count, "{list}");
        }
        assert_eq!(read(&[]).unwrap().visible_devices(2), 2);
    }

    #[test]
    fn a_wrong_variable_is_named_with_its_value() {
        for (name, value) in [
            ("MILLSTREAM_DEVICE", "cuda:0"),
            ("MILLSTREAM_DEVICE", "sim:memory=much"),
            ("MILLSTREAM_KIND", "h2000"),
            ("MILLSTREAM_CUDA", "13"),
            ("MILLSTREAM_CUDA", "14.0"),
            ("MILLSTREAM_SITES", "some"),
            ("MILLSTREAM_LEAKS", "1"),
            ("MILLSTREAM_PROGRESS", "-1"),
            ("MILLSTREAM_SUPPRESS", "/nowhere/at/all"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.starts_with(&format!("{name}=`{value}`: ")), "{error}");
        }
    }
}
