//! Decodes one scan of a progressive JPEG.

use std::rc::Rc;

use super::super::bits::{BitBuffer, Bits};
use super::super::frame::Frame;
use super::super::planes::{Grid, Planes};
use super::super::sequential::difference;
use super::super::tables::{CodeTable, DcTable, Definition, Known};
use super::bands::Band;
use super::machine::Machine;
use super::rows::{AcRows, Data};
use super::tables::{AcTable, First, Refine};

/// The most Huffman tables of each kind (DC and AC) that a file may define at the same time.
const TABLES: usize = 4;
/// The highest number that a scan's header may give for the lowest bit that the scan codes (`low`).
const HIGHEST_LOW: u8 = 13;
const COEFFICIENTS: usize = 64;

/// The Huffman tables that are defined when a scan begins.
#[derive(Default)]
pub(super) struct Definitions {
    dc: [Option<Definition>; TABLES],
    ac: [Option<Definition>; TABLES],
}

impl Definitions {
    /// Reads the content of a DHT segment; `None` if it is invalid.
    pub(super) fn add(&mut self, mut content: &[u8]) -> Option<()> {
        while let Some((number, rest)) = content.split_first() {
            let kind = match number >> 4 {
                0 => &mut self.dc,
                1 => &mut self.ac,
                _ => return None,
            };
            let (definition, rest) = Definition::read(rest)?;
            *kind.get_mut(usize::from(number & 15))? = Some(definition);
            content = rest;
        }
        Some(())
    }
}

/// The lookup tables for Huffman codes, which are reused for later images.
#[derive(Default)]
pub(super) struct Lookups {
    dc: Known<DcTable>,
    first: Known<AcTable<First>>,
    refine: Known<AcTable<Refine>>,
}

fn table<T: CodeTable>(known: &mut Known<T>, definition: &Option<Definition>) -> Option<Rc<T>> {
    known.table(definition.as_ref()?)
}

/// For each coefficient of each component, the lowest bit that the scans so far have coded; `None` if they
/// have coded none.
pub(super) struct SentBits(Vec<[Option<u8>; COEFFICIENTS]>);

impl SentBits {
    pub(super) fn new(frame: &Frame) -> SentBits {
        SentBits(vec![[None; COEFFICIENTS]; frame.components.len()])
    }

    /// Whether no scan so far has coded AC coefficients of this component.
    fn is_first_of_ac(&self, component: usize) -> bool {
        self.0[component][1..].iter().all(Option::is_none)
    }

    /// Whether the scans have coded all bits of all coefficients.
    pub(super) fn is_complete(&self) -> bool {
        self.0.as_flattened().iter().all(|low| *low == Some(0))
    }

    /// Records the bits that a scan codes. Returns `false` if the scan does not continue where earlier scans
    /// ended.
    fn add(&mut self, header: &ScanHeader) -> bool {
        let before = (header.high > 0).then_some(header.high);
        header.components.iter().all(|(component, ..)| {
            let all = &mut self.0[*component];
            if header.first > 0 && all[0].is_none() {
                return false;
            }
            let band = &mut all[usize::from(header.first)..=usize::from(header.last)];
            let continues = band.iter().all(|low| *low == before);
            band.fill(Some(header.low));
            continues
        })
    }
}

/// The header of a scan: its components, its range of coefficients from `first` to `last`, and its bits.
struct ScanHeader {
    /// For each component its index, and the numbers of its Huffman tables for DC and for AC.
    components: Vec<(usize, usize, usize)>,
    first: u8,
    last: u8,
    /// The lowest bit that earlier scans of these coefficients coded; 0 if there was no earlier scan.
    high: u8,
    /// The lowest bit that this scan codes.
    low: u8,
}

impl ScanHeader {
    /// Parses the content of a scan header; `None` if it is invalid in a progressive JPEG.
    fn read(content: &[u8], frame: &Frame) -> Option<ScanHeader> {
        let (count, rest) = content.split_first()?;
        let (components, &[first, last, approximation]) = rest.split_last_chunk()?;
        let (components, []) = components.as_chunks::<2>() else { return None };
        let (high, low) = (approximation >> 4, approximation & 15);
        let indexed = components.iter().map(|[id, tables]| {
            let index = frame.components.iter().position(|component| component.id == *id)?;
            Some((index, usize::from(tables >> 4), usize::from(tables & 15)))
        });
        let components: Vec<_> = indexed.collect::<Option<_>>()?;
        let ascending = components.is_sorted_by(|one, other| one.0 < other.0);
        let band = if first == 0 { last == 0 } else { first <= last && last < 64 && components.len() == 1 };
        let bits = low <= HIGHEST_LOW && (high == 0 || low + 1 == high);
        let sound =
            !components.is_empty() && components.len() == usize::from(*count) && ascending && band && bits;
        sound.then_some(ScanHeader { components, first, last, high, low })
    }

