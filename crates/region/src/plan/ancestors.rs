//! The candidates on which each candidate depends.

use crate::plan::candidate::Candidate;

/// For each candidate, the candidates on which it depends, as bits. Members of a group depend on
/// each other.
pub(crate) struct Ancestors(Vec<Vec<u64>>);

impl Ancestors {
    pub(crate) fn of(candidates: &[Candidate]) -> Self {
        let mut all: Vec<Vec<u64>> = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let mut own = vec![0; candidates.len().div_ceil(64)];
            for operand in candidate.candidate_operands() {
                add(&mut own, operand, &all[operand]);
            }
            all.push(own);
        }
        Self(all)
    }

    /// Returns whether a candidate depends on another.
    pub(crate) fn has(&self, at: usize, other: usize) -> bool {
        self.0[at][other / 64] >> (other % 64) & 1 == 1
    }

    pub(crate) fn has_any(&self, at: usize, others: &[usize]) -> bool {
        others.iter().any(|&other| self.has(at, other))
    }

    /// Returns whether a stored node, neither a member nor the candidate `at`, depends on one of
    /// these and another of these depends on it.
    pub(crate) fn is_between(
        &self,
        candidates: &[Candidate],
        members: &[usize],
        at: usize,
    ) -> bool {
        let mut others = (0..candidates.len()).filter(|&other| {
            candidates[other].is_stored && other != at && !members.contains(&other)
        });
        others.any(|other| {
            let is_needed =
                self.has(at, other) || members.iter().any(|&member| self.has(member, other));
            is_needed && (self.has(other, at) || self.has_any(other, members))
        })
    }

    /// Makes the members of a group, and all that depend on one of them, depend on all of them.
    pub(crate) fn join(&mut self, members: &[usize]) {
        let mut all = vec![0; self.0[0].len()];
        for &member in members {
            add(&mut all, member, &self.0[member]);
        }
        for at in 0..self.0.len() {
            if members.contains(&at) || self.has_any(at, members) {
                let own = self.0[at].iter_mut().zip(&all);
                own.for_each(|(own, all)| *own |= all);
            }
        }
    }

    /// Makes a candidate depend no longer on others.
    pub(crate) fn remove<'a>(&mut self, at: usize, others: impl Iterator<Item = &'a usize>) {
        for other in others {
            self.0[at][other / 64] &= !(1 << (other % 64));
        }
    }
}

fn add(own: &mut [u64], at: usize, ancestors: &[u64]) {
    own.iter_mut()
        .zip(ancestors)
        .for_each(|(own, of)| *own |= of);
    own[at / 64] |= 1 << (at % 64);
}
