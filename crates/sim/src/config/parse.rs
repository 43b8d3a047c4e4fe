//! The textual form of a [`SimConfig`]: `sim`, `sim:seed=7`, `sim:schedule=lazy,rules=strict`.

use crate::{
    ReplayToken, Schedule, SimConfig,
    exec::{Jit, KernelOrder},
};

/// The default depth of schedule `pct`.
const DEPTH_DEFAULT: u32 = 3;

/// The error for an invalid device specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("device specification `{text}`: {problem}")]
pub struct ConfigParseError {
    text: String,
    problem: String,
}

impl SimConfig {
    /// Parses a device specification: `sim`, or `sim:` followed by options separated by commas.
    ///
    /// - `seed=N`: [`Schedule::Random`] with this seed
    /// - `schedule=timed`, `eager`, `lazy`, `random`, `pct`: that schedule; the last two take their
    ///   seed from `seed=`, else 0
    /// - `depth=N`: the depth of `pct`; 3 without this
    /// - `replay=TOKEN`: [replays](SimConfig::replay) a run instead of following a schedule
    /// - `rules=observed`, `strict`: [`Rules::observed`](crate::Rules::observed) or
    ///   [`Rules::strict`](crate::Rules::strict)
    /// - `rules=small_upload+cross_stream_reuse`: strict for the named rules, which are fields of
    ///   [`Rules`](crate::Rules)
    /// - `devices=N`: the number of devices
    /// - `links=nvlink:0-1+2-3;pcie`: the [links](crate::Links) between the devices
    /// - `peer_pool=observed`, `zeros`: the accesses to another device's [pool
    ///   memory](crate::PeerPool)
    /// - `race=on`, `off`, `kernels`, `notes`: checks for [races](crate::race); `kernels` and
    ///   `notes` also [within kernels](SimConfig::kernel_race_check), and `notes` also reports
    ///   [notes](SimConfig::kernel_race_notes)
    /// - `init=global`, `on`, `off`: reports of [reads of uninitialised global
    ///   memory](SimConfig::uninitialised_reads), with `on` also of uses of [uninitialised shared
    ///   and local memory](SimConfig::kernel_init_check)
    /// - `keep_going=off`, `on`: kernels [go on](SimConfig::keep_going) after a fault
    /// - `edges=3-5+4-7`: [orders](SimConfig::edge) that are tried, between operations 3 and 5, and
    ///   4 and 7
    /// - `redundant=on`, `off`: a record of the run, for [redundant waits](SimConfig::redundant)
    /// - `acquire=strict`, `lenient`, and `volatile=plain`, `strong`: the [memory
    ///   model](crate::exec::RaceModel) of the check within kernels
    /// - `orders=N`, `order=TOKEN`: the [number of orders](SimConfig::kernel_race_orders) in which
    ///   the check within kernels runs a launch, or the [one](SimConfig::kernel_race_order)
    /// - `queue=N`: the [limit](SimConfig::queue_operations_max) of every stream's queue
    /// - `steps=N`: the [warp instructions](SimConfig::kernel_steps_max) without the end of a block
    ///   after which a kernel counts as hung
    /// - `profile=on`, `off`: a [table of the simulation's own time](SimConfig::profile)
    /// - `jit=on`, `off`, `now`: the [execution of kernels by machine code](SimConfig::jit); `now`
    ///   from their first instruction on
    /// - `host_memory=zeros`, `poison`: the contents of new [page-locked and managed
    ///   memory](SimConfig::poison_host_memory)
    /// - `memory=N`, `NK`, `NM`, `NG`: memory of each device in bytes, KiB, MiB, GiB
    ///
    /// # Errors
    ///
    /// Fails for any other text: an unknown or repeated option, an invalid value, a seed with a
    /// schedule that is not random, a schedule with a replay.
    pub fn parse(text: &str) -> Result<Self, ConfigParseError> {
        let options = match text.strip_prefix("sim") {
            Some("") => return Ok(Self::new()),
            Some(rest) => rest.strip_prefix(':'),
            None => None,
        };
        options
            .ok_or_else(|| "expected `sim` or `sim:option=value,…`".to_owned())
            .and_then(|options| apply(Self::new(), options))
            .map_err(|problem| ConfigParseError {
                text: text.to_owned(),
                problem,
            })
    }

