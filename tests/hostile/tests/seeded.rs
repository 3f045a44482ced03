//! Runs each target on its seeds and corpus, and on some thousand changed ones, which are the same in each
//! run.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops at the first failure, and says for which input"
)]

use std::fs;
use std::path::Path;

use hostile::{TARGETS, Target};
use numbers::SeededNumbers;

#[path = "../../../crates/petastorm/tests/schemas/numbers.rs"]
mod numbers;

impl SeededNumbers {
    /// The input with one to four random changes: bytes, bits, numbers at their limits, and parts that are
    /// removed, doubled or cut off.
    fn changed(&mut self, input: &[u8]) -> Vec<u8> {
        let mut bytes = input.to_vec();
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                return bytes;
            }
            let at = self.below(bytes.len());
            let end = (at + 1 + self.below(24)).min(bytes.len());
            match self.below(8) {
                0 => bytes[at] = self.next() as u8,
                1 => bytes[at] ^= 1 << self.below(8),
                2 => bytes.insert(at, self.next() as u8),
                3 => drop(bytes.drain(at..end)),
                4 => bytes.extend_from_within(at..end),
                5 => bytes.truncate(at),
                6 => bytes[at..end].fill([0, 0x7f, 0x80, 0xff][self.below(4)]),
                _ => {
                    let part = bytes[at..end].to_vec();
                    let to = self.below(bytes.len());
                    bytes.splice(to..to, part);
                }
            }
        }
        bytes
    }
}

/// Returns the seeds of a target, and the inputs that fuzzing found.
fn inputs(target: Target) -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target.name);
    let mut paths: Vec<_> =
        fs::read_dir(corpus).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let found = paths.into_iter().map(|path| fs::read(path).unwrap());
    (target.seeds)().into_iter().chain(found).collect()
}

#[test]
fn what_must_hold_holds_for_changed_seeds() {
    std::thread::scope(|scope| {
        for target in TARGETS {
            let run = move || {
                let inputs = inputs(target);
                assert!(!inputs.is_empty(), "{} has no seed", target.name);
                assert!(
                    (target.seeds)().iter().all(|seed| (target.run)(seed)),
                    "{} refuses a seed",
                    target.name
                );
                inputs.iter().for_each(|input| {
                    (target.run)(input);
                });
                let mut numbers = SeededNumbers(target.name.len() as u64);
                for tried in 0..target.tried {
                    let input = numbers.changed(&inputs[tried % inputs.len()]);
                    let outcome = std::panic::catch_unwind(|| (target.run)(&input));
                    assert!(outcome.is_ok(), "{}: number {tried}, {input:?}", target.name);
                }
            };
            std::thread::Builder::new().name(target.name.into()).spawn_scoped(scope, run).unwrap();
        }
    });
}
