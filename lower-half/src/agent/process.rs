//! What the agent does to this process.
//!
//! # Safety
//! Clocks and counters are arrays of atomics in upper-half memory that stay mapped: the clock table
//! by the loader, the counters by the upper half, which stores their addresses only when they are
//! made and never frees them. Entry points of the upper half are called as `contract::UpperEntry`
//! says, on the initial thread with the upper thread pointer, while all threads stand still; their
//! closures use nothing but their captures.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{anyhow, bail, Context, Result};
use ckpt_image::{kind, set_number, SetId, SharedKind};
use contract::{
    gate, ActivityKind, Clock, MpiState, Phase, ACTIVITY_RANKS, CLOCKS, CLOCKS_ADDRESS, DRAIN_CLOCK,
};
use coordinator::agent::{Process, SaveOrder};
use coordinator::protocol::{Activity, Counts, On, Outcome, Summary, Times};
use coordinator::rank::{ClockView, View};
use coordinator::shared::Part;
use launcher::message;
use loader::{ClosedFiles, MappedFile, ProcessState, Stopped};
use undo::Cut;

use super::{cut, doing, faults, known_partner, levels, Section, Setup, AGENT, RELAY, SERVER};
use crate::mpi::world;
use crate::options::{Checkpoints, Files, Pause};
use crate::save::{
    self, Ahead, Application, Changes, HeaderInfo, Increments, Plan, Room, Saved, Share,
};
use crate::wrapper;

/// How long an orderly end may take before the process just ends.
const END_LIMIT: Duration = Duration::from_secs(10);

/// What the loader knows of the application.
const APPLICATION: Application = Application {
    shm_id: loader::shm_id,
    is_ours: loader::is_redirected_to,
};

/// This process, as the agent sees it.
pub struct ThisProcess {
    setup: &'static Setup,
    rank: u32,
    size: u32,
    stopped: Mutex<Option<Stopped>>,
    /// How the memory is to be saved, while everybody stands still.
    plan: Mutex<Option<Plan>>,
    /// The mappings as they were before the threads were asked to stop, and [`loader::remapped`] then.
    ahead: Mutex<Option<(u64, Ahead)>>,
    /// The checkpoint was given up while its image is being written.
    given_up: AtomicBool,
    /// What has changed since older sets, where that is wanted; or why that cannot be told.
    changes: Option<Result<&'static Changes, String>>,
}

