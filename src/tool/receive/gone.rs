//! Traces that are gone: what comes for them later is not taken for a new trace.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use crate::model::id::TraceId;

/// How many are remembered.
const REMEMBERED: usize = 1 << 18;

/// Hashes trace ids, which are random already: one multiplication, with a key that nobody can know.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByTraceId {
    key: u64,
}

impl Default for ByTraceId {
    fn default() -> Self {
        Self { key: RandomState::new().hash_one(0) }
    }
}

impl BuildHasher for ByTraceId {
    type Hasher = Folding;

    fn build_hasher(&self) -> Folding {
        Folding(self.key)
    }
}

#[derive(Debug)]
pub(super) struct Folding(u64);

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u128(u128::from(*byte)));
    }

    fn write_u128(&mut self, id: u128) {
        /// The fraction of the golden ratio, in 64 bits: as even a spread as a multiplication can give.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let (high, low) = ((id >> 64) as u64, id as u64);
        let product = u128::from(low ^ self.0) * u128::from(high ^ SPREAD);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Completed,
    Refused,
}

/// What became of the last traces that are gone, each by a hash of its id: of a million traces in memory and to come,
/// the chance that any two share one is below one in a million.
#[derive(Debug, Default)]
pub(super) struct Gone {
    key: ByTraceId,
    refused: HashMap<u64, bool, BuildHasherDefault<Hashed>>,
    order: VecDeque<u64>,
}

/// Of what is a hash already.
#[derive(Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Gone {
    pub(super) fn get(&self, id: TraceId) -> Option<Fate> {
        let refused = self.refused.get(&self.key.hash_one(id))?;
        Some(if *refused { Fate::Refused } else { Fate::Completed })
    }

    pub(super) fn insert(&mut self, id: TraceId, fate: Fate) {
        let hash = self.key.hash_one(id);
        if self.refused.insert(hash, fate == Fate::Refused).is_none() {
            self.order.push_back(hash);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.refused.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_are_remembered_and_those_are_the_last() {
        let mut gone = Gone::default();
        let id = |n: usize| TraceId(n as u128 + 1);
        gone.insert(id(0), Fate::Refused);
        assert_eq!(gone.get(id(0)), Some(Fate::Refused));
        (1..=REMEMBERED).for_each(|n| gone.insert(id(n), Fate::Completed));
        assert_eq!((gone.refused.len(), gone.order.len()), (REMEMBERED, REMEMBERED));
        assert_eq!(
            [0, 1, REMEMBERED].map(|n| gone.get(id(n))),
            [None, Some(Fate::Completed), Some(Fate::Completed)]
        );
    }
}
