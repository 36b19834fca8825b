//! This process as the checkpoint protocol acts on it: stop, drain, save, resume.
//!
//! # Safety
//! Clocks and counters are arrays of atomics in upper-half memory that stay mapped. The loader maps the clock table.
//! The upper half allocates the counters, then stores their addresses, and never frees them. Entry points of the upper
//! half are called as `contract::UpperEntry` says: on the initial thread, with the upper thread pointer, while all
//! threads stand still. The closures that call them use only their captures.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, Context, Result};
use ckpt_image::{kind, set_number, Manifest, Section, SetId, SharedKind};
use contract::recorder::Event;
use contract::{
    gate, ActivityKind, Clock, MpiState, Phase, ACTIVITY_RANKS, CLOCKS, CLOCKS_ADDRESS, DRAIN_CLOCK,
};
use coordinator::agent::Process;
use coordinator::protocol::rank::{ClockView, SaveOrder, View};
use coordinator::protocol::region_assignment::SharedRange;
use coordinator::protocol::{
    Activity, Counts, Outcome, RankWaits, Summary, ThreadStack, Times, WaitTarget,
};
use job_spec::{Checkpoints, FilePolicy, Pause};
use launcher::message;
use loader::{LockedMemory, MappedFile, SavedRegisters, Stopped, ThreadNumbers};
use undo::Cut;

use super::debug::{fault_injection, kill_at_call};
use super::instances::{AGENT, RELAY, SERVER};
use super::setup::{self, Setup};
use super::stuck_threads::StuckThreads;
use super::waits::{self, Explaining};
use super::{current_call, gpu, local_storage, mpi_abi, partner_copies, thread_stacks};
use crate::console;
use crate::mpi::{self, world};
use crate::profile;
use crate::record;
use crate::recorder;
use crate::reserve::Ballast;
use crate::start::keeper;
use dump::{
    Application, DirtyTracker, HeaderInfo, Increments, KeptChild, MemoryBudget, PauseMode, Plan,
    PreScan, SavedImage, StoreAssignment,
};

/// Number of events that a rank prints for which a checkpoint has waited in vain.
const EVENTS_OF_LATE: usize = 8;

/// Time limit of each step of an orderly end. After it the process calls `_exit`.
const END_LIMIT: Duration = Duration::from_secs(10);

/// The loader's knowledge of the application.
const APPLICATION: Application = Application {
    shm_id: loader::shm_id,
    is_ours: loader::is_redirected_to,
};

/// This process, as the agent sees it.
pub struct LocalProcess {
    setup: &'static Setup,
    rank: u32,
    size: u32,
    stopped: Mutex<Option<Stopped>>,
    /// How the memory is to be saved. Made while all threads stand still.
    plan: Mutex<Option<Plan>>,
    /// The mappings before the threads were asked to stop, with the value of [`loader::remapped`] at that time.
    prescan: Mutex<Option<(u64, PreScan)>>,
    /// Whether the checkpoint was given up while its image is being written.
    given_up: AtomicBool,
    /// The changes of memory since older sets, if increments are wanted; or the reason why they are unknown.
    tracker: Option<Result<&'static DirtyTracker, String>>,
    /// The threads that cannot be stopped now.
    stuck: Mutex<StuckThreads>,
    /// Reserved memory, which is released while a checkpoint is taken.
    ballast: Ballast,
    /// The children that `stasis run` keeps, as checkpoints in memory.
    kept: Mutex<Vec<KeptChild>>,
}

