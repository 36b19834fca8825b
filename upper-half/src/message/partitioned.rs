//! Partitioned communication: a message to which many threads contribute. All partitions travel in one
//! message when the last is ready, which MPI allows: they arrive at once. So libraries before MPI 4 have it
//! too, and whatever the two sides partition their buffers into fits.
//!
//! *Which send belongs to which receive* is settled by the order in which they are made, among those of the
//! same communicator, ranks and tag; not by the order in which they are started, and apart from all other
//! messages. So a send has a channel, a tag of a communicator of our own, and tells the receiver about it by
//! an announcement when it is made. A receive that has been started before its announcement is there waits
//! for it in the upper half.
//!
//! Below the application's request lies another, an ordinary persistent one over that communicator. It is
//! what a cut finds, and what a restart makes again.
//!
//! # Safety
//! Buffers are the application's, under the promises that MPI asks of it; handles are descriptors.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

use super::activity::WaitSet;
use super::counts::{peer_of, NOBODY};
use super::request::{self, Args, Kind, Mode, State};
use super::{batch, persistent, receive, send, test};
use crate::attribute::TAG_UB_LIMIT;
use crate::environment::sync_comm;
use crate::object::{Comm, Datatype, Info, Request};
use crate::sync::Lock;
use contract::abi::{self, Status, ANY_SOURCE, ERR_ARG, ERR_REQUEST, PROC_NULL, SUCCESS};
use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicI32, Ordering};

/// Tag of announcements: constructors of communicators have those below.
const ANNOUNCEMENT: i32 = 0x8000;

/// What a request of partitioned communication holds.
pub(super) struct Partitioned {
    /// The request that moves all partitions; a receive has none before its announcement.
    whole: Cell<Option<&'static Request>>,
    sends: bool,
    partitions: i32,
    /// Partitions that are not ready yet.
    missing: AtomicI32,
    /// World rank of the other side.
    peer: u32,
    /// What a status says.
    source: i32,
    tag: i32,
}

impl Partitioned {
    /// The request that moves all partitions, while it does.
    pub(super) fn whole(&self) -> Option<&'static Request> {
        let whole = self.whole.get()?;
        (whole.body.state.get() != State::Inactive).then_some(whole)
    }

    /// Status and error, once all partitions have been moved.
    pub(super) fn outcome(&self) -> Option<(Status, i32)> {
        let whole = self.whole()?;
        if whole.body.state.get() != State::Done {
            return None;
        }
        let mut status = Status::EMPTY;
        let error = whole.result(&mut status)?;
        let mut handle = whole;
        whole.collect(&mut handle);
        if !self.sends {
            (status.source, status.tag) = (self.source, self.tag);
        }
        Some((status, error))
    }

    /// The rank whose message would help.
    pub(super) fn waits_for(&self, set: &mut WaitSet) {
        if !self.sends {
            set.add(self.peer);
        }
    }
}

/// What a send tells its receiver when it is made.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct Announcement {
    comm: u64,
    tag: i64,
    channel: i64,
}

const BYTES: i32 = size_of::<Announcement>() as i32;

