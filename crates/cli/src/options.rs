//! The options for data, order and batches, which `plan`, `bench`, `doctor` and `verify` share.

use std::fmt;
use std::path::PathBuf;

use forebay::column::AsStored;
use forebay::{CacheSpec, Dataset, LoaderSpec, Shard, Shuffle, Tier};
use forebay_base::{Error, Result};
use forebay_image::{Image, Layout, PixelType};
use forebay_store::catalog::Projection;

use super::clips::ClipColumn;
use super::image_words::parse_image;
use super::location::Location;
use super::samples::SampleOptions;
use super::units;

/// The mean and standard deviation of ImageNet's pixels for red, green and blue. Torchvision's models expect
/// images that are normalised with them.
const IMAGENET_MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const IMAGENET_STD: [f32; 3] = [0.229, 0.224, 0.225];

/// Data, order and batches of a loader.
#[derive(clap::Args, Clone)]
#[command(group = clap::ArgGroup::new("decoded").args(["image", "clip"]).multiple(true))]
pub(crate) struct LoaderOptions {
    #[command(flatten)]
    pub(crate) location: Location,
    /// Columns to read [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) columns: Option<Vec<String>>,
    /// Decode a column of images: rrc224 (random resized crop), center224 or resize224x224 (height x width).
    /// Add ,raw299x299x3 (height x width x channels) for raw pixels, ,bicubic or ,lanczos for another filter,
    /// and :COLUMN to crop and mirror it as the image in that column
    #[arg(long, value_name = "COLUMN=HOW", value_parser = parse_image)]
    pub(crate) image: Vec<(String, Image)>,
    /// Decode a column of lists of images, or the images of a --window, to clips: HOW as for --image, with
    /// options such as ,frames=8 ,at_most=32 ,stride=4 ,sampling=random ,draws=alone and ,layout=NCTHW
    #[arg(long, value_name = "COLUMN=HOW", value_parser = ClipColumn::parse)]
    pub(crate) clip: Vec<ClipColumn>,
    /// Columns to deliver as they are stored, whatever the schema that Petastorm wrote beside the files says;
    /// '*' for all
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) as_stored: Vec<String>,
    /// Deliver images as normalised float32, channels first, instead of uint8
    #[arg(long, requires = "decoded")]
    pub(crate) float: bool,
    /// Rows in a batch of one rank
    #[arg(long, default_value_t = LoaderSpec::BATCH_SIZE, value_parser = units::whole::<u64, 1>)]
    pub(crate) batch_size: u64,
    /// How rows are mixed. The default is that of most training; in Python, a Loader without shuffle= reads
    /// rows as stored
    #[arg(long, value_enum, default_value_t = Order::Window)]
    pub(crate) order: Order,
    /// Seed of the order and of random crops
    #[arg(long, default_value_t = 0, value_parser = units::whole::<u64, 0>)]
    pub(crate) seed: u64,
    /// Rows that each lane holds for shuffling [default: as many as fit into 1 GiB]
    #[arg(long, value_parser = units::whole::<u64, 1>)]
    pub(crate) window_rows: Option<u64>,
    /// Shuffle row groups of more rows than this in pieces of this many rows, each of which is read
    /// separately
    #[arg(long, value_name = "ROWS", value_parser = units::whole::<u64, 1>)]
    pub(crate) piece_rows: Option<u64>,
    /// Interleaved lanes of the order [default: one for each rank]
    #[arg(long, value_parser = units::whole::<u32, 1>)]
    pub(crate) lanes: Option<u32>,
    #[command(flatten)]
    pub(crate) samples: SampleOptions,
    /// Leave out the rows that do not fill a step
    #[arg(long)]
    pub(crate) drop_last: bool,
    /// Budget for everything in flight, such as 4GB [default: 4 GiB, or half of the machine]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) memory: Option<u64>,
    /// Keep decoded rows in this folder, and read them from there
    #[arg(long, value_name = "DIR", requires = "cache_bytes", value_parser = units::local_path())]
    pub(crate) cache: Option<PathBuf>,
    /// The most that the cache may hold, such as 200GB
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, requires = "cache")]
    pub(crate) cache_bytes: Option<u64>,
    /// Form in which the cache keeps images: auto, rows, coefficients, resized or pixels
    #[arg(long, value_name = "TIER", default_value = "auto", requires = "cache")]
    pub(crate) cache_tier: Tier,
}

