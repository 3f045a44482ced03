//! Reads the header of a JPEG, and makes the header of a baseline JPEG with the same coefficients.
//!
//! The library makes pixels from coefficients of any origin, if it is given a baseline header for them. The
//! header has the segments that affect pixels: quantisation, the frame, and those of JFIF and Adobe, which
//! name the colour space.

use super::super::markers::{APP0, APP14, EOI, PREFIX, SOI, SOS};

pub(super) const DHT: u8 = 0xC4;
pub(super) const DAC: u8 = 0xCC;
pub(super) const DRI: u8 = 0xDD;
pub(super) const COMMENT: u8 = 0xFE;
const DQT: u8 = 0xDB;
const SOF_BASELINE: u8 = 0xC0;

/// The number of samples across and down a block.
const BLOCK: usize = 8;
/// The most blocks of an MCU (ITU-T T.81, B.2.3).
const MAX_BLOCKS: usize = 10;
/// The largest sampling factor.
const MAX_FACTOR: u8 = 4;

/// Two Huffman tables, for DC and for AC. Each has a single code, for the symbol 0. The library requires
/// valid tables, but does not use these.
const UNUSED_TABLES: [u8; 40] = {
    let mut tables = [0; 40];
    [tables[0], tables[1], tables[3]] = [PREFIX, DHT, 38];
    [tables[5], tables[22], tables[23]] = [1, 0x10, 1];
    tables
};

/// A component of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Component {
    pub(super) id: u8,
    /// The sampling factors, `across` and `down`.
    pub(super) across: u8,
    pub(super) down: u8,
}

/// The size of a frame, and its components.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) components: Vec<Component>,
}

impl Frame {
    /// Reads the content of a frame header. Returns `None` unless the samples have 8 bits and the frame has
    /// one component (grey) or three (colour).
    pub(super) fn read(content: &[u8]) -> Option<Frame> {
        let ([8, h1, h0, w1, w0, count], components) = content.split_first_chunk::<6>()? else { return None };
        let [height, width] = [[*h1, *h0], [*w1, *w0]].map(|pair| usize::from(u16::from_be_bytes(pair)));
        let (components, []) = components.as_chunks::<3>() else { return None };
        if components.len() != usize::from(*count) || !matches!(count, 1 | 3) || width == 0 || height == 0 {
            return None;
        }
        let components = components.iter().map(|[id, factors, _]| {
            let (across, down) = (factors >> 4, factors & 15);
            let sound = (1..=MAX_FACTOR).contains(&across) && (1..=MAX_FACTOR).contains(&down);
            sound.then_some(Component { id: *id, across, down })
        });
        let frame = Frame { width, height, components: components.collect::<Option<_>>()? };
        let unique =
            |at: usize| frame.components[..at].iter().all(|other| other.id != frame.components[at].id);
        let blocks = |component| {
            let (across, down) = frame.blocks_of_mcu(component);
            across * down
        };
        let sound = (0..frame.components.len()).all(unique)
            && frame.components.iter().map(blocks).sum::<usize>() <= MAX_BLOCKS;
        sound.then_some(frame)
    }

    fn largest(&self) -> (usize, usize) {
        let largest = |of: fn(&Component) -> u8| self.components.iter().map(of).max().unwrap_or(1).into();
        (largest(|component| component.across), largest(|component| component.down))
    }

    /// The number of blocks of a component in an MCU, across and down. A scan of a single component has MCUs
    /// of one block.
    pub(super) fn blocks_of_mcu(&self, component: &Component) -> (usize, usize) {
        match self.components.len() {
            1 => (1, 1),
            _ => (component.across.into(), component.down.into()),
        }
    }

    /// The number of blocks of a component that have samples, across and down.
    pub(super) fn blocks_of(&self, component: &Component) -> (usize, usize) {
        let (across, down) = self.largest();
        let blocks = |pixels: usize, factor: u8, largest: usize| {
            (pixels * usize::from(factor)).div_ceil(largest * BLOCK)
        };
        (blocks(self.width, component.across, across), blocks(self.height, component.down, down))
    }

    pub(super) fn mcus_per_row(&self) -> usize {
        let across = if self.components.len() == 1 { 1 } else { self.largest().0 };
        self.width.div_ceil(BLOCK * across)
    }

    pub(super) fn mcu_rows(&self) -> usize {
        let down = if self.components.len() == 1 { 1 } else { self.largest().1 };
        self.height.div_ceil(BLOCK * down)
    }

    /// The number of blocks in all MCUs, including those that only fill up an MCU.
    pub(super) fn blocks(&self) -> usize {
        let of_mcu = |component| {
            let (across, down) = self.blocks_of_mcu(component);
            across * down
        };
        self.mcus_per_row() * self.mcu_rows() * self.components.iter().map(of_mcu).sum::<usize>()
    }
}

/// Iterates over the marker segments of a JPEG header.
pub(super) struct Segments<'a> {
    /// All bytes that follow the segments read so far.
    pub(super) rest: &'a [u8],
}

/// A marker, the content of its segment, and the whole segment.
pub(super) type Segment<'a> = (u8, &'a [u8], &'a [u8]);

impl<'a> Segments<'a> {
    /// The next segment, or the end marker, which has no content; `None` for anything else.
    pub(super) fn next(&mut self) -> Option<Segment<'a>> {
        let (&[PREFIX, marker], body) = self.rest.split_first_chunk::<2>()? else { return None };
        if marker == EOI {
            return Some((EOI, &[], &self.rest[..2]));
        }
        if !(SOF_BASELINE..=COMMENT).contains(&marker) || (0xD0..EOI).contains(&marker) {
            return None;
        }
        let length = usize::from(u16::from_be_bytes(*body.first_chunk()?));
        let content = body.get(size_of::<u16>()..length)?;
        let (segment, rest) = self.rest.split_at(2 + length);
        self.rest = rest;
        Some((marker, content, segment))
    }
}

/// The header of a baseline JPEG, to which segments of another JPEG are added.
pub(super) struct BaselineHeader(Vec<u8>);

impl BaselineHeader {
    pub(super) fn new() -> BaselineHeader {
        BaselineHeader(vec![PREFIX, SOI])
    }

    /// Adds a segment if it affects pixels, and ignores it otherwise. Returns false if the segment is not
    /// allowed in a header.
    pub(super) fn add(&mut self, (marker, content, segment): Segment<'_>) -> bool {
        match marker {
            APP0 | APP14 | DQT => self.0.extend(segment),
            0xE1..=0xEF | COMMENT | DHT | DRI => {}
            0xC0..=0xC2 | 0xC9 | 0xCA if !content.is_empty() => {
                self.0.extend([PREFIX, SOF_BASELINE]);
                self.0.extend(&segment[2..]);
            }
            _ => return false,
        }
        true
    }

    /// The whole header, for one scan of all components.
    pub(super) fn finish(mut self, frame: &Frame) -> Vec<u8> {
        self.0.extend(UNUSED_TABLES);
        let count = frame.components.len() as u8;
        self.0.extend([PREFIX, SOS, 0, 6 + 2 * count, count]);
        self.0.extend(frame.components.iter().flat_map(|component| [component.id, 0]));
        self.0.extend([0, 63, 0]);
        self.0
    }
}
