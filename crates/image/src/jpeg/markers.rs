//! Reads the segments of a JPEG before its first scan (ITU-T T.81, annex B), without decoding the image.

use image::metadata::Orientation;
use memchr::memmem;

use super::super::exif;

pub(super) const PREFIX: u8 = 0xFF;
/// The first of the eight restart markers, which have consecutive numbers.
pub(super) const RST: u8 = 0xD0;
pub(super) const SOI: u8 = 0xD8;
pub(super) const EOI: u8 = 0xD9;
pub(super) const SOS: u8 = 0xDA;
const DHT: u8 = 0xC4;
const DQT: u8 = 0xDB;
const DRI: u8 = 0xDD;
pub(super) const APP0: u8 = 0xE0;
const APP1: u8 = 0xE1;
pub(super) const APP14: u8 = 0xEE;

/// The contents of the segments before the data of the first scan.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Markers<'a> {
    /// The width and height in the frame header.
    pub(super) size: Option<(u32, u32)>,
    /// The number of components of the image.
    pub(super) components: u8,
    /// The number of components in the first scan.
    pub(super) in_first_scan: u8,
    /// The number of MCUs between restart markers; 0 if there are none.
    pub(super) restart_interval: u16,
    /// Whether the JPEG is progressive: several scans refine the same coefficients.
    pub(super) progressive: bool,
    /// The EXIF data, which are a TIFF structure.
    exif: Option<&'a [u8]>,
    /// The offset of the first scan's data.
    pub(super) scan: usize,
    /// The largest horizontal sampling factor.
    widest: u8,
    /// The largest vertical sampling factor.
    tallest: u8,
    samples: u32,
    /// The tables that the segments define.
    defined: Tables,
    /// The tables that the frame and its first scan refer to.
    named: Tables,
}

/// A set of tables, with a bit for each: four quantisation tables, four Huffman tables for DC, and four for
/// AC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tables(u16);

impl Tables {
    const QUANTIZATION: u8 = 0;
    const DC: u8 = 4;
    const AC: u8 = 8;

    fn add(&mut self, kind: u8, number: u8) {
        self.0 |= 1u16.checked_shl(u32::from(kind + number)).unwrap_or(0);
    }
}

/// One segment: its marker, and its content after the length.
pub(super) struct Segment<'a> {
    pub(super) marker: u8,
    pub(super) content: &'a [u8],
    /// The offset of the next segment.
    pub(super) end: usize,
}

/// Finds the next segment at or after the offset `from`. Bytes between segments are skipped, as libjpeg does.
pub(super) fn segment(encoded: &[u8], from: usize) -> Option<Segment<'_>> {
    let prefix = from + encoded.get(from..)?.iter().position(|byte| *byte == PREFIX)?;
    let at = prefix + encoded[prefix..].iter().position(|byte| *byte != PREFIX)?;
    let marker = encoded[at];
    let body = at + 1;
    // A 0 is a stuffed byte, not a marker. The markers TEM, RST and SOI have no content.
    if matches!(marker, 0x00 | 0x01 | RST..=SOI) {
        return Some(Segment { marker, content: &[], end: body });
    }
    let length = usize::from(u16::from_be_bytes(*encoded.get(body..)?.first_chunk()?));
    let content = encoded.get(body + size_of::<u16>()..body + length)?;
    Some(Segment { marker, content, end: body + length })
}