impl ThisProcess {
    /// Makes sure that the process can be served.
    pub fn new(setup: &'static Setup, rank: u32, size: u32) -> Result<Self> {
        if !membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
            bail!(
                "this kernel does not offer membarrier(PRIVATE_EXPEDITED) ({}); the job cannot be \
                 checkpointed. Linux 4.14 has it; does a container's seccomp policy forbid it?",
                std::io::Error::last_os_error()
            );
        }
        keep_journal(setup, rank)?;
        let wanted = setup.checkpoints.full_every > 1;
        let changes = wanted.then(watch);
        if let (Some(Err(why)), 0) = (&changes, rank) {
            message::say(format_args!(
                "--full-every: every checkpoint will be a full one, because {why}"
            ));
        }
        Ok(ThisProcess {
            changes,
            setup,
            rank,
            size,
            stopped: Mutex::new(None),
            plan: Mutex::new(None),
            ahead: Mutex::new(None),
            given_up: AtomicBool::new(false),
        })
    }

    fn stopped(&self) -> MutexGuard<'_, Option<Stopped>> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plan(&self) -> MutexGuard<'_, Option<Plan>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ahead(&self) -> MutexGuard<'_, Option<(u64, Ahead)>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the memory, which nobody changes any more. Returns what other ranks may share.
    fn look_at_memory(&self) -> Result<Vec<Part>> {
        let ahead = self.ahead().take();
        let ahead = ahead.filter(|(remapped, _)| *remapped == loader::remapped());
        let ahead = ahead.map(|(_, ahead)| ahead);
        let plan = loader::aside(|| Plan::make(&APPLICATION, ahead))
            .context("no thread could be made")??;
        let part = |(object, part): (String, std::ops::Range<u64>)| Part {
            object,
            from: part.start,
            to: part.end,
        };
        let parts = plan.parts().into_iter().map(part).collect();
        *self.plan() = Some(plan);
        Ok(parts)
    }

    /// Per-peer counts of the upper half; none before it has any.
    fn counts(&self, array: &AtomicUsize) -> Counts {
        let array = array.load(Ordering::Acquire) as *const AtomicU64;
        if array.is_null() {
            return vec![];
        }
        // SAFETY: one counter per world rank, see the head of this file.
        let counters = unsafe { std::slice::from_raw_parts(array, self.size as usize) };
        let counts = counters.iter().map(|c| c.load(Ordering::Relaxed));
        (0..).zip(counts).filter(|(_, n)| *n > 0).collect()
    }

    fn activity(&self) -> Activity {
        let gate = gate();
        let shown = &gate.activity;
        let sent = || self.counts(&gate.upper.sent);
        let id = || shown.clock_id.load(Ordering::Relaxed);
        // Parts of two activities may be mixed here: every change is followed by a notification,
        // upon which the agent looks again.
        let kind = shown.kind.load(Ordering::Acquire);
        if kind == ActivityKind::Collective as u32 {
            Activity::Collective { id: id() }
        } else if kind == ActivityKind::Parked as u32 || kind == ActivityKind::Finalising as u32 {
            Activity::Parked {
                id: id(),
                seq: shown.clock_seq.load(Ordering::Relaxed),
                sent: sent(),
                last: kind == ActivityKind::Finalising as u32,
            }
        } else if kind == ActivityKind::Waiting as u32 {
            let on = match usize::try_from(shown.nranks.load(Ordering::Relaxed)) {
                Ok(n) if n <= ACTIVITY_RANKS => On::Ranks(
                    shown.ranks[..n]
                        .iter()
                        .map(|r| r.load(Ordering::Relaxed))
                        .collect(),
                ),
                _ => On::Any,
            };
            Activity::Waiting {
                on,
                sent: sent(),
                received: self.counts(&gate.upper.received),
            }
        } else {
            Activity::Running
        }
    }

    /// Has the upper half leave nothing in the lower half; why not, if so.
    fn drain(&self, stopped: &Stopped) -> Result<()> {
        let gate = gate();
        if !gate.mpi_is(MpiState::Initialised) {
            return Ok(());
        }
        let refusal = gate.upper.refusal.load(Ordering::Acquire);
        let drain = gate.upper.drain.load(Ordering::Acquire);
        let mut text = [0_u8; 1024];
        let (mut length, mut failed) = (0, 0);
        stopped.run_on_main(|| {
            // SAFETY: the upper half's own entry points, where they are not null.
            unsafe {
                if refusal != 0 {
                    let refusal: extern "C" fn(*mut u8, usize) -> usize =
                        std::mem::transmute(refusal);
                    length = refusal(text.as_mut_ptr(), text.len());
                }
                // Also when this rank refuses: the others wait for it in theirs.
                if drain != 0 {
                    let drain: extern "C" fn() -> i32 = std::mem::transmute(drain);
                    failed = drain();
                }
            }
        });
        if length > 0 {
            bail!(
                "{}",
                String::from_utf8_lossy(&text[..length.min(text.len())])
            );
        }
        if failed != 0 {
            bail!("messages and files could not all be brought to rest (MPI error class {failed})");
        }
        Ok(())
    }

    /// What the image holds beside memory.
    fn sections(&self, plan: &Plan, cut: Cut) -> Result<Vec<Section>> {
        let guard = self.stopped();
        let stopped = guard
            .as_ref()
            .context("the application's threads do not stand still")?;
        let state = loader::capture(stopped, &|dev, ino| mapped(plan, dev, ino))?;
        let state =
            postcard::to_stdvec(&state).context("the state of the process cannot be encoded")?;
        let mut sections = vec![(kind::PROCESS, ProcessState::VERSION, state)];
        let closed = loader::capture_closed(stopped, &|dev, ino| mapped(plan, dev, ino));
        if !closed.is_empty() {
            let closed = postcard::to_stdvec(&closed);
            let closed = closed.context("the files that are closed cannot be encoded")?;
            sections.push((kind::CLOSED_FILES, ClosedFiles::VERSION, closed));
        }
        loader::journal::begin_segment(stopped, cut);
        sections.extend((self.setup.sections)());
        Ok(sections)
    }

    /// How long the threads are to stand still.
    fn pause(&self, order: &SaveOrder) -> save::Pause<'_> {
        let stop = |why: &str| save::Pause::Stop(why.to_owned());
        match self.room() {
            _ if order.stop => stop("the job ends with it"),
            None => stop("--pause stop"),
            Some(room) => save::Pause::Copy {
                room,
                given_up: &self.given_up,
            },
        }
    }

    /// How much memory there is for copies, if any are wanted.
    fn room(&self) -> Option<Room> {
        let ranks_here = launcher::ranks_here().unwrap_or(self.size);
        match self.setup.checkpoints.pause {
            Pause::Stop => None,
            Pause::Copy if self.setup.scarce => Some(Room::none(faults::VARIABLE)),
            Pause::Copy => Some(Room::here(ranks_here)),
        }
    }

    fn write(&self, order: &SaveOrder, copied: &mut (dyn FnMut() + Send)) -> Result<Summary> {
        // Nothing is held on to: the threads may be let go before this has ended.
        let plan = self.plan().take();
        let plan = plan.context("the memory has not been looked at")?;
        let set_id = |id: &[u8]| {
            let id = id.try_into().context("the coordinator sent no set id");
            id.map(SetId)
        };
        let number = set_number(&order.set).context("the coordinator sent no set")?;
        let cut = Cut {
            number,
            id: set_id(&order.id)?.0,
        };
        let sections = self.sections(&plan, cut)?;
        let children = loader::children().0;
        // What the job ends with goes to where it is needed next, and builds upon nothing that is elsewhere.
        let levels = levels();
        let drained = levels.is_none_or(|levels| !order.stop || levels.finish());
        let levels = levels.filter(|_| !order.stop);
        let parent = order.parent.as_deref().filter(|_| drained);
        let parent = parent.map(set_id).transpose()?;
        let info = HeaderInfo {
            set_id: set_id(&order.id)?,
            epoch: u64::from(gate().lower.epoch.load(Ordering::Relaxed)),
            rank: self.rank,
            world_size: self.size,
            abi: look_at_abi(),
            compression: self.setup.checkpoints.compression,
            sealed: self.setup.key.is_some(),
        };
        let (changes, untold) = match &self.changes {
            Some(Ok(changes)) => (Some(changes), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        let shares: Vec<Share> = order
            .shared
            .iter()
            .map(|share| Share {
                object: share.object.clone(),
                store: share.store.iter().map(|(from, to)| *from..*to).collect(),
                processes: share.processes.clone(),
            })
            .collect();
        let local = levels.map(|levels| levels.begin(&order.set, info.set_id));
        let local = local.transpose()?;
        let set = &order.set;
        let order = save::Order {
            disk: &self.setup.disk,
            dir: local.as_deref().unwrap_or(Path::new(&order.directory)),
            info: &info,
            sections: &sections,
            shares: &shares,
            pause: self.pause(order),
            increments: changes.map(|changes| Increments { changes, parent }),
        };
        // Files of the application are opened there, and a copy of the process is made.
        let saved = loader::aside(|| {
            let saved = plan.save(&order, copied)?;
            let lies = levels.map(|levels| levels.local().settle(order.dir));
            anyhow::Ok((saved, lies.transpose()?))
        });
        let (saved, lies) = saved.context("no thread could be made")??;
        let Saved {
            image,
            mut notes,
            stood,
            inherits,
        } = saved;
        let copy = match lies.clone().zip(known_partner()) {
            Some((image, partner)) => partner.copy(set, info.set_id, image),
            None => Ok(None),
        };
        let copy = copy.unwrap_or_else(|why| {
            let said = format!(
                "no copy of its image is kept on another machine: {}",
                message::reasons(why.as_ref())
            );
            crate::say(self.rank, &said);
            notes.push(said);
            None
        });
        let whole = |why| format!("all of its memory is stored: {why}");
        notes.extend(untold.filter(|_| parent.is_some()).map(whole));
        notes.extend(children.into_iter().map(child_note));
        for other in wrapper::others() {
            // Also where nobody has asked for the checkpoint.
            crate::say(self.rank, &other);
            notes.push(other);
        }
        Ok(Summary {
            bytes: image.bytes,
            memory: image.memory_bytes,
            digest: image.digest,
            host: coordinator::addresses::host(),
            local: lies.map(text).transpose()?,
            copy: copy.map(Box::new),
            times: Times::default(),
            stood,
            inherits,
            notes,
        })
    }
}

/// Has memory watched, by a descriptor that threads beside the application have, for as long as the process lives.
fn watch() -> Result<&'static Changes, String> {
    let changes = loader::aside(Changes::watch);
    let changes = changes.unwrap_or_else(|why| Err(format!("no thread could be made: {why}")))?;
    Ok(Box::leak(Box::new(changes)))
}

