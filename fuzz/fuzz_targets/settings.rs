//! Settings: `MILLSTREAM_DEVICE`, `MILLSTREAM_CHECK`, replay tokens, and launchers' variables.

#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_collective::world::World;
use millstream_sim::{ReplayToken, SimConfig};

fuzz_target!(|text: &str| {
    let _ = SimConfig::parse(text).map_err(|error| error.to_string());
    let _ = SimConfig::new()
        .with_options(text)
        .map_err(|error| error.to_string());
    match text.parse::<ReplayToken>() {
        Ok(token) => assert_eq!(token.to_string().parse().ok(), Some(token)),
        Err(error) => drop(error.to_string()),
    }
    // Lines of the form NAME=value.
    let lookup = |name: &str| {
        let mut pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.find_map(|(known, value)| (known == name).then(|| value.to_owned()))
    };
    if let Ok(world) = World::from_variables(lookup) {
        assert!(world.rank() < world.size() && world.local_rank() < world.size());
    }
});
