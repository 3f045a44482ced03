//! Runs the ranks that are verified, kills them and resumes them. A life is the part of a run from a start or
//! resume until its ranks are killed or have finished.

use std::env;
use std::io::{BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;

use crossbeam_channel::{Receiver, bounded};
use forebay::{Dataset, LoaderSpec, Position, Shard};
use forebay_arrow::fail::{Foreign, OrFail};
use forebay_base::{Error, ErrorKind, Result};

use super::feed::{self, MixSource};
use super::rank::{ArrivedRow, Job, ReceivedBatch};
use crate::HOST;
use crate::console::{Console, Progress};
use crate::location::Location;
use crate::random::Random;

/// A kill comes fewer than this many steps after the last checkpoint; the number of steps is random.
const STEPS_LOST: u32 = 4;

/// The run that is verified: its data, its options and its number of epochs.
pub(super) struct VerifyRun {
    pub(super) location: Location,
    /// The data set, or the sources of a mix.
    pub(super) datasets: Vec<Dataset>,
    /// The weights and deny lists of a mix's sources; empty for a single data set.
    pub(super) mix: Vec<MixSource>,
    /// The options of each rank, without its shard.
    pub(super) spec: LoaderSpec,
    pub(super) epochs: u64,
}

/// A life of the run, from a start or resume to a kill or the end. `steps` ends at the checkpoint from which
/// the next life resumes.
pub(super) struct Life {
    pub(super) world: u32,
    /// The position where the life began; `None` at the beginning of the run.
    pub(super) from: Option<Position>,
    pub(super) steps: Vec<ReceivedStep>,
}

/// The rows that all ranks received in a step.
pub(super) struct ReceivedStep {
    pub(super) epoch: u64,
    /// The rows of each rank, in the order of delivery.
    pub(super) ranks: Vec<Vec<ArrivedRow>>,
    /// The position after the step, as one of the ranks saved it.
    position: Position,
}

impl VerifyRun {
    /// The options of a rank.
    pub(super) fn of_rank(&self, rank: u32, world: u32) -> Result<LoaderSpec> {
        let mut spec = self.spec.clone();
        spec.shard = Shard::new(rank, world)?;
        Ok(spec)
    }

    /// Runs on `world` ranks, kills all ranks `times` times, and resumes them on other numbers of ranks.
    pub(super) fn lives(
        &self,
        world: u32,
        times: u32,
        random: &mut Random,
        console: &Console,
    ) -> Result<Vec<Life>> {
        let first = feed::build(&self.datasets, &self.of_rank(0, world)?, &self.mix)?.plan(0)?.steps;
        let mut left = first * self.epochs;
        let most_ranks = self.spec.global_batch_size.unwrap_or(1).min(u64::from(world) + 2) as u32;
        let mut progress = console.progress("running", "steps", left);
        let mut lives: Vec<Life> = Vec::new();
        for killed in (0..=times).rev() {
            let from = lives.last().and_then(|life| Some(life.steps.last()?.position.clone()));
            // After a life that lost all of its steps, the next one begins where that life began.
            let from = from.or_else(|| lives.last()?.from.clone());
            let world = if lives.is_empty() {
                world
            } else {
                other_than(lives[lives.len() - 1].world, most_ranks, random)
            };
            let until = (killed > 0).then(|| {
                random.below(u32::try_from(2 * left / u64::from(killed + 1)).unwrap_or(u32::MAX)) as usize
            });
            let mut life = self.live(world, from, until, random, &mut progress)?;
            if until.is_some() {
                let kept = life.steps.len().saturating_sub(random.below(STEPS_LOST) as usize);
                life.steps.truncate(kept);
            }
            left -= (life.steps.len() as u64).min(left);
            lives.push(life);
        }
        Ok(lives)
    }

    /// Runs all ranks until this many steps were taken, and then kills them; `None` runs them to the end.
    fn live(
        &self,
        world: u32,
        from: Option<Position>,
        until: Option<usize>,
        random: &mut Random,
        progress: &mut Progress,
    ) -> Result<Life> {
        let ranks = (0..world).map(|rank| self.start(rank, world, from.clone()));
        let mut ranks = Ranks(ranks.collect::<Result<_>>()?);
        let mut steps = Vec::new();
        while until.is_none_or(|until| steps.len() < until) {
            let mut reports = Vec::new();
            for rank in &mut ranks.0 {
                reports.push(rank.next()?);
            }
            let Some(reports) = reports.into_iter().collect::<Option<Vec<ReceivedBatch>>>() else {
                ranks.check_ended(steps.len())?;
                break;
            };
            let saved = &reports[random.below(world) as usize];
            let position = serde_json::from_str(&saved.position).map_err(|error| {
                Error::new(ErrorKind::Internal, format!("a rank saved no position: {error}"))
            })?;
            steps.push(ReceivedStep {
                epoch: saved.epoch,
                position,
                ranks: reports.into_iter().map(|report| report.rows).collect(),
            });
            progress.advance(1);
        }
        Ok(Life { world, from, steps })
    }

    fn start(&self, rank: u32, world: u32, position: Option<Position>) -> Result<Rank> {
        let location = self.location.clone();
        let spec = self.of_rank(rank, world)?;
        let mix = self.mix.clone();
        let job = Job { location, spec, mix, position, epochs: self.epochs };
        let told = serde_json::to_vec(&job).map_err(|error| {
            Error::new(ErrorKind::Internal, format!("the job of a rank cannot be written: {error}"))
        })?;
        let mut process = program()?
            .arg("verify-rank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Foreign::into_error)?;
        if let Some(mut input) = process.stdin.take() {
            // A write error is ignored: the rank has then ended, and has printed the reason.
            let _ = input.write_all(&told);
        }
        let (send, reports) = bounded(2);
        if let Some(output) = process.stdout.take() {
            let mut output = BufReader::new(output);
            thread::spawn(move || {
                while let Ok(report) = ReceivedBatch::read(&mut output) {
                    if send.send(report).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Rank { name: format!("rank {rank} of {world}"), process, reports })
    }
}

/// The command that starts another process of this program.
fn program() -> Result<Command> {
    match HOST.get().map(Vec::as_slice) {
        Some([program, words @ ..]) => {
            let mut command = Command::new(program);
            command.args(words);
            Ok(command)
        }
        _ => Ok(Command::new(env::current_exe().or_fail()?)),
    }
}

/// A random number in `1..=most` other than `before`, if there is one.
fn other_than(before: u32, most: u32, random: &mut Random) -> u32 {
    match most {
        0 | 1 => 1,
        _ => {
            let drawn = 1 + random.below(most - 1);
            if drawn < before { drawn } else { drawn + 1 }
        }
    }
}

/// The processes of all ranks. Dropping the value kills them.
struct Ranks(Vec<Rank>);

struct Rank {
    name: String,
    process: Child,
    reports: Receiver<ReceivedBatch>,
}

impl Ranks {
    /// Fails unless all ranks have ended after the same number of steps.
    fn check_ended(&mut self, steps: usize) -> Result<()> {
        for rank in &mut self.0 {
            if rank.next()?.is_some() {
                let cause = format!("{} has more than {steps} steps, after which others ended", rank.name);
                return Err(Error::new(ErrorKind::Internal, cause));
            }
        }
        Ok(())
    }
}

impl Rank {
    /// The next batch of the rank; `None` at the end.
    fn next(&mut self) -> Result<Option<ReceivedBatch>> {
        if let Ok(report) = self.reports.recv() {
            return Ok(Some(report));
        }
        let status = self.process.wait().map_err(Foreign::into_error)?;
        if status.success() {
            return Ok(None);
        }
        let mut said = String::new();
        if let Some(mut stderr) = self.process.stderr.take() {
            let _ = stderr.read_to_string(&mut said);
        }
        let said = said.trim().trim_start_matches("forebay: error: ");
        let said = if said.is_empty() { status.to_string() } else { said.to_owned() };
        Err(Error::new(ErrorKind::Internal, format!("{} failed: {said}", self.name)))
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        // Kills all ranks before it waits for any of them.
        for rank in &mut self.0 {
            let _ = rank.process.kill();
        }
        for rank in &mut self.0 {
            let _ = rank.process.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_resumes_on_another_number_of_ranks() {
        let mut random = Random::new(1, 1);
        let drawn: Vec<u32> = (0..200).map(|_| other_than(3, 6, &mut random)).collect();
        assert!([1, 2, 4, 5, 6].iter().all(|world| drawn.contains(world)));
        assert!(!drawn.contains(&3) && drawn.iter().all(|world| (1..=6).contains(world)));
        assert_eq!(other_than(1, 1, &mut random), 1);
    }
}
