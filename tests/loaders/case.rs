//! A loader and the operations on it, drawn at random from a seed.

use forebay::{Image, Shuffle, Tier};
use forebay_image::{Layout as Channels, PixelType, Resampling};
use parquet::basic::{Compression, ZstdLevel};

use crate::chance::Chance;
use crate::filters::Compare;
use crate::pictures::{DrawnClip, OF_OBJECTS, Pictures, augmented, of_objects, on_canvas};
use crate::table::{COLUMNS, Layout, NullPattern, STACKED, TableOnDisk};

/// Memory that is enough for everything in these tests, in bytes.
pub(crate) const AMPLE: u64 = 256 << 20;

/// Changes a seed for the draws of Delta tables, so that they do not affect the other draws from that seed.
const OF_DELTA: u64 = 1 << 60;

/// Changes a seed for the draws of stacks, so that they do not affect the other draws from that seed.
const OF_STACKS: u64 = 1 << 61;

/// Changes a seed for the draws of pictures, so that they do not affect the other draws from that seed.
const OF_PICTURES: u64 = 1 << 62;

/// Changes a seed for the draws of images on a canvas, so that they do not affect the other draws from it.
const OF_CANVASES: u64 = 1 << 59;

/// How rows are mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mixing {
    Stored,
    Exact,
    /// Rows are mixed through the default window.
    Default,
    Window(u64),
}

/// One loader with several ranks, and the operations on it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) layout: Layout,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) image: Option<Image>,
    pub(crate) pictures: Pictures,
    pub(crate) fill: bool,
    /// Whether columns of numbers are delivered as one matrix, with a mask.
    pub(crate) stack: bool,
    pub(crate) filter: Vec<Vec<Compare>>,
    pub(crate) mixing: Mixing,
    pub(crate) seed: u64,
    pub(crate) lanes: Option<u32>,
    pub(crate) world: u32,
    pub(crate) batch: u64,
    pub(crate) drop_last: bool,
    pub(crate) memory: u64,
    pub(crate) threads: usize,
    pub(crate) cache: Option<(u64, Tier)>,
    /// The epochs that are read, and the share of each that is taken, in thousandths.
    pub(crate) visits: Vec<(u64, u64)>,
    /// How far the epoch gets before another world resumes it, in thousandths.
    pub(crate) saved_at: u64,
    pub(crate) saved_to: (u32, u64),
    pub(crate) closed_at: u64,
}