impl LocalProcess {
    /// Checks that this kernel can checkpoint the process, and starts the journal and the dirty tracking.
    pub fn new(setup: &'static Setup, rank: u32, size: u32) -> Result<Self> {
        if !membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
            bail!(
                "cannot use membarrier(PRIVATE_EXPEDITED) of this kernel: {}; the job cannot be \
                 checkpointed. Linux 4.14 and later have it; a container's seccomp policy may forbid it",
                std::io::Error::last_os_error()
            );
        }
        keep_journal(setup, rank)?;
        let wanted = setup.checkpoints.full_every > 1;
        let tracker = wanted.then(|| watch(setup.unwatched));
        match &tracker {
            Some(Err(why)) if rank == 0 => message::say(format_args!(
                "--full-every: every checkpoint will be a full one, because {why}"
            )),
            Some(Ok(tracker)) if rank == 0 => {
                if let Some(why) = tracker.unwatched() {
                    message::say(format_args!(
                        "--full-every: each checkpoint compares digests of all memory, which takes processor \
                         time while the job runs on, because {why}"
                    ));
                }
            }
            _ => {}
        }
        Ok(LocalProcess {
            ballast: Ballast::new(),
            tracker,
            setup,
            rank,
            size,
            stopped: Mutex::new(None),
            plan: Mutex::new(None),
            prescan: Mutex::new(None),
            given_up: AtomicBool::new(false),
            stuck: Mutex::default(),
            kept: Mutex::default(),
        })
    }

    pub(super) fn setup(&self) -> &'static Setup {
        self.setup
    }

    pub(super) fn stopped(&self) -> MutexGuard<'_, Option<Stopped>> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn plan(&self) -> MutexGuard<'_, Option<Plan>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stuck(&self) -> MutexGuard<'_, StuckThreads> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn prescan(&self) -> MutexGuard<'_, Option<(u64, PreScan)>> {
        self.prescan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Examines the memory, which no thread changes any more. Returns the ranges that other ranks may share.
    pub(super) fn look_at_memory(&self) -> Result<Vec<SharedRange>> {
        let prescan = self.prescan().take();
        let prescan = prescan.filter(|(remapped, _)| *remapped == loader::remapped());
        let prescan = prescan.map(|(_, prescan)| prescan);
        let begun = Instant::now();
        let prescanned = prescan.is_some();
        let plan = loader::on_own_fd_table(|| Plan::make(&APPLICATION, prescan))
            .context("no thread could be made")??;
        let part = |(object, part): (String, std::ops::Range<u64>)| SharedRange {
            object,
            from: part.start,
            to: part.end,
        };
        let parts: Vec<_> = plan.parts().into_iter().map(part).collect();
        let (took, shared) = (begun.elapsed(), parts.len());
        tracing::info!(?took, prescanned, shared, "memory examined");
        *self.plan() = Some(plan);
        Ok(parts)
    }

    /// Counts per peer of the upper half. Empty before the upper half has allocated them.
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
        // Parts of two activities may be mixed here. Every change is followed by a notification, after which the
        // agent reads the activity again.
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
                Ok(n) if n <= ACTIVITY_RANKS => WaitTarget::Ranks(
                    shown.ranks[..n]
                        .iter()
                        .map(|r| r.load(Ordering::Relaxed))
                        .collect(),
                ),
                _ => WaitTarget::Any,
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

    /// Makes the upper half drain the lower half. Returns an error if it refuses or fails.
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
            // SAFETY: entry points of the upper half that are not null, see the head of this file.
            unsafe {
                if refusal != 0 {
                    let refusal: extern "C" fn(*mut u8, usize) -> usize =
                        std::mem::transmute(refusal);
                    length = refusal(text.as_mut_ptr(), text.len());
                }
                // Even if this rank refuses: the drains of the other ranks wait for it.
                if drain != 0 {
                    let drain: extern "C" fn() -> i32 = std::mem::transmute(drain);
                    failed = drain();
                }
            }
            // The kernel copies pages that a network adapter uses when the process is copied.
            mpi::registration_caches::forget();
        });
        if length > 0 {
            bail!(
                "{}",
                String::from_utf8_lossy(&text[..length.min(text.len())])
            );
        }
        if failed != 0 {
            bail!("cannot drain all messages and file operations (MPI error class {failed})");
        }
        Ok(())
    }

    /// The sections of the image.
    pub(super) fn sections(&self, plan: &Plan, cut: Cut) -> Result<Vec<Section>> {
        let guard = self.stopped();
        let stopped = guard
            .as_ref()
            .context("the application's threads are not stopped (a defect in Stasis)")?;
        let state = loader::capture(stopped, &|dev, ino| mapped(plan, dev, ino))?;
        let owners = &state.files.owners;
        let owners = (!owners.is_empty()).then(|| kind::FILE_OWNERS.encode(owners));
        let proc_files = &state.proc_files;
        let proc_files = (!proc_files.is_empty()).then(|| kind::PROC_FILES.encode(proc_files));
        let state = kind::PROCESS.encode(&state);
        let registers = kind::REGISTERS.encode(&SavedRegisters::capture(stopped));
        let numbers = kind::THREAD_NUMBERS.encode(&ThreadNumbers::capture(stopped));
        let mut sections = vec![
            state.context("cannot encode the state of the process")?,
            registers.context("cannot encode the places of the registers")?,
            numbers.context("cannot encode the numbers of the threads")?,
        ];
        for changed in [owners, proc_files] {
            let changed = changed.transpose();
            sections.extend(changed.context("cannot encode what the program has set")?);
        }
        let closed = loader::capture_closed(stopped, &|dev, ino| mapped(plan, dev, ino));
        if !closed.is_empty() {
            let closed = kind::CLOSED_FILES.encode(&closed);
            sections.push(closed.context("cannot encode the list of closed files")?);
        }
        if loader::may_have_guard_pages() {
            let guards = loader::on_own_fd_table(|| plan.guard_pages());
            let guards = guards.context("no thread could be made")??;
            let guards = guards.map(|guards| kind::GUARD_PAGES.encode(&guards));
            let guards = guards.transpose();
            sections.extend(guards.context("cannot encode the guard pages")?);
        }
        if let Some(locked) = LockedMemory::capture(plan.locked()) {
            let locked = kind::LOCKED_MEMORY.encode(&locked);
            sections.push(locked.context("cannot encode what memory is locked")?);
        }
        loader::file_changes::begin_segment(stopped, cut);
        sections.extend((self.setup.sections)());
        Ok(sections)
    }

    /// The moment up to which the threads stand still.
    fn pause(&self, order: &SaveOrder) -> PauseMode<'_> {
        let stop = |why: &str| PauseMode::UntilWritten(why.to_owned());
        match self.budget() {
            _ if order.stop => stop("the job ends with it"),
            None => stop("--pause stop"),
            Some(budget) => PauseMode::UntilCopied {
                budget,
                cancelled: &self.given_up,
            },
        }
    }

    /// The memory that is available for copies. `None` with `--pause stop`.
    fn budget(&self) -> Option<MemoryBudget> {
        match self.setup.checkpoints.pause {
            Pause::Stop => None,
            Pause::Copy if self.setup.scarce => Some(MemoryBudget::zero(fault_injection::VARIABLE)),
            Pause::Copy => Some(MemoryBudget::for_each_of(self.ranks_here())),
        }
    }

    fn ranks_here(&self) -> u32 {
        launcher::ranks_here().unwrap_or(self.size)
    }

    fn write(&self, order: &SaveOrder, copied: &mut (dyn FnMut() + Send)) -> Result<Summary> {
        // No lock is held below: the threads may be resumed before this function returns.
        let plan = self.plan().take();
        let plan = plan.context("the memory has not been examined (a defect in Stasis)")?;
        let set_id = |id: &[u8]| {
            let id = id.try_into().context("the coordinator sent no set id");
            id.map(SetId)
        };
        let number = set_number(&order.set).context("the coordinator sent no set")?;
        let cut = Cut {
            number,
            id: set_id(&order.id)?.0,
        };
        record::mark(cut.number);
        let sections = self.sections(&plan, cut)?;
        let children = loader::children().0;
        // The last image of a job goes directly to the checkpoint directory, and depends on no image that is still in a
        // local directory.
        let storage = local_storage::of_this_rank();
        let drained = storage.is_none_or(|storage| !order.stop || storage.finish());
        let storage = storage.filter(|_| !order.stop);
        let parent = order.parent.as_deref().filter(|_| drained);
        let parent = parent.map(set_id).transpose()?;
        let info = HeaderInfo {
            set_id: set_id(&order.id)?,
            epoch: u64::from(gate().lower.epoch.load(Ordering::Relaxed)),
            rank: self.rank,
            world_size: self.size,
            abi: mpi_abi::note_at_cut(),
            compression: self.setup.checkpoints.compression,
            sealed: self.setup.key.is_some(),
            features: self.setup.features(),
        };
        let (tracker, untracked) = match &self.tracker {
            Some(Ok(tracker)) => (Some(tracker), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        let shares: Vec<StoreAssignment> = order
            .shared
            .iter()
            .map(|share| StoreAssignment {
                object: share.object.clone(),
                store: share.store.iter().map(|(from, to)| *from..*to).collect(),
                processes: share.processes.clone(),
            })
            .collect();
        let Some(directory) = &order.directory else {
            return self.hold(&plan, &info, number, (&sections, &shares), copied);
        };
        let local = storage.map(|storage| storage.begin(&order.set, info.set_id));
        let local = local.transpose()?;
        let set = &order.set;
        let order = dump::DumpRequest {
            disk: &self.setup.disk,
            dir: local.as_deref().unwrap_or(Path::new(directory)),
            info: &info,
            sections: &sections,
            shares: &shares,
            pause: self.pause(order),
            increments: tracker.map(|tracker| Increments { tracker, parent }),
        };
        // The COW child is made by that thread, and files of the application are opened there, so that they take no
        // numbers of the application's descriptors.
        let saved = loader::on_own_fd_table(|| {
            let saved = plan.save(&order, copied)?;
            let lies = storage.map(|storage| storage.local().sync(order.dir));
            anyhow::Ok((saved, lies.transpose()?))
        });
        let (saved, lies) = saved.context("no thread could be made")??;
        let SavedImage {
            image,
            mut notes,
            stopped_because,
            inherits,
        } = saved;
        let copy = match lies.clone().zip(partner_copies::of_this_rank()) {
            Some((image, partner)) => partner.copy(set, info.set_id, image),
            None => Ok(None),
        };
        let copy = copy.unwrap_or_else(|why| {
            let said = format!(
                "cannot keep a copy of its image on another machine: {}",
                message::reasons(why.as_ref())
            );
            tracing::warn!(why = said, "no partner copy");
            console::say(self.rank, &said);
            notes.push(said);
            None
        });
        let whole = |why| format!("all of its memory is stored: {why}");
        notes.extend(untracked.filter(|_| parent.is_some()).map(whole));
        notes.extend(children.into_iter().map(child_note));
        notes.extend(loader::unanswered_cpuid());
        for other in (self.setup.unsaved_programs)() {
            // On the console, too: a scheduled checkpoint has no command that prints the notes.
            console::say(self.rank, &other);
            notes.push(other);
        }
        Ok(Summary {
            bytes: image.bytes,
            memory: image.memory_bytes,
            digest: image.digest,
            host: coordinator::net::addresses::host(),
            local: lies.map(text).transpose()?,
            copy: copy.map(Box::new),
            times: Times::default(),
            stood: stopped_because,
            inherits,
            notes,
        })
    }
}

impl LocalProcess {
    /// Copies the memory into a child, and hands it over to `stasis run`.
    fn hold(
        &self,
        plan: &Plan,
        info: &HeaderInfo,
        number: u64,
        (sections, shares): (&[Section], &[StoreAssignment]),
        copied: &mut (dyn FnMut() + Send),
    ) -> Result<Summary> {
        let manifest = Manifest {
            world_size: self.size,
            thread_level: setup::thread_level(),
            ..self.setup.manifest(info.set_id, info.abi.clone(), vec![])
        };
        let manifest = serde_json::to_string(&manifest)?;
        let budget = self.budget().map(|budget| match budget.bytes {
            0 => budget,
            _ => MemoryBudget::for_each_held_of(self.ranks_here()),
        });
        let request = dump::DumpRequest {
            disk: &self.setup.disk,
            dir: &self.setup.checkpoints.dir,
            info,
            sections,
            shares,
            pause: match budget {
                None => PauseMode::UntilWritten("--pause stop forbids copies".to_owned()),
                Some(budget) => PauseMode::UntilCopied {
                    budget,
                    cancelled: &self.given_up,
                },
            },
            increments: None,
        };
        let held = loader::on_own_fd_table(|| {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.retain(|child| !child.has_ended());
            let (handover, child) = plan.hold(&request, &manifest, copied)?;
            kept.push(child);
            keeper::hands_over(info, number, &handover)?;
            anyhow::Ok((handover.bytes, handover.notes))
        });
        let (memory, notes) = held.context("no thread could be made")??;
        Ok(Summary {
            memory,
            host: coordinator::net::addresses::host(),
            notes,
            ..Summary::default()
        })
    }
}

/// Publishes the phase to the upper half.
pub(super) fn enter(phase: Phase) {
    if phase != Phase::Run {
        mpi::contents::disturb();
    }
    gate().phase.store(phase as u32, Ordering::SeqCst);
    mpi::set_pending(phase != Phase::Run);
    recorder::note(Event::Phase, [phase as u64, 0]);
    tracing::debug!(?phase, "phase");
}

/// Starts to track changes of memory, by digests alone where STASIS_FAULT wants that. The descriptor is in the table of
/// the lower half's threads, and stays open until the process ends.
fn watch(unwatched: bool) -> Result<&'static DirtyTracker, String> {
    let tracker = loader::on_own_fd_table(|| match unwatched {
        true => DirtyTracker::by_digests(fault_injection::VARIABLE),
        false => DirtyTracker::start(),
    });
    let tracker = tracker.unwrap_or_else(|why| Err(format!("no thread could be made: {why}")))?;
    if tracker.unwatched().is_none() {
        loader::note_watched_memory();
    }
    Ok(Box::leak(Box::new(tracker)))
}

