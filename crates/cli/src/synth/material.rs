//! Textures with the statistics of nature: power falls with the square of the frequency, as it does in photographs.
//!
//! They are tiles that wrap around, made once for a data set and sampled at another place, angle and scale for each
//! picture: new noise for each would cost more than everything else.

use crate::random::Random;

/// Side of a tile: a power of two, so that wrapping is a mask.
const SIDE: usize = 512;
/// Fixed-point bits below a texel.
const FRACTION: u32 = 16;

/// One texture, mean 0, standard deviation 1.
pub(super) struct Tile(Vec<f32>);

/// All that a picture is made of.
pub(super) struct Materials {
    /// Clouds, plaster, hills: smooth.
    pub(super) cloud: Tile,
    /// Rock, sand, asphalt: rough.
    pub(super) stone: Tile,
    /// Leaves and grass: clumps with dark gaps.
    pub(super) leaf: Tile,
    /// Wood, brushed metal, water: fibres along the first axis.
    pub(super) grain: Tile,
}

impl Materials {
    /// The materials of a data set.
    pub(super) fn new(seed: u64) -> Self {
        let random = |ordinal| Random::new(seed, u64::MAX - ordinal);
        Materials {
            cloud: Tile::fractal(&mut random(0), (2, 2), 8, 0.5, |noise| noise),
            stone: Tile::fractal(&mut random(1), (4, 4), 8, 0.95, |noise| noise),
            leaf: Tile::fractal(&mut random(2), (16, 16), 6, 0.95, f32::abs),
            grain: Tile::fractal(&mut random(3), (2, 32), 5, 0.95, |noise| noise),
        }
    }
}

impl Tile {
    /// `octaves` of value noise, each twice as fine and `persistence` as strong; `cells` is the coarsest lattice.
    fn fractal(
        random: &mut Random,
        cells: (usize, usize),
        octaves: usize,
        persistence: f32,
        shape: fn(f32) -> f32,
    ) -> Self {
        let mut texels = vec![0.0; SIDE * SIDE];
        let mut strength = 1.0;
        for octave in 0..octaves {
            let across = (cells.0 << octave).min(SIDE);
            let down = (cells.1 << octave).min(SIDE);
            add_octave(&mut texels, random, across, down, strength, shape);
            strength *= persistence;
        }
        standardise(&mut texels);
        Tile(texels)
    }

    /// Samples along a row of a picture: from (`u`, `v`), moving by (`du`, `dv`) texels for each pixel.
    pub(super) fn walk(&self, u: f32, v: f32, du: f32, dv: f32) -> impl Iterator<Item = f32> + '_ {
        let (mut u, mut v) = (fixed(u), fixed(v));
        let (du, dv) = (fixed(du), fixed(dv));
        std::iter::from_fn(move || {
            let sample = self.at_fixed(u, v);
            u = u.wrapping_add(du);
            v = v.wrapping_add(dv);
            Some(sample)
        })
    }

    /// The texture at one place, interpolated.
    pub(super) fn at(&self, u: f32, v: f32) -> f32 {
        self.at_fixed(fixed(u), fixed(v))
    }

    fn at_fixed(&self, u: u32, v: u32) -> f32 {
        const MASK: usize = SIDE - 1;
        const UNIT: f32 = 1.0 / (1u32 << FRACTION) as f32;
        let (x, y) = ((u >> FRACTION) as usize & MASK, (v >> FRACTION) as usize & MASK);
        let low = (1u32 << FRACTION) - 1;
        let (s, t) = ((u & low) as f32 * UNIT, (v & low) as f32 * UNIT);
        let (right, below) = ((x + 1) & MASK, ((y + 1) & MASK) * SIDE);
        let here = y * SIDE;
        let top = self.0[here + x] + (self.0[here + right] - self.0[here + x]) * s;
        let bottom = self.0[below + x] + (self.0[below + right] - self.0[below + x]) * s;
        top + (bottom - top) * t
    }
}

/// Texels to fixed point; wrapping around is what tiles do.
fn fixed(texels: f32) -> u32 {
    (f64::from(texels) * f64::from(1u32 << FRACTION)) as i64 as u32
}

fn add_octave(
    texels: &mut [f32],
    random: &mut Random,
    across: usize,
    down: usize,
    strength: f32,
    shape: fn(f32) -> f32,
) {
    let lattice: Vec<f32> = (0..across * down).map(|_| random.between(-1.0, 1.0)).collect();
    for (y, row) in texels.chunks_exact_mut(SIDE).enumerate() {
        let (j, t) = cell(y, down);
        let (above, below) =
            (&lattice[j * across..][..across], &lattice[(j + 1) % down * across..][..across]);
        for (x, texel) in row.iter_mut().enumerate() {
            let (i, s) = cell(x, across);
            let next = (i + 1) % across;
            let top = above[i] + (above[next] - above[i]) * s;
            let bottom = below[i] + (below[next] - below[i]) * s;
            *texel += strength * shape(top + (bottom - top) * t);
        }
    }
}

/// The lattice cell of a texel and the smoothed way through it.
fn cell(texel: usize, cells: usize) -> (usize, f32) {
    let size = SIDE / cells;
    let t = (texel % size) as f32 / size as f32;
    (texel / size, t * t * (3.0 - 2.0 * t))
}

fn standardise(texels: &mut [f32]) {
    let n = texels.len() as f64;
    let mean = texels.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
    let variance = texels.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
    let scale = 1.0 / variance.sqrt().max(f64::MIN_POSITIVE);
    for texel in texels {
        *texel = ((f64::from(*texel) - mean) * scale) as f32;
    }
}
