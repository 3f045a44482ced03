//! Reads the first frame of a GIF, on its canvas.
//!
//! A pixel has its palette's colour, even where the frame marks it as transparent, because alpha is always
//! dropped. Where the frame does not cover the canvas, the canvas has the colour of the transparent palette
//! entry, or of the first entry if none is transparent. A frame that extends beyond the canvas enlarges it.
//! All of this is as in Pillow.

use std::io::Cursor;

use forebay_base::{Error, Result};
use gif::{ColorOutput, DecodeOptions, Decoder, DecodingError};

use crate::format::{Format, Header};
use crate::opened::Pending;
use crate::refuse::{bad_row, corrupt};
use crate::spec::RGB;

/// The most entries that a palette can have, because pixels are indices of 8 bits.
const ENTRIES: usize = 256;

/// A GIF that was read up to the pixels of the first frame.
pub(super) struct Gif<'a> {
    decoder: Decoder<Cursor<&'a [u8]>>,
    canvas: (usize, usize),
    frame: FramePlace,
}

/// The position of the frame on the canvas, its size, and its transparent palette entry.
struct FramePlace {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
    transparent: Option<u8>,
}

impl<'a> Gif<'a> {
    pub(super) fn open(encoded: &'a [u8]) -> Result<Self> {
        let mut options = DecodeOptions::new();
        options.set_color_output(ColorOutput::Indexed);
        let mut decoder = options.read_info(Cursor::new(encoded)).map_err(failed)?;
        let screen = (usize::from(decoder.width()), usize::from(decoder.height()));
        let frame =
            decoder.next_frame_info().map_err(failed)?.ok_or_else(|| bad_row("corrupt GIF: no frame"))?;
        let [left, top, width, height] = [frame.left, frame.top, frame.width, frame.height].map(usize::from);
        let frame = FramePlace { left, top, width, height, transparent: frame.transparent };
        let canvas = (screen.0.max(left + width), screen.1.max(top + height));
        Ok(Gif { decoder, canvas, frame })
    }

    pub(super) fn header(&self) -> Header {
        let (width, height) = (self.canvas.0 as u32, self.canvas.1 as u32);
        Header { format: Format::Gif, width, height, channels: RGB as u8, progressive: false }
    }

    /// The colour of each palette entry. Entries beyond the end of the palette are black.
    fn colours(&self) -> Result<[[u8; RGB]; ENTRIES]> {
        let mut colours = [[0; RGB]; ENTRIES];
        let (palette, _) = self.decoder.palette().map_err(failed)?.as_chunks::<RGB>();
        colours.iter_mut().zip(palette).for_each(|(colour, entry)| *colour = *entry);
        Ok(colours)
    }
}

impl Pending for Gif<'_> {
    fn buffer_bytes(&self) -> u64 {
        (self.canvas.0 * self.canvas.1 * RGB) as u64
    }

    fn beside_bytes(&self) -> u64 {
        (self.frame.width * self.frame.height) as u64
    }

    fn read(mut self: Box<Self>, buffer: &mut [u8]) -> Result<()> {
        let colours = self.colours()?;
        let FramePlace { left, top, width, height, transparent } = self.frame;
        let mut indices = vec![0; width * height];
        self.decoder.read_into_buffer(&mut indices).map_err(failed)?;
        let (pixels, _) = buffer.as_chunks_mut::<RGB>();
        if (width, height) != self.canvas {
            pixels.fill(colours[usize::from(transparent.unwrap_or(0))]);
        }
        let rows = pixels.chunks_exact_mut(self.canvas.0.max(1)).skip(top);
        for (row, indices) in rows.zip(indices.chunks_exact(width.max(1))) {
            let pixels = row[left..left + width].iter_mut();
            pixels.zip(indices).for_each(|(pixel, index)| *pixel = colours[usize::from(*index)]);
        }
        Ok(())
    }
}

fn failed(error: DecodingError) -> Error {
    corrupt(Format::Gif, &error)
}
