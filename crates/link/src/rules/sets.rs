//! Sets of rules, as bits, each stored once.

use std::collections::HashMap;

use crate::rules::rule::MAX_RULES;

const BITS: usize = u64::BITS as usize;

/// Number of a set.
pub(crate) type SetId = u32;

/// Sets of rules. Each has a summary with one bit for each non-zero word, so that 64 rules are skipped at a time.
#[derive(Clone, Debug)]
pub(crate) struct Sets {
    /// Number of words of a set.
    width: usize,
    words: Vec<u64>,
    summaries: Vec<u64>,
    known: HashMap<Vec<u64>, SetId>,
}

const _: () = assert!(MAX_RULES <= BITS * BITS, "a summary is one word");

impl Sets {
    pub(crate) fn of(rules: usize) -> Sets {
        Sets {
            width: rules.div_ceil(BITS),
            words: Vec::new(),
            summaries: Vec::new(),
            known: HashMap::new(),
        }
    }

    /// Returns an empty set to start from.
    pub(crate) fn empty(&self) -> Vec<u64> {
        vec![0; self.width]
    }

    /// Returns the number of a set; equal sets have the same number.
    pub(crate) fn keep(&mut self, set: &[u64]) -> SetId {
        if let Some(&id) = self.known.get(set) {
            return id;
        }
        let id = self.summaries.len() as SetId;
        // Bit n of the summary says whether word n has any rule, so that a search skips empty words.
        let used = set.iter().enumerate().filter(|(_, word)| **word != 0);
        self.summaries
            .push(used.fold(0, |bits, (n, _)| bits | 1 << n));
        self.words.extend_from_slice(set);
        self.known.insert(set.to_vec(), id);
        id
    }

    /// Frees the index that is needed only while sets are stored.
    pub(crate) fn finish(&mut self) {
        self.known = HashMap::new();
    }

    pub(crate) fn summary(&self, id: SetId) -> u64 {
        self.summaries[id as usize]
    }

    pub(crate) fn word(&self, id: SetId, word: usize) -> u64 {
        self.words[id as usize * self.width + word]
    }
}

/// Adds a rule to a set, or removes it.
pub(crate) fn change(set: &mut [u64], rule: usize, inside: bool) {
    let bit = 1 << (rule % BITS);
    if inside {
        set[rule / BITS] |= bit;
    } else {
        set[rule / BITS] &= !bit;
    }
}