/// From the first cut on, what the application changes in its files is noted, if a restart is to undo it.
fn keep_journal(setup: &Setup, rank: u32) -> Result<()> {
    let Checkpoints {
        dir,
        files,
        undo_limit,
        ..
    } = &setup.checkpoints;
    if *files != Files::Undo {
        return Ok(());
    }
    let host = coordinator::addresses::host();
    let journal = undo::Journal::new(dir, rank, host, *undo_limit);
    loader::journal::keep_journal(journal, move |text| crate::say(rank, text))
        .context("a thread of the undo journal cannot be started")
}

impl Process for ThisProcess {
    fn approach(&self) {
        self.given_up.store(false, Ordering::Relaxed);
        // Where this fails the look at the memory itself will, and say so.
        let remapped = loader::remapped();
        let changes = self
            .changes
            .as_ref()
            .and_then(|changes| changes.as_ref().ok().copied());
        let room = changes.and_then(|_| self.room());
        let ahead = loader::aside(|| {
            loader::look_ahead();
            Ahead::look(&APPLICATION, changes, room.as_ref())
        });
        let ahead = ahead.ok().and_then(Result::ok);
        *self.ahead() = ahead.map(|ahead| (remapped, ahead));
        gate().phase.store(Phase::Approach as u32, Ordering::SeqCst);
        // From here on every wrapper either has its count visible to us or sees the phase. It was
        // registered, so it cannot fail.
        membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    }

