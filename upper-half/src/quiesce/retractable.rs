//! Blocking collective operations that can be retracted: until a member has returned from one, a checkpoint may be
//! placed before it, although members are inside.
//!
//! Such an operation counts on the clock of its communicator when the library has returned, not when it begins. So a
//! thread that waits in the library for other members looks to the coordinator like one that is parked before the
//! operation. The protocol and its proof stay as they are (docs/protocol.md).
//!
//! - *Inside.* Where the library can, it calls [`turn`] now and then while it makes progress. While a checkpoint is
//!   pending, the thread pulls messages there, and reports that it is parked. When all ranks stop, it stops there, in
//!   upper-half code with a frame of its own, and takes part in the drain. If the job goes on, it returns to the
//!   library, which has noticed nothing. After a restart that library is gone: the thread abandons the call and makes
//!   it again.
//! - *Returned.* A thread whose library returns while a checkpoint is pending, with the operation past its target, is
//!   held back: it stops like a parked thread. If the job goes on, it returns to the application. After a restart it
//!   makes the call again.
//!
//! The second call writes the receive buffer again. It needs the inputs of the first. So an operation that overwrites
//! its inputs (MPI_IN_PLACE) is retractable only if they are small: a copy is kept. Operations of the
//! application (MPI_Op_create) may have effects of their own and are not retractable.
//!
//! An operation that makes several calls ([`first_call`]) is retractable in the first of them. It counts when that one
//! has returned, and then goes on like any operation that has begun. So the first call should be one that no member
//! returns from before all have made it: then a late member finds all others in it.
//!
//! # Safety
//! A thread's block has the address of its [`Inside`], which is on its stack as long as that is set. The block is read
//! and written by its own thread.
#![allow(unsafe_code)]

#[cfg(not(test))]
use crate::crossing::abandon::abandon;
use crate::crossing::abandon::abandonable;
use crate::crossing::stubs::service;
#[cfg(not(test))]
use crate::crossing::switch::block_word;
use crate::datatype::extent::extents;
use crate::object::lower_handle::named;
use crate::object::{Comm, Datatype, File, Op};
use crate::quiesce::collective_gate::{
    collective_begin, collective_end, finalize_begin, leave, may_pass, Token,
};
use crate::quiesce::progress::phase;
use crate::quiesce::two_phase::collective_begin_blocking;
use crate::quiesce::{wait_loop, wait_report};
use crate::request::lifecycle::DUPLICATIONS;
use crate::runtime::lock::multiple;
use crate::stages::state;
use contract::abi::{comm, datatype, IN_PLACE, SEEK_SET, SUCCESS};
use contract::{gate, ActivityKind, Clock, Phase, RETRACTABLE};
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::sync::atomic::{compiler_fence, Ordering};

/// Most bytes of inputs that are kept: copying them takes a few nanoseconds.
pub(crate) const MOST_KEPT: usize = 512;

/// Effect of a collective operation on its inputs.
#[derive(Clone, Copy)]
pub enum Inputs {
    /// They stay as they are.
    Stay,
    /// They are overwritten, or the operation has other effects.
    Change,
    /// These bytes are overwritten.
    Overwritten(*mut c_void, usize),
    /// The file's own pointer moves.
    Pointer(&'static File),
}

impl Inputs {
    /// Inputs of an operation that overwrites them in place.
    #[inline(always)]
    pub fn unless_in_place(sendbuf: *const c_void, recvbuf: *mut c_void) -> Inputs {
        match is_in_place(sendbuf, recvbuf) {
            true => Inputs::Change,
            false => Inputs::Stay,
        }
    }

    /// The same of a reduction of `count` elements for all processes, or for the process `root`.
    #[inline(always)]
    pub fn of_reduction(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        comm: &'static Comm,
        root: Option<i32>,
        count: i64,
        datatype: &'static Datatype,
        operator: &'static Op,
    ) -> Inputs {
        if !operator.is_predefined() {
            return Inputs::Change;
        }
        if !may_be_in_place(comm, root) {
            return Inputs::Stay;
        }
        Inputs::in_place(sendbuf, recvbuf, count, datatype)
    }

