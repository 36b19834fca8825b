//! One rank of a recorded run, alone (docs/internals/record.md): the contents of the run are recorded with `--record
//! REC --contents`, and `stasis solo` runs the rank's program from its beginning with the library's answers from there.
//! The library is initialised as that of a job of one process.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock, PoisonError};

use ::record::contents::{self, Header, Reader, Writer};
use anyhow::{bail, ensure, Context, Result};
use contract::{gate, GROUP_CLOCKS, RETRACTABLE, TOOL_CONTENTS, TWO_PHASE_COMMIT};
use job_spec::{ExitCode, Record, Tools};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{raise, Signal};

use crate::mpi::world::{self, World};
use crate::mpi::{self, Ending, Hooks};
use crate::options::Launch;
use crate::{agent, breakpoint, console, record, tools};

const STASIS: &str = env!("CARGO_PKG_VERSION");

/// Properties of a lower half on which crossings depend.
const FEATURES: u32 = RETRACTABLE | GROUP_CLOCKS | TWO_PHASE_COMMIT;

/// The words of the program, its name, and its directory.
struct Program {
    command: Vec<Vec<u8>>,
    name: Vec<u8>,
    directory: Vec<u8>,
    /// The value of `--mpi` that chooses the lower half.
    lower: Vec<u8>,
}

static PROGRAM: OnceLock<Program> = OnceLock::new();

fn bytes(word: &OsStr) -> Vec<u8> {
    word.as_bytes().to_owned()
}

/// Notes the program that is to be run.
pub fn know_program(options: &Launch, own: &Path) {
    let library = options.spec.checkpoints.mpi_library.as_deref();
    let file = own.file_name().unwrap_or_default().as_bytes();
    let name = file.strip_prefix(b"lower-").unwrap_or(file);
    let lower = library.map_or_else(|| name.to_owned(), |library| bytes(library.as_os_str()));
    let words = std::iter::once(&options.program).chain(&options.args);
    let name = std::env::var_os("STASIS_ARGV0").unwrap_or_else(|| options.program.clone());
    let directory = std::env::current_dir().unwrap_or_default();
    PROGRAM.get_or_init(|| Program {
        command: words.map(|word| bytes(word)).collect(),
        name: bytes(&name),
        directory: bytes(directory.as_os_str()),
        lower,
    });
}

/// Runs `work` where the record's files are open.
fn outside<T: Send>(work: impl FnOnce() -> ::record::Result<T> + Send) -> Result<T> {
    let done = loader::on_own_fd_table(work).context("no thread could be made")?;
    Ok(done?)
}

/// MPI is initialised: records what crossings return from now on, if that is wanted.
pub fn record(rank: u32, size: u32) -> Result<()> {
    let tools = agent::tools()?;
    let Some(Record::Write {
        dir,
        contents: true,
        ..
    }) = &tools.record
    else {
        return Ok(());
    };
    if gate().record.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    let begun = begin(dir, rank, size);
    begun.context("what calls return is not recorded, so this rank cannot be run alone")
}

fn begin(dir: &Path, rank: u32, size: u32) -> Result<()> {
    ensure!(
        agent::begins(),
        "--contents records a run from the beginning of its program, and this one goes on from a checkpoint"
    );
    ensure!(
        !agent::stages()?,
        "--contents does not go with MPI Stages, where a rank may go on in the place of another"
    );
    let program = PROGRAM
        .get()
        .context("the program is not known (a defect in Stasis)")?;
    let header = Header {
        rank,
        size,
        stasis: STASIS.to_owned(),
        table_hash: mpi::TABLE_HASH,
        kind: mpi::KIND.to_owned(),
        lower: program.lower.clone(),
        thread_level: world::thread_level(),
        tag_ub: world::tag_ub(),
        features: gate().lower.features.load(Ordering::Relaxed) & FEATURES,
        tools: serde_json::to_string(&Tools {
            record: None,
            stop_at: None,
            profile: false,
            ..tools::agreed()
        })?,
        command: program.command.clone(),
        name: program.name.clone(),
        directory: program.directory.clone(),
    };
    let writer = outside(|| Writer::create(&contents::path(dir, rank), &header))?;
    gate()
        .lower
        .features
        .fetch_or(TOOL_CONTENTS, Ordering::Relaxed);
    mpi::contents::record(writer);
    Ok(())
}