/// Starts the undo journal with `--files undo`. It records changes of files from the first cut on.
fn keep_journal(setup: &Setup, rank: u32) -> Result<()> {
    let Checkpoints {
        dir,
        files,
        undo_limit,
        ..
    } = &setup.checkpoints;
    if *files != FilePolicy::Undo {
        return Ok(());
    }
    let host = coordinator::net::addresses::host();
    let journal = undo::Journal::new(dir, rank, host, *undo_limit);
    loader::file_changes::keep_journal(journal, move |text| console::say(rank, text))
        .context("cannot start a thread of the undo journal")
}

impl Process for LocalProcess {
    fn approach(&self) {
        self.ballast.let_go();
        self.given_up.store(false, Ordering::Relaxed);
        self.stuck().begin();
        // Errors are ignored: `Plan::make` meets and reports them again.
        let begun = Instant::now();
        let remapped = loader::remapped();
        let tracker = self
            .tracker
            .as_ref()
            .and_then(|tracker| tracker.as_ref().ok().copied());
        let budget = tracker.and_then(|_| self.budget());
        let prescan = loader::on_own_fd_table(|| {
            loader::look_ahead();
            PreScan::run(&APPLICATION, tracker, budget.as_ref())
        });
        let prescan = match prescan {
            Ok(Ok(prescan)) => Some(prescan),
            Ok(Err(why)) => {
                tracing::debug!(%why, "no pre-scan");
                None
            }
            Err(why) => {
                tracing::debug!(%why, "no pre-scan: no thread could be made");
                None
            }
        };
        tracing::info!(took = ?begun.elapsed(), done = prescan.is_some(), "pre-scan over");
        *self.prescan() = prescan.map(|prescan| (remapped, prescan));
        enter(Phase::Approach);
        // From here on each wrapper either sees the phase, or has made its count visible to this thread. The call
        // cannot fail, since the process is registered.
        membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    }

