//! The hot loops one by one, for counting their instructions: `instructions LOOP ROUNDS` runs a loop ROUNDS
//! times, on one thread and with the same input each time. `benches/instructions.py` runs it under callgrind.

use std::hint::black_box;

use forebay::Image;
use forebay::arrow::array::{Array, RecordBatch};
use forebay::image::{Layout, PixelType};
use forebay::plan::{Deals, EpochOrder, OrderSpec, Split};
use forebay::rows::read_part;
use forebay::rows::{Selection, gather};
use forebay::{Shard, Shuffle};
use forebay_image::{RowKey, View, Workspace, decode_into, decode_views, encode_jpeg};
use forebay_store::source;

mod common;

const WIDTH: u32 = 500;
const HEIGHT: u32 = 375;
const TINY: u32 = 32;
const BATCH: usize = 8192;

type Loop = Box<dyn FnMut(u64)>;

/// Draws a picture with edges, slopes and noise.
fn picture(width: u32, height: u32) -> Vec<u8> {
    let mut state = 1u32;
    let mut pixel = |x: u32, y: u32, channel: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let slope = (x * (channel + 1) + y) / 4;
        let edge = if (x / 40 + y / 30).is_multiple_of(2) { 60 } else { 0 };
        (slope + edge + (state >> 28)) as u8
    };
    let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    places
        .flat_map(|(x, y)| [0, 1, 2].map(|channel| (x, y, channel)))
        .map(|(x, y, c)| pixel(x, y, c))
        .collect()
}

fn decode(image: Image, encoded: Vec<u8>) -> Loop {
    let mut slot = vec![0; image.bytes_per_image()];
    Box::new(move |round| {
        decode_into(&image, &encoded, RowKey(round), &mut slot).expect("pixels");
        black_box(&mut slot);
    })
}

fn photograph() -> Vec<u8> {
    encode_jpeg(&picture(WIDTH, HEIGHT), WIDTH, HEIGHT, 93).expect("a JPEG")
}

fn jpeg(image: Image) -> Loop {
    decode(image, photograph())
}

/// Several views of one image, from one decoding.
fn views(images: Vec<Image>) -> Loop {
    let (encoded, workspace) = (photograph(), Workspace::of_loader(1 << 28, 1));
    let mut slots: Vec<Vec<u8>> = images.iter().map(|image| vec![0; image.bytes_per_image()]).collect();
    Box::new(move |round| {
        let each = images.iter().zip(&mut slots).enumerate();
        let key = |at: usize| RowKey((round << 8 | at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let views = each.map(|(at, (image, slot))| View::new(image, key(at), slot));
        decode_views(&workspace, &encoded, &mut views.collect::<Vec<_>>()).expect("pixels");
        black_box(&mut slots);
    })
}

/// The views of DINO: two large crops and eight small ones.
fn dino() -> Loop {
    let crop = |side, scale| Image::random_resized_crop(side).scale(scale).flip();
    let large = vec![crop(224, (0.25, 1.0)); 2];
    views(large.into_iter().chain(vec![crop(96, (0.05, 0.25)); 8]).collect())
}

/// The two views of SimCLR, with its colours and blur.
fn simclr() -> Loop {
    let crop = Image::random_resized_crop(224).flip().color_jitter_with(0.8, 0.8, 0.8, 0.8, 0.2);
    views(vec![crop.random_grayscale(0.2).gaussian_blur_with(0.5, 23, (0.1, 2.0)); 2])
}

fn png() -> Loop {
    let mut encoded = std::io::Cursor::new(Vec::new());
    let pixels = image::RgbImage::from_raw(TINY, TINY, picture(TINY, TINY)).expect("an image");
    pixels.write_to(&mut encoded, image::ImageFormat::Png).expect("a PNG");
    decode(Image::resize(TINY, TINY), encoded.into_inner())
}

#[allow(clippy::disallowed_methods, reason = "there is no loader to wait in")]
fn rows(table: fn(usize) -> RecordBatch, columns: &[&str]) -> Loop {
    let dir = common::written(1, table);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let location = dir.path().to_string_lossy().into_owned();
    let (store, catalog) =
        runtime.block_on(source::open(&[location], &Default::default())).expect("the file that was written");
    let projection = match columns {
        [] => catalog.project_all(),
        names => catalog.project(names),
    };
    let projection = projection.expect("columns that are read");
    let ranges = catalog.byte_ranges(&catalog.groups[0], &projection).expect("a footer");
    let bytes = runtime.block_on(store.read_ranges(&catalog.files[0], &ranges)).expect("bytes");
    let chunks: Vec<_> = ranges.into_iter().zip(bytes).collect();
    Box::new(move |_| {
        black_box(read_part(&catalog, &projection, 0, None, chunks.clone(), u64::MAX).expect("rows"));
    })
}

fn gathered(pick: impl Fn(u32) -> (u32, u32)) -> Loop {
    let sources: Vec<_> = (0..4).map(common::table).collect();
    let selection = Selection::new((0..BATCH as u32).map(pick).collect());
    Box::new(move |_| {
        for column in 0..common::COLUMNS {
            let arrays: Vec<&dyn Array> =
                sources.iter().map(|source| source.column(column).as_ref()).collect();
            black_box(gather(&arrays, &selection, None).expect("numbers"));
        }
    })
}

fn plan() -> Loop {
    let groups = vec![100; 1_000];
    let spec = OrderSpec::new(&Shuffle::seeded(1).window_rows(8_192), &groups, 8, 0);
    let shard = Shard::new(3, 8).expect("a rank of the world");
    let split = Split {
        rows: 100_000,
        lanes: 8,
        shard,
        global_batch: 256 * u64::from(shard.world()),
        drop_last: false,
    };
    Box::new(move |round| {
        // This imitates a loader: a first walk sees which parts of row groups enter the window, and shuffles
        // the rows of each; a second walk picks the rows of each step from them.
        let (groups, spec) = (groups.clone(), spec.clone());
        let deals = Deals::new(move || EpochOrder::new(groups.as_slice(), &spec, round));
        for part in deals.scout(split, 0).flat_map(|step| step.entering) {
            black_box(deals.take(&part));
        }
        black_box(deals.walk(split, 0).map(|step| step.rows).sum::<u64>());
    })
}

fn main() {
    let crop = || Image::random_resized_crop(224).flip();
    let normalised = || {
        let layout = crop().dtype(PixelType::F32).layout(Layout::Nchw);
        layout.normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    };
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [name, rounds] = arguments.as_slice() else {
        eprintln!("instructions LOOP ROUNDS");
        return;
    };
    let mut run = match name.as_str() {
        "jpeg-crop" => jpeg(crop()),
        "jpeg-crop-float" => jpeg(normalised()),
        "jpeg-dino" => dino(),
        "jpeg-simclr" => simclr(),
        "png-tiny" => png(),
        "parquet-rows" => rows(common::table, &[]),
        "parquet-wide" => rows(common::wide, &[]),
        "parquet-few" => rows(common::wide, &["c300", "c600", "c900"]),
        "gather-stored" => gathered(|row| (0, row)),
        "gather-shuffled" => {
            gathered(|row| (row * 7 % 4, row.wrapping_mul(2_654_435_761) % common::GROUP as u32))
        }
        "plan-epoch" => plan(),
        other => panic!("no loop is called {other}"),
    };
    (0..rounds.parse().expect("a number of rounds")).for_each(&mut run);
}
