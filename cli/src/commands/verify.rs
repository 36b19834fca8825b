//! `stasis verify`: reads and checks every byte of images.

use std::path::Path;

use anyhow::anyhow;
use ckpt_image::{image_file, SealKey, Set, SetInfo, SetState, LONGEST_CHAIN};
use progress::{Bytes, TICK};
use restart::{RestartError, Sections};
use serde_json::json;

use crate::args::{Detail, Verify};
use crate::commands::list::find;
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::{json, text};

/// Message for a set that was removed while it was read.
const REMOVED: &str = "removed meanwhile, as one that is too old or by hand";

/// Runs the command on every image of every finished set.
pub fn run(options: &Verify) -> exit::Result<()> {
    let (of, detail) = (&options.of, &options.detail);
    let key = of.key.read().code(Code::Usage)?;
    let (directory, sets) = find(of, key.as_ref())?;
    let finished: Vec<&SetInfo> = sets
        .iter()
        .filter(|set| set.state != SetState::Unfinished)
        .collect();
    let shown = Bytes::new(finished.iter().map(|set| with_parents(set, &sets)).sum());
    let verify = |set: &&SetInfo| {
        let sound = sound(&directory, &set.name, key.as_ref(), &shown, detail);
        (set.name.clone(), set.bytes(), sound)
    };
    let results: Vec<(String, u64, Verdict)> =
        shown.during(TICK, |_| (), || finished.iter().map(verify).collect());
    drop(shown);
    if of.json {
        let row = |(name, bytes, verdict): &(String, u64, Verdict)| {
            let (sound, why) = match verdict {
                Verdict::Sound => (Some(true), None),
                Verdict::Removed => (None, Some(REMOVED.to_owned())),
                Verdict::Refused(why) => (None, Some(why.to_string())),
                Verdict::Bad(why) => (Some(false), Some(why.to_string())),
            };
            json!({ "name": name, "bytes": bytes, "sound": sound, "why": why })
        };
        let rows: Vec<_> = results.iter().map(row).collect();
        json::print(json!({ "checkpoints": rows }));
    }
    let mut bad = Vec::new();
    for (name, bytes, verdict) in results {
        let word = match verdict {
            Verdict::Refused(_) => "refused",
            _ => "damaged",
        };
        match verdict {
            Verdict::Bad(why) | Verdict::Refused(why) => {
                if !of.json {
                    say!("{name}: {}", text::bad(word));
                }
                bad.push(format!("{name}: {why}"));
            }
            _ if of.json => {}
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

/// Bytes to read for a set, its parents included.
fn with_parents(set: &SetInfo, sets: &[SetInfo]) -> u64 {
    let parent = |of: &&SetInfo| sets.iter().find(|other| Some(&*other.name) == of.parent());
    let chain = std::iter::successors(Some(set), |of| parent(of));
    chain.take(LONGEST_CHAIN).map(SetInfo::bytes).sum()
}

fn sound(
    directory: &Path,
    name: &str,
    key: Option<&SealKey>,
    shown: &Bytes,
    detail: &Detail,
) -> Verdict {
    let read = || {
        let set = Set::open(directory, name, key)?.counting(shown.counter());
        let ranks = set.manifest().world_size;
        (0..ranks).try_for_each(|rank| {
            shown.at(format!("{name}, rank {rank} of {ranks}"));
            let sections = Sections::of(&set.image(rank, None)?);
            let path = set.path().join(image_file(rank));
            let verdict = if sections.is_ok() { "sound" } else { "damaged" };
            shown.beside(|| detail.tell(format_args!("{}: {verdict}", path.display())));
            sections.map(drop)
        })
    };
    match read() {
        Ok(()) => Verdict::Sound,
        // The running job removes sets that newer ones have replaced (`--keep`).
        Err(_) if !directory.join(name).exists() => Verdict::Removed,
        Err(RestartError::Image(why)) if why.is_of_key() => Verdict::Refused(why.into()),
        Err(why) => Verdict::Bad(why),
    }
}

/// Verdict on a checkpoint.
enum Verdict {
    /// Every byte was read.
    Sound,
    /// The set was removed meanwhile.
    Removed,
    /// The set has another key than the reader, or only one of them has one.
    Refused(RestartError),
    Bad(RestartError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_image::{
        kind, Compression, FileSystem, Header, ImageWriter, Lineage, Manifest, RankEntry, SetWriter,
    };

    /// A set with an image whose `process` section holds these bytes. All its checksums are correct.
    fn set_with(dir: &Path, process: &[u8]) {
        let writer = SetWriter::begin(&FileSystem::default(), dir, 1).unwrap();
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
            ImageWriter::create(&FileSystem::default(), &path, header, Compression::Off).unwrap();
        image.section(kind::PROCESS.section(process.to_vec()));
        let image = image.finish().unwrap();
        let manifest = Manifest {
            schema_version: 1,
            set_id: writer.set_id(),
            increment_of: None,
            created: 1,
            pause_micros: None,
            total_micros: None,
            epoch: 0,
            world_size: 1,
            abi: "mpich".into(),
            library: "test".into(),
            thread_level: None,
            contract_version: 1,
            stasis_version: None,
            command: vec!["./app".into()],
            lineage: Some(Lineage::begin(vec!["./app".into()]).unwrap()),
            incarnation: None,
            for_cpu: None,
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
    fn images_with_undecodable_sections_fail() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("ck");
        set_with(&dir, &[0xff; 40]);
        let shown = Bytes::new(0);
        let Verdict::Bad(why) = sound(&dir, "ckpt-1", None, &shown, &Detail::default()) else {
            panic!("it is sound")
        };
        let why = why.to_string();
        assert!(
            why.contains("rank 0") && why.contains("section process"),
            "{why}"
        );
    }

    #[test]
    fn sets_without_the_seal_of_the_key_are_refused() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let (dir, key) = (place.path().join("ck"), place.path().join("key"));
        set_with(&dir, &[]);
        std::fs::write(&key, [7; 32]).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let key = SealKey::read(&key).unwrap();
        let shown = Bytes::new(0);
        let verdict = sound(&dir, "ckpt-1", Some(&key), &shown, &Detail::default());
        assert!(matches!(verdict, Verdict::Refused(_)));
    }

    #[test]
    fn sets_removed_while_read_are_not_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("ck");
        set_with(&dir, &[]);
        std::fs::remove_dir_all(dir.join("ckpt-1")).unwrap();
        let gone = sound(&dir, "ckpt-1", None, &Bytes::new(0), &Detail::default());
        assert!(matches!(gone, Verdict::Removed));
    }
}
