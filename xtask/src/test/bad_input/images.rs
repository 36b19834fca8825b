//! Checkpoints that are damaged, of another set, or sealed with another key.

use super::damaged_set::{
    copy_of_set, damage_manifest, flip, flip_at, newest_set, no_manifest, open_image, restart,
    swap, truncate,
};
use super::{case, LIMIT};
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::held_job::{example, start_by, start_held, take_checkpoint, RANKS};
use crate::test::support::refusal::{refused, IMAGE, USAGE};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Damage to a complete set, and words of the message about it.
type Damage = (
    &'static str,
    fn(&Path) -> Result<()>,
    &'static [&'static [&'static str]],
);

const DAMAGES: &[Damage] = &[
    (
        "missing-rank",
        |set| Ok(fs::remove_file(set.join("rank-1.img"))?),
        &[&["rank 1"], &["missing"]],
    ),
    (
        "truncated",
        truncate,
        &[&["rank 1", "rank-1"], &["bytes long", "truncated"]],
    ),
    (
        "flipped-byte-in-memory",
        |set| flip_at(set, 4096 + 8),
        &[&["rank 1", "rank-1"], &["checksum", "digest"]],
    ),
    (
        "flipped-byte-in-the-middle",
        |set| flip(set, 0.6),
        &[&["rank 1", "rank-1"]],
    ),
    (
        "flipped-byte-in-header",
        |set| flip_at(set, 0),
        &[
            &["rank 1", "rank-1"],
            &["checksum", "not a Stasis image", "digest"],
        ],
    ),
    (
        "flipped-byte-at-end",
        |set| flip(set, 1.0),
        &[&["rank 1", "rank-1"], &["checksum", "digest", "trailer"]],
    ),
    (
        "empty-image",
        |set| Ok(fs::write(set.join("rank-1.img"), "")?),
        &[&["rank 1", "rank-1"]],
    ),
    (
        "swapped-ranks",
        swap,
        &[&["rank"], &["swapped", "holds", "digest"]],
    ),
    ("no-manifest", no_manifest, &[&["manifest", "whole"]]),
    ("damaged-manifest", damage_manifest, &[&["manifest"]]),
    (
        "readable-by-others-to-write",
        open_image,
        &[&["rank-1"], &["write", "safe"]],
    ),
];

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = DAMAGES
        .iter()
        .map(|(name, damage, words)| {
            case(&format!("image-{name}"), move |dir| {
                let ckpt = copy_of_set(dir)?;
                damage(&newest_set(&ckpt)?)?;
                let restarted = restart(dir, &ckpt, RANKS)?;
                refused(&restarted, IMAGE, words).context("restart")?;
                ensure!(
                    !restarted.stderr.contains("continuing"),
                    "it is said to be continued before it is verified"
                );
                refused(&stasis::verify(&ckpt, dir, LIMIT)?, IMAGE, words).context("verify")
            })
        })
        .collect();
    cases.push(case("image-that-keeps-failing", keeps_failing));
    cases.push(case("seal", seal));
    cases.push(case("image-of-another-set", |dir| {
        let ckpt = copy_of_set(dir)?;
        let other = dir.join("other");
        fs::create_dir(&other)?;
        let mut job = start_held(&other, &other.join("ck"), Mpi::OpenMpi)?;
        take_checkpoint(&mut job, &other, &other.join("ck"))?;
        let from = newest_set(&other.join("ck"))?.join("rank-1.img");
        fs::copy(from, newest_set(&ckpt)?.join("rank-1.img"))?;
        let words: &[&[&str]] = &[&["rank 1", "rank-1"], &["another set", "set id", "digest"]];
        refused(&restart(dir, &ckpt, RANKS)?, IMAGE, words).context("restart")?;
        refused(&stasis::verify(&ckpt, dir, LIMIT)?, IMAGE, words).context("verify")
    }));
    cases
}