    fn look(&self) -> View {
        let view = |clock: &Clock| {
            let id = clock.id.load(Ordering::Acquire);
            // `left` first: it follows `seq`, so the two are equal only outside of a collective.
            let left = clock.left.load(Ordering::Acquire);
            let seq = clock.seq.load(Ordering::Acquire);
            if id == DRAIN_CLOCK {
                // What it lacks it begins in the drain.
                let seq = seq.max(clock.target.load(Ordering::Acquire));
                return Some(ClockView { id, seq, left: seq });
            }
            (id != 0).then_some(ClockView { id, seq, left })
        };
        View {
            clocks: clocks().iter().filter_map(view).collect(),
            activity: self.activity(),
        }
    }

    fn set_targets(&self, targets: &BTreeMap<u64, u64>) {
        for clock in clocks() {
            // One without a target may still have that of a checkpoint which was given up.
            let target = targets.get(&clock.id.load(Ordering::Acquire));
            clock
                .target
                .store(target.copied().unwrap_or(0), Ordering::Release);
        }
    }

    fn stop(&self) -> Result<Vec<Part>, String> {
        gate().phase.store(Phase::Stop as u32, Ordering::SeqCst);
        let stopped = loader::stop_all().map_err(|e| e.to_string())?;
        let drained = self.drain(&stopped);
        *self.stopped() = Some(stopped);
        let looked = drained.and_then(|()| self.look_at_memory());
        looked.map_err(|e| message::reasons(e.as_ref()))
    }

    fn save(
        &self,
        order: &SaveOrder,
        copied: &mut (dyn FnMut() + Send),
    ) -> Result<Summary, String> {
        self.write(order, copied)
            .map_err(|e| message::reasons(e.as_ref()))
    }

    fn hurry(&self) {
        self.given_up.store(true, Ordering::Relaxed);
        gate().phase.store(Phase::Run as u32, Ordering::SeqCst);
    }

    fn resume(&self, outcome: &Outcome) {
        self.go_on();
        if let (Outcome::Committed { .. }, Some(levels)) = (outcome, levels()) {
            levels.drain();
        }
    }

    fn go_on(&self) {
        gate().phase.store(Phase::Run as u32, Ordering::SeqCst);
        *self.plan() = None;
        if let Some(stopped) = self.stopped().take() {
            stopped.resume();
        }
    }

