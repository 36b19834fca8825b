//! The services of `contract::service`, except those that wait (`polling_services.rs`).
//!
//! # Safety
//! Called only by their stubs, with pointers that the upper half guarantees.
#![allow(unsafe_code)]

use core::sync::atomic::Ordering;
use std::io::Write;

use contract::record::{Call, Outcome};
use contract::service::{self, OpCallback, Service};
use contract::{abi, gate, Gate};

use super::convert::error;
use super::hooks::{self, hooks};
use super::{peer_memory, polling_services, predefined, thread_turns, user_op, world};

/// Writes a service's address into its slot of the gate, if its type is that of the contract.
macro_rules! fill_slot {
    ($gate:expr, $service:ident, $function:path) => {
        let function: service::$service = $function;
        let slot = &$gate.slots[Service::$service as usize];
        slot.store(function as *const () as usize, Ordering::Relaxed);
    };
}
pub(super) use fill_slot;

/// Writes the address of every service into the gate.
pub fn fill(gate: &Gate) {
    fill_slot!(gate, Predefined, word_of_predefined);
    fill_slot!(gate, Init, init);
    fill_slot!(gate, Finalize, finalize);
    fill_slot!(gate, Recv, polling_services::recv);
    fill_slot!(gate, Probe, polling_services::probe);
    fill_slot!(gate, Mprobe, polling_services::mprobe);
    fill_slot!(gate, WaitOne, polling_services::wait_one);
    fill_slot!(gate, WaitAll, polling_services::wait_all);
    fill_slot!(gate, WaitAny, polling_services::wait_any);
    fill_slot!(gate, WaitSome, polling_services::wait_some);
    fill_slot!(gate, Notify, notify);
    fill_slot!(gate, ClockTarget, clock_target);
    fill_slot!(gate, Fatal, fatal);
    fill_slot!(gate, OpCreate, op_create);
    fill_slot!(gate, OpRelease, op_release);
    fill_slot!(gate, Yield, yield_now);
    fill_slot!(gate, Message, message);
    fill_slot!(gate, ErrorString, error_string);
    fill_slot!(gate, CallEnded, call_ended);
    fill_slot!(gate, Synchronize, synchronize);
    fill_slot!(gate, MapPeer, peer_memory::map);
    fill_slot!(gate, UnmapPeer, peer_memory::unmap);
    fill_slot!(gate, StagesBegin, stages_begin);
    fill_slot!(gate, StagesWrite, stages_write);
    fill_slot!(gate, StagesRead, stages_read);
    fill_slot!(gate, SendReceive, polling_services::send_receive);
    fill_slot!(gate, ToolOptions, tool_options);
    fill_slot!(gate, RecordRoom, record_room);
    fill_slot!(gate, ReplayTurn, replay_turn);
    fill_slot!(gate, ReplayCall, replay_call);
    fill_slot!(gate, ReplayOutcome, replay_outcome);
    fill_slot!(gate, ReplayBinding, replay_binding);
    fill_slot!(gate, ReplayDigest, replay_digest);
}

unsafe extern "C" fn word_of_predefined(kind: u32, standard: usize) -> usize {
    predefined::lower(kind, standard)
}

unsafe extern "C" fn init(required: i32, provided: *mut i32, tag_ub: *mut i32) -> i32 {
    hooks::initialising();
    let world = match world::initialise(required) {
        Ok(world) => world,
        Err(error) => {
            say(launcher::message::reasons(error.as_ref()).as_bytes());
            return abi::ERR_OTHER;
        }
    };
    // SAFETY: the caller's, valid for writes.
    unsafe {
        *provided = world.thread_level;
        *tag_ub = world.tag_ub;
    }
    world.publish(gate());
    (hooks().connected)(world.rank, world.size);
    abi::SUCCESS
}

/// [`contract::service::Finalize`]
pub(super) unsafe extern "C" fn finalize() -> i32 {
    (hooks().finalizing)();
    world::finalize()
}

unsafe extern "C" fn notify() {
    (hooks().notify)();
}

unsafe extern "C" fn clock_target(clock_id: u64) -> u64 {
    (hooks().clock_target)(clock_id)
}

unsafe extern "C" fn fatal(text: *const u8, length: usize, exit_code: i32) -> ! {
    // SAFETY: the caller's text.
    say(unsafe { std::slice::from_raw_parts(text, length) });
    world::abort(exit_code)
}

unsafe extern "C" fn op_create(callback: OpCallback, data: usize, commute: i32) -> usize {
    user_op::create(callback, data, commute)
}