/// The order of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    /// Row groups at random, their rows mixed through a window
    Window,
    /// A uniform permutation of all rows
    Exact,
    /// As stored
    Stored,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Order::Window => "window",
            Order::Exact => "exact",
            Order::Stored => "stored",
        })
    }
}

impl LoaderOptions {
    /// Opens the data set, or returns an error if two of the options contradict each other.
    pub(crate) fn open(&self) -> Result<Dataset> {
        let of_windows = [("--window-rows", self.window_rows), ("--piece-rows", self.piece_rows)];
        if let Some((option, _)) =
            of_windows.iter().find(|(_, rows)| rows.is_some() && self.order != Order::Window)
        {
            return Err(Error::invalid(format!("{option} with --order {}", self.order))
                .hint(format!("leave out {option}, which is for the order window, or --order")));
        }
        let columns: Vec<&str> = self.decoded().collect();
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].contains(column) {
                let option = if at < self.image.len() { "--image" } else { "--clip" };
                return Err(Error::invalid(format!("{option} {column}=... is given twice"))
                    .hint("a column is decoded in one way"));
            }
        }
        self.location.open()
    }

    /// The columns that are decoded, those of clips last.
    pub(crate) fn decoded(&self) -> impl Iterator<Item = &str> {
        let images = self.image.iter().map(|(column, _)| column.as_str());
        images.chain(self.clip.iter().map(|clip| clip.column.as_str()))
    }

    /// Leaves images as they are stored.
    pub(crate) fn decode_nothing(&mut self) {
        self.image.clear();
        self.clip.clear();
    }

    /// The columns that are read.
    pub(crate) fn projection(&self, dataset: &Dataset) -> Result<Projection> {
        match &self.columns {
            Some(columns) => dataset.catalog().project(columns),
            None => dataset.catalog().project_all(),
        }
    }

    /// The loader options of one rank. The caller adds the options that only its own subcommand has.
    pub(crate) fn spec(&self, shard: Shard) -> LoaderSpec {
        let mut spec = LoaderSpec::default();
        spec.columns = self.columns.clone();
        for (column, image) in &self.image {
            spec.column(column).decode = Some(self.finished(image));
        }
        for clip in &self.clip {
            spec.column(&clip.column).clips = Some(clip.clip(|image| self.finished(image)));
        }
        for column in &self.as_stored {
            spec.column(column).as_stored = Some(AsStored);
        }
        spec.shard = shard;
        spec.shuffle = self.shuffle();
        spec.batch_size = self.batch_size;
        spec.drop_last = self.drop_last;
        spec.samples = self.samples.samples();
        spec.memory = self.memory;
        spec.cache = self.cache();
        spec
    }

    fn cache(&self) -> Option<CacheSpec> {
        let mut cache = CacheSpec::new(self.cache.as_ref()?, self.cache_bytes?);
        cache.tier = self.cache_tier;
        Some(cache)
    }

    fn shuffle(&self) -> Shuffle {
        let mut shuffle = match self.order {
            Order::Window => Shuffle::seeded(self.seed),
            Order::Exact => Shuffle::exact(self.seed),
            Order::Stored => Shuffle::stored(),
        };
        if let Some(rows) = self.window_rows {
            shuffle = shuffle.window_rows(rows);
        }
        if let Some(rows) = self.piece_rows {
            shuffle = shuffle.piece_rows(rows);
        }
        match self.lanes {
            Some(lanes) => shuffle.lanes(lanes),
            None => shuffle,
        }
    }

    /// An image as `--float` wants it.
    pub(crate) fn finished(&self, image: &Image) -> Image {
        if !self.float {
            return image.clone();
        }
        image.clone().normalize(IMAGENET_MEAN, IMAGENET_STD).dtype(PixelType::F32).layout(Layout::Nchw)
    }
}

/// Returns an error if `option` asks for more threads than a loader supports.
pub(crate) fn check_threads(option: &str, threads: Option<usize>) -> Result<()> {
    match threads.filter(|threads| *threads > LoaderSpec::MAX_THREADS) {
        Some(threads) => {
            Err(Error::invalid(format!("{option} {threads} is more than {}", LoaderSpec::MAX_THREADS))
                .hint("threads beyond the processors only cost memory"))
        }
        None => Ok(()),
    }
}
