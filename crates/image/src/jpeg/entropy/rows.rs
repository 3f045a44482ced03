//! Makes rows of pixels from blocks of coefficients, for images with a common chroma sampling; libjpeg-turbo
//! does it for the others. For an image that is reduced, the transform gives fewer samples for a block of
//! luma. If chroma has half the resolution, its blocks give twice as many samples per side as those of luma,
//! so that it needs no upsampling.
//!
//! The planes hold the samples of two rows of MCUs. After each row of MCUs is decoded and transformed into
//! them, all pixels are made for which the chroma above and below is known, while the samples are in the
//! first-level cache.

#[cfg(test)]
mod tests;

use super::block::{BLOCKS, Block};
use super::colours::{Chroma, Colours, MARGIN, REACH, Row};
use super::library::DecodableScan;
use super::transform::{Job, SIDE, TRANSFORMS, Transform};
use super::{colours, transform};
use crate::jpeg::ffi::Region;

/// The number of MCUs to decode before they are transformed. The blocks of each component in this number of
/// MCUs fill a whole number of transform jobs.
const BUNCH: usize = TRANSFORMS;
/// The most blocks of one component in a bunch of MCUs: four in each MCU.
const MAX_BLOCKS: usize = 4 * BUNCH;
/// The number of rows of MCUs that the planes hold.
const HELD_ROWS: usize = 2;
/// The least width in pixels of a region that is decoded here. libjpeg-turbo does not smooth the chroma of an
/// image with only a few columns.
const MIN_WIDTH: u32 = 16;
/// The pitch of a plane is an odd multiple of this number of bytes. If it were a power of two, rows would
/// displace each other in the cache.
const STAGGER_BYTES: usize = 64;

/// The fastest functions of this processor. Their pixels must equal those of libjpeg-turbo.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    pub(super) transform: Transform,
    /// The transform for blocks of an image that is reduced.
    pub(super) reduced: Transform,
    pub(super) colours: Colours,
}

impl Functions {
    /// The functions of this processor; `None` if there are none, so that libjpeg-turbo does all the work.
    pub(super) fn fastest() -> Option<Functions> {
        let (transform, colours) = (transform::all().next()?, colours::all().next()?);
        Some(Functions { transform, reduced: transform::reduced()?, colours })
    }
}

/// The samples of one component in two rows of MCUs, and what is needed to make them from blocks.
#[derive(Clone, Copy)]
struct Plane<'a> {
    /// The offset of the first sample of the first row.
    start: usize,
    /// The number of bytes between rows.
    pitch: usize,
    /// The number of the component's blocks in an MCU, across and down.
    across: usize,
    down: usize,
    side: usize,
    /// The number of samples in a row of the region.
    width: usize,
    height: usize,
    quantization: &'a [u16; 64],
    /// For the blocks of a bunch of MCUs, one MCU after the other: the index of the block, and the offset of
    /// its samples in the plane.
    blocks: [usize; MAX_BLOCKS],
    offsets: [usize; MAX_BLOCKS],
}

impl Plane<'_> {
    const NONE: Plane<'static> = Plane {
        start: 0,
        pitch: 0,
        across: 1,
        down: 1,
        side: SIDE,
        width: 0,
        height: 0,
        quantization: &[0; 64],
        blocks: [0; MAX_BLOCKS],
        offsets: [0; MAX_BLOCKS],
    };

    /// The offset in the plane of row `y` of the component. The plane holds only the latest rows.
    fn row(&self, y: usize) -> usize {
        // The number of rows is a power of two, because an MCU has one or two blocks down.
        let rows = HELD_ROWS * self.down * self.side;
        self.start + (y & (rows - 1)) * self.pitch
    }

    /// The number of blocks in an MCU.
    fn in_mcu(&self) -> usize {
        self.across * self.down
    }

    /// Sets the places of the blocks, of which `before` blocks of each MCU belong to earlier components. If
    /// an MCU has fewer than four blocks of the component, the last places are unused.
    fn place(&mut self, before: usize) {
        let (across, in_mcu) = (self.across, self.in_mcu());
        self.blocks = std::array::from_fn(|at| at / in_mcu * BLOCKS + before + at % in_mcu);
        self.offsets = std::array::from_fn(|at| {
            let (mcu, block) = (at / in_mcu, at % in_mcu);
            let (x, y) = (mcu * across + block % across, block / across);
            (x + y * self.pitch) * self.side
        });
    }
}