    fn look(&self) -> View {
        let view = |clock: &Clock| {
            let id = clock.id.load(Ordering::Acquire);
            // `left` is read first. It follows `seq`, so the two are equal only outside of a collective operation.
            let left = clock.left.load(Ordering::Acquire);
            let seq = clock.seq.load(Ordering::Acquire);
            if id == DRAIN_CLOCK {
                // The rank starts the missing operations of this clock in its drain.
                let seq = seq.max(clock.target.load(Ordering::Acquire));
                return Some(ClockView { id, seq, left: seq });
            }
            (id != 0).then_some(ClockView { id, seq, left })
        };
        let activity = self.activity();
        let held = self.stuck().look(&activity);
        View {
            // The clocks come last: a thread that was not held may have begun an operation meanwhile.
            clocks: clocks().iter().filter_map(view).collect(),
            activity,
            held,
        }
    }

    fn set_targets(&self, targets: &BTreeMap<u64, u64>) {
        for clock in clocks() {
            // A clock without a target may still have the one of a checkpoint that was given up.
            let target = targets.get(&clock.id.load(Ordering::Acquire));
            clock
                .target
                .store(target.copied().unwrap_or(0), Ordering::Release);
        }
    }

    fn stop(&self) -> Result<Vec<SharedRange>, String> {
        enter(Phase::Stop);
        recorder::note(Event::StopBegan, [0, 0]);
        let patience = Duration::from_secs(self.setup.checkpoints.patience.into());
        gpu::freeze(patience).map_err(|e| message::reasons(e.as_ref()))?;
        let begun = Instant::now();
        let stopped = loader::stop_all().map_err(|e| e.to_string());
        recorder::note(Event::Stopped, [u64::from(stopped.is_ok()), 0]);
        let took = begun.elapsed();
        let stopped = stopped
            .inspect(|_| tracing::info!(?took, "threads stopped"))
            .inspect_err(|why| tracing::error!(?took, why, "threads not stopped"))?;
        let begun = Instant::now();
        let drained = self.drain(&stopped);
        let took = begun.elapsed();
        match &drained {
            Ok(()) => tracing::info!(?took, "messages drained"),
            Err(why) => tracing::error!(?took, %why, "messages not drained"),
        }
        // The gate is part of the memory that is examined and copied now.
        recorder::detach();
        *self.stopped() = Some(stopped);
        let looked = drained.and_then(|()| self.look_at_memory());
        looked.map_err(|e| message::reasons(e.as_ref()))
    }