    /// The same of a gather for all processes, or for the process `root`, in which the input is a block of the receive
    /// buffer. A library may move that block before it has received the others, as Open MPI does. `block` gives the
    /// first element and the length of the block; it is called only where the arguments of the receiving side are
    /// significant.
    #[inline(always)]
    pub fn of_gather(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        comm: &'static Comm,
        root: Option<i32>,
        datatype: &'static Datatype,
        block: impl FnOnce() -> (i64, i64),
    ) -> Inputs {
        if !may_be_in_place(comm, root) {
            return Inputs::Stay;
        }
        let Ok(extents) = extents(datatype) else {
            return Inputs::Change;
        };
        let (first, count) = block();
        let at = match sendbuf == recvbuf {
            true => recvbuf,
            false => recvbuf.wrapping_byte_offset(extents.extent.wrapping_mul(first as isize)),
        };
        Inputs::in_place(sendbuf, at, count, datatype)
    }

    /// The same of an exchange in which `count` elements in all are overwritten, from `recvbuf` on.
    #[inline(always)]
    pub fn in_place(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: i64,
        datatype: &'static Datatype,
    ) -> Inputs {
        if !is_in_place(sendbuf, recvbuf) {
            return Inputs::Stay;
        }
        let bytes = count.saturating_mul(datatype.body.size());
        let is_dense = datatype.is_predefined() && !GAPPY.contains(&(datatype.index() as usize));
        match usize::try_from(bytes) {
            Ok(0) => Inputs::Stay,
            Ok(bytes) if bytes <= MOST_KEPT && is_dense && !recvbuf.is_null() => {
                Inputs::Overwritten(recvbuf, bytes)
            }
            _ => Inputs::Change,
        }
    }
}

/// Whether this process receives at all, from a group that it belongs to.
#[inline(always)]
fn may_be_in_place(comm: &'static Comm, root: Option<i32>) -> bool {
    !comm.body.inter && root.is_none_or(|root| root == comm.body.rank)
}

/// Whether the input is in the receive buffer, at `recvbuf`. The standard forbids to pass one buffer for both; with
/// a library that does not look for it, programs that do so work.
#[inline(always)]
fn is_in_place(sendbuf: *const c_void, recvbuf: *mut c_void) -> bool {
    sendbuf as usize == IN_PLACE || sendbuf == recvbuf && !sendbuf.is_null()
}

/// Predefined datatypes whose extent is not their size.
const GAPPY: [usize; 5] = [
    datatype::FLOAT_INT,
    datatype::DOUBLE_INT,
    datatype::LONG_INT,
    datatype::SHORT_INT,
    datatype::LONG_DOUBLE_INT,
];

/// A retractable operation of a thread.
struct Inside {
    /// Where the call began ([`abandonable`]).
    place: usize,
    clock: &'static Clock,
    seq: u64,
    /// What the thread is to the agent while it is inside.
    kind: ActivityKind,
    /// The progress count that was last reported to the agent.
    told: u64,
}

/// A blocking collective operation over `comm`. `call` makes it and stores its error code. It reads every lower handle
/// itself, since it may be called again, in another process.
pub fn collective(comm: &'static Comm, inputs: Inputs, call: &mut dyn FnMut(&mut i32)) -> i32 {
    match (inputs, comm.body.clock()) {
        (Inputs::Stay, Some(clock)) if is_served() => run(clock, &mut || {}, call),
        (Inputs::Overwritten(at, bytes), Some(clock)) if is_served() => {
            let mut kept = MaybeUninit::<[u8; MOST_KEPT]>::uninit();
            let room = kept.as_mut_ptr().cast::<u8>();
            // SAFETY: the application's input, of that many bytes; there is room for them.
            unsafe { room.copy_from_nonoverlapping(at.cast(), bytes) };
            let mut restore = || {
                // SAFETY: the same bytes.
                unsafe { room.copy_to_nonoverlapping(at.cast(), bytes) };
            };
            run(clock, &mut restore, call)
        }
        (Inputs::Pointer(file), Some(clock)) if is_served() => {
            let mut position = 0;
            match named::MPI_File_get_position(file, &mut position) {
                SUCCESS => {
                    let mut restore = || {
                        named::MPI_File_seek(file, position, SEEK_SET);
                    };
                    run(clock, &mut restore, call)
                }
                _ => complete(comm, call),
            }
        }
        (_, None) => made(call),
        // It is never made again: after a fault the call fails.
        (_, Some(clock)) if state::is_on() && is_served() => run(clock, &mut || {}, call),
        _ => complete(comm, call),
    }
}

fn made(call: &mut dyn FnMut(&mut i32)) -> i32 {
    let mut code = 0;
    call(&mut code);
    code
}

/// The same for an operation that a checkpoint completes once it has begun.
fn complete(comm: &'static Comm, call: &mut dyn FnMut(&mut i32)) -> i32 {
    let token = collective_begin_blocking(comm);
    let code = made(call);
    collective_end(token);
    code
}

/// Begins a collective operation over `comm` that makes several calls below, by the first of them. `call` makes that
/// one as for [`collective`]. When this returns the operation is counted, and the thread parks no more before its end.
pub(crate) fn first_call(comm: &'static Comm, call: &mut dyn FnMut(&mut i32)) -> (Token, i32) {
    retractable_first_call(comm, ActivityKind::Parked, call).unwrap_or_else(|| {
        let token = collective_begin(comm);
        (token, made(call))
    })
}

/// The same for MPI_Finalize. The call is made in any case, since other ranks may make it.
pub(crate) fn first_call_of_finalize(call: &mut dyn FnMut(&mut i32)) -> Token {
    let world = Comm::at(comm::COMM_WORLD as u32);
    let begun = retractable_first_call(world, ActivityKind::Finalising, call);
    begun.map_or_else(
        || {
            let token = finalize_begin();
            call(&mut 0);
            token
        },
        |(token, _)| token,
    )
}

fn retractable_first_call(
    comm: &'static Comm,
    kind: ActivityKind,
    call: &mut dyn FnMut(&mut i32),
) -> Option<(Token, i32)> {
    // A duplicate that a drain has to complete may wait in the library for the constructor that was begun after it.
    let may = is_served() && DUPLICATIONS.load(Ordering::Relaxed) == 0;
    let clock = comm.body.clock().filter(|_| may)?;
    let (seq, code) = begin(clock, kind, &mut || {}, call);
    goes_on(clock);
    Some((Token::counted(comm, Some(clock), seq), code))
}

/// An operation that has begun and was counted goes on.
fn goes_on(clock: &'static Clock) {
    wait_report::collective(clock.id.load(Ordering::Relaxed));
    compiler_fence(Ordering::SeqCst);
    if gate().phase.load(Ordering::Relaxed) != Phase::Run as u32 {
        service::notify();
    }
}

/// Whether the library calls [`turn`]. Several threads may be in the library in another order than they would stop.
#[inline(always)]
fn is_served() -> bool {
    gives_turns() && !multiple()
}

#[inline(always)]
fn gives_turns() -> bool {
    gate().lower.features.load(Ordering::Relaxed) & RETRACTABLE != 0
}

/// The call and its error code, for [`below`].
struct Call<'a, 'b> {
    call: &'a mut (dyn FnMut(&mut i32) + 'b),
    code: i32,
}

