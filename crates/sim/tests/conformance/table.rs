//! The table of observations by rule and driver.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::conformance::rules::RULES;

/// Distinct observations by rule and driver.
static SEEN: Mutex<BTreeMap<(u32, String), Vec<String>>> = Mutex::new(BTreeMap::new());

/// Records the observation of a rule's test.
pub(crate) fn note(rule: u32, driver: &str, seen: String) {
    let mut all = SEEN
        .lock()
        .expect("a thread panicked while it held the table of observations");
    let here = all.entry((rule, driver.to_owned())).or_default();
    if !here.contains(&seen) {
        here.push(seen);
    }
}

/// Prints the Markdown table: the allowed observations, and the observations on each driver.
pub(crate) fn print() {
    let seen = SEEN
        .lock()
        .expect("a thread panicked while it held the table of observations");
    let mut drivers: Vec<&String> = seen.keys().map(|(_, driver)| driver).collect();
    drivers.sort_unstable();
    drivers.dedup();
    if drivers.is_empty() {
        return;
    }
    let headings: Vec<&str> = drivers.iter().map(|driver| driver.as_str()).collect();
    println!("\n| # | allowed | {} |", headings.join(" | "));
    println!("|{}", "---|".repeat(2 + drivers.len()));
    for rule in RULES {
        let columns: Vec<String> = drivers
            .iter()
            .map(|driver| match seen.get(&(rule.number, (*driver).clone())) {
                Some(seen) => seen.join("; or: "),
                None => "not run".into(),
            })
            .collect();
        println!(
            "| {} | {} | {} |",
            rule.number,
            rule.allowed(),
            columns.join(" | ")
        );
    }
}
