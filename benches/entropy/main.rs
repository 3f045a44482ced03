//! Huffman decoding alone, one thread: libjpeg-turbo's against one in safe Rust, whole images and random crops.
//!
//! - `library`: `decode_mcu` of libjpeg-turbo, into blocks or, as it skips lines, over them.
//! - `rust`: `decoder.rs`, into blocks or over them.
//!
//! Before anything is timed, both must give the same coefficients, and skipping must come to the same bit. Then the
//! contestants take turns image by image. Figures are medians, with the 10th and the 90th of a hundred.
//!
//! `cargo bench --bench entropy -- FOLDER` measures JPEG files of the folder too, and its PNG files once encoded; without
//! one it looks at `FOREBAY_TEST_DATA`.
#![allow(clippy::print_stdout, reason = "the table is what a bench is for")]

mod bits;
mod decoder;
mod files;
mod frame;
mod library;
#[path = "../common/photos.rs"]
mod photos;
mod tables;
mod turns;

use std::hint::black_box;
use std::sync::Arc;

use decoder::{Block, Cursor};
use files::{Photo, Set};
use frame::{Frame, Tables};
use library::{Library, Pixels, coefficients, with_restart_markers};
use photos::Draws;
use turns::{Turns, in_turns};

const ROUNDS: usize = 40;

fn main() {
    let folder = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let folder = folder.or_else(|| std::env::var("FOREBAY_TEST_DATA").ok());
    for set in files::sets(folder.as_deref()) {
        set.photos.iter().for_each(check);
        println!("\n## {set}");
        whole(&set);
        crops(&set);
        restarts(&set);
    }
}

type Opened<'a> = (&'a Photo, (Frame<'a>, Arc<Tables>));

/// Photographs with the same definitions share their tables, so that these stay in the caches.
fn opened(photos: &[Photo]) -> Vec<Opened<'_>> {
    let mut known: Vec<(Vec<&[u8]>, Arc<Tables>)> = vec![];
    let mut opened = vec![];
    for photo in photos {
        let frame = Frame::read(&photo.0).expect("a baseline JPEG");
        let tables = match known.iter().find(|(definitions, _)| *definitions == frame.definitions) {
            Some((_, tables)) => Arc::clone(tables),
            None => Arc::new(frame.tables().expect("its tables")),
        };
        known.push((frame.definitions.clone(), Arc::clone(&tables)));
        opened.push((photo, (frame, tables)));
    }
    opened
}

/// Panics unless the decoder gives the library's coefficients and passes over rows to where it decodes them.
fn check(photo: &Photo) {
    let frame = Frame::read(&photo.0).expect("a baseline JPEG");
    let tables = frame.tables().expect("its tables");
    let expected = coefficients(&photo.0);
    let [mut ours, mut theirs] = [(); 2].map(|()| vec![[0; 64]; frame.blocks_per_row()]);
    let mut library = Library::new();
    let mut scan = library.open(&photo.0);
    let [mut decoding, mut skipping] = [(); 2].map(|()| Cursor::new(&frame, &tables).expect("its tables"));
    for row in 0..frame.mcu_rows {
        decoding.decode_row(&mut ours);
        scan.decode_row(&mut theirs);
        assert!(ours == theirs, "MCU row {row} has other coefficients than `decode_mcu` gives");
        skipping.skip_row();
        assert_eq!(decoding.place(), skipping.place(), "where MCU row {row} ends");
        for (mcu, blocks) in ours.chunks(frame.layout.len()).enumerate() {
            let mut blocks = blocks.iter();
            for (component, of) in frame.components.iter().enumerate() {
                for (down, across) in (0..of.down).flat_map(|d| (0..of.across).map(move |a| (d, a))) {
                    let block = blocks.next().expect("a block of the MCU");
                    // Blocks that only fill the last MCU of a row or column are not the image's.
                    let lines = expected[component].get(row * of.down + down);
                    if let Some(theirs) = lines.and_then(|line| line.get(mcu * of.across + across)) {
                        assert_eq!(block, theirs, "component {component}, MCU {mcu} of row {row}");
                    }
                }
            }
        }
    }
    let (_, _, within) = decoding.place();
    assert!(within, "read behind the end of the scan");
}

/// Whole images.
fn whole(set: &Set) {
    let mut turns = Turns::new(["library", "library, skipped", "rust", "rust, skipped", "rust, its tables"]);
    let mut library = Library::new();
    let opened = opened(&set.photos);
    for round in 0..ROUNDS {
        for index in 0..opened.len() {
            for (turn, (photo, (frame, tables))) in in_turns(turns.begin(round), &opened, index) {
                let mut blocks = vec![[0; 64]; frame.blocks_per_row()];
                match turn {
                    0 | 1 => {
                        let mut scan = library.open(&photo.0);
                        turns.time(turn, || {
                            (0..frame.mcu_rows).for_each(|_| match turn {
                                0 => scan.decode_row(black_box(&mut blocks)),
                                _ => scan.skip_row(),
                            });
                        });
                    }
                    2 | 3 => {
                        let mut cursor = Cursor::new(frame, tables).expect("its tables");
                        turns.time(turn, || {
                            (0..frame.mcu_rows).for_each(|_| match turn {
                                2 => cursor.decode_row(black_box(&mut blocks)),
                                _ => cursor.skip_row(),
                            });
                        });
                        black_box(cursor.place());
                    }
                    _ => turns.time(turn, || drop(black_box(frame.tables()))),
                }
            }
        }
    }
    println!("\nwhole images:");
    turns.print(set.photos.len());
}

