//! `stasis list`: the checkpoints of a directory.

use std::path::PathBuf;

use ckpt_image::{archives, image_file, list_sets, ImageError, SealKey, SetInfo, SetState};
use coordinator::protocol::Level;
use serde_json::json;

use crate::args::{directory_and_set, Inspect, List};
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::{json, text};

/// The sets of a directory, or the named set.
pub fn find(options: &Inspect, key: Option<&SealKey>) -> exit::Result<(PathBuf, Vec<SetInfo>)> {
    let (directory, named) = directory_and_set(&options.directory()?);
    let mut sets = list_sets(&directory, key).code(Code::Image)?;
    if let Some(name) = named {
        sets.retain(|set| set.name == name);
        if sets.is_empty() {
            return Err(ImageError::NoSuchSet {
                dir: directory,
                name,
            })
            .code(Code::Image);
        }
    }
    Ok((directory, sets))
}

fn state(set: &SetInfo) -> (&'static str, Option<&str>) {
    match &set.state {
        SetState::Whole => ("whole", None),
        SetState::Unfinished => ("unfinished", None),
        SetState::Unusable(why) => ("unusable", Some(why)),
    }
}

/// Runs the command.
pub fn run(options: &List) -> exit::Result<()> {
    let key = options.of.key.read().code(Code::Usage)?;
    let (directory, sets) = find(&options.of, key.as_ref())?;
    if options.of.json {
        let rows: Vec<_> = sets.iter().map(to_json).collect();
        json::print(json!({ "checkpoints": rows }));
        return Ok(());
    }
    if sets.is_empty() {
        say!("there is no checkpoint in {}", directory.display());
    }
    for archived in archives(&directory).code(Code::Image)? {
        say!("older ones are in {}", archived.display());
    }
    for set in &sets {
        print(set);
        if options.long {
            print_more(set);
        }
    }
    Ok(())
}

fn print(set: &SetInfo) {
    let (word, why) = state(set);
    let word = match set.state {
        SetState::Unusable(_) => text::bad(&format!("{word:10}")),
        _ => format!("{word:10}"),
    };
    match &set.manifest {
        Some(m) => say!(
            "{:10} {word} {:>10}  {}  {}  {}  {}",
            set.name,
            text::bytes(set.bytes()),
            text::ranks(m.world_size),
            text::when(m.created),
            text::library(&m.library),
            m.command.join(" ")
        ),
        None => say!("{:10} {word}", set.name),
    }
    if let Some(why) = why {
        say!("           {why}");
    }
    if let Some(parent) = set.parent() {
        say!("           increment of {parent}");
    }
    for entry in &set.undrained {
        let places = entry
            .elsewhere()
            .map(|(host, path)| format!("on {host}, {}", path.display()));
        let places: Vec<String> = places.collect();
        let places = places.join("; a copy ");
        say!("           not drained yet: rank {} {places}", entry.rank);
    }
    if let Some(key) = set.sealed {
        say!("           sealed with key {key}");
    }
    if set.attempts > 0 {
        let failed = text::restarts(u64::from(set.attempts));
        say!("           failed so far: {failed} from it");
    }
}

/// The lines of `--long`.
fn print_more(set: &SetInfo) {
    let Some(m) = &set.manifest else { return };
    let by = m.stasis_version.as_deref().unwrap_or("an older version");
    say!(
        "           taken by Stasis {by}, after {}; its MPI ABI is that of {}",
        text::restarts(m.epoch),
        m.abi
    );
    if let (Some(pause), Some(total)) = (m.pause_micros, m.total_micros) {
        say!(
            "           the job stood still for {}, all took {}",
            text::duration(pause),
            text::duration(total)
        );
    }
    for entry in &m.ranks {
        say!(
            "           rank {}: {} of {}, on {}",
            entry.rank,
            text::bytes(entry.image.bytes),
            image_file(entry.rank),
            entry.host
        );
    }
}

fn to_json(set: &SetInfo) -> serde_json::Value {
    let (word, why) = state(set);
    let manifest = set.manifest.as_ref();
    let level = Level::of(set.undrained.iter().map(|entry| entry.copy.is_some()));
    json!({
        "name": set.name,
        "number": set.number,
        "state": word,
        "why": why,
        "bytes": set.bytes(),
        "increment_of": set.parent(),
        "level": level.word(),
        "failed_restarts": set.attempts,
        "sealed_with": set.sealed.map(|key| key.to_string()),
        "ranks": manifest.map(|m| m.world_size),
        "created": manifest.map(|m| m.created),
        "pause_seconds": manifest.and_then(|m| m.pause_micros).map(json::seconds),
        "total_seconds": manifest.and_then(|m| m.total_micros).map(json::seconds),
        "restarts": manifest.map(|m| m.epoch),
        "abi": manifest.map(|m| &m.abi),
        "library": manifest.map(|m| &m.library),
        "command": manifest.map(|m| &m.command),
    })
}
