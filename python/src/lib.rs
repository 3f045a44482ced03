//! The Python bindings of the library.
//!
//! The bindings convert arguments and batches without copying large data, release the interpreter's lock
//! while they wait, check for Ctrl-C meanwhile, and turn each error into a Python exception. All other logic
//! belongs in the library. The public names are in the Python package `forebay`, which wraps this module;
//! users import nothing from here.

mod arguments;
mod arrays;
mod batch;
mod capsule;
mod categories;
mod column;
mod convert;
mod dataset;
mod decode;
mod dense;
mod dlpack;
mod epoch;
mod errors;
mod home;
mod image;
mod interrupt;
mod lists;
mod loader;
mod memory;
mod mesh;
mod mixup;
mod options;
mod petastorm;
mod pin;
mod program;
mod ragged;
mod rows;
mod schema;
mod stream;
mod text;
mod view;

use forebay_cli as cli;
use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: cli::Allocator = cli::ALLOCATOR;

/// The compiled half of the `forebay` package.
#[pymodule]
fn _forebay(module: &Bound<'_, PyModule>) -> PyResult<()> {
    cli::settle();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("__level__", cli::LEVEL)?;
    module.add_function(wrap_pyfunction!(program::main, module)?)?;
    module.add_function(wrap_pyfunction!(text::parse_size, module)?)?;
    module.add_function(wrap_pyfunction!(text::matching_names, module)?)?;
    module.add_function(wrap_pyfunction!(text::shown, module)?)?;
    module.add_function(wrap_pyfunction!(dataset::store_options, module)?)?;
    module.add_function(wrap_pyfunction!(decode::decode_image, module)?)?;
    module.add_function(wrap_pyfunction!(loader::denied_rows, module)?)?;
    module.add_function(wrap_pyfunction!(loader::denied_values, module)?)?;
    module.add_function(wrap_pyfunction!(mesh::shard_of_mesh, module)?)?;
    module.add_function(wrap_pyfunction!(mixup::blend_with_previous, module)?)?;
    module.add_function(wrap_pyfunction!(petastorm::petastorm_schema, module)?)?;
    module.add_function(wrap_pyfunction!(stream::arrow_schema, module)?)?;
    module.add_function(wrap_pyfunction!(stream::arrow_stream, module)?)?;
    module.add_function(wrap_pyfunction!(rows::join_row_groups, module)?)?;
    module.add_function(wrap_pyfunction!(rows::write_row_group, module)?)?;
    lists::add(module)?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<categories::Counts>()?;
    module.add_class::<column::Column>()?;
    module.add_class::<dataset::Dataset>()?;
    module.add_class::<epoch::Epoch>()?;
    module.add_class::<epoch::Reason>()?;
    module.add_class::<epoch::Skipped>()?;
    module.add_class::<epoch::Step>()?;
    module.add_class::<loader::Loader>()?;
    module.add_class::<image::Image>()?;
    module.add_class::<memory::Memory>()?;
    module.add_class::<rows::MadeRows>()?;
    module.add_class::<schema::Schema>()?;
    Ok(())
}
