//! The ELF objects that are mapped, found by their headers in memory: after a restart the memory of the upper half is
//! mapped from no file.

use std::ops::Range;
use std::path::PathBuf;

use framehop::{ExplicitModuleSectionInfo, Module};
use object::elf::{FileHeader64, PT_DYNAMIC, PT_GNU_EH_FRAME, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::Endianness;
use proc_maps::{parse_line, Mapping};

use crate::memory::{self, read_word};

/// Upper bound of the headers of an object that are read.
const HEADERS: usize = 4096;

/// Upper bound of an object's unwind table: larger than that of any known library.
const MOST_TABLE: u64 = 64 << 20;

type Header = FileHeader64<Endianness>;

/// A mapped object.
pub struct Object {
    /// The file from which its first page is mapped, if there is one.
    pub path: Option<PathBuf>,
    /// Address of the object's address 0.
    pub bias: u64,
    /// Addresses that it covers.
    range: Range<u64>,
    /// Addresses of its segments.
    segments: Vec<Range<u64>>,
    /// Address of the index of its unwind table.
    eh_frame_hdr: Option<u64>,
    /// Address of its dynamic section.
    pub dynamic: Option<Range<u64>>,
}

/// All objects of a text in the form of `/proc/self/maps`.
pub fn objects(maps: &[u8]) -> Vec<Object> {
    let mappings: Vec<Mapping> = maps
        .split(|byte| *byte == b'\n')
        .filter_map(parse_line)
        .collect();
    let mut objects: Vec<Object> = mappings.iter().filter_map(object_at).collect();
    // An object is mapped at the highest begin below an address. A header in a file that is mapped as data is no object
    // of this process, and lies outside of the others or within its own range.
    objects.sort_by_key(|object| object.range.start);
    objects
}

fn object_at(mapping: &Mapping) -> Option<Object> {
    let mut magic = [0; 4];
    if mapping.prot & 1 == 0 || !memory::read(mapping.start, &mut magic) || magic != *b"\x7fELF" {
        return None;
    }
    let length = (mapping.end - mapping.start).min(HEADERS as u64);
    let headers = memory::bytes(mapping.start, mapping.start + length)?;
    let header = Header::parse(&*headers).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &*headers).ok()?;
    let loads = || {
        segments
            .iter()
            .filter(|segment| segment.p_type(endian) == PT_LOAD)
    };
    let first = loads().next()?.p_vaddr(endian) & !0xfff;
    let bias = mapping.start.wrapping_sub(first);
    let range_of = |segment: &<Header as FileHeader>::ProgramHeader| {
        let start = segment.p_vaddr(endian).wrapping_add(bias);
        start..start.wrapping_add(segment.p_memsz(endian))
    };
    let place = |kind| {
        let mut all = segments.iter();
        all.find(|segment| segment.p_type(endian) == kind)
            .map(range_of)
    };
    let segments: Vec<Range<u64>> = loads().map(range_of).collect();
    let end = segments.iter().map(|segment| segment.end).max()?;
    let path = mapping.path.first().is_some_and(|byte| *byte == b'/');
    let path = path.then(|| PathBuf::from(String::from_utf8_lossy(&mapping.path).into_owned()));
    Some(Object {
        path,
        bias,
        range: mapping.start..end,
        segments,
        eh_frame_hdr: place(PT_GNU_EH_FRAME).map(|range| range.start),
        dynamic: place(PT_DYNAMIC),
    })
}

impl Object {
    /// Whether the object covers an address.
    pub fn covers(&self, address: u64) -> bool {
        self.range.contains(&address)
    }

    /// The object with its unwind table, read from memory.
    pub fn module(&self) -> Option<Module<Vec<u8>>> {
        let header = self.eh_frame_hdr?;
        let segment = self
            .segments
            .iter()
            .find(|segment| segment.contains(&header))?;
        // The index begins with a version, three encodings, and the address of the table, which is relative to itself
        // in every known linker's output.
        let [_, encoding, ..] = read_word(header)?.to_ne_bytes();
        const PC_RELATIVE_4: u8 = 0x1b;
        if encoding != PC_RELATIVE_4 {
            return None;
        }
        let mut distance = [0; 4];
        memory::read(header + 4, &mut distance).then_some(())?;
        let table = (header + 4).wrapping_add_signed(i64::from(i32::from_ne_bytes(distance)));
        let table_segment = self
            .segments
            .iter()
            .find(|segment| segment.contains(&table))?;
        let to_end = |from: u64, end: u64| memory::bytes(from, end.min(from + MOST_TABLE));
        let info = ExplicitModuleSectionInfo {
            base_svma: 0,
            eh_frame_svma: Some(table - self.bias..table_segment.end - self.bias),
            eh_frame: to_end(table, table_segment.end),
            eh_frame_hdr_svma: Some(header - self.bias..segment.end - self.bias),
            eh_frame_hdr: to_end(header, segment.end),
            ..Default::default()
        };
        let name = format!("{:#x}", self.bias);
        Some(Module::new(name, self.range.clone(), self.bias, info))
    }
}
