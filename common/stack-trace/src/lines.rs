//! Lines of the source: from the debug information in an object's file.

use std::rc::Rc;

use addr2line::Context;
use gimli::{Dwarf, EndianRcSlice, LittleEndian, SectionId};
use object::read::ReadCache;
use object::{Object as _, ObjectSection};

use crate::elf::Object;
use crate::names;

/// Files with more debug information, in bytes, are not looked at: it is read into the memory of the program's process.
const MOST: u64 = 64 << 20;

type Reader = EndianRcSlice<LittleEndian>;

/// The lines of an object; none without debug information in its file.
pub struct Lines(Option<Context<Reader>>);

impl Lines {
    pub fn of(object: &Object) -> Lines {
        Lines(read(object))
    }

    /// Name of the source file and line of an address in the file, as `solve.c:42`.
    pub fn find(&self, address: u64) -> Option<String> {
        let location = self.0.as_ref()?.find_location(address).ok()??;
        let path = location.file?;
        let name = path.rsplit('/').next().unwrap_or(path);
        Some(format!("{name}:{}", location.line?))
    }
}

fn read(object: &Object) -> Option<Context<Reader>> {
    let cache = ReadCache::new(names::file(object)?);
    let parsed = object::File::parse(&cache).ok()?;
    let of_debugging = parsed
        .sections()
        .filter(|section| section.name().is_ok_and(|name| name.starts_with(".debug_")));
    // Compressed sections count with what they take in memory.
    let sizes = of_debugging.map(|section| {
        let range = section.compressed_file_range();
        range.map_or(0, |range| range.uncompressed_size)
    });
    if sizes.sum::<u64>() > MOST {
        return None;
    }
    let section = |id: SectionId| {
        let section = parsed.section_by_name(id.name());
        let bytes = section.map_or(Ok(Default::default()), |section| {
            section.uncompressed_data()
        });
        bytes.map(|bytes| Reader::new(Rc::from(&*bytes), LittleEndian))
    };
    Context::from_dwarf(Dwarf::load(section).ok()?).ok()
}