    fn save(
        &self,
        order: &SaveOrder,
        copied: &mut (dyn FnMut() + Send),
    ) -> Result<Summary, String> {
        let mut copied = || {
            recorder::note(Event::Copied, [0, 0]);
            copied();
        };
        tracing::info!(set = order.set, shared = order.shared.len(), "save begins");
        let begun = Instant::now();
        let saved = self.write(order, &mut copied);
        let took = begun.elapsed();
        let saved = saved.map_err(|e| message::reasons(e.as_ref()));
        match &saved {
            Ok(saved) => {
                recorder::note(Event::Saved, [saved.bytes, 0]);
                tracing::info!(
                    set = order.set,
                    ?took,
                    bytes = saved.bytes,
                    memory = saved.memory,
                    inherits = saved.inherits,
                    stood = saved.stood,
                    "image written"
                );
            }
            Err(why) => tracing::error!(set = order.set, ?took, why, "image not written"),
        }
        saved
    }

    fn cancel_work(&self) {
        self.given_up.store(true, Ordering::Relaxed);
        enter(Phase::Run);
    }

    fn resume(&self, outcome: &Outcome) {
        self.resume_while_saving();
        let committed = matches!(outcome, Outcome::Committed { .. });
        recorder::note(Event::Over, [u64::from(committed), 0]);
        tracing::info!(?outcome, "checkpoint over");
        if let Outcome::Abandoned { late, .. } = outcome {
            if late.contains(self.rank) {
                let events = recorder::last(EVENTS_OF_LATE).join("\n");
                let call = self.doing().0;
                self.say(&format!(
                    "the checkpoint waited for this rank, which is {call}. Its last events:\n{events}"
                ));
            }
        }
        self.ballast.hold();
        if committed {
            profile::write();
        }
        if let (Outcome::Committed { .. }, Some(storage)) = (outcome, local_storage::of_this_rank())
        {
            storage.drain();
        }
    }

