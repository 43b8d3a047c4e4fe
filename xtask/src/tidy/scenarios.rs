//! The rule for scenarios: `docs/scenarios.md` lists the number of each, and links every file that
//! tests it.

use std::collections::BTreeSet;

use super::sources::{Source, is_word};

pub(super) const LIST: &str = "docs/scenarios.md";

/// The letters of scenarios. Tests of CUDA's rules begin with `r` and the rule's number.
const SECTIONS: [char; 12] = ['a', 'b', 'c', 'd', 'g', 'i', 'k', 'm', 'p', 'v', 'w', 'x'];

/// Returns a line for every test of a scenario that the list does not link, and for every link to
/// a file without such a test.
pub(super) fn breaches(sources: &[Source], list: &str) -> Vec<String> {
    let tested: BTreeSet<(String, String)> = sources
        .iter()
        .filter(|source| source.is_rust())
        .flat_map(|source| {
            let numbers = numbers_of_tests(&source.code);
            numbers.map(|number| (number, source.path.clone()))
        })
        .collect();
    let linked: BTreeSet<(String, String)> = list.lines().flat_map(links_of_row).collect();
    let unlisted = tested.difference(&linked).map(|(number, path)| {
        format!("{path}: tests scenario {number}, whose row in {LIST} does not link this file")
    });
    let untested = linked
        .difference(&tested)
        .map(|(number, path)| format!("{LIST}: {number} links {path}, which has no test of it"));
    unlisted.chain(untested).collect()
}

/// The numbers, such as `A02`, with which names of functions in `code` begin.
fn numbers_of_tests(code: &str) -> impl Iterator<Item = String> {
    code.split(|letter| !is_word(letter)).filter_map(|name| {
        let (number, _) = name.split_once('_')?;
        let digits = number.strip_prefix(SECTIONS)?;
        let is_number = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        // Three further words: `b16_lanes` is a variable, no name of a test.
        let is_name = name.split('_').count() > 3;
        (is_number && is_name).then(|| number.to_uppercase())
    })
}

/// The number of a row of the list, paired with each file that the row links.
fn links_of_row(row: &str) -> Vec<(String, String)> {
    let mut cells = row.split('|').skip(1).map(str::trim);
    let (Some(number), Some(_), Some(tests)) = (cells.next(), cells.next(), cells.next()) else {
        return Vec::new();
    };
    let links = tests.split("](../").skip(1);
    links
        .filter_map(|link| link.split_once(')'))
        .map(|(path, _)| (number.to_owned(), path.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches_of(code: &str) -> Vec<String> {
        breaches(&[Source::new("crates/a/tests/b.rs", code.into())], LISTED)
    }

    const LISTED: &str = "| A02 | A writer waits. | [`a/b.rs`](../crates/a/tests/b.rs) |";

    #[test]
    fn a_listed_scenario_is_tidy() {
        assert!(breaches_of("fn a02_a_writer_waits() {}").is_empty());
    }

    #[test]
    fn a_test_that_the_list_does_not_link_is_a_breach() {
        assert_eq!(
            breaches_of("fn a02_a_writer_waits() {}\nfn b01_of_another_number() {}"),
            [
                "crates/a/tests/b.rs: tests scenario B01, whose row in docs/scenarios.md does not \
              link this file"
            ]
        );
    }

    #[test]
    fn a_link_to_a_file_without_a_test_is_a_breach() {
        assert_eq!(
            breaches_of("fn b16_lanes() {}"),
            ["docs/scenarios.md: A02 links crates/a/tests/b.rs, which has no test of it"]
        );
    }
}