impl<'a> Markers<'a> {
    /// Reads the segments up to the first scan; `None` if there is no scan.
    pub(super) fn read(encoded: &'a [u8]) -> Option<Markers<'a>> {
        let mut found = Markers::default();
        let mut at = 0;
        loop {
            let Segment { marker, content, end } = segment(encoded, at)?;
            at = end;
            match marker {
                EOI => return None,
                SOS => {
                    found.in_first_scan = *content.first()?;
                    found.scan = end;
                    for [_, tables] in content[1..].as_chunks().0.iter().take(found.in_first_scan.into()) {
                        found.named.add(Tables::DC, tables >> 4);
                        found.named.add(Tables::AC, tables & 15);
                    }
                    return Some(found);
                }
                DHT => found.define_huffman(content),
                DQT => found.define_quantization(content),
                DRI => found.restart_interval = u16::from_be_bytes(*content.first_chunk()?),
                APP1 if found.exif.is_none() => found.exif = content.strip_prefix(exif::PREFIX),
                // This arm matches all start-of-frame markers. The other three markers in the range are DHT,
                // JPG and DAC.
                0xC0..=0xCF if !matches!(marker, DHT | 0xC8 | 0xCC) => {
                    let [_, h1, h0, w1, w0, components] = *content.first_chunk()?;
                    let [height, width] =
                        [[h1, h0], [w1, w0]].map(|pair| u32::from(u16::from_be_bytes(pair)));
                    found.size = Some((width, height));
                    found.components = components;
                    for [_, sampling, table] in content[6..].as_chunks().0.iter().take(components.into()) {
                        let (across, down) = (sampling >> 4, sampling & 15);
                        found.widest = found.widest.max(across);
                        found.tallest = found.tallest.max(down);
                        found.samples += u32::from(across) * u32::from(down);
                        found.named.add(Tables::QUANTIZATION, *table);
                    }
                    found.progressive = matches!(marker, 0xC2 | 0xC6 | 0xCA | 0xCE);
                }
                _ => {}
            }
        }
    }

    fn define_huffman(&mut self, mut content: &[u8]) {
        while let Some(([table, counts @ ..], rest)) = content.split_first_chunk::<17>() {
            let kind = if table >> 4 == 0 { Tables::DC } else { Tables::AC };
            self.defined.add(kind, table & 15);
            let symbols: usize = counts.iter().map(|count| usize::from(*count)).sum();
            content = rest.get(symbols..).unwrap_or_default();
        }
    }

    fn define_quantization(&mut self, mut content: &[u8]) {
        while let Some((table, rest)) = content.split_first() {
            self.defined.add(Tables::QUANTIZATION, table & 15);
            let bytes = if table >> 4 == 0 { 64 } else { 128 };
            content = rest.get(bytes..).unwrap_or_default();
        }
    }

    /// Whether the frame and its first scan refer only to tables that were defined. Otherwise libjpeg uses
    /// those of an earlier image.
    pub(super) fn has_its_tables(&self) -> bool {
        self.named.0 & !self.defined.0 == 0
    }

    /// Whether the frame refers only to quantization tables that are defined before the first scan. Huffman
    /// tables are not checked, because a progressive image may define them later.
    pub(super) fn has_its_quantization(&self) -> bool {
        const ALL: u16 = (1 << Tables::DC) - 1;
        self.named.0 & ALL & !self.defined.0 == 0
    }

    /// Whether quantization tables may be defined again after the first scan's header.
    pub(super) fn redefines_quantization(&self, encoded: &[u8]) -> bool {
        memmem::find(&encoded[self.scan..], &[PREFIX, DQT]).is_some()
    }

    /// The width in pixels of an iMCU, the unit at which a crop may begin.
    pub(super) fn mcu_width(&self) -> u32 {
        const BLOCK: u32 = 8;
        if self.components == 1 { BLOCK } else { BLOCK * u32::from(self.widest) }
    }

    /// The number of bytes that the coefficients of the whole image take. They must be held in memory if the
    /// image has several scans.
    pub(super) fn coefficients(&self) -> u64 {
        const BLOCK: u32 = 8;
        const BYTES: u64 = size_of::<i16>() as u64;
        let Some((width, height)) = self.size else { return 0 };
        let (across, down) = (u32::from(self.widest.max(1)), u32::from(self.tallest.max(1)));
        let mcus = u64::from(width.div_ceil(BLOCK * across)) * u64::from(height.div_ceil(BLOCK * down));
        mcus * u64::from(self.samples * BLOCK * BLOCK) * BYTES
    }

    /// Whether a single scan has all components, so that rows can be decoded one after the other.
    pub(super) fn one_scan(&self) -> bool {
        !self.progressive && self.in_first_scan == self.components
    }

    /// The orientation in the EXIF data.
    pub(super) fn orientation(&self) -> Orientation {
        self.exif.map_or(Orientation::NoTransforms, exif::orientation)
    }

    /// Whether the file has an end marker after the first scan begins. A truncated file has none, because
    /// coded data never contain the bytes of this marker. The search goes backwards, as the marker is nearly
    /// always the last two bytes.
    pub(super) fn has_end(&self, encoded: &[u8]) -> bool {
        encoded[self.scan..].windows(2).rev().any(|pair| pair == [PREFIX, EOI])
    }

    /// The number of scans in the file. Counting stops at `limit` + 1.
    pub(super) fn scans(&self, encoded: &[u8], limit: usize) -> usize {
        1 + memmem::find_iter(&encoded[self.scan..], &[PREFIX, SOS]).take(limit).count()
    }
}