    fn exit(&self, set: &str) {
        if cut::armed() {
            wait_alone();
            cut::die();
        }
        if self.rank == 0 {
            message::say(format_args!(
                "the job ends with the checkpoint {set}, as was asked"
            ));
        }
        let watch = std::thread::Builder::new().spawn(|| {
            std::thread::sleep(2 * END_LIMIT);
            end();
        });
        // Nothing more comes from the application: what it had not printed is in the image. What the
        // library says about receives that stay posted must not end up in its output.
        // SAFETY: descriptors of this process.
        unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) };
        // A library that cannot finalise with receives posted must not keep the job alive.
        if watch.is_ok() && gate().mpi_is(MpiState::Initialised) {
            (self.setup.finalize)();
        }
        if let Some(agent) = AGENT.get() {
            agent.finished();
        }
        wait_alone();
        if let Some(relay) = RELAY.get() {
            relay.close();
        }
        if let Some(server) = SERVER.get() {
            server.close_with(set);
        }
        world::leave(0);
        end()
    }

    fn doing(&self) -> (String, u64) {
        let gate = gate();
        let messages = [&gate.upper.sent, &gate.upper.received];
        let messages = messages.into_iter().flat_map(|array| self.counts(array));
        let operations = clocks()
            .iter()
            .map(|clock| clock.seq.load(Ordering::Relaxed));
        let progress = messages.map(|(_, n)| n).chain(operations);
        (doing::words(), progress.fold(0, u64::wrapping_add))
    }

    fn say(&self, text: &str) {
        crate::say(self.rank, text);
    }
}

/// Waits for all ranks that were told from here: this process goes after them.
fn wait_alone() {
    if let Some(relay) = RELAY.get() {
        relay.wait_alone(END_LIMIT);
    }
    if let Some(server) = SERVER.get() {
        server.wait_alone(END_LIMIT);
    }
}

/// Ends the process as a success, running nothing of the application.
fn end() -> ! {
    // SAFETY: no conditions.
    unsafe { libc::_exit(0) }
}

/// A path as it goes into the manifest.
fn text(path: PathBuf) -> Result<String> {
    let text = path.into_os_string().into_string();
    text.map_err(|path| anyhow!("{} is not UTF-8: give another --local-dir", path.display()))
}

/// That a living child is not in the image.
fn child_note(pid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!(
        "child process {pid} ({}) is not saved: it runs on, and a restarted program is told that it \
         has no such child",
        name.trim_end()
    )
}

/// What memory knows about a file.
fn mapped(plan: &Plan, dev: u64, ino: u64) -> Option<MappedFile> {
    let object = plan.object(dev, ino)?;
    Some(match object.kind {
        SharedKind::File { .. } => MappedFile::Ordinary,
        _ => MappedFile::Object(object.id.clone()),
    })
}

fn clocks() -> &'static [Clock] {
    let used = gate().clocks_used.load(Ordering::Acquire) as usize;
    // SAFETY: the table has CLOCKS entries, all valid, see the head of this file.
    unsafe { std::slice::from_raw_parts(CLOCKS_ADDRESS as *const Clock, used.min(CLOCKS)) }
}

fn membarrier(command: i32) -> bool {
    // SAFETY: touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// That of the image from which the process was brought back, whose front is memory without a name now.
static RESTORED_ABI: OnceLock<String> = OnceLock::new();

/// Notes the MPI ABI of the image from which this process is brought back.
pub fn set_restored_abi(abi: String) {
    RESTORED_ABI.get_or_init(|| abi);
}

/// The MPI ABI of the program at the last cut. The program runs on while its image is written, and may load its MPI
/// library meanwhile.
static ABI_AT_CUT: Mutex<Option<String>> = Mutex::new(None);

/// Notes it for [`abi_at_cut`].
fn look_at_abi() -> String {
    let abi = abi_name();
    let mut noted = ABI_AT_CUT.lock().unwrap_or_else(PoisonError::into_inner);
    *noted = Some(abi.clone());
    abi
}

/// The MPI ABI of the program as this rank's image has it.
pub fn abi_at_cut() -> String {
    let noted = ABI_AT_CUT.lock().unwrap_or_else(PoisonError::into_inner);
    noted.clone().unwrap_or_else(abi_name)
}

/// The MPI ABI that the application was compiled against: that of the front which it has loaded.
fn abi_name() -> String {
    let front = |name: &str| {
        let file = name.rsplit('/').next()?;
        Some(file.strip_prefix("front-")?.strip_suffix(".so")?.to_owned())
    };
    let upper = loader::read_maps().unwrap_or_default().into_iter();
    let mut fronts = upper
        .filter(|m| m.end <= contract::ARENA_END)
        .filter_map(|m| front(&m.name));
    let restored = || RESTORED_ABI.get().cloned();
    let found = fronts.next().or_else(restored);
    found.unwrap_or_else(|| "none".to_owned())
}
