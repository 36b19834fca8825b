//! `stasis list` and `stasis verify`: what is on disk.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use ckpt_image::{list_sets, ImageError, Key, Set, SetInfo, SetState, LONGEST_CHAIN};
use coordinator::protocol::Level;
use progress::{Bytes, TICK};
use serde_json::json;

use crate::arguments::{directory_and_set, Inspect};
use crate::checkpoint;
use crate::exit::{self, Code, WithCode};
use crate::{json, text};

/// The sets of a directory, or the one that was named.
fn find(options: &Inspect, key: Option<&Key>) -> exit::Result<(PathBuf, Vec<SetInfo>)> {
    let (directory, named) = directory_and_set(&options.directory);
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

/// Runs `stasis list`.
pub fn list(options: &Inspect) -> exit::Result<()> {
    let key = options.key.read().code(Code::Usage)?;
    let (directory, sets) = find(options, key.as_ref())?;
    if options.json {
        let rows: Vec<_> = sets.iter().map(to_json).collect();
        json::print(json!({ "checkpoints": rows }));
        return Ok(());
    }
    if sets.is_empty() {
        say!("there is no checkpoint in {}", directory.display());
    }
    for set in &sets {
        let (word, why) = state(set);
        match &set.manifest {
            Some(m) => say!(
                "{:10} {word:10} {:>10}  {} ranks  {}  {}  {}",
                set.name,
                text::bytes(set.bytes()),
                m.world_size,
                text::ago(m.created),
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
            say!(
                "           {} restarts from it did not come back",
                set.attempts
            );
        }
    }
    Ok(())
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
        "level": checkpoint::word(level),
        "failed_restarts": set.attempts,
        "sealed_with": set.sealed.map(|key| key.to_string()),
        "ranks": manifest.map(|m| m.world_size),
        "created": manifest.map(|m| m.created),
        "restarts": manifest.map(|m| m.epoch),
        "abi": manifest.map(|m| &m.abi),
        "library": manifest.map(|m| &m.library),
        "command": manifest.map(|m| &m.command),
    })
}

/// Runs `stasis verify`: every image of every set that claims to be finished.
pub fn verify(options: &Inspect) -> exit::Result<()> {
    let key = options.key.read().code(Code::Usage)?;
    let (directory, sets) = find(options, key.as_ref())?;
    let finished: Vec<&SetInfo> = sets
        .iter()
        .filter(|set| set.state != SetState::Unfinished)
        .collect();
    let shown = Bytes::new(finished.iter().map(|set| with_parents(set, &sets)).sum());
    let verify = |set: &&SetInfo| {
        let sound = sound(&directory, &set.name, key.as_ref(), &shown);
        (set.name.clone(), set.bytes(), sound)
    };
    let results: Vec<(String, u64, Result<(), ImageError>)> =
        shown.during(TICK, |_| (), || finished.iter().map(verify).collect());
    drop(shown);
    if options.json {
        let row = |(name, bytes, result): &(String, u64, Result<(), ImageError>)| {
            let why = result.as_ref().err().map(ToString::to_string);
            json!({ "name": name, "bytes": bytes, "sound": result.is_ok(), "why": why })
        };
        let rows: Vec<_> = results.iter().map(row).collect();
        json::print(json!({ "checkpoints": rows }));
    }
    let mut bad = Vec::new();
    for (name, bytes, result) in results {
        match result {
            Ok(()) if options.json => {}
            Ok(()) => say!("{name}: sound ({})", text::bytes(bytes)),
            Err(why) => bad.push(format!("{name}: {why}")),
        }
    }
    if !bad.is_empty() {
        return Err(anyhow!("{}", bad.join("\n        "))).code(Code::Image);
    }
    if !sets.iter().any(|set| set.state != SetState::Unfinished) {
        let why = anyhow!(
            "there is no checkpoint to verify in {}",
            directory.display()
        );
        return Err(why).code(Code::Image);
    }
    Ok(())
}

/// The bytes that are read to verify a set, with those of the sets that it builds upon.
fn with_parents(set: &SetInfo, sets: &[SetInfo]) -> u64 {
    let parent = |of: &&SetInfo| sets.iter().find(|other| Some(&*other.name) == of.parent());
    let chain = std::iter::successors(Some(set), |of| parent(of));
    chain.take(LONGEST_CHAIN).map(SetInfo::bytes).sum()
}

fn sound(directory: &Path, name: &str, key: Option<&Key>, shown: &Bytes) -> Result<(), ImageError> {
    let set = Set::open(directory, name, key)?.counting(shown.counter());
    let ranks = set.manifest().world_size;
    (0..ranks).try_for_each(|rank| {
        shown.at(format!("{name}, rank {rank} of {ranks}"));
        set.image(rank, None).map(drop)
    })
}