/// The upsampling that chroma still needs after the transform; `None` if only libjpeg-turbo supports it.
/// `sides` has the number of samples across and down a transformed block, for each component.
fn upsampled(sampling: Chroma, sides: &[usize]) -> Option<Chroma> {
    let luma = *sides.first()?;
    let as_luma = sides.iter().all(|side| *side == luma);
    match sampling {
        _ if luma == SIDE => as_luma.then_some(sampling),
        Chroma::None | Chroma::Full => as_luma.then_some(sampling),
        Chroma::Half => sides[1..].iter().all(|side| *side == 2 * luma).then_some(Chroma::Full),
        Chroma::HalfWidth | Chroma::HalfHeight => None,
    }
}

/// Makes the rows of pixels of a region.
pub(super) struct RegionRows<'a> {
    functions: Functions,
    chroma: Chroma,
    region: Region,
    colours: usize,
    planes: [Plane<'a>; 3],
    /// The number of planes that are needed: only that of luma for grey pixels.
    needed: usize,
    /// The number of blocks in an MCU, over all components.
    in_mcu: usize,
    /// The number of MCUs in a row of the image.
    mcus_per_row: usize,
    /// The columns of MCUs that the region covers.
    columns: std::ops::Range<usize>,
    bytes: usize,
}

impl<'a> RegionRows<'a> {
    /// Prepares to make the rows; `None` if the region must be decoded by libjpeg-turbo.
    pub(super) fn new(
        scan: &'a DecodableScan<'_>,
        region: Region,
        functions: Functions,
    ) -> Option<RegionRows<'a>> {
        let colours = scan.colours();
        let (factors, components) = scan.sampling()?;
        let sampling = Chroma::from_factors(&factors[..components])?;
        let sides = scan.sides();
        let chroma = upsampled(sampling, &sides[..components])?;
        if region.width < MIN_WIDTH || region.height == 0 {
            return None;
        }
        let (_, height) = scan.size();
        let [most_across, most_down] = sampling.blocks_of_luma();
        let mcu_width = most_across * sides[0];
        let (left, right) = (region.x as usize, (region.x + region.width) as usize);
        if left % mcu_width != 0 {
            return None;
        }
        let columns = left / mcu_width..right.div_ceil(mcu_width);
        let (mut in_mcu, mut bytes) = (0, 0);
        let mut planes = [Plane::NONE; 3];
        let needed = if colours > 1 { components } else { 1 };
        for (component, plane) in planes.iter_mut().enumerate().take(components) {
            let [across, down] = if component == 0 { [most_across, most_down] } else { [1, 1] };
            let side = sides[component];
            let pitch = (MARGIN + columns.len() * across * side + REACH).next_multiple_of(2 * STAGGER_BYTES)
                + STAGGER_BYTES;
            *plane = Plane {
                start: bytes + MARGIN,
                pitch,
                across,
                down,
                side,
                width: (region.width as usize * across).div_ceil(most_across),
                height: (height as usize * down).div_ceil(most_down),
                quantization: scan.quantization(component)?,
                ..Plane::NONE
            };
            plane.place(in_mcu);
            in_mcu += plane.in_mcu();
            if component < needed {
                bytes += pitch * HELD_ROWS * down * side;
            }
        }
        let mcus_per_row = scan.mcus_per_row();
        (in_mcu == scan.blocks().1).then_some(RegionRows {
            functions,
            chroma,
            region,
            colours,
            planes,
            needed,
            in_mcu,
            mcus_per_row,
            columns,
            bytes,
        })
    }

    /// Makes all rows of the region, like [`DecodableScan::read`]. `samples` is the memory for the planes.
    pub(super) fn read<F>(&self, samples: &mut Vec<u8>, mut decode: F, out: &mut [u8]) -> Option<()>
    where
        F: FnMut(Option<&mut [&mut Block]>),
    {
        if samples.len() < self.bytes {
            *samples = vec![0; self.bytes];
        }
        let [luma, ..] = &self.planes;
        let mcu_height = luma.down * luma.side;
        let smooth_down = self.chroma.is_halved_down() && self.colours > 1;
        let (first, end) = (self.region.y as usize, (self.region.y + self.region.height) as usize);
        // Rows of pixels are made in groups that share a row of chroma. They also need the rows of chroma
        // above and below it.
        let beyond = if smooth_down { 2 } else { 0 };
        let top = if smooth_down { first.saturating_sub(1) } else { first } / mcu_height;
        let bottom = ((end - 1) / luma.down * luma.down + beyond).min(luma.height - 1) / mcu_height;
        for _ in 0..top * self.mcus_per_row {
            decode(None);
        }
        let mut rows = out.chunks_exact_mut(self.region.width as usize * self.colours);
        let mut y = first;
        let mut blocks = [[0; 64]; BUNCH * BLOCKS];
        for mcu_row in top..=bottom {
            self.decode_row(mcu_row, &mut blocks, samples, &mut decode);
            let made = (mcu_row + 1) * mcu_height;
            let ready = if smooth_down && mcu_row != bottom { made - 1 } else { made };
            while y < ready.min(end) {
                self.make(y, samples, rows.next()?)?;
                y += 1;
            }
        }
        (y == end).then_some(())
    }

    /// Decodes a row of MCUs and transforms it into samples in the planes.
    fn decode_row<F>(
        &self,
        mcu_row: usize,
        blocks: &mut [Block; BUNCH * BLOCKS],
        samples: &mut [u8],
        decode: &mut F,
    ) where
        F: FnMut(Option<&mut [&mut Block]>),
    {
        for _ in 0..self.columns.start {
            decode(None);
        }
        for first in self.columns.clone().step_by(BUNCH) {
            let count = BUNCH.min(self.columns.end - first);
            for mcu in blocks.as_chunks_mut::<BLOCKS>().0.iter_mut().take(count) {
                decode(Some(&mut mcu.each_mut()[..self.in_mcu]));
            }
            let column = first - self.columns.start;
            for plane in &self.planes[..self.needed] {
                self.transform(plane, mcu_row, column, blocks, count, samples);
            }
        }
        for _ in self.columns.end..self.mcus_per_row {
            decode(None);
        }
        if self.chroma.is_halved_across() && self.colours > 1 {
            self.widen(mcu_row, samples);
        }
    }

    /// Transforms `count` MCUs into samples. The first one is at row `mcu_row` of the image, and at column
    /// `column` of the region.
    fn transform(
        &self,
        plane: &Plane<'_>,
        mcu_row: usize,
        column: usize,
        blocks: &[Block; BUNCH * BLOCKS],
        count: usize,
        samples: &mut [u8],
    ) {
        let start = plane.row(mcu_row * plane.down * plane.side) + column * plane.across * plane.side;
        let transform = if plane.side == SIDE { self.functions.transform } else { self.functions.reduced };
        // The last job of a row may also have blocks beyond the region. Their samples are outside the region
        // as well.
        let jobs = (count * plane.in_mcu()).div_ceil(TRANSFORMS);
        let places = plane.blocks.as_chunks().0.iter().zip(plane.offsets.as_chunks().0);
        for (of_job, offsets) in places.take(jobs) {
            let [a, b, c, d] = *of_job;
            let job = Job {
                blocks: [&blocks[a], &blocks[b], &blocks[c], &blocks[d]],
                side: plane.side,
                quantization: plane.quantization,
                start,
                offsets,
                pitch: plane.pitch,
            };
            transform(&job, samples);
        }
    }

    /// Repeats the first and the last chroma sample of each row beyond the region's borders, because
    /// upsampling also needs a neighbour.
    fn widen(&self, mcu_row: usize, samples: &mut [u8]) {
        for plane in &self.planes[1..] {
            for y in mcu_row * SIDE..(mcu_row + 1) * SIDE {
                let start = plane.row(y);
                samples[start - 1] = samples[start];
                samples[start + plane.width] = samples[start + plane.width - 1];
            }
        }
    }

    /// Makes row `y` of pixels from the samples in the planes.
    fn make(&self, y: usize, samples: &[u8], out: &mut [u8]) -> Option<()> {
        let [luma, blue, red] = &self.planes;
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
                let row = |plane: &Plane<'_>, y| &samples[plane.row(y) - MARGIN..][..plane.pitch];
                let chroma = [[row(blue, near), row(blue, far)], [row(red, near), row(red, far)]];
                (self.functions.colours)(&Row { luma, chroma, is_lower }, self.chroma, out)?;
            }
        }
        Some(())
    }
}
