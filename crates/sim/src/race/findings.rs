//! The bounded list of findings. A pair of places that does not fit is counted.

use std::collections::BTreeMap;

use super::{finding::Finding, proposal::Proposal};

/// The number of findings that are listed whatever their places are.
const LISTED_MAX: usize = 1 << 10;
/// The number of findings that are listed if their places are new.
const PLACES_MAX: usize = 1 << 12;

#[derive(Debug, Default)]
pub(super) struct Findings {
    listed: Vec<Finding>,
    places: BTreeMap<String, Place>,
    /// The number of findings at other places that are not listed.
    elsewhere: u64,
    /// Set once a finding is not listed.
    omits_some: bool,
}

#[derive(Debug)]
struct Place {
    /// The index of the first finding there.
    first: usize,
    /// The number of findings there that are not listed.
    unlisted: u64,
}

/// The findings of the race checker that are not listed, because the list is bounded; see
/// [`Gpu::unlisted_findings`](crate::Gpu::unlisted_findings).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnlistedFindings {
    /// The first finding at each pair of places that has further ones, with their number.
    pub repeated: Vec<(Finding, u64)>,
    /// The number of findings at places that no listed finding has.
    pub elsewhere: u64,
}

impl Findings {
    /// Adds a finding, and returns its index if it is listed. Beyond [`LISTED_MAX`] that is only if
    /// its places are new.
    pub(super) fn add(&mut self, finding: Finding) -> Option<usize> {
        let next = self.listed.len();
        match self.places.get_mut(&finding.places()) {
            None if next < PLACES_MAX => {
                let place = Place {
                    first: next,
                    unlisted: 0,
                };
                self.places.insert(finding.places(), place);
            }
            None => {
                self.elsewhere += 1;
                self.omits_some = true;
                return None;
            }
            Some(_) if next < LISTED_MAX => {}
            Some(known) => {
                known.unlisted += 1;
                self.omits_some = true;
                return None;
            }
        }
        self.listed.push(finding);
        Some(next)
    }

    /// Adds the proposal to a listed finding.
    pub(super) fn propose(&mut self, finding: usize, proposal: Proposal) {
        self.listed[finding].proposal = Some(proposal);
    }

    /// Returns the first finding at the places of this one.
    pub(super) fn known(&self, finding: &Finding) -> Option<&Finding> {
        let place = self.places.get(&finding.places())?;
        self.listed.get(place.first)
    }

    pub(super) fn listed(&self) -> &[Finding] {
        &self.listed
    }

    pub(super) fn omits_some(&self) -> bool {
        self.omits_some
    }

    pub(super) fn unlisted(&self) -> UnlistedFindings {
        let places = self.places.values().filter(|place| place.unlisted > 0);
        UnlistedFindings {
            repeated: places
                .map(|place| (self.listed[place.first].clone(), place.unlisted))
                .collect(),
            elsewhere: self.elsewhere,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Party, *};
    use crate::{ReportKind, Severity};

    fn finding(operation: u64, place: usize) -> Finding {
        Finding {
            kind: ReportKind::UninitialisedRead,
            severity: Severity::Error,
            problem: "read of uninitialised bytes of".into(),
            memory: None,
            later: Party {
                operation: Some(operation),
                what: "copy".into(),
                stream: None,
                device: None,
                thread: None,
                does: "reads",
                call: "cuMemcpyDtoHAsync",
                site: Some(format!("at src/main.rs:{place}")),
            },
            earlier: None,
            missing: None,
            proposal: None,
            class: None,
        }
    }

    #[test]
    fn every_pair_of_places_is_listed_or_counted() {
        let mut findings = Findings::default();
        for operation in 0..2 * LISTED_MAX as u64 {
            findings.add(finding(operation, 1));
        }
        assert_eq!(findings.listed().len(), LISTED_MAX);
        assert!(findings.omits_some());
        for place in 2..PLACES_MAX {
            findings.add(finding(0, place));
        }
        assert_eq!(findings.listed().len(), PLACES_MAX);
        assert_eq!(findings.listed()[LISTED_MAX], finding(0, 2));
        let unlisted = findings.unlisted();
        assert_eq!(unlisted.repeated, [(finding(0, 1), LISTED_MAX as u64)]);
        assert_eq!(unlisted.elsewhere, LISTED_MAX as u64 - 2);
    }
}