impl Case {
    pub(crate) fn draw(seed: u64) -> Case {
        let chance = &mut Chance::new(seed);
        let mut layout = layout(chance);
        let rows = layout.rows();
        let mut columns: Vec<&str> = COLUMNS[1..].iter().copied().filter(|_| chance.one_in(3)).collect();
        columns.push("id");
        chance.shuffle(&mut columns);
        let filter = match chance.below(3) {
            0 => (0..chance.between(1, 2))
                .map(|_| (0..chance.between(1, 2)).map(|_| Compare::draw(chance, rows)).collect())
                .collect(),
            _ => Vec::new(),
        };
        let mixing = match chance.below(6) {
            0 => Mixing::Stored,
            1 => Mixing::Exact,
            2 => Mixing::Default,
            _ => Mixing::Window(chance.magnitude(1, 2 * rows + 2).max(1)),
        };
        let tier = chance.pick(&[
            Tier::Auto,
            Tier::Rows,
            Tier::Rows,
            Tier::Resized,
            Tier::Pixels,
            Tier::Coefficients,
        ]);
        let tight = chance.one_in(2);
        // This generator is separate, so that its draws do not change the other draws of a seed.
        let apart = &mut Chance::new(seed ^ OF_DELTA);
        if apart.one_in(4) {
            layout.deleted = Some(apart.pick(&[1, 2, 3, 10, 1_000]));
            columns.retain(|column| TableOnDisk::is_of_delta(column));
        }
        let of_pictures = &mut Chance::new(seed ^ OF_PICTURES);
        let pictures = match (of_pictures.below(6), apart.one_in(3)) {
            (0, _) => Pictures::Clips(DrawnClip::draw(of_pictures)),
            (1, _) => Pictures::Objects,
            (_, true) => Pictures::Views,
            (_, false) => Pictures::One,
        };
        if pictures.need_lists() {
            (layout.lists, layout.deleted) = (true, None);
            columns.retain(|column| *column != pictures.column());
            columns.insert(of_pictures.below(columns.len() as u64 + 1) as usize, pictures.column());
        }
        if pictures == Pictures::Objects {
            columns.extend(OF_OBJECTS);
        }
        let stack = Chance::new(seed ^ OF_STACKS).one_in(3);
        if stack {
            columns.retain(|column| !STACKED.contains(column));
        }
        let mut case = Case {
            pictures,
            stack,
            image: chance.one_in(2).then(|| image(chance)),
            fill: chance.one_in(3),
            mixing,
            seed: chance.below(1 << 40),
            lanes: chance.one_in(2).then(|| chance.between(1, 6) as u32),
            world: chance.pick(&[1, 1, 2, 2, 3, 4, 6]),
            batch: chance.magnitude(1, 64).max(1),
            drop_last: chance.one_in(3),
            memory: if tight { chance.magnitude(96 << 10, 4 << 20) } else { AMPLE },
            threads: chance.between(1, 4) as usize,
            cache: chance.one_in(2).then(|| (chance.pick(&[16 << 10, 64 << 20, 64 << 20]), tier)),
            visits: (0..chance.between(1, 5)).map(|_| (chance.below(3), chance.below(1_400))).collect(),
            saved_at: chance.below(1_100),
            saved_to: (chance.between(1, 6) as u32, chance.between(1, 40)),
            closed_at: chance.below(1_000),
            layout,
            columns,
            filter,
        };
        case.image = match pictures {
            Pictures::Objects => Some(of_objects(of_pictures)),
            Pictures::Clips(_) if Chance::new(seed ^ OF_CANVASES).one_in(3) => {
                Some(on_canvas(&mut Chance::new(seed ^ OF_CANVASES)))
            }
            Pictures::Clips(_) => case.image.or_else(|| Some(image(of_pictures))),
            _ => case.image,
        };
        if of_pictures.one_in(2) {
            let is_gentle = case.is_lossy() || pictures == Pictures::Objects;
            case.image = case.image.map(|image| augmented(image, of_pictures, is_gentle));
        }
        case
    }

    pub(crate) fn shuffle(&self) -> Shuffle {
        let shuffle = match self.mixing {
            Mixing::Stored => Shuffle::stored(),
            Mixing::Exact => Shuffle::exact(self.seed),
            Mixing::Default => Shuffle::seeded(self.seed),
            Mixing::Window(rows) => Shuffle::seeded(self.seed).window_rows(rows),
        };
        self.lanes.map_or(shuffle, |lanes| shuffle.lanes(lanes))
    }

    pub(crate) fn lanes(&self) -> u32 {
        self.lanes.unwrap_or(self.world)
    }

    pub(crate) fn global_batch(&self) -> u64 {
        self.batch * u64::from(self.world)
    }

    /// The image operation, if the column of images is decoded.
    pub(crate) fn decoded(&self) -> Option<&Image> {
        let is_asked = |column: &str| self.columns.contains(&column);
        let needs_boxes = self.pictures == Pictures::Objects;
        let is_decoded = is_asked(self.pictures.column()) && (!needs_boxes || is_asked(OF_OBJECTS[0]));
        self.image.as_ref().filter(|_| is_decoded)
    }

