//! The manifest, which makes a directory of images a checkpoint. It is JSON, covered by its own digest. If
//! the job has a key, a seal covers it too.

use std::io::{self, IoSlice, Read};
use std::path::{Path, PathBuf};

use job_spec::ForCpu;
use serde::{Deserialize, Serialize};

use crate::error::{Damage, ImageError, Result};
use crate::format::bytes::{hex, unhex};
use crate::format::ids::KeyId;
use crate::format::ids::SetId;
use crate::fs::file_system::FileSystem;
use crate::fs::permissions;
use crate::set::lineage::Lineage;
use crate::set::seal::SealKey;
use crate::write::writer::ImageSummary;

/// Limit of a manifest's length in bytes: more than 100,000 ranks.
const MAX_BYTES: u64 = 64 << 20;
const SCHEMA_VERSION: u32 = 1;
/// Start of the last member, which holds the digest of all bytes before it.
const DIGEST_MEMBER: &str = "  \"blake3\": \"";
const DIGEST_END: &str = "\"\n}\n";
/// Starts of the two preceding members of a sealed set: the key's id, and the seal of all bytes before.
/// They begin a line, and no text within the JSON can look like them, because its quotes are escaped.
const KEY_MEMBER: &str = "  \"key\": \"";
const SEAL_MEMBER: &str = "  \"seal\": \"";
const MEMBER_END: &str = "\",\n";

/// Entry of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankEntry {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Machine of the rank.
    pub host: String,
    /// Summary of the rank's image.
    #[serde(flatten)]
    pub image: ImageSummary,
    /// Local path on that machine where the image is until it is drained (`local_storage.rs`). Absent if it was
    /// written to its set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<PathBuf>,
    /// Copy at a partner of an image that was written to a local directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<PartnerCopy>,
}

/// A copy of an image, in the local directory of another machine, until the image is in its set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartnerCopy {
    /// Machine of the copy.
    pub host: String,
    /// Path of the copy there.
    pub path: PathBuf,
}

impl RankEntry {
    /// Machines and paths where the image may be while it is not in its set.
    pub fn elsewhere(&self) -> impl Iterator<Item = (&str, &Path)> {
        let local = self.local.as_deref().map(|path| (&*self.host, path));
        let copy = self.copy.as_ref().map(|copy| (&*copy.host, &*copy.path));
        local.into_iter().chain(copy)
    }
}

/// Parent set of an increment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentSet {
    /// Name of the parent set, in the same directory.
    pub set: String,
    /// Id of the parent set.
    pub set_id: SetId,
}

/// Content of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this file's layout; set by the write.
    pub schema_version: u32,
    /// Id in all images of the set.
    pub set_id: SetId,
    /// Parent set of an increment; absent for a full set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub increment_of: Option<ParentSet>,
    /// Time of the request for the checkpoint, in seconds since 1970.
    pub created: u64,
    /// Time in microseconds for which the job stood still. It is displayed. Absent in sets of older versions, and in
    /// those that were written after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_micros: Option<u64>,
    /// Time in microseconds from the request until this was written, shortly before the set was committed. It is
    /// displayed. Absent as `pause_micros` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_micros: Option<u64>,
    /// Number of restarts of the job.
    pub epoch: u64,
    /// Number of ranks of the job.
    pub world_size: u32,
    /// MPI ABI that the program was compiled against.
    pub abi: String,
    /// MPI library of the job. It is displayed, and a restart without a launcher takes the lower half of this library.
    pub library: String,
    /// Thread level of MPI in the job, as a value of the standard ABI. A rank that must initialise MPI before it can
    /// read its image uses this level. Absent if MPI was not initialised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_level: Option<i32>,
    /// Version of the contract between the halves.
    pub contract_version: u32,
    /// Version of Stasis that wrote the set. It is displayed only: `contract_version` decides who can restart the set.
    /// Absent in sets of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stasis_version: Option<String>,
    /// The program and its arguments. They are displayed. In a set without a lineage, `launch --resume` also compares
    /// them with its command line.
    pub command: Vec<String>,
    /// Lineage of the run that wrote the set. Absent in sets of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
    /// Incarnation of the job that wrote the set, if `stasis run` had started it. It is for readers of the file: no
    /// command uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<u32>,
    /// The lesser processor that the program sees, if `launch --for-cpu` hides the rest of it. A restart shows the
    /// same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_cpu: Option<ForCpu>,
    /// One entry per rank, in order.
    pub ranks: Vec<RankEntry>,
}