extern "C" fn below(data: *mut c_void) {
    // SAFETY: `run` passes its own.
    let made = unsafe { &mut *data.cast::<Call<'_, '_>>() };
    (made.call)(&mut made.code);
}

fn run(clock: &'static Clock, restore: &mut dyn FnMut(), call: &mut dyn FnMut(&mut i32)) -> i32 {
    let (seq, code) = begin(clock, ActivityKind::Parked, restore, call);
    leave(clock, seq);
    code
}

/// Makes the call until it counts; the number that it has got, and its error code.
#[inline(always)]
fn begin(
    clock: &'static Clock,
    kind: ActivityKind,
    restore: &mut dyn FnMut(),
    call: &mut dyn FnMut(&mut i32),
) -> (u64, i32) {
    let id = clock.id.load(Ordering::Relaxed);
    let mut inside = Inside {
        place: 0,
        clock,
        seq: clock.seq.load(Ordering::Relaxed) + 1,
        kind,
        told: 0,
    };
    let mut made = Call { call, code: 0 };
    loop {
        // Before the look at the phase: the agent sees the one, or this thread sees the other.
        wait_report::collective(id);
        compiler_fence(Ordering::SeqCst);
        if gate().phase.load(Ordering::Relaxed) != Phase::Run as u32 {
            hold_back(&mut inside);
        }
        // After a restart the library may be another one. An older lower half has no room for the record.
        let turns = gives_turns();
        if turns {
            set_inside(&raw mut inside as usize);
        }
        // SAFETY: `below` takes it. A call of a stub, and `turn`, have no destructors.
        let abandoned =
            unsafe { abandonable(below, (&raw mut made).cast(), &raw mut inside.place) };
        if !abandoned {
            if turns {
                set_inside(0);
            }
            if counts(&inside) {
                return (inside.seq, made.code);
            }
        }
        restore();
    }
}

