//! The random texture of surfaces. As in photographs, its coarse patterns are stronger than its fine ones.
//!
//! The texture is a tile that repeats. It is made once for a data set, and each surface uses it from another
//! position: new noise for each surface would take more time than all other drawing.

use crate::random::Random;

/// The side of a tile in texels. It is a power of two, so that a bit mask can wrap coordinates around.
const SIDE: usize = 512;
/// The strength of an octave (a layer of noise) relative to the octave before it, which is half as fine.
const PERSISTENCE: f32 = 0.75;
/// The number of cells of the coarsest octave across a tile.
const COARSEST: usize = 8;

/// One texture, with mean 0 and standard deviation 1.
pub(super) struct Tile(Vec<f32>);

impl Tile {
    /// Makes the texture of a data set from octaves of value noise.
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, u64::MAX);
        let mut texels = vec![0.0; SIDE * SIDE];
        let (mut cells, mut strength) = (COARSEST, 1.0);
        while cells <= SIDE {
            add_octave(&mut texels, &mut random, cells, strength);
            (cells, strength) = (cells * 2, strength * PERSISTENCE);
        }
        let count = texels.len() as f32;
        let mean = texels.iter().sum::<f32>() / count;
        let deviation = (texels.iter().map(|texel| (texel - mean).powi(2)).sum::<f32>() / count).sqrt();
        texels.iter_mut().for_each(|texel| *texel = (*texel - mean) / deviation);
        Tile(texels)
    }

    /// The texture at a position, interpolated between texels. The coordinates must not be negative.
    pub(super) fn at(&self, u: f32, v: f32) -> f32 {
        const MASK: usize = SIDE - 1;
        let (x, y) = (u as usize & MASK, v as usize & MASK);
        let (right, below) = ((x + 1) & MASK, ((y + 1) & MASK) * SIDE);
        let (here, s, t) = (y * SIDE, u.fract(), v.fract());
        let top = between(self.0[here + x], self.0[here + right], s);
        let bottom = between(self.0[below + x], self.0[below + right], s);
        between(top, bottom, t)
    }
}

fn add_octave(texels: &mut [f32], random: &mut Random, cells: usize, strength: f32) {
    let lattice: Vec<f32> = (0..cells * cells).map(|_| random.between(-strength, strength)).collect();
    // Returns the cell of a texel, the next cell, and the smoothed fraction of the way between them.
    let cell = |texel: usize| {
        let size = SIDE / cells;
        let t = (texel % size) as f32 / size as f32;
        (texel / size, (texel / size + 1) % cells, t * t * (3.0 - 2.0 * t))
    };
    for (y, row) in texels.chunks_exact_mut(SIDE).enumerate() {
        let (above, below, t) = cell(y);
        for (x, texel) in row.iter_mut().enumerate() {
            let (left, right, s) = cell(x);
            let top = between(lattice[above * cells + left], lattice[above * cells + right], s);
            let bottom = between(lattice[below * cells + left], lattice[below * cells + right], s);
            *texel += between(top, bottom, t);
        }
    }
}

fn between(a: f32, b: f32, t: f32) -> f32 {
    a + (b - a) * t
}
