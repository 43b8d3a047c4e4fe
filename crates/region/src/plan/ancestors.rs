//! The candidates on which each candidate depends.

use crate::plan::candidate::Candidate;

/// For each candidate, the candidates on which it depends, as bits. Members of a group depend on
/// each other.
pub(crate) struct Ancestors {
    /// The number of words of each candidate.
    words: usize,
    bits: Vec<u64>,
}

impl Ancestors {
    pub(crate) fn of(candidates: &[Candidate]) -> Self {
        let words = candidates.len().div_ceil(64);
        let mut bits = vec![0; words * candidates.len()];
        for (at, candidate) in candidates.iter().enumerate() {
            let (before, own) = bits.split_at_mut(words * at);
            let own = &mut own[..words];
            for operand in candidate.candidate_operands() {
                let of_operand = &before[words * operand..words * (operand + 1)];
                own.iter_mut()
                    .zip(of_operand)
                    .for_each(|(own, of)| *own |= of);
                own[operand / 64] |= 1 << (operand % 64);
            }
        }
        Self { words, bits }
    }

    /// Returns whether a candidate depends on another.
    pub(crate) fn has(&self, at: usize, other: usize) -> bool {
        self.bits[self.words * at + other / 64] >> (other % 64) & 1 == 1
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
        (0..candidates.len())
            .filter(|&other| candidates[other].is_stored && other != at)
            .filter(|other| !members.contains(other))
            .any(|other| {
                let is_needed =
                    self.has(at, other) || members.iter().any(|&member| self.has(member, other));
                is_needed && (self.has(other, at) || self.has_any(other, members))
            })
    }

    /// Makes the members of a group, and all that depend on one of them, depend on all of them.
    pub(crate) fn join(&mut self, members: &[usize]) {
        let mut all = vec![0; self.words];
        for &member in members {
            let of_member = &self.bits[self.words * member..self.words * (member + 1)];
            all.iter_mut()
                .zip(of_member)
                .for_each(|(all, of)| *all |= of);
            all[member / 64] |= 1 << (member % 64);
        }
        for at in 0..self.bits.len() / self.words {
            if members.contains(&at) || self.has_any(at, members) {
                let own = &mut self.bits[self.words * at..self.words * (at + 1)];
                own.iter_mut().zip(&all).for_each(|(own, all)| *own |= all);
            }
        }
    }
}