    /// Sets the given options, in the form that [`parse`](Self::parse) reads after `sim:`, and
    /// keeps the others.
    ///
    /// ```
    /// use millstream_sim::SimConfig;
    /// let config = SimConfig::new().devices(2).with_options("schedule=random,seed=7").unwrap();
    /// assert_eq!(config, SimConfig::parse("sim:devices=2,seed=7").unwrap());
    /// ```
    ///
    /// # Errors
    ///
    /// Fails like [`parse`](Self::parse).
    pub fn with_options(self, options: &str) -> Result<Self, ConfigParseError> {
        apply(self, options).map_err(|problem| ConfigParseError {
            text: options.to_owned(),
            problem,
        })
    }
}

/// Applies comma-separated options to a configuration. The error is the problem in words.
fn apply(mut config: SimConfig, options: &str) -> Result<SimConfig, String> {
    let (mut seed, mut depth) = (None, None);
    let (mut schedule, mut replay) = (None, None);
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
            "depth" => match number(key, value)? {
                n @ 1..=64 => depth = Some(n as u32),
                n => return Err(format!("depth={n} is out of range; use 1 to 64")),
            },
            "schedule" => schedule = Some(value),
            "replay" => {
                let token: Result<ReplayToken, _> = value.parse();
                replay = Some(token.map_err(|error| error.to_string())?);
            }
            "rules" => config = config.rules(value.parse()?),
            "devices" => match number(key, value)? {
                n @ 1..=64 => config = config.devices(n as u32),
                n => {
                    return Err(format!(
                        "devices={n} is out of range; use 1 to {}",
                        SimConfig::DEVICES_MAX
                    ));
                }
            },
            "links" => config = config.links(value.parse()?),
            "peer_pool" => config = config.peer_pool(value.parse()?),
            "memory" => config = config.memory_bytes(bytes(value)?),
            "host_memory" => {
                let poison = either(key, value, ["zeros", "poison"])?;
                config = config.poison_host_memory(poison);
            }
            "profile" => config = config.profile(either(key, value, ["off", "on"])?),
            "queue" => match number(key, value)? {
                0 => return Err("queue=0 is out of range; use at least 1".into()),
                n => config = config.queue_operations_max(usize::try_from(n).unwrap_or(usize::MAX)),
            },
            "steps" => match number(key, value)? {
                0 => return Err("steps=0 is out of range; use at least 1".into()),
                n => config = config.kernel_steps_max(n),
            },
            "jit" => {
                config = config.jit(match value {
                    "on" => Jit::On,
                    "off" => Jit::Off,
                    "now" => Jit::AtOnce,
                    _ => {
                        return Err(format!(
                            "jit={value} is invalid; use one of `on`, `off` and `now`"
                        ));
                    }
                });
            }
            "race" => match value {
                "on" | "off" | "kernels" | "notes" => {
                    config = config
                        .race_check(value != "off")
                        .kernel_race_check(matches!(value, "kernels" | "notes"))
                        .kernel_race_notes(value == "notes");
                }
                _ => {
                    return Err(format!(
                        "race={value} is invalid; use one of `on`, `off`, `kernels` and `notes`"
                    ));
                }
            },
            "init" => match value {
                "global" | "on" | "off" => {
                    config = config
                        .uninitialised_reads(value != "off")
                        .kernel_init_check(value == "on");
                }
                _ => {
                    return Err(format!(
                        "init={value} is invalid; use one of `global`, `on` and `off`"
                    ));
                }
            },
            "keep_going" => config = config.keep_going(either(key, value, ["off", "on"])?),
            "redundant" => config = config.redundant(either(key, value, ["off", "on"])?),
            "edges" => {
                for edge in value.split('+') {
                    let (after, before) = edge.split_once('-').unwrap_or((edge, ""));
                    let [after, before] = [number(key, after)?, number(key, before)?];
                    if after >= before {
                        return Err(format!("edges={edge} is no order of an earlier operation"));
                    }
                    config = config.edge(after, before);
                }
            }
            "acquire" => {
                let lenient = either(key, value, ["strict", "lenient"])?;
                let model = config.kernel_race_model.lenient_acquire(lenient);
                config = config.kernel_race_model(model);
            }
            "volatile" => {
                let strong = either(key, value, ["plain", "strong"])?;
                let model = config.kernel_race_model.strong_volatile(strong);
                config = config.kernel_race_model(model);
            }
            "orders" => match number(key, value)? {
                0 => return Err("orders=0 is out of range; use at least 1".into()),
                n => config = config.kernel_race_orders(u32::try_from(n).unwrap_or(u32::MAX)),
            },
            "orders_seed" => config = config.kernel_race_seed(number(key, value)?),
            "order" => {
                let order = value.parse::<KernelOrder>();
                config = config.kernel_race_order(order.map_err(|error| error.to_string())?);
            }
            _ => {
                return Err(format!(
                    "there is no option `{key}`; the options are seed, schedule, depth, replay, \
                     rules, devices, links, peer_pool, host_memory, memory, queue, steps, jit, \
                     race, init, keep_going, edges, redundant, acquire, volatile, orders, \
                     orders_seed, order, profile"
                ));
            }
        }
    }
    if let Some(device) = config.links.highest_device()
        && device >= config.devices
    {
        let count = config.devices;
        return Err(format!(
            "links name device {device}, but there are {count} devices"
        ));
    }
    match replay {
        Some(_) if schedule.is_some() || seed.is_some() || depth.is_some() => {
            Err("a replay takes no schedule, seed or depth; remove them".into())
        }
        Some(token) => Ok(config.replay(token)),
        None if schedule.is_none() && seed.is_none() && depth.is_none() => Ok(config),
        None => Ok(config.schedule(self::schedule(schedule, seed, depth)?)),
    }
}

