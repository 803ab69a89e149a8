//! Compares the chunked list with a simple list, mainly at the boundaries of chunks.

use std::collections::BTreeMap;

use transfix_testkit::random::Random;

use super::*;

const BITS: u32 = 2;
const CHUNK: u64 = 1 << BITS;

/// Checks that the index gives the same answers as the map `expected`.
fn check(index: &Index<u64>, expected: &BTreeMap<u64, u64>, what: &str) {
    let all: Vec<_> = (0..index.len()).map(|place| index.at(place)).collect();
    let wanted: Vec<_> = expected.iter().map(|(seq, place)| (*seq, *place)).collect();
    assert_eq!(all, wanted, "{what}");
    let ends = wanted.first().map(|first| (first.0, wanted[wanted.len() - 1].0));
    assert_eq!(index.ends(), ends, "{what}");
    let (low, high) = ends.unwrap_or_default();
    for seq in low.saturating_sub(2)..high + 3 {
        assert_eq!(index.find(seq), expected.get(&seq).copied(), "{what}: {seq}");
        let next = expected.range(seq..).next().map(|(seq, place)| (*seq, *place));
        assert_eq!(index.find_from(seq), next, "{what}: from {seq}");
    }
    let used = (index.head + index.len).div_ceil(CHUNK as usize);
    let lens = index.chunks.iter().map(Vec::len).enumerate();
    for (chunk, len) in lens.filter(|(chunk, _)| chunk + 1 != used) {
        let full = if chunk < used { CHUNK as usize } else { 0 };
        assert_eq!(len, full, "{what}: chunk {chunk} of {used}");
    }
}

fn filled(numbers: impl IntoIterator<Item = u64>) -> (Index<u64>, BTreeMap<u64, u64>) {
    let (mut index, mut expected) = (Index::new(BITS), BTreeMap::new());
    for seq in numbers {
        index.insert(seq, seq * 10);
        expected.insert(seq, seq * 10);
        check(&index, &expected, "filled");
    }
    (index, expected)
}

#[test]
fn chunks_follow_one_another() {
    for len in 0..=3 * CHUNK + 1 {
        filled(1..=len);
    }
    filled([5, 3, 9, 1, 2, 8, 7, 6, 4, 12, 11, 10, 0]);
    filled((1..20).rev());
    filled((1..20).map(|n| n * 3));
}

#[test]
fn what_is_hidden_makes_room_at_every_place() {
    for len in 1..=2 * CHUNK + 1 {
        for from in 1..=len + 1 {
            for forgotten in 0..from {
                let (mut index, mut expected) = filled(1..=len);
                index.forget_to(forgotten);
                index.hide_from(from);
                expected.retain(|seq, _| *seq > forgotten && *seq < from);
                check(&index, &expected, "hidden");
                for seq in from..from + CHUNK + 1 {
                    index.insert(seq, seq);
                    expected.insert(seq, seq);
                }
                check(&index, &expected, "filled again");
            }
        }
    }
}

#[test]
fn a_chunk_whose_entries_are_forgotten_is_used_again() {
    let (mut index, mut expected) = filled(1..=2 * CHUNK);
    index.reserve(CHUNK as usize);
    let chunks = index.chunks.len();
    for seq in 2 * CHUNK + 1..10 * CHUNK {
        index.forget_first();
        expected.pop_first();
        index.insert(seq, seq);
        expected.insert(seq, seq);
        check(&index, &expected, "a ring");
    }
    assert_eq!(index.chunks.len(), chunks);
    index.forget_to(u64::MAX);
    check(&index, &BTreeMap::new(), "empty");
    index.forget_first();
    assert_eq!((index.len(), index.first(), index.chunks.len()), (0, None, chunks));
}

#[test]
fn room_is_made_once() {
    for (before, more) in [(0, 3), (0, 4), (0, 9), (2, 1), (3, 7), (4, 4), (5, 3), (8, 0)] {
        let (mut index, _) = filled(1..=before);
        index.reserve(more as usize);
        let sizes = |index: &Index<u64>| index.chunks.iter().map(Vec::capacity).collect::<Vec<_>>();
        let reserved = sizes(&index);
        (before + 1..=before + more).for_each(|seq| index.insert(seq, seq));
        assert_eq!(sizes(&index), reserved, "{more} behind {before}");
    }
    // An index for a few entries has a single, small chunk.
    let mut index = Index::<u64>::new(12);
    index.reserve(50);
    assert_eq!((index.chunks.len(), index.chunks[0].capacity()), (1, 50));
}

#[test]
fn a_chunk_that_another_thread_has_made_is_taken() {
    let helpers = Arc::default();
    let mut index = Index::new(BITS);
    index.help_by(&helpers);
    (1..CHUNK).for_each(|seq| index.insert(seq, seq));
    let making = index.next.clone().unwrap();
    let made = loop {
        if let Some(made) = &*lock(&making) {
            break made.as_ptr();
        }
        std::thread::yield_now();
    };
    (CHUNK..=CHUNK + 1).for_each(|seq| index.insert(seq, seq));
    assert_eq!(index.chunks[1].as_ptr(), made);
    assert!(index.next.is_none());
    check(&index, &(1..=CHUNK + 1).map(|seq| (seq, seq)).collect(), "made ahead");
}

#[test]
fn whatever_happens_it_is_as_a_plain_list() {
    let (mut random, helpers) = (Random::new(11), Arc::default());
    for round in 0..200 {
        let mut below = |n: u64| random.below(n as usize) as u64;
        let (mut index, mut expected) = (Index::new(BITS), BTreeMap::<u64, u64>::new());
        if round % 2 == 0 {
            index.help_by(&helpers);
        }
        let mut next = 1;
        for step in 0..100 {
            match below(8) {
                0..4 => {
                    index.insert(next, step);
                    expected.insert(next, step);
                    next += 1 + u64::from(below(10) == 0);
                }
                4 => {
                    let seq = below(next + 1);
                    index.insert(seq, step);
                    expected.insert(seq, step);
                }
                5 => {
                    index.forget_first();
                    expected.pop_first();
                }
                6 if below(4) == 0 => {
                    next = next.saturating_sub(below(7)).max(1);
                    index.hide_from(next);
                    expected.retain(|seq, _| *seq < next);
                }
                _ if below(20) == 0 => {
                    index.clear();
                    expected.clear();
                }
                _ => index.reserve(below(10) as usize),
            }
            check(&index, &expected, &format!("round {round}, step {step}"));
        }
    }
}
