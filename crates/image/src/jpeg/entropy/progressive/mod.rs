//! Decodes progressive JPEGs (ITU-T T.81, annex G): reads all scans of a file, and returns the coefficients.
//!
//! A file is left to libjpeg-turbo if it is invalid, or if it has anything but Huffman tables, restart
//! intervals, comments and application data (other than APP0 and APP14) between its scans. It is also left to
//! libjpeg-turbo if the scans do not code every bit of every coefficient, because libjpeg-turbo smooths such
//! images.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod bands;
mod machine;
mod rows;
mod scan;
mod tables;

use super::bits::BitBuffer;
use super::block::Block;
use super::frame::{BaselineHeader, COMMENT, DHT, DRI, Frame, Segments};
use super::planes::Planes;
use crate::jpeg::markers::{APP0, APP14, EOI, PREFIX, SOI, SOS};
use scan::{Definitions, Lookups, Scan, SentBits};

const SOF_PROGRESSIVE: u8 = 0xC2;

/// The lookup tables for scans of progressive JPEGs, which a thread reuses.
#[derive(Default)]
pub(super) struct Progressive {
    lookups: Lookups,
}

impl Progressive {
    /// Decodes all coefficients into `planes`, if they take at most `memory` bytes. Returns the header of a
    /// baseline JPEG with the same coefficients, and its frame; `None` if the file is left to libjpeg-turbo.
    pub(super) fn decode(
        &mut self,
        encoded: &[u8],
        memory: usize,
        most_scans: usize,
        window: &mut BitBuffer,
        planes: &mut Planes,
    ) -> Option<(Vec<u8>, Frame)> {
        let mut segments = Segments { rest: encoded.strip_prefix(&[PREFIX, SOI])? };
        let (mut header, mut frame) = (BaselineHeader::new(), None);
        let (mut definitions, mut restart_interval) = (Definitions::default(), 0);
        let first = loop {
            let segment = segments.next()?;
            match segment {
                (SOS, content, _) => break content,
                (DHT, content, _) => definitions.add(content)?,
                (DRI, content, _) => restart_interval = u16::from_be_bytes(content.try_into().ok()?),
                (SOF_PROGRESSIVE, content, _) if frame.is_none() => frame = Some(Frame::read(content)?),
                (0xC0..=0xCF, ..) => return None,
                _ => {}
            }
            header.add(segment).then_some(())?;
        };
        let frame = frame?;
        if frame.blocks().checked_mul(size_of::<Block>())? > memory {
            return None;
        }
        planes.begin(&frame);
        let (mut progress, mut scans, mut next) = (SentBits::new(&frame), 0, Some(first));
        loop {
            if let Some(content) = next.take() {
                scans += 1;
                let scan = Scan {
                    frame: &frame,
                    definitions: &definitions,
                    restart_interval: restart_interval.into(),
                };
                let (lookups, data) = (&mut self.lookups, segments.rest);
                segments.rest = scan.decode(content, data, &mut progress, lookups, window, planes)?;
            }
            match segments.next()? {
                (EOI, ..) => break,
                (SOS, content, _) if scans < most_scans => next = Some(content),
                (DHT, content, _) => definitions.add(content)?,
                (DRI, content, _) => restart_interval = u16::from_be_bytes(content.try_into().ok()?),
                (marker @ (0xE0..=0xEF | COMMENT), ..) if marker != APP0 && marker != APP14 => {}
                _ => return None,
            }
        }
        progress.is_complete().then(|| (header.finish(&frame), frame))
    }
}