fn schedule(name: Option<&str>, seed: Option<u64>, depth: Option<u32>) -> Result<Schedule, String> {
    let schedule = match (name, seed) {
        (Some("pct"), seed) => {
            return Ok(Schedule::Pct {
                seed: seed.unwrap_or(0),
                depth: depth.unwrap_or(DEPTH_DEFAULT),
            });
        }
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
                "there is no schedule `{name}`; the schedules are timed, eager, lazy, random, pct"
            ));
        }
    };
    match depth {
        None => Ok(schedule),
        Some(_) => Err("only schedule `pct` takes a depth; add schedule=pct".into()),
    }
}

/// Returns whether an option has the second of two values.
fn either(key: &str, value: &str, [first, second]: [&str; 2]) -> Result<bool, String> {
    if value == first || value == second {
        Ok(value == second)
    } else {
        Err(format!(
            "{key}={value} is invalid; use `{first}` or `{second}`"
        ))
    }
}

/// Parses an option's value as a 64-bit integer.
fn number(key: &str, value: &str) -> Result<u64, String> {
    value
        .parse()
        .map_err(|_| format!("{key}={value} is not a whole number of at most 64 bits"))
}

/// Parses a memory size with an optional suffix `K`, `M` or `G`.
fn bytes(value: &str) -> Result<u64, String> {
    let (digits, shift) = match value.as_bytes().last() {
        Some(b'K') => (&value[..value.len() - 1], 10),
        Some(b'M') => (&value[..value.len() - 1], 20),
        Some(b'G') => (&value[..value.len() - 1], 30),
        _ => (value, 0),
    };
    number("memory", digits)?
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("memory={value} does not fit in 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Link, Links, PeerPool, Rules};

    #[test]
    fn every_schedule_can_be_parsed() {
        for (text, schedule) in [
            ("sim", Schedule::Timed),
            ("sim:schedule=timed", Schedule::Timed),
            ("sim:schedule=eager", Schedule::Eager),
            ("sim:schedule=lazy", Schedule::Lazy),
            ("sim:schedule=random", Schedule::Random(0)),
            ("sim:seed=7", Schedule::Random(7)),
            ("sim:schedule=random,seed=7", Schedule::Random(7)),
            ("sim:seed=7,schedule=random", Schedule::Random(7)),
            ("sim:schedule=pct", Schedule::Pct { seed: 0, depth: 3 }),
            (
                "sim:schedule=pct,seed=7,depth=2",
                Schedule::Pct { seed: 7, depth: 2 },
            ),
        ] {
            assert_eq!(
                SimConfig::parse(&format!("sim:{schedule}"))
                    .unwrap()
                    .schedule,
                schedule
            );
            assert_eq!(SimConfig::parse(text).unwrap().schedule, schedule, "{text}");
        }
    }

    #[test]
    fn replay_tokens_and_single_rules_are_parsed() {
        let token = "1e-0000000a-012x9.";
        let config = SimConfig::parse(&format!("sim:replay={token},rules=small_upload")).unwrap();
        assert_eq!(config.replay.unwrap().to_string(), token);
        assert!(config.rules.small_upload.is_strict() && !config.rules.pageable_upload.is_strict());
    }

    #[test]
    fn links_may_precede_the_number_of_devices() {
        let config = SimConfig::parse("sim:links=none:1-2;pcie,devices=3").unwrap();
        let links = Links::all(Link::Pcie).pair(1, 2, Link::NoPeerAccess);
        assert_eq!(config, SimConfig::new().devices(3).links(links));
    }

    #[test]
    fn sizes_and_counts_are_parsed() {
        let config =
            SimConfig::parse("sim:devices=2,memory=3G,rules=strict,race=off,queue=9,steps=7")
                .unwrap();
        assert_eq!(config.queue_operations_max, Some(9));
        assert_eq!(config.kernel_steps_max, 7);
        assert_eq!(config, config.clone().race_check(false));
        assert_ne!(config, config.clone().race_check(true));
        let within = SimConfig::parse("sim:race=kernels").unwrap();
        assert_eq!(within, SimConfig::new().kernel_race_check(true));
        let notes = SimConfig::parse("sim:race=notes").unwrap();
        assert_eq!(notes, within.clone().kernel_race_notes(true));
        let seed = SimConfig::parse("sim:race=kernels,orders=8,orders_seed=300").unwrap();
        assert_eq!(seed, within.kernel_race_orders(8).kernel_race_seed(300));
        let edges = SimConfig::parse("sim:edges=3-5+4-7").unwrap();
        assert_eq!(edges, SimConfig::new().edge(3, 5).edge(4, 7));
        for (text, jit) in [("on", Jit::On), ("off", Jit::Off), ("now", Jit::AtOnce)] {
            let parsed = SimConfig::parse(&format!("sim:jit={text}")).unwrap();
            assert_eq!(parsed, SimConfig::new().jit(jit));
        }
        let init = SimConfig::parse("sim:init=on").unwrap();
        assert_eq!(init, SimConfig::new().kernel_init_check(true));
        let init = SimConfig::parse("sim:init=off").unwrap();
        assert_eq!(init, SimConfig::new().uninitialised_reads(false));
        let goes_on = SimConfig::parse("sim:keep_going=on").unwrap();
        assert_eq!(goes_on, SimConfig::new().keep_going(true));
        let zeros = SimConfig::parse("sim:peer_pool=zeros").unwrap();
        assert_eq!(zeros, SimConfig::new().peer_pool(PeerPool::Zeros));
        let zeros = SimConfig::parse("sim:host_memory=zeros").unwrap();
        assert_eq!(zeros, SimConfig::new().poison_host_memory(false));
        assert_eq!(config.devices, 2);
        assert_eq!(config.memory_bytes, 3 << 30);
        assert_eq!(config.rules, Rules::strict());
    }

    #[test]
    fn invalid_specifications_are_rejected_with_the_reason() {
        for (text, reason) in [
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
            ("sim:schedule=lazy,depth=1", "takes a depth"),
            ("sim:schedule=pct,depth=0", "1 to 64"),
            ("sim:jit=fast", "`on`, `off` and `now`"),
            ("sim:schedule=pct,depth=4294967299", "1 to 64"),
            ("sim:replay=1", "replay token"),
            ("sim:replay=1e-0000000a-0,seed=1", "takes no schedule"),
            ("sim:devices=0", "1 to 64"),
            ("sim:links=nvlink:0-1", "name device 1, but there are 1"),
            ("sim:devices=2,links=sli", "no link `sli`"),
            ("sim:peer_pool=ones", "use `observed` or `zeros`"),
            ("sim:host_memory=on", "use `zeros` or `poison`"),
            ("sim:profile=1", "use `off` or `on`"),
            ("sim:queue=0", "at least 1"),
            ("sim:steps=0", "at least 1"),
            ("sim:memory=G", "not a whole number"),
            ("sim:memory=99999999999999999G", "does not fit"),
            ("sim:rules=loose", "no rules `loose`"),
            ("sim:race=maybe", "one of `on`, `off`"),
            ("sim:edges=3", "not a whole number"),
            ("sim:edges=3-5+5-4", "no order"),
            ("sim:acquire=loose", "use `strict` or `lenient`"),
            ("sim:volatile=weak", "use `plain` or `strong`"),
            ("sim:orders=0", "at least 1"),
            ("sim:order=x", "no order of blocks"),
        ] {
            let error = SimConfig::parse(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
