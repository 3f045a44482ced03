//! From blocks to rows of pixels, without the library: of images at full scale with an ordinary sampling of chroma.
//!
//! A row of MCUs is decoded and transformed into planes that hold two of these rows, and pixels are made of it at once, while
//! it is in the first-level cache: all that have the chroma above and below them.

#[cfg(test)]
mod tests;

use super::colours::{Chroma, Colours, MARGIN, REACH, Row};
use super::library::{BLOCKS, Block, Scan};
use super::transform::{Job, SIDE, TRANSFORMS, Transform};
use super::{colours, transform};
use crate::decode::jpeg::ffi::Region;

/// MCUs that are decoded before they are transformed: enough for whole transforms of any sampling.
const BUNCH: usize = 4;
/// Rows of MCUs that the planes hold.
const HELD: usize = 2;
/// The narrowest region, in pixels. The library does not smooth the chroma of images of a few columns.
const NARROWEST: u32 = 16;
/// Bytes by which the rows of a plane differ in length from a power of two, whose rows would displace each other in the cache.
const STAGGER: usize = 64;

/// The fastest functions of a machine: these must have the pixels of the library.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    pub(super) transform: Transform,
    pub(super) colours: Colours,
}

impl Functions {
    /// Those of this machine; `None` to leave it all to the library.
    pub(super) fn fastest() -> Option<Functions> {
        Some(Functions { transform: transform::all().next()?, colours: colours::all().next()? })
    }
}

/// The samples of a component of two rows of MCUs.
#[derive(Clone, Copy)]
struct Plane {
    /// The first sample of the first row, and bytes between rows.
    start: usize,
    pitch: usize,
    /// Blocks of an MCU.
    across: usize,
    down: usize,
    /// Samples of the region across, and of the image down.
    width: usize,
    height: usize,
}

impl Plane {
    /// Where a row of the component begins.
    fn row(&self, y: usize) -> usize {
        self.start + y % (HELD * self.down * SIDE) * self.pitch
    }
}

/// The place of a block of an MCU: its component, and the samples before it in the MCU.
#[derive(Clone, Copy, Default)]
struct Place {
    component: usize,
    x: usize,
    y: usize,
}

/// What rows of a region are made of.
pub(super) struct Rows<'a> {
    functions: Functions,
    chroma: Chroma,
    region: Region,
    colours: usize,
    planes: [Plane; 3],
    tables: [&'a [u16; 64]; 3],
    /// Those of an MCU that are needed, and how many an MCU has.
    places: [Place; BLOCKS],
    needed: usize,
    in_mcu: usize,
    /// MCUs of the image and of the region.
    mcus_per_row: usize,
    columns: std::ops::Range<usize>,
    bytes: usize,
}