/// Announcements and the receives that they are for.
struct Matching {
    /// Sends of announcements that may still be under way, and what they send.
    told: Vec<(&'static Request, Box<Announcement>)>,
    /// The receive of the next announcement, and the place for it.
    next: Option<(&'static Request, Box<Announcement>)>,
    /// What was announced, by whom, for which no receive has been made.
    heard: Vec<(u32, Announcement)>,
    /// Receives without an announcement, in the order in which they were made, with communicator and what
    /// they are to receive.
    waiting: Vec<(&'static Request, u64, Args)>,
    channel: i32,
}

static MATCHING: Lock<Matching> = Lock::new(Matching {
    told: Vec::new(),
    next: None,
    heard: Vec::new(),
    waiting: Vec::new(),
    channel: ANNOUNCEMENT,
});

fn byte() -> &'static Datatype {
    Datatype::at(abi::datatype::BYTE as u32)
}

impl Matching {
    /// A tag for a channel: those that are used again belong to sends of long ago.
    fn next_channel(&mut self) -> i32 {
        self.channel = match self.channel {
            TAG_UB_LIMIT => ANNOUNCEMENT + 1,
            channel => channel + 1,
        };
        self.channel
    }

    unsafe fn announce(&mut self, to: u32, announcement: Announcement) -> Result<(), i32> {
        self.told.retain(|(request, _)| {
            let is_over = request.body.state.get() == State::Done;
            if is_over {
                request.recycle();
            }
            !is_over
        });
        let told = Box::new(announcement);
        let mut request = Request::null();
        // SAFETY: the box stays in the list until the send is over.
        let error = unsafe {
            let from = (&raw const *told).cast();
            let (to, comm) = (to as i32, sync_comm());
            send::isend(
                from,
                BYTES,
                byte(),
                to,
                ANNOUNCEMENT,
                comm,
                &raw mut request,
            )
        };
        if error != SUCCESS {
            return Err(error);
        }
        self.told.push((request, told));
        Ok(())
    }

    /// Takes announcements that are there, as long as receives wait for some.
    unsafe fn listen(&mut self) -> Result<(), i32> {
        while !self.waiting.is_empty() {
            let Some((request, place)) = self.next.take() else {
                let mut place = Box::new(Announcement {
                    comm: 0,
                    tag: 0,
                    channel: 0,
                });
                let args = Args {
                    buffer: &raw mut *place as usize,
                    count: BYTES,
                    peer: ANY_SOURCE,
                    tag: ANNOUNCEMENT,
                    datatype: byte(),
                    comm: sync_comm(),
                };
                // SAFETY: the box stays here until the receive is over.
                self.next = Some((unsafe { receive::post(args)? }, place));
                continue;
            };
            if request.body.state.get() != State::Done {
                self.next = Some((request, place));
                return Ok(());
            }
            let mut status = Status::EMPTY;
            let error = request.result(&mut status);
            request.recycle();
            if error != Some(SUCCESS) {
                return Err(error.unwrap_or(ERR_REQUEST));
            }
            self.heard.push((status.source as u32, *place));
            // SAFETY: passed on to the caller.
            unsafe { self.bring_together()? };
        }
        Ok(())
    }

    /// Gives each waiting receive the first announcement that is for it.
    unsafe fn bring_together(&mut self) -> Result<(), i32> {
        let mut i = 0;
        while let Some(&(request, comm, args)) = self.waiting.get(i) {
            let is_for_it = |&(from, announcement): &(u32, Announcement)| {
                let tag = i64::from(args.tag);
                (from as i32, announcement.comm, announcement.tag) == (args.peer, comm, tag)
            };
            let Some(found) = self.heard.iter().position(is_for_it) else {
                i += 1;
                continue;
            };
            let (_, announcement) = self.heard.remove(found);
            let (.., mut args) = self.waiting.remove(i);
            args.tag = announcement.channel as i32;
            // SAFETY: the application's arguments, which it keeps while the request lives.
            let made = unsafe { open(request, Kind::PersistentReceive, args) };
            args.datatype.release();
            made?;
            if request.body.state.get() == State::Upper {
                // SAFETY: as above.
                unsafe { start_whole(request)? };
            }
        }
        Ok(())
    }
}

/// Gives a request the one that moves all partitions.
unsafe fn open(request: &'static Request, kind: Kind, args: Args) -> Result<(), i32> {
    let mut whole = Request::null();
    // SAFETY: passed on to the caller.
    let error = unsafe { persistent::make(kind, Mode::Standard, args, &raw mut whole) };
    if error != SUCCESS {
        return Err(error);
    }
    if let Some(partitioned) = request.partitioned() {
        partitioned.whole.set(Some(whole));
    }
    Ok(())
}

/// Starts the request that moves all partitions.
unsafe fn start_whole(request: &'static Request) -> Result<(), i32> {
    let whole = request.partitioned().and_then(|held| held.whole.get());
    let whole = whole.ok_or(ERR_REQUEST)?;
    // SAFETY: passed on to the caller.
    match unsafe { persistent::start_one(whole) } {
        SUCCESS => Ok(()),
        error => Err(error),
    }
}

/// Looks whether receives that wait for their announcement have got it.
///
/// # Safety
/// Crosses.
pub(super) unsafe fn match_announced() {
    let mut matching = MATCHING.lock();
    if !matching.waiting.is_empty() {
        // SAFETY: passed on to the caller. What fails now is tried again.
        let _ = unsafe { matching.listen() };
    }
}

/// Makes a request for a message of `partitions` times `count` elements.
unsafe fn make(
    sends: bool,
    (buffer, partitions, count): (usize, i32, i64),
    datatype: &'static Datatype,
    (rank, tag): (i32, i32),
    comm: &'static Comm,
) -> Result<&'static Request, i32> {
    if partitions < 0 || count < 0 {
        return Err(ERR_ARG);
    }
    let all = count.checked_mul(partitions.into()).ok_or(ERR_ARG)?;
    let fold = crate::large::fold(all, datatype)?;
    let nobody = rank == PROC_NULL;
    let peer = if nobody { NOBODY } else { peer_of(comm, rank) };
    if !nobody && peer == NOBODY {
        return Err(abi::ERR_RANK);
    }
    let request = request::acquire(Kind::Partitioned, peer, comm)?;
    request.body.partitioned.set(Some(Box::new(Partitioned {
        whole: Cell::new(None),
        sends,
        partitions,
        missing: AtomicI32::new(0),
        peer,
        source: rank,
        tag,
    })));
    request.body.state.set(State::Inactive);
    let mut args = Args {
        buffer,
        count: fold.count(),
        peer: if nobody { PROC_NULL } else { peer as i32 },
        tag,
        datatype: fold.datatype(),
        comm: sync_comm(),
    };
    let mut matching = MATCHING.lock();
    // SAFETY: the application's arguments.
    let made = unsafe {
        match (sends, nobody) {
            (true, _) => {
                args.tag = matching.next_channel();
                let announcement = Announcement {
                    comm: comm.body.id,
                    tag: tag.into(),
                    channel: args.tag.into(),
                };
                open(request, Kind::PersistentSend, args).and_then(|()| match nobody {
                    true => Ok(()),
                    false => matching.announce(peer, announcement),
                })
            }
            (false, true) => open(request, Kind::PersistentReceive, args),
            (false, false) => {
                args.datatype.retain();
                matching.waiting.push((request, comm.body.id, args));
                matching.bring_together()
            }
        }
    };
    drop(matching);
    made.map(|()| request).inspect_err(|_| request.recycle())
}

/// Gives up what a request holds.
pub(super) fn free(request: &'static Request) {
    let mut matching = MATCHING.lock();
    let is_it = |entry: &(&'static Request, u64, Args)| entry.0.index() == request.index();
    if let Some(place) = matching.waiting.iter().position(is_it) {
        matching.waiting.remove(place).2.datatype.release();
    }
    drop(matching);
    let held = request.body.partitioned.take();
    if let Some(whole) = held.and_then(|held| held.whole.get()) {
        // SAFETY: nothing of it is under way, since nothing of the application's request is.
        unsafe { request::release_below(whole) };
        whole.recycle();
    }
}

/// MPI_Start.
pub(super) fn start(request: &'static Request) -> i32 {
    let Some(held) = request.partitioned() else {
        return ERR_REQUEST;
    };
    // A receive whose announcement comes now is started by who finds it.
    let _matching = MATCHING.lock();
    held.missing.store(held.partitions, Ordering::Relaxed);
    request.body.state.set(State::Upper);
    let starts_now = match held.sends {
        true => held.partitions == 0,
        false => held.whole.get().is_some(),
    };
    if !starts_now {
        return SUCCESS;
    }
    // SAFETY: the application's buffer is the operation's from now on.
    match unsafe { start_whole(request) } {
        Ok(()) => SUCCESS,
        Err(error) => {
            request.body.state.set(State::Inactive);
            error
        }
    }
}

/// MPI_Psend_init
#[allow(clippy::too_many_arguments)] // those of MPI_Psend_init
pub unsafe fn psend_init(
    buf: *const c_void,
    partitions: i32,
    count: i64,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    _info: &'static Info,
    request: *mut &'static Request,
) -> i32 {
    let what = (buf as usize, partitions, count);
    // SAFETY: as promised by the caller.
    unsafe { crate::code::give(make(true, what, datatype, (dest, tag), comm), request) }
}

/// MPI_Precv_init
#[allow(clippy::too_many_arguments)] // those of MPI_Precv_init
pub unsafe fn precv_init(
    buf: *mut c_void,
    partitions: i32,
    count: i64,
    datatype: &'static Datatype,
    source: i32,
    tag: i32,
    comm: &'static Comm,
    _info: &'static Info,
    request: *mut &'static Request,
) -> i32 {
    let what = (buf as usize, partitions, count);
    // SAFETY: as promised by the caller.
    unsafe { crate::code::give(make(false, what, datatype, (source, tag), comm), request) }
}

/// So many more partitions of a send that has been started are ready.
fn ready(request: &'static Request, partitions: impl Iterator<Item = i32>) -> i32 {
    let held = request.partitioned().filter(|held| held.sends);
    let started = request.body.state.get() == State::Upper;
    let Some(held) = held.filter(|_| started) else {
        return ERR_REQUEST;
    };
    for partition in partitions {
        if !(0..held.partitions).contains(&partition) {
            return ERR_ARG;
        }
        if held.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: all of the application's buffer is the operation's from now on.
            if let Err(error) = unsafe { start_whole(request) } {
                return error;
            }
        }
    }
    SUCCESS
}

/// MPI_Pready
pub fn pready(partition: i32, request: &'static Request) -> i32 {
    ready(request, core::iter::once(partition))
}

/// MPI_Pready_range
pub fn pready_range(low: i32, high: i32, request: &'static Request) -> i32 {
    ready(request, low..=high)
}

/// MPI_Pready_list
pub unsafe fn pready_list(length: i32, partitions: *const i32, request: &'static Request) -> i32 {
    let Ok(length) = usize::try_from(length) else {
        return ERR_ARG;
    };
    // SAFETY: MPI's contract: an array of that length.
    ready(request, (0..length).map(|i| unsafe { *partitions.add(i) }))
}

/// MPI_Parrived
pub unsafe fn parrived(request: &'static Request, partition: i32, flag: *mut i32) -> i32 {
    let Some(held) = request.partitioned().filter(|held| !held.sends) else {
        return ERR_REQUEST;
    };
    if !(0..held.partitions).contains(&partition) {
        return ERR_ARG;
    }
    let is_under_way = || request.body.state.get() == State::Upper;
    // SAFETY: the caller's place for a flag; no word is in our hands.
    unsafe {
        if is_under_way() {
            test::look_here(&[request], batch::Found::all);
        }
        *flag = i32::from(!is_under_way());
    }
    SUCCESS
}