impl Manifest {
    /// The lineage of a run that continues from the set.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    pub fn continued(&self) -> io::Result<Lineage> {
        let Some(older) = &self.lineage else {
            return Lineage::begin(self.command.clone());
        };
        Ok(Lineage {
            run: SetId::random()?,
            continues: [&older.continues[..], &[older.run]].concat(),
            launched: older.launched.clone(),
        })
    }

    /// Whether this run, or a run that it continues, has written the set.
    pub fn is_made_by(&self, run: &Lineage) -> bool {
        let made = |by: &Lineage| by.run == run.run || run.continues.contains(&by.run);
        self.lineage.as_ref().is_some_and(made)
    }

    /// Writes the manifest durably, sealed if there is a key.
    pub(crate) fn write(&self, fs: &FileSystem, path: &Path, key: Option<&SealKey>) -> Result<()> {
        let text = self
            .encode(key)
            .map_err(|what| ImageError::damaged(path, None, Damage::Manifest(what)))?;
        let file = fs
            .create(path)
            .map_err(|e| ImageError::io("create", path, e))?;
        file.write_at(&mut [IoSlice::new(text.as_bytes())], 0)
            .and_then(|()| file.sync())
            .map_err(|e| ImageError::io("write", path, e))
    }

    /// Reads and checks a manifest. With a key, it must be sealed with it; without a key, it must not be
    /// sealed. Returns the id of the key.
    pub(crate) fn read(path: &Path, key: Option<&SealKey>) -> Result<(Manifest, Option<KeyId>)> {
        let mut text = String::new();
        permissions::open(path)?
            .take(MAX_BYTES + 1)
            .read_to_string(&mut text)
            .map_err(|e| match e.kind() {
                std::io::ErrorKind::InvalidData => {
                    ImageError::damaged(path, None, Damage::ManifestDigest)
                }
                _ => ImageError::io("read", path, e),
            })?;
        let damaged = |damage| ImageError::damaged(path, None, damage);
        let body = undamaged(&text).map_err(damaged)?;
        let sealed = check_seal(path, body, key)?;
        let manifest = Manifest::decode(&text).map_err(damaged)?;
        Ok((manifest, sealed))
    }

    fn encode(&self, key: Option<&SealKey>) -> std::result::Result<String, String> {
        let versioned = Manifest {
            schema_version: SCHEMA_VERSION,
            ..self.clone()
        };
        versioned.check()?;
        let text = serde_json::to_string_pretty(&versioned).map_err(|e| e.to_string())?;
        let body = text.trim_end().trim_end_matches('}').trim_end();
        let mut body = format!("{body},\n");
        if let Some(key) = key {
            body += &format!("{KEY_MEMBER}{}{MEMBER_END}", key.id());
            let seal = hex(key.seal(body.as_bytes()).as_bytes());
            body += &format!("{SEAL_MEMBER}{seal}{MEMBER_END}");
        }
        let digest = blake3::hash(body.as_bytes());
        Ok(format!(
            "{body}{DIGEST_MEMBER}{}{DIGEST_END}",
            hex(digest.as_bytes())
        ))
    }

    fn decode(text: &str) -> std::result::Result<Manifest, Damage> {
        let unreadable = |e: serde_json::Error| Damage::Manifest(e.to_string());
        // The version comes first: another version may have other members.
        #[derive(Deserialize)]
        struct Version {
            schema_version: u32,
        }
        let Version { schema_version } = serde_json::from_str(text).map_err(unreadable)?;
        if schema_version != SCHEMA_VERSION {
            return Err(Damage::Manifest(format!(
                "it has schema version {schema_version}, this build reads {SCHEMA_VERSION}"
            )));
        }
        let manifest: Manifest = serde_json::from_str(text).map_err(unreadable)?;
        manifest.check().map_err(Damage::Manifest)?;
        Ok(manifest)
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.ranks.len() != self.world_size as usize || self.ranks.is_empty() {
            return Err(format!(
                "it lists {} ranks of {}",
                self.ranks.len(),
                self.world_size
            ));
        }
        match self
            .ranks
            .iter()
            .zip(0..)
            .find(|(entry, rank)| entry.rank != *rank)
        {
            Some((_, rank)) => Err(format!("rank {rank} is not in its place")),
            None => Ok(()),
        }
    }
}

/// The text before the digest, if the digest matches.
fn undamaged(text: &str) -> std::result::Result<&str, Damage> {
    let (body, digest) = text
        .rsplit_once(DIGEST_MEMBER)
        .ok_or(Damage::ManifestDigest)?;
    let digest: Option<[u8; 32]> = digest.strip_suffix(DIGEST_END).and_then(unhex);
    match digest == Some(*blake3::hash(body.as_bytes()).as_bytes()) {
        true => Ok(body),
        false => Err(Damage::ManifestDigest),
    }
}

