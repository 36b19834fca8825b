//! The memory of this rank for the next incarnation of a job of MPI Stages, after another rank's death. It is an image
//! like any other, but nothing is drained, and no other rank takes part. So it is a checkpoint of a job of one rank, in
//! a directory of its own. The threads stay stopped until the process is killed.
//!
//! # Safety
//! The entry point of the upper half is called as `LocalProcess` calls `drain`.
#![allow(unsafe_code)]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{bail, Context, Result};
use ckpt_image::{next_number, Compression, FileSystem, RankEntry, Section, SetWriter};
use contract::{gate, Phase};
use dump::{DumpRequest, HeaderInfo, PauseMode, Plan};
use launcher::message;
use loader::Stopped;
use supervisor::messages::NoSurvivor;
use undo::Cut;

use super::local_process::{enter, LocalProcess};
use super::mpi_abi;
use super::setup::Setup;
use crate::recorder;

/// Time for the threads to stop. One that is in a call of the MPI library which does not come back keeps its rank from
/// surviving.
const PATIENCE: Duration = Duration::from_secs(10);

/// Orders to the thread that writes the memory.
static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();

struct Order {
    directory: PathBuf,
    answer: Sender<Result<(), NoSurvivor>>,
}

/// Starts the thread that writes the memory. Call it on a thread that has the open files of the application: the new
/// one has the same.
pub fn start(process: &Arc<LocalProcess>) -> io::Result<()> {
    let (orders, ordered) = mpsc::channel::<Order>();
    let process = Arc::clone(process);
    loader::spawn_lower("ckpt-survive", move || {
        for Order { directory, answer } in ordered {
            let _ = answer.send(stop_and_write(&process, &directory));
        }
    })?;
    ORDERS.get_or_init(|| orders);
    Ok(())
}

/// Writes the memory of this rank to `directory`.
pub fn survive(directory: PathBuf) -> Result<(), NoSurvivor> {
    let because = |why: &str| Err(NoSurvivor::Because(why.to_owned()));
    let Some(orders) = ORDERS.get() else {
        return because("it had not called MPI_Init");
    };
    let (answer, answered) = mpsc::channel();
    let _ = orders.send(Order { directory, answer });
    match answered.recv() {
        Ok(answer) => answer,
        Err(_) => because("the thread that writes its memory has ended (a defect in Stasis)"),
    }
}

fn stop_and_write(process: &LocalProcess, directory: &Path) -> Result<(), NoSurvivor> {
    let because = |why: String| NoSurvivor::Because(why);
    if gate().phase.load(Ordering::SeqCst) != Phase::Run as u32 {
        return Err(because("a checkpoint was being taken".to_owned()));
    }
    enter(Phase::Stop);
    let stopped = loader::stop_all_within(PATIENCE).map_err(|why| because(why.to_string()))?;
    break_off(&stopped)?;
    let written = process.write_survivor(stopped, directory);
    written.map_err(|why| because(message::reasons(why.as_ref())))
}

/// Has the upper half's calls end.
fn break_off(stopped: &Stopped) -> Result<(), NoSurvivor> {
    let because = |why: &str| Err(NoSurvivor::Because(why.to_owned()));
    let entry = gate().stages.load(Ordering::Acquire);
    if entry == 0 {
        return because("its image was taken with an older version of Stasis");
    }
    let mut answer = 0;
    stopped.run_on_main(|| {
        // SAFETY: the entry point of the upper half, see the head of this file.
        answer = unsafe { std::mem::transmute::<usize, extern "C" fn() -> u32>(entry)() };
    });
    const FINALISES: u32 = contract::NoSurvivor::Finalises as u32;
    const OBJECTS: u32 = contract::NoSurvivor::Objects as u32;
    match answer {
        0 => Ok(()),
        FINALISES => Err(NoSurvivor::Finalises),
        OBJECTS => because("it has windows, open files of MPI or sessions"),
        _ => because("it has requests or messages of a kind that cannot be dropped"),
    }
}

impl LocalProcess {
    fn write_survivor(&self, stopped: Stopped, directory: &Path) -> Result<()> {
        // The gate is part of the memory that is examined now.
        recorder::detach();
        *self.stopped() = Some(stopped);
        if !self.look_at_memory()?.is_empty() {
            bail!("it shares memory with other processes");
        }
        let plan = self
            .plan()
            .take()
            .context("the memory has not been examined")?;
        // Nothing of it is used later: changes of files are not recorded.
        let cut = Cut {
            number: 1,
            id: [0; _],
        };
        let sections = self.sections(&plan, cut)?;
        let written = loader::on_own_fd_table(|| write(self.setup(), &plan, &sections, directory));
        written.context("no thread could be made")?
    }
}

/// Writes the image, as the only one of its set.
fn write(setup: &Setup, plan: &Plan, sections: &[Section], directory: &Path) -> Result<()> {
    let disk = FileSystem::default();
    let writer = SetWriter::begin(&disk, directory, next_number(directory)?)?;
    let info = HeaderInfo {
        set_id: writer.set_id(),
        epoch: u64::from(gate().lower.epoch.load(Ordering::Relaxed)),
        rank: 0,
        world_size: 1,
        abi: mpi_abi::note_at_cut(),
        compression: Compression::Off,
        sealed: false,
        features: setup.features(),
    };
    let request = DumpRequest {
        disk: &disk,
        dir: writer.path(),
        info: &info,
        sections,
        shares: &[],
        pause: PauseMode::UntilWritten("another rank has died".to_owned()),
        increments: None,
    };
    let saved = plan.save(&request, || {})?;
    let entry = RankEntry {
        rank: info.rank,
        host: coordinator::net::addresses::host(),
        image: saved.image,
        local: None,
        copy: None,
    };
    writer.commit(&setup.manifest(info.set_id, info.abi, vec![entry]), None)?;
    Ok(())
}