/// A set from which three restarts have failed is used only if it is named. A successful restart resets the count.
fn keeps_failing(dir: &Path) -> Result<()> {
    let ckpt = copy_of_set(dir)?;
    let set = newest_set(&ckpt)?;
    let attempts = set.join("attempts");
    fs::write(&attempts, "3")?;
    refused(
        &restart(dir, &ckpt, RANKS)?,
        IMAGE,
        &[&["3 restarts"], &["--set ckpt-1"]],
    )?;
    let mut command = stasis::restart(Mpi::OpenMpi, RANKS, &ckpt, dir);
    command.args(["--set", "ckpt-1"]);
    let mut job = Job::start(command, dir, "named")?;
    let back = job.until(
        "it was noted that the job is back",
        Instant::now() + LIMIT,
        || !attempts.exists(),
    );
    job.explain(back, dir)?;
    job.kill()
}

/// Sealed sets are accepted with their key alone. A change that keeps all checksums is detected.
fn seal(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let key = |name: &str, mode: u32| -> Result<PathBuf> {
        let path = dir.join(name);
        fs::write(&path, name.repeat(8))?;
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        Ok(path)
    };
    let (ours, other, open) = (
        key("ours", 0o600)?,
        key("other", 0o600)?,
        key("open", 0o640)?,
    );

    let mut command = stasis::launch(Mpi::OpenMpi, RANKS, &ckpt, dir);
    command.arg("--key-file").arg(&open).arg("/bin/true");
    let readable: &[&[&str]] = &[&["key file"], &["others can read"], &["chmod 600"]];
    refused(&job::run(command, dir, "open", LIMIT)?, USAGE, readable)?;

    let held = example("probes", "probes/peers.p10_pending_irecv")?;
    let mut command = stasis::launch(Mpi::OpenMpi, RANKS, &ckpt, dir);
    command.arg("--key-file").arg(&ours);
    let mut job = start_by(command, &held, dir, Mpi::OpenMpi)?;
    for name in ["first", "second"] {
        job::run(stasis::checkpoint(&ckpt), dir, name, LIMIT)?.expect_success("checkpoint")?;
    }
    job.kill()?;
    let image = ckpt.join("ckpt-2/rank-1.img");
    let sound = fs::read(&image)?;
    let mut forged = sound.clone();
    // A multiple of CRC-32's polynomial: the checksum does not change.
    let polynomial = (1 | 0xedb8_8320_u64 << 1).to_le_bytes();
    for (byte, add) in forged[4096..].iter_mut().zip(&polynomial[..5]) {
        *byte ^= add;
    }
    fs::write(&image, forged)?;
    let again = |key: Option<&Path>, set: &str, name: &str| {
        let mut command = stasis::restart(Mpi::OpenMpi, RANKS, &ckpt.join(set), dir);
        command.env("STASIS_TEST_GO", dir.join("go"));
        if let Some(key) = key {
            command.env("STASIS_KEY_FILE", key);
        }
        job::run(command, dir, name, LIMIT)
    };
    let changed: &[&[&str]] = &[&["rank-1"], &["does not match its digest"], &["ck/ckpt-1"]];
    refused(&again(Some(&ours), "ckpt-2", "changed")?, IMAGE, changed)?;
    fs::write(&image, sound)?;
    let wanted: &[&[&str]] = &[&["ckpt-2"], &["is sealed with key"], &["--key-file"]];
    refused(&again(None, "ckpt-2", "wanted")?, IMAGE, wanted)?;
    refused(&stasis::verify(&ckpt, dir, LIMIT)?, IMAGE, wanted)?;
    let wrong: &[&[&str]] = &[&["ckpt-2"], &["not with the key that was given"]];
    refused(&again(Some(&other), "ckpt-2", "wrong")?, IMAGE, wrong)?;
    fs::write(dir.join("go"), "")?;
    again(Some(&ours), "", "right")?.expect_success("a restart with the key")?;
    Ok(())
}
