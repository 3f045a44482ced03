//! The loop that a training step sits in.
//!
//! ```sh
//! forebay synth photos --rows 400
//! cargo run --release --example train
//! ```
#![allow(clippy::print_stdout, reason = "a program that says what it did")]

use forebay::{Dataset, Image, Result, Shard, Shuffle};

fn main() -> Result<()> {
    let loader = Dataset::open("photos/")?
        .loader()
        .columns(["image", "label"])
        .decode("image", Image::random_resized_crop(224).flip())
        .shard(Shard::new(0, 1)?)
        .shuffle(Shuffle::seeded(17))
        .batch_size(64)
        .build()?;
    for batch in loader.epoch(0) {
        train(&batch?); // an arrow RecordBatch; pictures are arrow.fixed_shape_tensor columns
    }
    println!("{}", loader.stats());
    Ok(())
}

/// Your training step.
fn train(_batch: &forebay::arrow::array::RecordBatch) {}
