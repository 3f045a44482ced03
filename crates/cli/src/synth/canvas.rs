//! The canvas on which a picture is drawn.

use std::ops::Range;

use super::colour::Colour;

/// The height of a picture, in pixels, at which one texel (texture pixel) covers one pixel.
const REFERENCE_HEIGHT: f32 = 375.0;
/// The range of texels per pixel. With fewer, a texture looks blurred; with more, it flickers (aliases).
const STEPS: Range<f32> = 0.6..2.0;

/// A picture that is being drawn. Its pixels are in rows from the top.
pub(super) struct Canvas {
    pub(super) width: usize,
    pub(super) height: usize,
    /// The number of texels for each pixel.
    pub(super) step: f32,
    pub(super) pixels: Vec<Colour>,
}

impl Canvas {
    pub(super) fn new(width: usize, height: usize) -> Self {
        let step = (REFERENCE_HEIGHT / height as f32).clamp(STEPS.start, STEPS.end);
        Canvas { width, height, step, pixels: vec![[0.0; 3]; width * height] }
    }

    pub(super) fn row(&mut self, y: usize) -> &mut [Colour] {
        &mut self.pixels[y * self.width..][..self.width]
    }

    /// The columns and rows within `reach` of a point, cut off at the edges.
    pub(super) fn around(&self, x: f32, y: f32, reach: f32) -> (Range<usize>, Range<usize>) {
        let span = |middle: f32, end: usize| {
            let from = (middle - reach).floor().clamp(0.0, end as f32) as usize;
            from..((middle + reach).ceil() + 1.0).clamp(from as f32, end as f32) as usize
        };
        (span(x, self.width), span(y, self.height))
    }

    /// The picture at a smaller scale: each pixel is the mean of a block of `by` × `by`.
    pub(super) fn reduced(self, by: usize) -> Canvas {
        if by == 1 {
            return self;
        }
        let mut small = Canvas::new(self.width / by, self.height / by);
        let share = 1.0 / (by * by) as f32;
        for (y, row) in self.pixels.chunks_exact(self.width).enumerate() {
            for (x, pixel) in row.iter().enumerate() {
                let sum = &mut small.pixels[y / by * small.width + x / by];
                for (sum, value) in sum.iter_mut().zip(pixel) {
                    *sum += share * value;
                }
            }
        }
        small
    }
}
