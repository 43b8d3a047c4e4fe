//! Variables of every launcher, and every contradiction.

use super::*;

/// Parses texts `NAME=value` between semicolons.
fn membership(variables: &str) -> Result<Membership, String> {
    let lookup = |name: &str| {
        let found = variables
            .split("; ")
            .filter_map(|text| text.split_once('='));
        let mut found = found.filter(|(known, _)| *known == name);
        found.next().map(|(_, value)| value.to_owned())
    };
    Membership::from_variables(&lookup).map_err(|error| error.to_string())
}

#[test]
fn each_launcher_has_its_variables() {
    let lines = include_str!("launchers.txt").lines();
    let lines: Vec<_> = lines
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .collect();
    for record in lines.chunks(3) {
        let [variables, place, source] = record else {
            panic!("{record:?}");
        };
        let found = membership(variables).expect("the variables are valid");
        let Membership {
            rank,
            size,
            local_rank,
            port,
            ..
        } = found;
        let address = found.address.as_deref().unwrap_or("-");
        let port = match port {
            DEFAULT_PORT => "default".to_owned(),
            port => port.to_string(),
        };
        let found_place = format!("{rank} {size} {local_rank} {address} {port}");
        assert_eq!(found_place, *place, "{variables:?}");
        assert_eq!(found.source, *source, "{variables:?}");
    }
}

#[test]
fn contradictions_are_errors_that_name_the_variable_and_its_value() {
    for record in include_str!("contradictions.txt").split("\n\n") {
        let (variables, text) = record.trim().split_once('\n').expect("two lines");
        let error = membership(variables).expect_err("the variables contradict each other");
        assert_eq!(error, text, "{variables:?}");
    }
}
