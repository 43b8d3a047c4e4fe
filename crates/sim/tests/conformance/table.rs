//! What was seen of each rule, and the table of it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::rules::{OUT_OF_SIGHT, RULES};

/// By rule and by driver, each thing seen, once.
static SEEN: Mutex<BTreeMap<(u32, String), Vec<String>>> = Mutex::new(BTreeMap::new());

/// Notes what a rule's test saw.
pub(crate) fn note(rule: u32, driver: &str, seen: String) {
    let mut all = SEEN.lock().expect("nobody panics with it");
    let here = all.entry((rule, driver.to_owned())).or_default();
    if !here.contains(&seen) {
        here.push(seen);
    }
}

/// Prints the table, in Markdown: what is allowed, and what was seen on each driver.
pub(crate) fn print() {
    let seen = SEEN.lock().expect("nobody panics with it");
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
            rule.allowed,
            columns.join(" | ")
        );
    }
    for (rules, why) in OUT_OF_SIGHT {
        println!("| {rules} | {why} | {}", "— |".repeat(drivers.len()));
    }
}