/// Checks the seal, or its absence, and returns the id of the key.
fn check_seal(path: &Path, body: &str, key: Option<&SealKey>) -> Result<Option<KeyId>> {
    let path = path.to_owned();
    let (sealed, seal) = match (body.rsplit_once(SEAL_MEMBER), key) {
        (Some(sealed_and_seal), _) => sealed_and_seal,
        (None, None) => return Ok(None),
        (None, Some(key)) => {
            let given = key.id();
            return Err(ImageError::NotSealed { path, given });
        }
    };
    let named = sealed.rsplit_once(KEY_MEMBER).map(|(_, id)| id);
    let named = named.and_then(|id| KeyId::parse(id.strip_suffix(MEMBER_END)?));
    let seal: Option<[u8; 32]> = seal.strip_suffix(MEMBER_END).and_then(unhex);
    let (Some(named), Some(seal)) = (named, seal) else {
        return Err(ImageError::BrokenSeal { path });
    };
    let key = match key {
        None => return Err(ImageError::KeyWanted { path, key: named }),
        Some(key) if key.id() != named => {
            return Err(ImageError::OtherKey {
                path,
                key: named,
                given: key.id(),
            })
        }
        Some(key) => key,
    };
    match key.seal(sealed.as_bytes()) == seal {
        true => Ok(Some(named)),
        false => Err(ImageError::BrokenSeal { path }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let entry = |rank| RankEntry {
            rank,
            host: "node".into(),
            image: ImageSummary {
                bytes: 9,
                memory_bytes: 8,
                digest: hex(&[7; 32]),
            },
            local: None,
            copy: None,
        };
        Manifest {
            schema_version: 1,
            set_id: SetId([1; 16]),
            increment_of: None,
            created: 1_700_000_000,
            pause_micros: None,
            total_micros: None,
            epoch: 2,
            world_size: 2,
            abi: "openmpi".into(),
            library: "MPICH 4.0.2".into(),
            thread_level: None,
            contract_version: 1,
            stasis_version: Some("0.1.0".into()),
            command: vec!["./a \"b\"".into(), "{}".into()],
            lineage: None,
            incarnation: None,
            for_cpu: None,
            ranks: vec![entry(0), entry(1)],
        }
    }

    fn decode(text: &str) -> std::result::Result<Manifest, Damage> {
        undamaged(text).and_then(|_| Manifest::decode(text))
    }

    #[test]
    fn a_manifest_round_trips_and_is_json() {
        let text = manifest().encode(None).unwrap();
        assert_eq!(decode(&text).unwrap(), manifest());
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["ranks"][1]["bytes"], 9);
        assert_eq!(json["blake3"].as_str().unwrap().len(), 64);
    }

    #[test]
    fn an_increment_names_its_parent() {
        let increment = Manifest {
            increment_of: Some(ParentSet {
                set: "ckpt-3".into(),
                set_id: SetId([9; 16]),
            }),
            ..manifest()
        };
        let text = increment.encode(None).unwrap();
        assert_eq!(decode(&text).unwrap(), increment);
        let full = manifest().encode(None).unwrap();
        assert!(!full.contains("increment_of"));
    }

    #[test]
    fn a_local_image_is_found_by_its_host_and_path() {
        let mut local = manifest();
        local.ranks[1].local = Some("/scratch/rank-1.img".into());
        let text = local.encode(None).unwrap();
        assert_eq!(decode(&text).unwrap(), local);
        assert_eq!(text.matches("\"local\"").count(), 1);
        assert!(!text.contains("\"copy\""));
        local.ranks[1].copy = Some(PartnerCopy {
            host: "node2".into(),
            path: "/copies/rank-1.img".into(),
        });
        let text = local.encode(None).unwrap();
        assert_eq!(decode(&text).unwrap(), local);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let good = manifest().encode(None).unwrap().into_bytes();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                if let Ok(text) = String::from_utf8(bad) {
                    assert!(decode(&text).is_err(), "byte {at}, bit {bit}");
                }
            }
        }
    }

    #[test]
    fn every_truncation_is_found() {
        let good = manifest().encode(None).unwrap();
        assert!((0..good.len()).all(|len| decode(&good[..len]).is_err()));
    }

    #[test]
    fn ranks_must_be_complete() {
        let mut short = manifest();
        short.ranks.pop();
        assert!(short.encode(None).is_err());
        let mut twice = manifest();
        twice.ranks[1].rank = 0;
        assert!(twice.encode(None).is_err());
    }
}
