//! Finds the share of a process in a mesh, a grid of processes.

use forebay::Shard;
use pyo3::prelude::*;

use crate::errors::IntoPython;

/// Returns the rank and the world of the shard of a process in a mesh. `axes` has the names and sizes of the
/// mesh's axes, and `data` the names of those that divide the data.
#[pyfunction]
pub(crate) fn shard_of_mesh(
    py: Python<'_>,
    rank: u32,
    axes: Vec<(String, u32)>,
    data: Vec<String>,
) -> PyResult<(u32, u32)> {
    let axes = axes.iter().map(|(name, size)| (name.as_str(), *size));
    let shard = Shard::from_mesh(rank, axes, data.iter().map(String::as_str)).or_raise(py)?;
    Ok((shard.rank(), shard.world()))
}
