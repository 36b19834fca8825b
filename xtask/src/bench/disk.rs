//! Speed of a directory without Stasis: `fio` writes as many bytes as the ranks' images, in as many processes, and
//! syncs them. Space is allocated within the measured time, as for an image. By default fio allocates it before, which
//! in memory is most of the work. It writes the same MiB repeatedly, from the processor's cache.

use super::{median, LIMIT};
use crate::harness::job;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

const RUNS: usize = 3;

/// Bytes per second of all writers together, sync included: the median of several runs.
pub fn write_rate(place: &Path, scratch: &Path, writers: usize, mib: usize) -> Result<f64> {
    let rates = (0..RUNS).map(|_| written(place, scratch, writers, mib));
    Ok(median(rates.collect::<Result<_>>()?))
}

fn written(place: &Path, scratch: &Path, writers: usize, mib: usize) -> Result<f64> {
    let files = place.join("fio");
    fs::create_dir_all(&files)?;
    let mut fio = Command::new("fio");
    fio.args(["--name=images", "--rw=write", "--bs=1M", "--ioengine=psync"]);
    fio.args([
        "--fallocate=none",
        "--end_fsync=1",
        "--group_reporting",
        "--output-format=json",
    ]);
    fio.arg(format!("--directory={}", files.display()));
    fio.arg(format!("--size={mib}M"));
    fio.arg(format!("--numjobs={writers}"));
    let finished = job::run(fio, scratch, "fio", LIMIT)?.expect_success("fio");
    fs::remove_dir_all(&files)?;
    let report: serde_json::Value =
        serde_json::from_str(&finished?.stdout).context("reading what fio printed")?;
    let rate = report["jobs"][0]["write"]["bw_bytes"].as_f64();
    rate.context("fio tells no rate")
}
