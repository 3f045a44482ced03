//! Tests that reading a randomly damaged pickle gives a valid schema or an error, within the memory limit.

use forebay_petastorm::Unischema;

use super::bounds::MEMORY;
use super::encodings::written;
use super::memory::most_bytes;
use super::numbers::SeededNumbers;
use super::recorded::recorded;
use super::written::{PLAIN, Parts, bytes, codec, schema, spark};

/// The number of damaged schemas.
const MUTANTS: usize = 10_000;

impl SeededNumbers {
    /// A copy of `pickle` with one to three random changes; some insert bytes of the pickle `other`.
    fn mutant(&mut self, pickle: &[u8], other: &[u8]) -> Vec<u8> {
        let mut mutant = pickle.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(mutant.len());
            let end = (at + 1 + self.below(40)).min(mutant.len());
            match self.below(7) {
                0 => mutant[at] = self.next() as u8,
                1 => mutant[at] ^= 1 << self.below(8),
                2 => mutant.insert(at, self.next() as u8),
                3 => drop(mutant.drain(at..end)),
                4 => mutant.extend_from_within(at..end),
                5 => {
                    let part = mutant[at..end].to_vec();
                    let to = self.below(mutant.len());
                    mutant.splice(to..to, part);
                }
                _ => {
                    let from = self.below(other.len());
                    let part = other[from..(from + 40).min(other.len())].to_vec();
                    mutant.splice(at..end, part);
                }
            }
            if mutant.is_empty() {
                mutant.push(b'.');
            }
        }
        mutant
    }
}

/// The undamaged pickles that mutants are made from: one for each way of writing a schema.
fn whole() -> Vec<Vec<u8>> {
    let decimal = spark("DecimalType", &[("precision", "I10\n"), ("scale", "I9\n")]);
    let codec = codec("ScalarCodec", &[("_spark_type", &decimal)]);
    let parts = Parts { codec: &codec, shape: "(NI3\nt", ..PLAIN };
    let old = [parts.as_new(), parts.as_reconstructed(), parts.as_restored()];
    let old = old.map(|field| bytes(&schema(&[("x", field)])));
    let recorded = recorded().into_iter().map(|(_, pickle)| pickle);
    written().into_iter().map(|(_, pickle)| pickle).chain(old).chain(recorded).collect()
}

#[test]
fn a_mutant_is_a_schema_or_an_error_within_bounds() {
    let whole = whole();
    let mut numbers = SeededNumbers(40);
    let mut still = 0;
    for number in 0..MUTANTS {
        let (pickle, other) = (&whole[number % whole.len()], &whole[numbers.below(whole.len())]);
        let mutant = numbers.mutant(pickle, other);
        let (read, memory) = most_bytes(|| Unischema::read(&mutant));
        assert!(memory <= MEMORY, "mutant {number}: {memory} bytes");
        match read {
            Ok(schema) => {
                still += 1;
                for (place, field) in schema.fields.iter().enumerate() {
                    let first = schema.fields.iter().position(|other| other.name == field.name);
                    assert_eq!(first, Some(place), "mutant {number}");
                }
            }
            Err(error) => assert!(!error.cause().is_empty(), "mutant {number}"),
        }
    }
    // Most mutants must fail, but some are still valid schemas, such as those with a changed digit.
    assert!((1..MUTANTS / 2).contains(&still), "{still}");
}
