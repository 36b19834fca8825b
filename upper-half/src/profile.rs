//! `--profile`: the application's calls are counted, with their bytes and their time.
//!
//! The guard of a call sees each call of a thread whose sign bit stays set ([`contract::COUNTED`]). So calls cost
//! nothing more where nothing is counted. A call inside another one is part of that: Fortran functions call C
//! functions. In a callback the application's calls are its own again, and the time is not the outer call's. The bytes
//! come from the statements that tell all tools of a call.
//!
//! The counters, and what a thread is in, lie in memory that images have. The clock is the application's, which stands
//! still between a cut and the restart.

use crate::object::{Comm, Datatype, Request};
use crate::runtime::wtime;
use crate::tools;
use contract::abi::{IN_PLACE, PROC_NULL, ROOT};
use contract::profile::{
    size_class, CommCounts, Counts, Profile, COMM_ENTRIES, DERIVED_TYPES, FIRST_COMBINER,
    NAMED_TYPES, OTHER_COMMS,
};
use contract::{gate, TOOL_PROFILE};
use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

static PROFILE: Profile = Profile::new();

/// Whether calls are counted: one of the values below.
static STATE: AtomicU32 = AtomicU32::new(UNDECIDED);
/// MPI is not initialised yet.
const UNDECIDED: u32 = 0;
const ON: u32 = 1;
const OFF: u32 = 2;

/// The counted call that a thread is in.
struct Current {
    /// Slot of its function; 0 outside.
    function: Cell<u32>,
    /// Place of its communicator among the counters, and one more; 0 for none.
    comm: Cell<usize>,
    /// When it began, or was gone on with.
    start: Cell<u64>,
    /// Data of the persistent request that it makes, from [`repeats`] to [`take_repeated`].
    repeated: Cell<Option<Repeated>>,
}