    fn band(&self) -> Band {
        Band { first: self.first.into(), last: self.last.into(), low: self.low }
    }
}

/// A scan of a progressive JPEG.
pub(super) struct Scan<'a> {
    pub(super) frame: &'a Frame,
    pub(super) definitions: &'a Definitions,
    /// The number of MCUs between restart markers; 0 if there are none.
    pub(super) restart_interval: usize,
}

impl Scan<'_> {
    /// Decodes the scan into `planes`. `content` is the content of the scan's header, and `data` begins with
    /// the coded data of the scan. Returns the bytes from the next marker on; `None` if anything is invalid.
    pub(super) fn decode<'d>(
        &self,
        content: &[u8],
        data: &'d [u8],
        progress: &mut SentBits,
        lookups: &mut Lookups,
        window: &mut BitBuffer,
        planes: &mut Planes,
    ) -> Option<&'d [u8]> {
        let header = ScanHeader::read(content, self.frame)?;
        let (component, _, ac) = header.components[0];
        let clears = progress.is_first_of_ac(component);
        if !progress.add(&header) {
            return None;
        }
        let mut from = Data {
            bits: Bits::new(data, window),
            interval: self.restart_interval,
            until_restart: self.restart_interval,
            restart: 0,
        };
        let (definitions, machine) = (self.definitions, Machine::detected());
        let (band, grid) = (header.band(), planes.grids[component]);
        match (header.first, header.high) {
            (0, 0) => {
                let tables = header.components.iter();
                let tables = tables.map(|(_, dc, _)| table(&mut lookups.dc, definitions.dc.get(*dc)?));
                dc_first(&mut from, &header, &tables.collect::<Option<Vec<_>>>()?, planes)?;
            }
            (0, _) => dc_refine(&mut from, &header, planes)?,
            (_, 0) => {
                let table = table(&mut lookups.first, definitions.ac.get(ac)?)?;
                (machine.first)(&mut AcRows { planes, grid, band, clears }, &mut from, &table)?;
            }
            (..) => {
                let table = table(&mut lookups.refine, definitions.ac.get(ac)?)?;
                (machine.refine)(&mut AcRows { planes, grid, band, clears: false }, &mut from, &table)?;
            }
        }
        let left = from.bits.end()?;
        Some(&data[data.len() - left..])
    }
}

/// A block's place within an MCU of a DC scan, and where the planes hold the block at that place of each MCU.
struct Unit {
    /// The index of the block's component in the scan.
    component: usize,
    /// The index of this block in the first MCU, and its distance to the same block of the next MCU across
    /// and down.
    start: usize,
    across: usize,
    down: usize,
}

/// The blocks of an MCU, and the number of MCUs across and down.
fn units(header: &ScanHeader, planes: &Planes) -> (Vec<Unit>, usize, usize) {
    let grid = |(component, ..): &(usize, usize, usize)| planes.grids[*component];
    if let [one] = &header.components[..] {
        let Grid { start, stride, width, height, .. } = grid(one);
        return (vec![Unit { component: 0, start, across: 1, down: stride }], width, height);
    }
    let grids = header.components.iter().map(grid).enumerate();
    let units = grids.flat_map(|(component, grid)| {
        let Grid { start, across, down, stride, .. } = grid;
        let places = (0..down).flat_map(move |y| (0..across).map(move |x| start + y * stride + x));
        places.map(move |start| Unit { component, start, across, down: down * stride })
    });
    (units.collect(), planes.mcus_per_row, planes.mcu_rows)
}

impl Unit {
    fn block(&self, column: usize, row: usize) -> usize {
        self.start + row * self.down + column * self.across
    }
}

fn dc_first(
    data: &mut Data<'_>,
    header: &ScanHeader,
    tables: &[Rc<DcTable>],
    planes: &mut Planes,
) -> Option<()> {
    let (units, columns, rows) = units(header, planes);
    let mut before = vec![0i32; tables.len()];
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        if data.begin()? {
            before.fill(0);
        }
        data.bits.prepare();
        let mut bits = data.bits.reader();
        for unit in &units {
            let before = &mut before[unit.component];
            *before = before.checked_add(difference(&mut bits, &tables[unit.component]))?;
            planes.dc[unit.block(column, row)] = (*before << header.low) as i16;
        }
        let head = bits.head;
        data.bits.go_to(head);
    }
    Some(())
}

fn dc_refine(data: &mut Data<'_>, header: &ScanHeader, planes: &mut Planes) -> Option<()> {
    let (units, columns, rows) = units(header, planes);
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        data.begin()?;
        data.bits.prepare();
        let mut bits = data.bits.reader();
        bits.refill();
        for unit in &units {
            planes.dc[unit.block(column, row)] |= ((bits.peek() >> 63) as i16) << header.low;
            bits.consume(1);
        }
        let head = bits.head;
        data.bits.go_to(head);
    }
    Some(())
}
