//! Names of functions: from the symbol table of an object's file, or else from its dynamic symbols in memory.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use object::elf::{
    DynamicTag, SymbolType, DT_GNU_HASH, DT_SONAME, DT_STRTAB, DT_SYMTAB, STT_FUNC, STT_GNU_IFUNC,
};
use object::read::{ObjectSymbol, ReadCache};
use object::{Object as _, SymbolKind};

use crate::elf::Object;
use crate::memory::{self, read_word};

/// Size of a dynamic symbol.
const SYMBOL: u64 = 24;
/// Upper bound of the length of a name.
const LONGEST: usize = 256;
/// Upper bound of the symbols that are read from memory.
const MOST_SYMBOLS: u64 = 1 << 20;

/// The function that covers an address, and its begin.
pub fn function(object: &Object, address: u64) -> Option<(String, u64)> {
    let wanted = address.wrapping_sub(object.bias);
    let found = of_file(object, wanted).or_else(|| of_memory(object, wanted));
    found.map(|(name, begin)| (readable(&name), begin.wrapping_add(object.bias)))
}

/// The name as in the source.
fn readable(name: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(name) {
        return format!("{name:#}");
    }
    let symbol = cpp_demangle::Symbol::new(name);
    let options = cpp_demangle::DemangleOptions::new().no_params();
    let name_only = symbol
        .ok()
        .and_then(|symbol| symbol.demangle(&options).ok());
    name_only.unwrap_or_else(|| name.to_owned())
}

/// The object's file, open for reading.
pub fn file(object: &Object) -> Option<File> {
    let file = File::open(object.path.as_ref()?).ok()?;
    // Nothing else is safe to open or to read.
    let metadata = file.metadata().ok().filter(|found| found.is_file())?;
    (metadata.size() != 0).then_some(file)
}

fn of_file(object: &Object, wanted: u64) -> Option<(String, u64)> {
    let cache = ReadCache::new(file(object)?);
    let parsed = object::File::parse(&cache).ok()?;
    let mut symbols = parsed.symbols().chain(parsed.dynamic_symbols());
    let symbol = symbols.find(|symbol| {
        symbol.kind() == SymbolKind::Text
            && (symbol.address()..symbol.address() + symbol.size()).contains(&wanted)
    })?;
    Some((symbol.name().ok()?.to_owned(), symbol.address()))
}

/// The name of an object's file; of a program without one after a restart, a description.
pub fn file_name(object: &Object) -> String {
    let of_path = object.path.as_ref().and_then(|path| path.file_name());
    let of_path = of_path.map(|name| name.to_string_lossy().into_owned());
    let name = of_path.or_else(|| soname(object));
    name.unwrap_or_else(|| "the program".to_owned())
}

/// The SONAME of an object.
fn soname(object: &Object) -> Option<String> {
    let offset = dynamic_entry(object, DT_SONAME)?;
    text(dynamic_address(object, DT_STRTAB)? + offset)
}

fn of_memory(object: &Object, wanted: u64) -> Option<(String, u64)> {
    let symbols = dynamic_address(object, DT_SYMTAB)?;
    let names = dynamic_address(object, DT_STRTAB)?;
    let count = symbol_count(dynamic_address(object, DT_GNU_HASH)?)?;
    let table = memory::bytes(symbols, symbols + count.min(MOST_SYMBOLS) * SYMBOL)?;
    table.chunks_exact(SYMBOL as usize).find_map(|symbol| {
        let word = |at: usize| {
            symbol
                .get(at..at + 8)?
                .try_into()
                .ok()
                .map(u64::from_ne_bytes)
        };
        let (name, kind) = (word(0)? as u32, SymbolType(symbol.get(4)? & 0xf));
        let (begin, size) = (word(8)?, word(16)?);
        let covers =
            matches!(kind, STT_FUNC | STT_GNU_IFUNC) && (begin..begin + size).contains(&wanted);
        covers
            .then(|| text(names + u64::from(name)))
            .flatten()
            .map(|name| (name, begin))
    })
}

/// The number of symbols that a GNU hash table describes: the last one of the longest chain.
fn symbol_count(table: u64) -> Option<u64> {
    let half = |at: u64| {
        let mut bytes = [0; 4];
        memory::read(at, &mut bytes).then(|| u64::from(u32::from_ne_bytes(bytes)))
    };
    let (buckets, first, bloom) = (half(table)?, half(table + 4)?, half(table + 8)?);
    let bucket = table + 16 + 8 * bloom;
    let all = memory::bytes(bucket, bucket + 4 * buckets.min(MOST_SYMBOLS))?;
    let halves = all.chunks_exact(4).filter_map(|half| half.try_into().ok());
    let mut last = halves
        .map(|half| u64::from(u32::from_ne_bytes(half)))
        .max()?;
    if last < first {
        return Some(first);
    }
    let chains = bucket + 4 * buckets;
    // The lowest bit marks the end of a chain.
    while half(chains + 4 * (last - first))? & 1 == 0 && last < MOST_SYMBOLS {
        last += 1;
    }
    Some(last + 1)
}

/// The address in an entry of the dynamic section. The dynamic linker has added the bias to some of them.
fn dynamic_address(object: &Object, tag: DynamicTag) -> Option<u64> {
    let value = dynamic_entry(object, tag)?;
    match object.covers(value) {
        true => Some(value),
        false => Some(value.wrapping_add(object.bias)),
    }
}

fn dynamic_entry(object: &Object, tag: DynamicTag) -> Option<u64> {
    let mut entries = object.dynamic.clone()?.step_by(16);
    entries.find_map(|at| {
        (read_word(at)? as i64 == tag.0)
            .then(|| read_word(at + 8))
            .flatten()
    })
}

fn text(address: u64) -> Option<String> {
    let mut bytes = [0; LONGEST];
    // The end of a table may be near the end of its mapping.
    let length = (1..=LONGEST).rev().find(|length| {
        matches!(*length, LONGEST | 64 | 16 | 4) && memory::read(address, &mut bytes[..*length])
    })?;
    let end = bytes[..length].iter().position(|byte| *byte == 0)?;
    String::from_utf8(bytes[..end].to_vec()).ok()
}
