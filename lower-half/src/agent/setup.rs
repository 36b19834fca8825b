//! The agent's settings for this job.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use ckpt_image::{FileSystem, Lineage, Manifest, RankEntry, SealKey, Section, SetId};
use contract::{gate, MpiState};
use coordinator::net::addresses;
use history::event::{Event, Start};
use job_spec::{Checkpoints, Tools};

use crate::mpi::world;

/// The settings of the agent.
pub struct Setup {
    /// The options of checkpoints, such as their directory and schedule.
    pub checkpoints: Checkpoints,
    /// File system interface through which sets and images are written.
    pub disk: FileSystem,
    /// Whether copies get a memory budget of zero (`STASIS_FAULT=scarce@RANK`).
    pub scarce: bool,
    /// Whether the kernel seems not to watch writes (`STASIS_FAULT=unwatched@RANK`).
    pub unwatched: bool,
    /// Key that seals sets.
    pub key: Option<SealKey>,
    /// The program and its arguments, for messages and the manifest.
    pub command: Vec<String>,
    /// The run that this process belongs to.
    pub lineage: Lineage,
    /// Name of the set from which the job goes on; none at its beginning.
    pub from: Option<String>,
    /// Name and version of the MPI library, for messages and the manifest.
    pub library: String,
    /// Returns the sections of the image other than the loader's. Called while all threads stand still.
    pub sections: fn() -> Vec<Section>,
    /// Returns notes about other programs whose state the image does not hold.
    pub unsaved_programs: fn() -> Vec<String>,
    /// Told the number of a committed set from which the job can go on with MPI initialised.
    pub covered: fn(u64),
    /// Calls MPI_Finalize, for a job that ends with a checkpoint. Without it, launchers report a crash. Called while
    /// all threads stand still, on a thread of the lower half.
    pub finalize: fn(),
}

impl Setup {
    /// The manifest of a full set of a program without MPI, which begins now and has these images.
    pub fn manifest(&self, set_id: SetId, abi: String, ranks: Vec<RankEntry>) -> Manifest {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Manifest {
            schema_version: 0,
            set_id,
            increment_of: None,
            created: now.map_or(0, |since| since.as_secs()),
            pause_micros: None,
            total_micros: None,
            epoch: u64::from(gate().lower.epoch.load(Ordering::Relaxed)),
            world_size: ranks.len() as u32,
            abi,
            library: self.library.clone(),
            thread_level: None,
            contract_version: contract::VERSION,
            stasis_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            command: self.command.clone(),
            lineage: Some(self.lineage.clone()),
            incarnation: self.checkpoints.incarnation,
            for_cpu: self.checkpoints.for_cpu.clone(),
            ranks,
        }
    }

    /// The event with which this run of `size` ranks begins, for the job's history.
    pub fn begin(&self, size: u32) -> Event {
        let start = Start {
            run: self.lineage.run.to_string(),
            ranks: size,
            program: self.command.clone(),
            mpi: self.library.clone(),
            host: addresses::host(),
            pid: std::process::id(),
            incarnation: self.checkpoints.incarnation,
            allocation: launcher::allocation::id(),
            metrics: self.checkpoints.metrics.clone(),
            stasis_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        match &self.from {
            Some(from) => Event::Restart {
                start,
                from: from.clone(),
            },
            None => Event::Launch(start),
        }
    }

    /// Features of the processor that the program sees, if others are hidden from it.
    pub fn features(&self) -> Option<Vec<String>> {
        let shown = self.checkpoints.for_cpu.as_ref();
        shown.map(|shown| shown.features.clone())
    }
}

/// The thread level of MPI, for a manifest.
pub fn thread_level() -> Option<i32> {
    gate()
        .mpi_is(MpiState::Initialised)
        .then(world::thread_level)
}

static SETUP: OnceLock<Setup> = OnceLock::new();

/// Notes the settings. Only the first call counts.
pub fn set(setup: Setup) {
    SETUP.get_or_init(|| setup);
}

/// The settings, which must have been noted.
pub fn known() -> Result<&'static Setup> {
    SETUP
        .get()
        .context("the checkpoint agent is not set up (a defect in Stasis)")
}

/// Whether the job begins, and does not go on from a set.
pub fn begins() -> bool {
    known().is_ok_and(|setup| setup.from.is_none())
}

/// The checkpoint directory.
pub fn directory() -> Result<&'static Path> {
    Ok(&known()?.checkpoints.dir)
}

/// Whether the job is one of MPI Stages.
pub fn stages() -> Result<bool> {
    Ok(known()?.checkpoints.stages.is_some())
}

/// The debugging tools that this rank was started with.
pub fn tools() -> Result<&'static Tools> {
    Ok(&known()?.checkpoints.tools)
}
