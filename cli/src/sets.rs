//! `stasis list` and `stasis verify`: what is on disk.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use ckpt_image::{
    list_sets, put_aside_before, ImageError, Key, Set, SetInfo, SetState, LONGEST_CHAIN,
};
use coordinator::protocol::Level;
use progress::{Bytes, TICK};
use restart::{RestartError, Sections};
use serde_json::json;

use crate::arguments::{directory_and_set, Inspect};
use crate::checkpoint;
use crate::exit::{self, Code, WithCode};
use crate::{json, text};

/// The sets of a directory, or the one that was named.
fn find(options: &Inspect, key: Option<&Key>) -> exit::Result<(PathBuf, Vec<SetInfo>)> {
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
    for aside in put_aside_before(&directory).code(Code::Image)? {
        say!("older ones are in {}", aside.display());
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

/// What is said of a set that went while it was read.
const REMOVED: &str = "removed meanwhile, as one that is too old or by hand";

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
    let results: Vec<(String, u64, Verdict)> =
        shown.during(TICK, |_| (), || finished.iter().map(verify).collect());
    drop(shown);
    if options.json {
        let row = |(name, bytes, verdict): &(String, u64, Verdict)| {
            let (sound, why) = match verdict {
                Verdict::Sound => (Some(true), None),
                Verdict::Removed => (None, Some(REMOVED.to_owned())),
                Verdict::Bad(why) => (Some(false), Some(why.to_string())),
            };
            json!({ "name": name, "bytes": bytes, "sound": sound, "why": why })
        };
        let rows: Vec<_> = results.iter().map(row).collect();
        json::print(json!({ "checkpoints": rows }));
    }
    let mut bad = Vec::new();
    for (name, bytes, verdict) in results {
        match verdict {
            Verdict::Bad(why) => bad.push(format!("{name}: {why}")),
            _ if options.json => {}
            Verdict::Sound => say!("{name}: sound ({})", text::bytes(bytes)),
            Verdict::Removed => say!("{name}: {REMOVED}"),
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

fn sound(directory: &Path, name: &str, key: Option<&Key>, shown: &Bytes) -> Verdict {
    let read = || {
        let set = Set::open(directory, name, key)?.counting(shown.counter());
        let ranks = set.manifest().world_size;
        (0..ranks).try_for_each(|rank| {
            shown.at(format!("{name}, rank {rank} of {ranks}"));
            Sections::of(&set.image(rank, None)?).map(drop)
        })
    };
    match read() {
        Ok(()) => Verdict::Sound,
        // By the job that runs: newer ones have taken its place.
        Err(_) if !directory.join(name).exists() => Verdict::Removed,
        Err(why) => Verdict::Bad(why),
    }
}

/// What becomes of a set that is read to the last byte.
enum Verdict {
    Sound,
    /// It went meanwhile.
    Removed,
    Bad(RestartError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_image::{
        image_file, kind, Compression, Disk, Header, ImageWriter, Lineage, Manifest, RankEntry,
        SetWriter,
    };

    /// A set with an image whose section of the process holds these bytes; all its checksums are right.
    fn set_with(dir: &Path, process: &[u8]) {
        let writer = SetWriter::begin(&Disk::default(), dir, 1).unwrap();
        let header = Header {
            set_id: writer.set_id(),
            epoch: 0,
            rank: 0,
            world_size: 1,
            contract_version: 1,
            page_size: 4096,
            abi: "mpich".into(),
            created_ns: 1,
        };
        let path = writer.path().join(image_file(0));
        let mut image =
            ImageWriter::create(&Disk::default(), &path, header, Compression::Off).unwrap();
        image.section(kind::PROCESS, 2, process.to_vec());
        let image = image.finish().unwrap();
        let manifest = Manifest {
            schema_version: 1,
            set_id: writer.set_id(),
            increment_of: None,
            created: 1,
            epoch: 0,
            world_size: 1,
            abi: "mpich".into(),
            library: "test".into(),
            thread_level: None,
            contract_version: 1,
            stasis_version: None,
            command: vec!["./app".into()],
            lineage: Some(Lineage::begin(vec!["./app".into()]).unwrap()),
            ranks: vec![RankEntry {
                rank: 0,
                host: "here".into(),
                image,
                local: None,
                copy: None,
            }],
        };
        writer.commit(&manifest, None).unwrap();
    }

    #[test]
    fn an_image_whose_sections_cannot_be_decoded_is_not_sound() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("ck");
        set_with(&dir, &[0xff; 40]);
        let shown = Bytes::new(0);
        let Verdict::Bad(why) = sound(&dir, "ckpt-1", None, &shown) else {
            panic!("it is sound")
        };
        let why = why.to_string();
        assert!(
            why.contains("rank 0") && why.contains("section process"),
            "{why}"
        );
    }

    #[test]
    fn a_set_that_goes_while_it_is_read_is_not_bad() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("ck");
        set_with(&dir, &[]);
        std::fs::remove_dir_all(dir.join("ckpt-1")).unwrap();
        let gone = sound(&dir, "ckpt-1", None, &Bytes::new(0));
        assert!(matches!(gone, Verdict::Removed));
    }
}