/// Results of crossings are recorded no more, for this reason.
pub fn tell_end(why: &str) {
    say(&format!(
        "what calls return is not recorded from here on, so this rank can be run alone up to here: {why}"
    ));
}

fn say(text: &str) {
    console::say(world::rank().unwrap_or(0), text);
}

/// The rank that runs alone.
struct Solo {
    tools: Tools,
    reader: Reader,
}

static SOLO: Mutex<Option<Solo>> = Mutex::new(None);

/// Opens the record if this process is to be a rank that runs alone; whether it is.
pub fn open(tools: &Tools) -> Result<bool> {
    let Some(Record::Solo { dir, rank }) = &tools.record else {
        return Ok(false);
    };
    let reader = outside(|| Reader::open(dir, *rank))?;
    let header = &reader.header;
    if header.stasis != STASIS || header.table_hash != mpi::TABLE_HASH {
        bail!(
            "the record was made by Stasis {}, and this is {STASIS}: use that one",
            header.stasis
        );
    }
    if tools.stop_at.is_some() {
        // A debugger that is left takes the rank with it.
        set_pdeathsig(Signal::SIGKILL)?;
    }
    ensure!(
        header.kind == mpi::KIND,
        "the record was made over {}, and this lower half is for {}",
        header.kind,
        mpi::KIND
    );
    world::stand_for(World {
        rank: header.rank,
        size: header.size,
        thread_level: header.thread_level,
        tag_ub: header.tag_ub,
    });
    let recorded: Tools = serde_json::from_str(&header.tools).context("the record's tools")?;
    let tools = Tools {
        record: tools.record.clone(),
        stop_at: tools.stop_at,
        ..recorded
    };
    *SOLO.lock().unwrap_or_else(PoisonError::into_inner) = Some(Solo { tools, reader });
    Ok(true)
}

/// The rank runs without an agent.
pub fn start() {
    mpi::set_hooks(Hooks {
        connected,
        finalizing: record::finish,
        notify: breakpoint::notify,
        tool_options: tools::options,
        record_room: record::make_room,
        solo_ended: ended,
        ..Hooks::NONE
    });
    loader::set_exit_hook(world::leave);
}

/// MPI is initialised: crossings are answered from the record from now on.
fn connected(rank: u32, size: u32) {
    let solo = SOLO.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(Solo { tools, reader }) = solo else {
        return;
    };
    let features = reader.header.features;
    let (stop_at, recorded) = (tools.stop_at, tools.record.clone());
    // For the library, this is the only process.
    let agreed = tools::agree(
        &Tools {
            stop_at: None,
            ..tools
        },
        0,
        1,
    );
    let set = agreed.and_then(|()| stop_at.map_or(Ok(()), breakpoint::set));
    if let Err(why) = set {
        console::tell(&why);
    }
    if let Some(record) = &recorded {
        record::begin_again(record, rank, size);
    }
    gate()
        .lower
        .features
        .fetch_or(TOOL_CONTENTS | features & FEATURES, Ordering::Relaxed);
    mpi::contents::answer(reader);
}

/// The rank cannot go on alone.
pub fn ended(ending: Ending) -> ! {
    let (call, difference) = record::compared();
    let runs = ["the recorded run", "this one"];
    let (text, code) = match (ending, difference) {
        (Ending::Damaged(why), _) => (why, ExitCode::Image),
        (Ending::Record(why), _) => (
            format!("the record ends in call {call} of the rank: {why}"),
            ExitCode::Diverged,
        ),
        (Ending::Other(..), Some(difference)) if difference.call <= call => (
            format!(
                "the program does something else than in the recorded run, at {}",
                difference.text_of(record::name, runs)
            ),
            ExitCode::Diverged,
        ),
        (Ending::Other(then, now), _) => (
            format!(
                "the program does something else than in the recorded run, in call {call}: {then} then, {now} now"
            ),
            ExitCode::Diverged,
        ),
    };
    say(&text);
    // A debugger shows the program where it is.
    if is_traced() {
        let _ = raise(Signal::SIGTRAP);
    }
    world::leave_at_once(code.number())
}

/// Whether a debugger has this process.
fn is_traced() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}
