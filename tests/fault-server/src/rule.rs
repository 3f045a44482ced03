//! Rules, which say which requests a fault hits.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::fault::Fault;
use crate::request::Operation;
use crate::{draw, held};

/// Chooses the requests that a fault hits.
///
/// Requests that meet every condition on kind, key, range, connection and time are candidates. They are
/// counted from one, and [`nth`](Match::nth), [`from`](Match::from), [`times`](Match::times) and
/// [`probability`](Match::probability) choose among them. In JSON a match is an object with the fields'
/// names; a missing field sets no condition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Match {
    operation: Option<Operation>,
    key_contains: Option<String>,
    key_ends_with: Option<String>,
    covers: Option<u64>,
    one_connection_in: Option<u64>,
    #[serde(with = "crate::seconds")]
    after: Duration,
    #[serde(with = "crate::seconds::maybe")]
    until: Option<Duration>,
    from: u64,
    times: Option<u64>,
    probability: Option<f64>,
}

impl Match {
    /// Every request, but not connections without one.
    pub fn request() -> Match {
        Match::default()
    }

    /// Requests with this operation.
    pub fn operation(operation: Operation) -> Match {
        Match { operation: Some(operation), ..Match::default() }
    }

    /// Requests for an object or a part of it.
    pub fn get() -> Match {
        Match::operation(Operation::Get)
    }

    /// Requests with HeadObject or HeadBucket.
    pub fn head() -> Match {
        Match::operation(Operation::Head)
    }

    /// Requests for a page of keys.
    pub fn list() -> Match {
        Match::operation(Operation::List)
    }

    /// Connections, at the moment when they are accepted. Only [`Fault::Reset`] and
    /// [`Fault::StallBeforeHead`] have a meaning for them.
    pub fn connect() -> Match {
        Match::operation(Operation::Connect)
    }

    /// Requires this text in the key, or in the prefix of a list.
    pub fn key_contains(mut self, part: impl Into<String>) -> Match {
        self.key_contains = Some(part.into());
        self
    }

    /// Requires this text at the end of the key, or of the prefix of a list.
    pub fn key_ends_with(mut self, suffix: impl Into<String>) -> Match {
        self.key_ends_with = Some(suffix.into());
        self
    }

    /// Requires an answer that contains this byte of the object.
    pub fn covers(mut self, offset: u64) -> Match {
        self.covers = Some(offset);
        self
    }

    /// Requires a connection whose number is a multiple of `n`, which is every `n`-th connection.
    pub fn one_connection_in(mut self, n: u64) -> Match {
        self.one_connection_in = Some(n);
        self
    }

    /// Begins this long after the rule was added.
    pub fn after(mut self, time: Duration) -> Match {
        self.after = time;
        self
    }

    /// Ends this long after the rule was added.
    pub fn until(mut self, time: Duration) -> Match {
        self.until = Some(time);
        self
    }

    /// Chooses the `k`-th candidate, counted from one, and no other.
    pub fn nth(self, k: u64) -> Match {
        self.from(k).times(1)
    }

    /// Chooses the `k`-th candidate, counted from one, and all after it.
    pub fn from(mut self, k: u64) -> Match {
        self.from = k;
        self
    }

    /// Chooses at most `n` candidates.
    pub fn times(mut self, n: u64) -> Match {
        self.times = Some(n);
        self
    }

    /// Chooses each candidate with this probability, drawn from the server's seed and the candidate's count.
    pub fn probability(mut self, p: f64) -> Match {
        self.probability = Some(p);
        self
    }

    fn is_candidate(&self, of: &Candidate<'_>, age: Duration) -> bool {
        let operation = match self.operation {
            Some(operation) => operation == of.operation,
            None => of.operation != Operation::Connect,
        };
        operation
            && self.key_contains.as_ref().is_none_or(|part| of.key.contains(part))
            && self.key_ends_with.as_ref().is_none_or(|suffix| of.key.ends_with(suffix))
            && self
                .covers
                .is_none_or(|offset| of.answer.is_some_and(|answer| answer.object_bytes().contains(&offset)))
            && self.one_connection_in.is_none_or(|n| of.connection.is_multiple_of(n))
            && age >= self.after
            && self.until.is_none_or(|until| age < until)
    }
}

/// A fault and the match for the requests that it hits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FaultRule {
    pub(crate) when: Match,
    pub(crate) then: Fault,
}

/// A request, or a connection without one, to which a rule may apply.
pub(crate) struct Candidate<'a> {
    pub(crate) operation: Operation,
    /// The key, or the prefix of a list.
    pub(crate) key: &'a str,
    pub(crate) connection: u64,
    /// The answer without a fault; `None` for a connection without a request.
    pub(crate) answer: Option<&'a Answer>,
}

