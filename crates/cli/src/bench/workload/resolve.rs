//! Turns a workload into the plain arguments of a run.

use std::time::Duration;

use forebay_base::{Error, Result};

use super::{HeldDemand, WorkloadOptions, demanded, name};
use crate::bench::args::Args;
use crate::console::Console;
use crate::location::Location;

/// How long a workload runs if the arguments set no end: enough for some steps of the slowest workload, or
/// for some epochs of the others.
const WORKLOAD_TIME: Duration = Duration::from_secs(30);

/// Replaces the workload in `args`, if there is one, by plain options. Missing data is made.
pub(crate) fn resolve(args: &Args, console: &Console) -> Result<(Args, Option<HeldDemand>)> {
    let mut resolved = args.clone();
    let WorkloadOptions { workload, accelerator, scale, dir, rows } = &args.workload;
    let Some(workload) = *workload else { return Ok((resolved, None)) };
    let (accelerator, demand) = demanded(workload, *accelerator)?;
    let step = Duration::try_from_secs_f64(demand.seconds / scale)
        .map_err(|_| Error::invalid(format!("--scale {scale} makes steps too long to measure")))?;
    let set = workload.data(*rows);
    let least = demand.rows * u64::from(args.world);
    if set.rows < least {
        return Err(Error::invalid(format!("--rows {} do not fill a step", set.rows))
            .hint(format!("a step of {} takes {least}", name(&workload))));
    }
    let folder = dir.clone().unwrap_or_else(|| std::env::temp_dir().join("forebay-workloads"));
    let place = set.at(&folder, console)?;
    resolved.loader.location = Location::folder(&place);
    resolved.loader.batch_size = demand.rows;
    // A simulated step takes the same time for a small last batch as for a full one, so the small last batch
    // of an epoch is dropped.
    resolved.loader.drop_last = true;
    resolved.loader.columns = workload.columns();
    resolved.loader.image = workload.image().map(|image| ("image".to_owned(), image)).into_iter().collect();
    resolved.step_ms = Some(step);
    if args.epochs.is_none() && args.max_batches.is_none() {
        resolved.seconds = args.seconds.or(Some(WORKLOAD_TIME));
    }
    let published = demand.rows as f64 / demand.seconds;
    let held = HeldDemand {
        workload,
        accelerator,
        scale: *scale,
        published_step_ms: demand.seconds * 1e3,
        published_rows_per_second: published,
        demanded_rows_per_second: published * scale,
        demanded_bytes_per_second: published * scale * workload.bytes_per_row() as f64,
        asked_utilisation: workload.asked_utilisation(),
    };
    Ok((resolved, Some(held)))
}