unsafe extern "C" fn op_release(lower: usize) {
    user_op::release(lower);
}

unsafe extern "C" fn yield_now() {
    std::thread::yield_now();
}

unsafe extern "C" fn message(text: *const u8, length: usize) {
    // SAFETY: the caller's text.
    say(unsafe { std::slice::from_raw_parts(text, length) });
}

/// [`contract::service::ErrorString`]
pub(super) unsafe extern "C" fn error_string(buf: *mut u8, len: usize) -> usize {
    let text = error::last_text();
    let length = text.len().min(len);
    // SAFETY: `length` bytes of a buffer of `len`.
    unsafe { text.as_ptr().copy_to_nonoverlapping(buf, length) };
    length
}

unsafe extern "C" fn call_ended() {
    (hooks().call_ended)();
}

unsafe extern "C" fn synchronize() -> u32 {
    thread_turns::begin();
    loader::synchronize()
}

unsafe extern "C" fn stages_begin(epoch: *mut u64, incarnation: *mut u32) -> i32 {
    let Some(begun) = (hooks().stages_begin)() else {
        return 0;
    };
    // SAFETY: the caller's, valid for writes.
    unsafe { (*epoch, *incarnation) = begun };
    1
}

unsafe extern "C" fn stages_write(epoch: u64, bytes: *const u8, length: usize) -> i32 {
    // SAFETY: the caller's bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, length) };
    match (hooks().stages_write)(epoch, bytes) {
        Ok(()) => abi::SUCCESS,
        Err(why) => {
            say(launcher::message::reasons(why.as_ref()).as_bytes());
            abi::ERR_IO
        }
    }
}

unsafe extern "C" fn stages_read(epoch: u64, buf: *mut u8, len: usize) -> usize {
    match (hooks().stages_read)(epoch) {
        Ok(bytes) => {
            // SAFETY: no more bytes than the buffer has.
            unsafe {
                bytes
                    .as_ptr()
                    .copy_to_nonoverlapping(buf, bytes.len().min(len))
            };
            bytes.len()
        }
        Err(why) => {
            say(launcher::message::reasons(why.as_ref()).as_bytes());
            usize::MAX
        }
    }
}

unsafe extern "C" fn tool_options(tool: u32, buf: *mut u8, len: usize) -> usize {
    let text = (hooks().tool_options)(tool);
    let length = text.len().min(len);
    // SAFETY: no more bytes than the buffer has.
    unsafe { text.as_ptr().copy_to_nonoverlapping(buf, length) };
    text.len()
}

unsafe extern "C" fn record_room() -> i32 {
    i32::from((hooks().record_room)())
}

extern "C" fn replay_turn(thread: u32, looks: i32) -> u64 {
    (hooks().replay_turn)(thread, looks != 0)
}

unsafe extern "C" fn replay_call(thread: u32, call: *const Call) -> i32 {
    // SAFETY: the caller's.
    (hooks().replay_call)(thread, unsafe { &*call })
}

unsafe extern "C" fn replay_outcome(
    thread: u32,
    call: *const Call,
    what: u32,
    numbers: *mut i32,
) -> i32 {
    let what = match what {
        0 => Outcome::Found,
        1 => Outcome::Index,
        _ => Outcome::Some,
    };
    // SAFETY: a call that is null or the caller's, and the caller's place for two numbers.
    unsafe {
        let (result, found) = (hooks().replay_outcome)(thread, call.as_ref(), what);
        numbers.cast::<[i32; 2]>().write(found);
        result
    }
}

unsafe extern "C" fn replay_binding(posting: u64, numbers: *mut i32) -> i32 {
    let (binding, found) = (hooks().replay_binding)(posting);
    // SAFETY: the caller's, valid for two numbers.
    unsafe { numbers.cast::<[i32; 2]>().write(found) };
    binding as i32
}

unsafe extern "C" fn replay_digest(thread: u32, bytes: u64, crc: u32) {
    (hooks().replay_digest)(thread, bytes, crc);
}

/// Prints a line on stderr, in one piece so that lines of several ranks do not mix.
pub fn say(text: &[u8]) {
    let mut line = b"stasis: ".to_vec();
    if let Some(rank) = world::rank() {
        line.extend_from_slice(format!("rank {rank}: ").as_bytes());
    }
    line.extend_from_slice(text.strip_suffix(b"\n").unwrap_or(text));
    line.push(b'\n');
    // A failure to write to stderr can be neither handled nor reported.
    let _ = std::io::stderr().write_all(&line);
}