pub(crate) struct Rules {
    seed: u64,
    rules: Mutex<Vec<Counted>>,
}

struct Counted {
    rule: FaultRule,
    added: Instant,
    candidates: u64,
    fired: u64,
}

impl Rules {
    pub(crate) fn new(seed: u64) -> Rules {
        Rules { seed, rules: Mutex::default() }
    }

    pub(crate) fn add(&self, rule: FaultRule) {
        held(&self.rules).push(Counted { rule, added: Instant::now(), candidates: 0, fired: 0 });
    }

    pub(crate) fn clear(&self) {
        held(&self.rules).clear();
    }

    /// Restarts all counts and clocks.
    pub(crate) fn rewind(&self) {
        for counted in held(&self.rules).iter_mut() {
            (counted.candidates, counted.fired, counted.added) = (0, 0, Instant::now());
        }
    }

    pub(crate) fn list(&self) -> Vec<FaultRule> {
        held(&self.rules).iter().map(|counted| counted.rule.clone()).collect()
    }

    /// The fault of the oldest rule that chooses this candidate. The other rules only count it.
    pub(crate) fn fault(&self, of: &Candidate<'_>) -> Option<Fault> {
        let mut chosen = None;
        for (stream, counted) in held(&self.rules).iter_mut().enumerate() {
            let FaultRule { when, then } = &counted.rule;
            if !then.fits(of.operation, of.answer) || !when.is_candidate(of, counted.added.elapsed()) {
                continue;
            }
            counted.candidates += 1;
            let count = counted.candidates;
            let fires = chosen.is_none()
                && count >= when.from
                && when.times.is_none_or(|times| counted.fired < times)
                && when.probability.is_none_or(|p| draw::unit(self.seed, stream as u64, count) < p);
            if fires {
                counted.fired += 1;
                chosen = Some(then.clone());
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the requests among `n` requests for `key` that meet the rule.
    fn met(seed: u64, when: Match, n: u64) -> Vec<u64> {
        let rules = Rules::new(seed);
        rules.add(FaultRule { when, then: Fault::status(500) });
        let answer = Answer::text(200, "text/plain", "hello");
        let meets = |connection: &u64| {
            let (operation, key) = (Operation::Get, "a/b.parquet");
            let of = Candidate { operation, key, connection: *connection, answer: Some(&answer) };
            rules.fault(&of).is_some()
        };
        (1..=n).filter(meets).collect()
    }

    #[test]
    fn each_condition_chooses_what_it_says() {
        for (when, expected) in [
            (Match::get().nth(3), vec![3]),
            (Match::get().from(8), vec![8, 9, 10]),
            (Match::get().from(8).times(2), vec![8, 9]),
            (Match::request().times(2), vec![1, 2]),
            (Match::get().one_connection_in(4), vec![4, 8]),
            (Match::get().one_connection_in(4).nth(2), vec![8]),
            (Match::get().key_ends_with(".parquet").nth(1), vec![1]),
            (Match::get().key_contains("/b").nth(1), vec![1]),
            (Match::get().key_contains("c"), vec![]),
            (Match::get().after(Duration::from_secs(60)), vec![]),
            (Match::get().until(Duration::ZERO), vec![]),
            (Match::head(), vec![]),
            (Match::connect(), vec![]),
            (Match::get().covers(0), vec![]),
        ] {
            assert_eq!(met(7, when.clone(), 10), expected, "{when:?}");
        }
    }

    #[test]
    fn a_probability_is_kept_and_follows_from_the_seed() {
        let when = || Match::get().probability(0.2);
        let share = met(7, when(), 10_000).len() as f64 / 10_000.0;
        assert!((share - 0.2).abs() < 0.02, "{share}");
        assert_eq!(met(7, when(), 100), met(7, when(), 100));
        assert_ne!(met(7, when(), 100), met(8, when(), 100));
    }

    #[test]
    fn a_rule_reads_and_writes_as_json() {
        let json = r#"{"when": {"operation": "get", "from": 5, "times": 1, "after": 0.5},
                       "then": {"stall_after": {"bytes": 9, "lasting": 1.5}}}"#;
        let rule: FaultRule = serde_json::from_str(json).unwrap();
        assert_eq!(rule.when, Match::get().nth(5).after(Duration::from_millis(500)));
        assert_eq!(rule.then, Fault::StallAfter { bytes: 9, lasting: Some(Duration::from_millis(1_500)) });
        assert_eq!(serde_json::from_str::<FaultRule>(&serde_json::to_string(&rule).unwrap()).unwrap(), rule);
        assert!(
            serde_json::from_str::<FaultRule>(r#"{"when": {"operatoin": "get"}, "then": "reset"}"#).is_err()
        );
    }
}