/// The rows of random crops, and those above them.
fn crops(set: &Set) {
    let mut turns =
        Turns::new(["library, to pixels", "library, its entropy decoding", "rust", "rust, nothing skipped"]);
    let mut library = Library::new();
    let opened = opened(&set.photos);
    let most = opened.iter().map(|(_, (frame, _))| frame.width * frame.height).max().unwrap_or(0);
    let mut pixels = Pixels::new(most);
    let (mut above, mut inside, mut all) = (0, 0, 0);
    for round in 0..ROUNDS {
        for index in 0..opened.len() {
            let key = (round * opened.len() + index) as u64;
            for (turn, (photo, (frame, tables))) in in_turns(turns.begin(round), &opened, index) {
                let (x, y, w, h) = Draws(key).crop(frame.width as u32, frame.height as u32);
                // An iMCU, as the library cuts.
                let left = x / 16 * 16;
                let lines = frame.mcu_height();
                let (first, end) = (y as usize / lines, (y + h).div_ceil(lines as u32) as usize);
                (above, inside, all) = (above + first, inside + end - first, all + frame.mcu_rows);
                let mut blocks: Vec<Block> = vec![[0; 64]; frame.blocks_per_row()];
                match turn {
                    0 => turns.time(turn, || pixels.decode(&photo.0, (left, y, x + w - left, h))),
                    1 => {
                        let mut scan = library.open(&photo.0);
                        turns.time(turn, || {
                            (0..first).for_each(|_| scan.skip_row());
                            (first..end).for_each(|_| scan.decode_row(black_box(&mut blocks)));
                        });
                    }
                    _ => {
                        let mut cursor = Cursor::new(frame, tables).expect("its tables");
                        turns.time(turn, || {
                            (0..first).for_each(|_| match turn {
                                2 => cursor.skip_row(),
                                _ => cursor.decode_row(black_box(&mut blocks)),
                            });
                            (first..end).for_each(|_| cursor.decode_row(black_box(&mut blocks)));
                        });
                    }
                }
            }
        }
    }
    let percent = |rows: usize| 100.0 * rows as f64 / all as f64;
    println!("\nrandom crops:");
    println!("MCU rows above {:.1} %, of the crop {:.1} %", percent(above), percent(inside));
    turns.print(set.photos.len());
    turns.print_gain("pixels with the Rust decoder", |of| of[0] / (of[0] - of[1] + of[2]));
    turns.print_gain("share of entropy decoding", |of| of[1] / of[0]);
}

/// One image on two threads, with a restart marker behind each MCU row.
fn restarts(set: &Set) {
    let photos: Vec<Photo> = set.photos.iter().map(|photo| Photo(with_restart_markers(&photo.0))).collect();
    photos.iter().for_each(check);
    let bytes = |photos: &[Photo]| photos.iter().map(|photo| photo.0.len()).sum::<usize>() as f64;
    let more = 100.0 * (bytes(&photos) / bytes(&set.photos) - 1.0);
    let opened = opened(&photos);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
    let mut turns = Turns::new(["library", "rust", "rust, two threads"]);
    let mut library = Library::new();
    for round in 0..ROUNDS {
        for index in 0..opened.len() {
            for (turn, (photo, (frame, tables))) in in_turns(turns.begin(round), &opened, index) {
                assert_eq!(frame.intervals().len(), frame.mcu_rows, "an interval for each MCU row");
                let half = || {
                    (vec![[0; 64]; frame.blocks_per_row()], Cursor::new(frame, tables).expect("its tables"))
                };
                let (mut upper, mut lower) = (half(), half());
                match turn {
                    0 => {
                        let mut scan = library.open(&photo.0);
                        turns.time(turn, || {
                            (0..frame.mcu_rows).for_each(|_| scan.decode_row(black_box(&mut upper.0)));
                        });
                    }
                    1 => turns.time(turn, || decode_intervals(frame, &mut upper, &frame.intervals())),
                    _ => pool.install(|| {
                        turns.time(turn, || {
                            let intervals = frame.intervals();
                            let (top, bottom) = intervals.split_at(intervals.len() / 2);
                            pool.join(
                                || decode_intervals(frame, &mut upper, top),
                                || decode_intervals(frame, &mut lower, bottom),
                            );
                        });
                    }),
                }
            }
        }
    }
    println!("\na restart marker for each MCU row:");
    println!("{more:.2} % more bytes");
    turns.print(set.photos.len());
}

fn decode_intervals<'f>(
    frame: &Frame<'f>,
    (blocks, cursor): &mut (Vec<Block>, Cursor<'f, '_>),
    intervals: &[usize],
) {
    for from in intervals {
        cursor.begin(&frame.scan[*from..]);
        cursor.decode_row(black_box(blocks));
    }
}