    /// The views of decoded images, if they are delivered as views: names, images and counts.
    pub(crate) fn views(&self) -> Option<[(&'static str, Image, Option<u32>); 2]> {
        let image = self.decoded().filter(|_| self.pictures == Pictures::Views)?;
        let small = Image::random_resized_crop(6).scale((0.2, 0.6)).flip();
        let small = if image.channels() == 1 { small.grayscale() } else { small };
        Some([("a", image.clone(), None), ("b", small, Some(2))])
    }

    /// Whether the form in which the cache keeps images may change pixels slightly.
    pub(crate) fn is_lossy(&self) -> bool {
        // A cache keeps lists as they are stored.
        let is_list = matches!(self.pictures, Pictures::Clips(_));
        !is_list && self.cache.is_some_and(|(_, tier)| tier != Tier::Rows)
    }

    /// Simpler cases that may fail in the same way, the simplest first.
    pub(crate) fn simpler(&self) -> Vec<Case> {
        let mut all: Vec<Case> = Vec::new();
        let mut without = |change: &dyn Fn(&mut Case)| {
            let mut simpler = self.clone();
            change(&mut simpler);
            if format!("{simpler:?}") != format!("{self:?}") {
                all.push(simpler);
            }
        };
        without(&|case| case.layout.files.truncate(case.layout.files.len().div_ceil(2)));
        without(&|case| {
            case.layout.files.iter_mut().for_each(|groups| groups.truncate(groups.len().div_ceil(2)));
        });
        without(&|case| case.layout.files.iter_mut().flatten().for_each(|rows| *rows = rows.div_ceil(2)));
        without(&|case| case.columns = vec!["id"]);
        without(&|case| case.columns.truncate(case.columns.len() - 1));
        without(&|case| {
            (case.pictures, case.layout.lists) = (Pictures::One, false);
            case.columns.retain(|column| COLUMNS.contains(column));
        });
        without(&|case| case.stack = false);
        without(&|case| case.cache = None);
        without(&|case| case.filter.clear());
        without(&|case| case.layout.bad = None);
        without(&|case| case.layout.deleted = None);
        without(&|case| case.layout.nulls = NullPattern::None);
        without(&|case| case.layout.empty_groups = 0);
        without(&|case| case.memory = AMPLE);
        without(&|case| case.visits.truncate(case.visits.len().div_ceil(2)));
        without(&|case| (case.world, case.saved_to) = (case.world.div_ceil(2), case.saved_to));
        without(&|case| case.drop_last = false);
        without(&|case| case.batch = case.batch.div_ceil(2));
        without(&|case| case.threads = 1);
        all.retain(|case| case.columns.contains(&"id"));
        all
    }
}

fn layout(chance: &mut Chance) -> Layout {
    let files = chance.between(1, 3) as usize;
    let bad = chance.one_in(4).then(|| chance.between(3, 40));
    let nulls = chance.pick(&[
        NullPattern::None,
        NullPattern::OneIn(4),
        NullPattern::OneIn(4),
        NullPattern::OneIn(2),
        NullPattern::Stretches,
    ]);
    let group = {
        let (kind, even) = (chance.below(5), chance.between(1, 60) as u32);
        move |chance: &mut Chance| match kind {
            0 => 1,
            1 => chance.between(1, 40) as u32,
            2 => chance.pick(&[1, 3, 120]),
            _ => even,
        }
    };
    let mut files: Vec<Vec<u32>> =
        (0..files).map(|_| (0..chance.magnitude(1, 24).max(1)).map(|_| group(chance)).collect()).collect();
    if chance.one_in(6) {
        // All rows are in one row group.
        files = vec![vec![chance.between(1, 300) as u32]];
    }
    if chance.one_in(5) {
        files.insert(chance.below(files.len() as u64 + 1) as usize, Vec::new());
    }
    Layout {
        files,
        empty_groups: chance.pick(&[0, 0, 0, 1, 2]),
        compression: match chance.below(3) {
            0 => Compression::UNCOMPRESSED,
            1 => Compression::SNAPPY,
            _ => Compression::ZSTD(ZstdLevel::default()),
        },
        dictionary: chance.one_in(2),
        statistics: !chance.one_in(4),
        second_version: chance.one_in(3),
        page_rows: chance.pick(&[1, 7, 20_000, 20_000]),
        // If bad rows are skipped, only images are bad.
        nulls: if bad.is_some() { NullPattern::None } else { nulls },
        blob: chance.pick(&[10, 40, 40, 3_000, 20_000]),
        bad,
        deleted: None,
        lists: false,
    }
}

fn image(chance: &mut Chance) -> Image {
    match chance.below(6) {
        0 => Image::resize(8, 10),
        1 => Image::random_resized_crop(8).flip(),
        2 => Image::center_crop(9).flip(),
        3 => Image::random_resized_crop(8)
            .flip()
            .normalize([0.5; 3], [0.25; 3])
            .dtype(PixelType::F32)
            .layout(Channels::Nchw),
        4 => {
            Image::random_resized_crop(8).resampling(chance.pick(&[Resampling::Bicubic, Resampling::Lanczos]))
        }
        _ => Image::random_resized_crop(8).grayscale(),
    }
}