/// Counts the operation; false if it must be made again.
#[inline(always)]
fn counts(inside: &Inside) -> bool {
    let Inside { clock, seq, .. } = *inside;
    clock.seq.store(seq, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    gate().phase.load(Ordering::Relaxed) == Phase::Run as u32 || returns(inside)
}

/// Parks before the operation as long as a checkpoint wants it.
#[cold]
fn hold_back(inside: &mut Inside) {
    while !may_pass(inside.clock, inside.seq) {
        wait_loop::before(inside.clock, inside.seq, inside.kind);
        if phase() == Phase::Stop {
            wait_loop::stop_before(inside.clock);
        }
        wait_loop::moving();
    }
    wait_report::collective(inside.clock.id.load(Ordering::Relaxed));
    service::notify();
}

/// Holds back a thread whose library has returned, as long as a checkpoint wants it; false if the job was restarted
/// meanwhile.
#[cold]
fn returns(inside: &Inside) -> bool {
    let Inside {
        clock, seq, kind, ..
    } = *inside;
    while !may_pass(clock, seq) {
        clock.seq.store(seq - 1, Ordering::Release);
        wait_loop::before(clock, seq, kind);
        if phase() == Phase::Stop && wait_loop::stop_before(clock) {
            return false;
        }
        wait_loop::moving();
        clock.seq.store(seq, Ordering::SeqCst);
    }
    true
}

/// The entry point `turn` of the gate: the library makes progress for this thread, and a checkpoint may be pending.
pub(crate) extern "C" fn turn() {
    let inside = inside();
    if inside == 0 {
        return;
    }
    // The calls below make progress in the library, too, and must not begin another turn.
    set_inside(0);
    // SAFETY: see the module's head.
    let operation = unsafe { &mut *(inside as *mut Inside) };
    loop {
        match phase() {
            Phase::Run => break,
            phase @ (Phase::Approach | Phase::Explain) => {
                look(operation, phase);
                break;
            }
            Phase::Stop => {
                if wait_loop::stop_before(operation.clock) {
                    // SAFETY: the call of `run` is under way, in the process whose memory this is.
                    #[cfg(not(test))]
                    unsafe {
                        abandon(operation.place)
                    };
                }
            }
        }
    }
    set_inside(inside);
}

/// A look at everything under way, and a report.
fn look(operation: &mut Inside, phase: Phase) {
    let Inside {
        clock, seq, kind, ..
    } = *operation;
    wait_loop::look_from_library(phase);
    let id = clock.id.load(Ordering::Relaxed);
    let shown = match phase == Phase::Explain || seq <= clock.target.load(Ordering::Acquire) {
        // All members come to it, or nobody is held back.
        true => wait_report::show_collective(&gate().activity, id),
        false => wait_report::show_parked(&gate().activity, kind, id, seq),
    };
    wait_loop::tell(shown, &mut operation.told);
}

/// The calling thread's operation, or 0.
fn inside() -> usize {
    #[cfg(test)]
    {
        0
    }
    #[cfg(not(test))]
    {
        block_word::<{ contract::ThreadBlock::INSIDE }>()
    }
}

#[inline(always)]
fn set_inside(inside: usize) {
    #[cfg(test)]
    let _ = inside;
    #[cfg(not(test))]
    // SAFETY: see the module's head.
    unsafe {
        core::arch::asm!(
            "mov gs:[{at}], {}",
            in(reg) inside,
            at = const contract::ThreadBlock::INSIDE,
            options(nostack)
        );
    }
}
