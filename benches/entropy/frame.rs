//! What stands before the scan of a baseline JPEG (ITU-T T.81, annex B).

use crate::tables::{AcTable, Codes, DcTable};

pub(crate) struct Component {
    pub(crate) across: usize,
    pub(crate) down: usize,
    /// Numbers of its DC and its AC table.
    pub(crate) tables: (usize, usize),
}

/// A frame and its scan, ready to be decoded.
pub(crate) struct Frame<'a> {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) components: Vec<Component>,
    pub(crate) mcus_per_row: usize,
    pub(crate) mcu_rows: usize,
    /// Component of each block of an MCU.
    pub(crate) layout: Vec<usize>,
    pub(crate) restart_interval: usize,
    pub(crate) scan: &'a [u8],
    /// As the file defines them, one after the other.
    pub(crate) definitions: Vec<&'a [u8]>,
}

impl<'a> Frame<'a> {
    /// `None` for what this decoder does not do.
    pub(crate) fn read(encoded: &'a [u8]) -> Option<Frame<'a>> {
        let (mut at, mut frame, mut restart_interval, mut definitions) = (2, None, 0, vec![]);
        loop {
            let [0xFF, marker, high, low] = *encoded.get(at..)?.first_chunk()? else { return None };
            let end = at + 2 + usize::from(u16::from_be_bytes([high, low]));
            let content = encoded.get(at + 4..end)?;
            at = end;
            match marker {
                0xC0 => frame = Some(content),
                0xC1..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCF => return None,
                0xC4 => definitions.push(content),
                0xDD => restart_interval = usize::from(u16::from_be_bytes(*content.first_chunk()?)),
                0xDA => {
                    let (scan, rest) = (encoded.get(at..)?, definitions);
                    return Frame::new(frame?, content, restart_interval, scan, rest);
                }
                _ => {}
            }
        }
    }

    fn new(
        frame: &[u8],
        header: &[u8],
        restart_interval: usize,
        scan: &'a [u8],
        definitions: Vec<&'a [u8]>,
    ) -> Option<Frame<'a>> {
        let [8, h1, h0, w1, w0, count] = *frame.first_chunk()? else { return None };
        let [height, width] = [[h1, h0], [w1, w0]].map(|pair| usize::from(u16::from_be_bytes(pair)));
        let chosen = header.get(1..)?.as_chunks::<2>().0;
        let mut components: Vec<Component> = frame[6..]
            .as_chunks::<3>()
            .0
            .iter()
            .zip(chosen)
            .map(|([id, sampling, _], [scan_id, tables])| {
                let tables = (usize::from(tables >> 4), usize::from(tables & 15));
                let (across, down) = (usize::from(sampling >> 4), usize::from(sampling & 15));
                (id == scan_id).then_some(Component { across, down, tables })
            })
            .collect::<Option<_>>()?;
        if header[0] != count || components.len() != usize::from(count) {
            return None;
        }
        // The blocks of a scan of one component come one by one, whatever its sampling.
        if let [only] = components.as_mut_slice() {
            (only.across, only.down) = (1, 1);
        }
        let across = components.iter().map(|component| component.across).max()?;
        let down = components.iter().map(|component| component.down).max()?;
        let layout = components
            .iter()
            .enumerate()
            .flat_map(|(index, component)| std::iter::repeat_n(index, component.across * component.down))
            .collect();
        let (mcus_per_row, mcu_rows) = (width.div_ceil(8 * across), height.div_ceil(8 * down));
        Some(Frame {
            width,
            height,
            components,
            mcus_per_row,
            mcu_rows,
            layout,
            restart_interval,
            scan,
            definitions,
        })
    }

    pub(crate) fn blocks_per_row(&self) -> usize {
        self.mcus_per_row * self.layout.len()
    }

    /// Where the scan and each of its restart intervals begin.
    pub(crate) fn intervals(&self) -> Vec<usize> {
        let restart = |pair: &[u8]| matches!(pair, [0xFF, 0xD0..=0xD7]);
        let behind = self.scan.windows(2).enumerate().filter(|(_, pair)| restart(pair)).map(|(at, _)| at + 2);
        std::iter::once(0).chain(behind).collect()
    }

    /// Lines of an MCU row.
    pub(crate) fn mcu_height(&self) -> usize {
        8 * self.components.iter().map(|component| component.down).max().unwrap_or(1)
    }

    pub(crate) fn chroma(&self) -> &'static str {
        match self.components.as_slice() {
            [_] => "grey",
            [y, cb, cr] if cb.across * cb.down == 1 && cr.across * cr.down == 1 => match (y.across, y.down) {
                (1, 1) => "4:4:4",
                (2, 2) => "4:2:0",
                (2, 1) => "4:2:2",
                _ => "other",
            },
            _ => "other",
        }
    }

    /// `None` if one is not defined or not of a baseline JPEG.
    pub(crate) fn tables(&self) -> Option<Tables> {
        let (mut dc, mut ac) = ([const { None }; 4], [const { None }; 4]);
        for mut definition in self.definitions.iter().copied() {
            while let Some((head, rest)) = definition.split_first_chunk::<17>() {
                let [class, counts @ ..] = head;
                let symbols = counts.iter().map(|count| usize::from(*count)).sum();
                let codes = Codes::new(counts, rest.get(..symbols)?)?;
                let slot = usize::from(class & 15);
                match class >> 4 {
                    0 => *dc.get_mut(slot)? = Some(DcTable::new(codes)?),
                    _ => *ac.get_mut(slot)? = Some(AcTable::new(codes)?),
                }
                definition = &rest[symbols..];
            }
        }
        let complete = self.components.iter().all(|component| {
            let (d, a) = component.tables;
            dc.get(d).is_some_and(Option::is_some) && ac.get(a).is_some_and(Option::is_some)
        });
        complete.then_some(Tables { dc, ac })
    }
}

/// The tables that a file defines.
pub(crate) struct Tables {
    pub(crate) dc: [Option<DcTable>; 4],
    pub(crate) ac: [Option<AcTable>; 4],
}