    fn resume_while_saving(&self) {
        recorder::attach();
        enter(Phase::Run);
        *self.plan() = None;
        if let Some(stopped) = self.stopped().take() {
            stopped.resume();
        }
        gpu::thaw();
    }

    fn exit(&self, set: &str) {
        if kill_at_call::armed() {
            wait_alone();
            kill_at_call::die();
        }
        if self.rank == 0 {
            message::say(format_args!(
                "the job ends with the checkpoint {set}, as requested"
            ));
        }
        keeper::exits(0);
        profile::write();
        let watch = std::thread::Builder::new().spawn(|| {
            std::thread::sleep(2 * END_LIMIT);
            end();
        });
        // The application prints nothing more: unwritten output is in the image. Warnings of the MPI library about
        // receives that are still posted must not reach the application's output.
        let _ = nix::unistd::dup2_stdout(std::io::stderr());
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

    fn write_profile(&self) {
        profile::write();
    }

    fn doing(&self) -> (String, u64) {
        let gate = gate();
        let messages = [&gate.upper.sent, &gate.upper.received];
        let messages = messages.into_iter().flat_map(|array| self.counts(array));
        let operations = clocks()
            .iter()
            .map(|clock| clock.seq.load(Ordering::Relaxed));
        let progress = messages.map(|(_, n)| n).chain(operations);
        (
            current_call::describe(),
            progress.fold(0, u64::wrapping_add),
        )
    }

    fn events(&self, most: usize) -> Vec<String> {
        recorder::last(most)
    }

    fn stack(&self) -> Vec<String> {
        self.stuck().stack()
    }

    fn stacks(&self, lines: bool) -> Vec<ThreadStack> {
        thread_stacks::all(lines)
    }

    fn waits(&self) -> RankWaits {
        let _explaining = Explaining::begin();
        let still = waits::watch(|| self.doing().1);
        let gate = gate();
        let told = waits::told();
        let polls = match self.activity() {
            Activity::Waiting { on, .. } if told.threads.is_empty() => Some(on),
            _ => None,
        };
        RankWaits {
            still,
            polls,
            clocks: waits::entered(clocks(), &gate.activity),
            sent: self.counts(&gate.upper.sent),
            received: self.counts(&gate.upper.received),
            ..told
        }
    }

    fn say(&self, text: &str) {
        console::say(self.rank, text);
    }
}

/// Waits for the end of all ranks that are connected to the relay or the coordinator of this process.
fn wait_alone() {
    if let Some(relay) = RELAY.get() {
        relay.wait_alone(END_LIMIT);
    }
    if let Some(server) = SERVER.get() {
        server.wait_alone(END_LIMIT);
    }
}

/// Ends the process with exit code 0. No exit handler of the application runs.
fn end() -> ! {
    // SAFETY: no conditions.
    unsafe { libc::_exit(0) }
}

/// A path as text, for the manifest.
fn text(path: PathBuf) -> Result<String> {
    let text = path.into_os_string().into_string();
    text.map_err(|path| {
        anyhow!(
            "the path {} is not UTF-8: use another --local-dir",
            path.display()
        )
    })
}

/// The note that a child process is not in the image.
fn child_note(pid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!(
        "child process {pid} ({}) is not saved: it runs on, and a restarted program has no such \
         child",
        name.trim_end()
    )
}

/// How a file is mapped, if it is.
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
    // SAFETY: the call accesses no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