impl<'a> Rows<'a> {
    /// `None` if the region is left to the library.
    pub(super) fn new(scan: &'a Scan<'_>, region: Region, functions: Functions) -> Option<Rows<'a>> {
        let colours = scan.colours();
        let (factors, components) = scan.sampling()?;
        let chroma = Chroma::of(&factors[..components])?;
        if region.width < NARROWEST || region.height == 0 {
            return None;
        }
        let (_, height) = scan.size();
        let [most_across, most_down] = chroma.blocks_of_luma();
        let mcu_width = most_across * SIDE;
        let (left, right) = (region.x as usize, (region.x + region.width) as usize);
        if left % mcu_width != 0 {
            return None;
        }
        let columns = left / mcu_width..right.div_ceil(mcu_width);
        let (mut places, mut in_mcu, mut bytes) = ([Place::default(); BLOCKS], 0, 0);
        let mut needed = 0;
        let none = Plane { start: 0, pitch: 0, across: 1, down: 1, width: 0, height: 0 };
        let (mut planes, mut tables) = ([none; 3], [&[0; 64]; 3]);
        for component in 0..components {
            let [across, down] = if component == 0 { [most_across, most_down] } else { [1, 1] };
            let pitch =
                (MARGIN + columns.len() * across * SIDE + REACH).next_multiple_of(2 * STAGGER) + STAGGER;
            planes[component] = Plane {
                start: bytes + MARGIN,
                pitch,
                across,
                down,
                width: (region.width as usize * across).div_ceil(most_across),
                height: (height as usize * down).div_ceil(most_down),
            };
            tables[component] = scan.quantization(component)?;
            for (y, x) in (0..down).flat_map(|y| (0..across).map(move |x| (y, x))) {
                *places.get_mut(in_mcu)? = Place { component, x: x * SIDE, y: y * SIDE };
                in_mcu += 1;
            }
            // Luma alone is needed for grey pixels.
            if component == 0 || colours > 1 {
                (needed, bytes) = (in_mcu, bytes + pitch * HELD * down * SIDE);
            }
        }
        (in_mcu == scan.blocks().1).then_some(Rows {
            functions,
            chroma,
            region,
            colours,
            planes,
            tables,
            places,
            needed,
            in_mcu,
            mcus_per_row: scan.mcus_per_row(),
            columns,
            bytes,
        })
    }

    /// Makes all rows, as [`Scan::read`] does. `samples` is memory for planes.
    pub(super) fn read<F>(&self, samples: &mut Vec<u8>, mut decode: F, out: &mut [u8]) -> Option<()>
    where
        F: FnMut(Option<&mut [&mut Block]>),
    {
        if samples.len() < self.bytes {
            *samples = vec![0; self.bytes];
        }
        let [luma, ..] = self.planes;
        let mcu_height = luma.down * SIDE;
        let smooth_down = self.chroma.is_halved_down() && self.colours > 1;
        let (first, end) = (self.region.y as usize, (self.region.y + self.region.height) as usize);
        // Rows of pixels are made in the groups that share a row of chroma, of which the ones above and below are needed too.
        let beyond = if smooth_down { 2 } else { 0 };
        let top = if smooth_down { first.saturating_sub(1) } else { first } / mcu_height;
        let bottom = ((end - 1) / luma.down * luma.down + beyond).min(luma.height - 1) / mcu_height;
        for _ in 0..top * self.mcus_per_row {
            decode(None);
        }
        let mut rows = out.chunks_exact_mut(self.region.width as usize * self.colours);
        let mut y = first;
        let mut blocks = [[[0; 64]; BLOCKS]; BUNCH];
        for mcu_row in top..=bottom {
            self.decode_row(mcu_row, (&mut blocks, samples), &mut decode);
            let made = (mcu_row + 1) * mcu_height;
            let ready = if smooth_down && mcu_row != bottom { made - 1 } else { made };
            while y < ready.min(end) {
                self.make(y, samples, rows.next()?)?;
                y += 1;
            }
        }
        (y == end).then_some(())
    }

    /// Decodes a row of MCUs into the planes.
    fn decode_row<F>(
        &self,
        mcu_row: usize,
        (blocks, samples): (&mut [[Block; BLOCKS]; BUNCH], &mut [u8]),
        decode: &mut F,
    ) where
        F: FnMut(Option<&mut [&mut Block]>),
    {
        for _ in 0..self.columns.start {
            decode(None);
        }
        for first in self.columns.clone().step_by(BUNCH) {
            let bunch = &mut blocks[..BUNCH.min(self.columns.end - first)];
            for mcu in bunch.iter_mut() {
                mcu[..self.in_mcu].fill([0; 64]);
                decode(Some(&mut mcu.each_mut()[..self.in_mcu]));
            }
            let column = first - self.columns.start;
            let mut jobs = bunch.iter().enumerate().flat_map(|(at, mcu)| {
                let with_places = mcu.iter().zip(&self.places[..self.needed]);
                with_places.map(move |(block, place)| self.job(block, *place, (column + at, mcu_row)))
            });
            while let Some(job) = jobs.next() {
                let mut some = [job; TRANSFORMS];
                some[1..].iter_mut().zip(&mut jobs).for_each(|(to, job)| *to = job);
                (self.functions.transform)(&some, samples);
            }
        }
        for _ in self.columns.end..self.mcus_per_row {
            decode(None);
        }
        if self.chroma.is_halved_across() && self.colours > 1 {
            self.widen(mcu_row, samples);
        }
    }

    /// What is to be done with a block: of an MCU that is counted from the left border of the region and from the top of the image.
    #[inline(always)]
    fn job<'b>(&self, block: &'b Block, place: Place, (column, mcu_row): (usize, usize)) -> Job<'b>
    where
        'a: 'b,
    {
        let plane = &self.planes[place.component];
        let row = plane.row(mcu_row * plane.down * SIDE + place.y);
        Job {
            block,
            quantization: self.tables[place.component],
            start: row + column * plane.across * SIDE + place.x,
            pitch: plane.pitch,
        }
    }

    /// Repeats the samples of chroma at both borders of the region, since each pixel is made of a neighbour too.
    fn widen(&self, mcu_row: usize, samples: &mut [u8]) {
        for plane in &self.planes[1..] {
            for y in mcu_row * SIDE..(mcu_row + 1) * SIDE {
                let start = plane.row(y);
                samples[start - 1] = samples[start];
                samples[start + plane.width] = samples[start + plane.width - 1];
            }
        }
    }

    /// Makes a row of pixels.
    fn make(&self, y: usize, samples: &[u8], out: &mut [u8]) -> Option<()> {
        let [luma, blue, red] = self.planes;
        let luma = &samples[luma.row(y)..];
        let width = self.region.width as usize;
        match (self.chroma, self.colours) {
            (_, 1) => out.copy_from_slice(luma.get(..width)?),
            (Chroma::None, _) => {
                out.as_chunks_mut::<3>()
                    .0
                    .iter_mut()
                    .zip(luma)
                    .for_each(|(pixel, level)| *pixel = [*level; 3]);
            }
            _ => {
                let halved = self.chroma.is_halved_down();
                let near = if halved { y / 2 } else { y };
                let is_lower = halved && y % 2 == 1;
                let far = match (halved, is_lower) {
                    (false, _) => near,
                    (true, false) => near.saturating_sub(1),
                    (true, true) => (near + 1).min(blue.height - 1),
                };
                let chroma = [blue, red]
                    .map(|plane| [near, far].map(|y| &samples[plane.row(y) - MARGIN..][..plane.pitch]));
                (self.functions.colours)(&Row { luma, chroma, is_lower }, self.chroma, out)?;
            }
        }
        Some(())
    }
}