/// Profile data of one start of a persistent request.
#[derive(Clone, Copy)]
pub(crate) struct Repeated {
    /// As [`Current::comm`].
    comm: usize,
    /// Bytes, and the counters of their datatype; none for a barrier.
    data: Option<(u64, Option<&'static Counts>)>,
}

thread_local! {
    static CURRENT: Current = const {
        Current {
            function: Cell::new(0),
            comm: Cell::new(0),
            start: Cell::new(0),
            repeated: Cell::new(None),
        }
    };
}

fn is_on() -> bool {
    STATE.load(Ordering::Relaxed) == ON
}

/// Whether calls are counted, or it is not known yet.
#[cfg_attr(test, allow(dead_code))] // wrappers do nothing in unit tests
pub(crate) fn may_count() -> bool {
    STATE.load(Ordering::Relaxed) != OFF
}

/// MPI is initialised: counting begins with the call that the thread is in, if it is wanted.
pub(crate) fn begin() {
    let wanted = tools::wanted() & TOOL_PROFILE != 0;
    STATE.store(if wanted { ON } else { OFF }, Ordering::Relaxed);
    if !wanted {
        return;
    }
    tools::set(TOOL_PROFILE, true);
    CURRENT.with(|current| {
        if let Some(counts) = PROFILE.functions.get(current.function.get() as usize) {
            add(&counts.all.calls, u64::from(current.function.get() != 0));
        }
        PROFILE.begun.store(current.start.get(), Ordering::Relaxed);
    });
    add32(&PROFILE.threads);
    let address = core::ptr::from_ref(&PROFILE) as usize;
    gate().profile.store(address, Ordering::Release);
}

/// A thread calls MPI for the first time.
#[cfg_attr(test, allow(dead_code))] // as above
pub(crate) fn another_thread() {
    if is_on() {
        add32(&PROFILE.threads);
    }
}

/// A call begins. `outermost`: in no other wrapper.
#[cfg_attr(test, allow(dead_code))] // as above
pub(crate) fn begins(function: u32, outermost: bool) {
    if tools::untold() {
        return;
    }
    CURRENT.with(|current| {
        if outermost {
            // A call that was left by a jump has no end.
            current.function.set(0);
        }
        if function == 0 || current.function.get() != 0 {
            return;
        }
        current.function.set(function);
        current.comm.set(0);
        current.start.set(wtime::nanoseconds());
        if is_on() {
            add(&PROFILE.functions[function as usize].all.calls, 1);
        }
    });
}

/// The outermost wrapper ends.
#[cfg_attr(test, allow(dead_code))] // as above
pub(crate) fn ends() {
    if tools::untold() {
        return;
    }
    CURRENT.with(|current| {
        note_time(current);
        current.function.set(0);
    });
}

/// Adds the time of the call so far. The rest counts from now.
pub(crate) fn settle() {
    CURRENT.with(note_time);
}

fn note_time(current: &Current) {
    let function = current.function.get();
    if function == 0 || !is_on() {
        return;
    }
    let now = wtime::nanoseconds();
    let time = now.saturating_sub(current.start.replace(now));
    add(&PROFILE.functions[function as usize].time, time);
    add(&PROFILE.time, time);
    let comm = current.comm.get().checked_sub(1);
    if let Some(comm) = comm.and_then(|comm| PROFILE.comms.get(comm)) {
        add(&comm.time, time);
    }
    PROFILE.last.fetch_max(now, Ordering::Relaxed);
}

/// A call that is interrupted by a callback.
#[cfg_attr(test, allow(dead_code))] // as above
pub(crate) struct Paused {
    function: u32,
    comm: usize,
}

/// A callback of the application begins, inside a call or outside.
#[cfg_attr(test, allow(dead_code))] // as above
pub(crate) fn pause() -> Paused {
    CURRENT.with(|current| {
        note_time(current);
        Paused {
            function: current.function.replace(0),
            comm: current.comm.get(),
        }
    })
}

/// It is over.
#[cfg_attr(test, allow(dead_code))] // as above
pub(crate) fn go_on(paused: Paused) {
    CURRENT.with(|current| {
        current.function.set(paused.function);
        current.comm.set(paused.comm);
        current.start.set(wtime::nanoseconds());
    });
}

/// The call of which tools are told uses this communicator, and names data: elements of this datatype, or bytes.
#[inline(always)]
pub fn notes(
    function: u32,
    comm: Option<&'static Comm>,
    data: Option<(i64, Option<&'static Datatype>)>,
) {
    if tools::is_set(TOOL_PROFILE) {
        notes_if_told(function, comm, data);
    }
}

#[cold]
#[inline(never)]
fn notes_if_told(
    function: u32,
    comm: Option<&'static Comm>,
    data: Option<(i64, Option<&'static Datatype>)>,
) {
    if tools::untold() {
        return;
    }
    let data = data.map(bytes_of);
    if let Some(comm) = comm.filter(|comm| comm.body.id != 0) {
        let (at, counts) = entry(comm);
        CURRENT.with(|current| current.comm.set(at + 1));
        add_call(&counts.all, data.map_or(0, |(bytes, _)| bytes));
    }
    if let Some((bytes, datatype)) = data {
        moved(function, bytes, datatype);
    }
}

/// The bytes of a number of elements of a datatype, or a number of bytes, and the counters of the datatype.
fn bytes_of((count, datatype): (i64, Option<&'static Datatype>)) -> (u64, Option<&'static Counts>) {
    let size = datatype.map_or(1, |datatype| datatype.body.size());
    let bytes = count.max(0).saturating_mul(size.max(0)).cast_unsigned();
    (bytes, datatype.and_then(of_datatype))
}

fn moved(function: u32, bytes: u64, datatype: Option<&'static Counts>) {
    let counts = &PROFILE.functions[function as usize];
    add(&counts.all.bytes, bytes);
    add(&counts.sizes[size_class(bytes)], 1);
    if let Some(counts) = datatype {
        add_call(counts, bytes);
    }
}

/// Keeps the data of a persistent collective for [`take_repeated`], in the form of [`notes`]. The current call makes
/// the request, and has called [`notes`] before.
#[cold]
#[inline(never)]
pub fn repeats(data: Option<(i64, Option<&'static Datatype>)>) {
    let repeated = repeated(data);
    CURRENT.with(|current| current.repeated.set(repeated));
}

/// Profile data of one start of a request that the current call makes; `None` without a profile.
pub(crate) fn repeated(data: Option<(i64, Option<&'static Datatype>)>) -> Option<Repeated> {
    tools::is_set(TOOL_PROFILE).then(|| Repeated {
        comm: CURRENT.with(|current| current.comm.get()),
        data: data.map(bytes_of),
    })
}

/// Takes the data that [`repeats`] has kept.
pub(crate) fn take_repeated() -> Option<Repeated> {
    CURRENT.with(|current| current.repeated.take())
}

/// A request of a persistent collective or a partitioned one is started by the current call.
pub(crate) fn starts_again(repeated: Option<Repeated>) {
    let counted = tools::is_set(TOOL_PROFILE);
    let Some(Repeated { comm, data }) = repeated.filter(|_| counted) else {
        return;
    };
    let counts = comm.checked_sub(1).and_then(|at| PROFILE.comms.get(at));
    if let Some(counts) = counts {
        CURRENT.with(|current| current.comm.set(comm));
        add_call(&counts.all, data.map_or(0, |(bytes, _)| bytes));
    }
    if let Some((bytes, datatype)) = data {
        let function = CURRENT.with(|current| current.function.get());
        moved(function, bytes, datatype);
    }
}

/// A persistent message is started by the current call.
#[cold]
pub(crate) fn starts(request: &'static Request) {
    let args = request.body.args.get();
    let function = CURRENT.with(|current| current.function.get());
    let data = (i64::from(args.count), Some(args.datatype));
    notes(function, Some(args.comm), Some(data));
}

/// The counters of a communicator, and their place.
fn entry(comm: &'static Comm) -> (usize, &'static CommCounts) {
    let id = comm.body.id;
    let rest = (COMM_ENTRIES - 1, OTHER_COMMS);
    for (at, entry) in PROFILE.comms.iter().enumerate() {
        let wanted = if at == rest.0 { rest.1 } else { id };
        if entry.id.load(Ordering::Acquire) == wanted {
            return (at, entry);
        }
        let taken = entry
            .id
            .compare_exchange(0, wanted, Ordering::AcqRel, Ordering::Acquire);
        match taken {
            Ok(_) => {
                if wanted == id {
                    describe(entry, comm);
                }
                return (at, entry);
            }
            Err(other) if other == wanted => return (at, entry),
            Err(_) => {}
        }
    }
    (rest.0, &PROFILE.comms[rest.0])
}

fn describe(entry: &CommCounts, comm: &'static Comm) {
    entry
        .size
        .store(comm.body.size.cast_unsigned(), Ordering::Relaxed);
    let name = comm.body.name.lock();
    for (word, bytes) in entry.name.iter().zip(name.to_bytes().chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
    }
}

fn of_datatype(datatype: &'static Datatype) -> Option<&'static Counts> {
    let index = datatype.index() as usize;
    if index < NAMED_TYPES {
        return PROFILE.named_types.get(index);
    }
    let combiner = datatype.body.contents.combiner - FIRST_COMBINER;
    let place = usize::try_from(combiner).ok();
    PROFILE
        .derived_types
        .get(place.filter(|place| *place < DERIVED_TYPES)?)
}

fn add_call(counts: &Counts, bytes: u64) {
    add(&counts.calls, 1);
    add(&counts.bytes, bytes);
}

fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

fn add32(counter: &AtomicU32) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Whether a buffer is MPI_IN_PLACE.
pub fn in_place(buffer: *const c_void) -> bool {
    buffer as usize == IN_PLACE
}

/// Whether a process has data in an operation with that root: on an inter-communicator, MPI_PROC_NULL has none, and
/// MPI_ROOT has some if the root gives them.
pub fn has_data(root: i32, root_gives: bool) -> bool {
    root != PROC_NULL && (root != ROOT || root_gives)
}
