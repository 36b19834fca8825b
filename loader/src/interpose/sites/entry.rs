//! Entries of patched calls, and their way back.
//!
//! A trampoline (`slots.rs`) enters here by a jump, with the call's number in `rax` and the address of its slot in
//! `rcx`. All other registers are the application's. A system call changes `rax`, `rcx` and `r11` only; so does each
//! way through this file.
//!
//! - `stasis_site_any` chooses the way for a number that is known at run time only.
//! - `stasis_site_pass` lets the kernel serve the call.
//! - `stasis_site_serve` calls the handler of `syscalls/`, on the application's stack below its red zone. The registers
//!   are stored there as a `Context`, which is marked by [`REGISTERS_ONLY`].
//! - `decline` lets the call raise SIGSYS.
//!
//! A thread is never seen here. A signal finds it in one of these states, and [`leave`] turns its frame into the
//! application's own state, so that a handler can run on it, or the thread can park on it:
//!
//! - the call is not made: the application is at its `syscall` instruction;
//! - the call is made: the application is behind that instruction.
//!
//! The handler itself is no exception: it runs with `in_dispatch` set, as after SIGSYS, and signals wait for its end
//! (rule 1 in `dispatch.rs`). As there is no SIGSYS frame to return through, a thread for which something waits at the
//! end raises SIGSYS once more ([`end_by_trap`]).
//!
//! # Safety
//! Each instruction of the assembly has a place in [`leave`]. No instruction before `in_dispatch` is set changes a
//! register of the application, except for those that the system call changes, `rsp` and the flags; `leave` sets these
//! again from `r11`. The stored registers lie above the stack pointer until the last of them is loaded.
#![allow(unsafe_code)]

use super::kind::SiteKind;
use super::slots::{self, Slot, DISTANCE, TRAP};
use crate::interpose::threads::{
    Thread, ATTENTION, CALL, DEADLINE, IN_DISPATCH, SITE, SITE_RETURN, VFORKED,
};
use crate::interpose::{syscall_restart, trap_entry};
use crate::sys::context::{Context, Registers, REGISTERS_ONLY, SYSCALL_LEN};
use crate::sys::{syscall, vectors};
use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::Ordering;

/// Distance from the application's stack pointer to that at which its flags are stored: the red zone, and one word.
const TO_FLAGS: usize = 128 + 16;
/// Bytes of the stored registers: a context, and 16 vector registers of 16 bytes.
const STORED: usize = CONTEXT + 16 * 16;
const CONTEXT: usize = size_of::<Context>().next_multiple_of(64);

const fn at(register: usize) -> usize {
    offset_of!(Context, regs) + register
}

global_asm!(
    ".globl stasis_site_any",
    ".globl stasis_site_any_stored",
    ".globl stasis_site_pass",
    ".globl stasis_site_pass_call",
    ".globl stasis_site_pass_after",
    ".globl stasis_site_serve",
    ".globl stasis_site_serve_lowered",
    ".globl stasis_site_serve_flags",
    ".globl stasis_site_serve_entered",
    ".globl stasis_site_exit",
    ".globl stasis_site_exit_jump",
    ".globl stasis_site_slow",
    ".globl stasis_site_decline",
    ".globl stasis_site_declined",
    ".globl stasis_site_end",
    "stasis_site_any:",
    "mov gs:[{site}], rcx",
    "stasis_site_any_stored:",
    // No instruction here changes the flags.
    "mov rcx, rax",
    "mov cx, 0",
    "jrcxz 2f",
    "jmp 3f",
    "2:",
    "lea r11, [rip + SITE_KINDS]",
    "movzx ecx, byte ptr [r11 + rax]",
    "jrcxz 3f",
    "lea ecx, [rcx - {pass}]",
    "jrcxz 4f",
    "mov rcx, gs:[{site}]",
    "jmp stasis_site_serve",
    "4:",
    "mov rcx, gs:[{site}]",
    "jmp stasis_site_pass",
    "3:",
    "mov rcx, gs:[{site}]",
    "jmp stasis_site_declined",
    "stasis_site_pass:",
    "mov r11, [rcx + {return}]",
    "mov gs:[{site_return}], r11",
    "mov gs:[{call}], rax",
    "mov qword ptr gs:[{deadline}], 0",
    "stasis_site_pass_call:",
    "syscall",
    "stasis_site_pass_after:",
    "mov rcx, gs:[{site_return}]",
    "jmp rcx",
    "stasis_site_serve:",
    "mov r11, rsp",
    "stasis_site_serve_lowered:",
    "lea rsp, [rsp - {to_flags} + 8]",
    "pushfq",
    "stasis_site_serve_flags:",
    "cmp byte ptr gs:[{vforked}], 0",
    "jne stasis_site_decline",
    "cmp dword ptr gs:[{in_dispatch}], 0",
    "jne stasis_site_decline",
    "mov qword ptr gs:[{attention}], 0",
    "mov dword ptr gs:[{in_dispatch}], 1",
    "stasis_site_serve_entered:",
    "cld",
    "sub rsp, {stored}",
    "and rsp, -64",
    "mov [rsp + {rbx}], rbx",
    "mov rbx, rsp",
    "mov [rbx + {rax}], rax",
    "mov [rbx + {rdi}], rdi",
    "mov [rbx + {rsi}], rsi",
    "mov [rbx + {rdx}], rdx",
    "mov [rbx + {r10}], r10",
    "mov [rbx + {r8}], r8",
    "mov [rbx + {r9}], r9",
    "mov [rbx + {rbp}], rbp",
    "mov [rbx + {r12}], r12",
    "mov [rbx + {r13}], r13",
    "mov [rbx + {r14}], r14",
    "mov [rbx + {r15}], r15",
    "mov [rbx + {rsp}], r11",
    "mov r11, [r11 - {to_flags}]",
    "mov [rbx + {eflags}], r11",
    "mov r11, [rcx + {return}]",
    "mov [rbx + {rip}], r11",
    "mov [rbx + {rcx}], r11",
    "movabs r11, {of_site}",
    "mov [rbx + {flags}], r11",
    "mov qword ptr [rbx + {link}], 0",
    "movups [rbx + {xmm}], xmm0",
    "movups [rbx + {xmm} + 16], xmm1",
    "movups [rbx + {xmm} + 32], xmm2",
    "movups [rbx + {xmm} + 48], xmm3",
    "movups [rbx + {xmm} + 64], xmm4",
    "movups [rbx + {xmm} + 80], xmm5",
    "movups [rbx + {xmm} + 96], xmm6",
    "movups [rbx + {xmm} + 112], xmm7",
    "movups [rbx + {xmm} + 128], xmm8",
    "movups [rbx + {xmm} + 144], xmm9",
    "movups [rbx + {xmm} + 160], xmm10",
    "movups [rbx + {xmm} + 176], xmm11",
    "movups [rbx + {xmm} + 192], xmm12",
    "movups [rbx + {xmm} + 208], xmm13",
    "movups [rbx + {xmm} + 224], xmm14",
    "movups [rbx + {xmm} + 240], xmm15",
    "lea r11, [rip + SITE_KINDS]",
    "cmp byte ptr [r11 + rax], {full}",
    "jne 2f",
    // The place of the whole state is noted in `link`.
    "sub rsp, {vector_bytes}",
    vectors::save_at_rsp!(),
    "mov [rbx + {link}], rsp",
    "2:",
    "mov rdi, rbx",
    "call stasis_site_dispatch",
    "call stasis_load_vectors",
    "mov r11, rbx",
    "mov dword ptr gs:[{in_dispatch}], 0",
    "stasis_site_exit:",
    "cmp dword ptr gs:[{attention}], 0",
    "jne stasis_site_slow",
    "mov rdi, [r11 + {rdi}]",
    "mov rsi, [r11 + {rsi}]",
    "mov rdx, [r11 + {rdx}]",
    "mov r10, [r11 + {r10}]",
    "mov r8, [r11 + {r8}]",
    "mov r9, [r11 + {r9}]",
    "mov rbx, [r11 + {rbx}]",
    "push qword ptr [r11 + {eflags}]",
    "popfq",
    "mov rax, [r11 + {rax}]",
    "mov rcx, [r11 + {rip}]",
    "mov rsp, [r11 + {rsp}]",
    "stasis_site_exit_jump:",
    "jmp rcx",
    // Raises SIGSYS, with the address of the stored registers in rbx.
    "stasis_site_slow:",
    "movabs r11, {end_address}",
    "jmp r11",
    "stasis_site_decline:",
    "popfq",
    "mov rsp, r11",
    "stasis_site_declined:",
    "lea r11, [rcx - {distance} + {trap}]",
    "jmp r11",
    "stasis_site_end:",
    // load_vectors(context in rbx): sets the application's vector registers. Changes rax, rdx, r11.
    "stasis_load_vectors:",
    "mov r11, [rbx + {link}]",
    "test r11, r11",
    "jnz 2f",
    "movups xmm0, [rbx + {xmm}]",
    "movups xmm1, [rbx + {xmm} + 16]",
    "movups xmm2, [rbx + {xmm} + 32]",
    "movups xmm3, [rbx + {xmm} + 48]",
    "movups xmm4, [rbx + {xmm} + 64]",
    "movups xmm5, [rbx + {xmm} + 80]",
    "movups xmm6, [rbx + {xmm} + 96]",
    "movups xmm7, [rbx + {xmm} + 112]",
    "movups xmm8, [rbx + {xmm} + 128]",
    "movups xmm9, [rbx + {xmm} + 144]",
    "movups xmm10, [rbx + {xmm} + 160]",
    "movups xmm11, [rbx + {xmm} + 176]",
    "movups xmm12, [rbx + {xmm} + 192]",
    "movups xmm13, [rbx + {xmm} + 208]",
    "movups xmm14, [rbx + {xmm} + 224]",
    "movups xmm15, [rbx + {xmm} + 240]",
    "ret",
    "2:",
    "mov eax, {components}",
    "xor edx, edx",
    "xrstor [r11]",
    "ret",
    // site_syscall(context, number, &arguments): the window of `trap_entry.rs`, entered with the application's vector
    // registers, because the frame of a signal that arrives there has them.
    ".globl stasis_site_syscall",
    "stasis_site_syscall:",
    "push rbx",
    "mov rbx, rdi",
    "mov rdi, rdx",
    "call stasis_load_vectors",
    "mov rdx, rdi",
    "jmp stasis_window",
    pass = const SiteKind::Pass as usize,
    full = const SiteKind::Full as usize,
    site = const SITE,
    site_return = const SITE_RETURN,
    return = const offset_of!(Slot, back),
    call = const CALL,
    deadline = const DEADLINE,
    to_flags = const TO_FLAGS,
    vforked = const VFORKED,
    in_dispatch = const IN_DISPATCH,
    attention = const ATTENTION,
    stored = const STORED,
    xmm = const CONTEXT,
    of_site = const REGISTERS_ONLY,
    flags = const offset_of!(Context, flags),
    link = const offset_of!(Context, link),
    vector_bytes = const vectors::BYTES,
    header = const vectors::HEADER,
    components = const vectors::COMPONENTS,
    end_address = const slots::END,
    distance = const DISTANCE,
    trap = const TRAP,
    rax = const at(offset_of!(Registers, rax)),
    rbx = const at(offset_of!(Registers, rbx)),
    rcx = const at(offset_of!(Registers, rcx)),
    rdx = const at(offset_of!(Registers, rdx)),
    rdi = const at(offset_of!(Registers, rdi)),
    rsi = const at(offset_of!(Registers, rsi)),
    rbp = const at(offset_of!(Registers, rbp)),
    rsp = const at(offset_of!(Registers, rsp)),
    r8 = const at(offset_of!(Registers, r8)),
    r9 = const at(offset_of!(Registers, r9)),
    r10 = const at(offset_of!(Registers, r10)),
    r12 = const at(offset_of!(Registers, r12)),
    r13 = const at(offset_of!(Registers, r13)),
    r14 = const at(offset_of!(Registers, r14)),
    r15 = const at(offset_of!(Registers, r15)),
    rip = const at(offset_of!(Registers, rip)),
    eflags = const at(offset_of!(Registers, eflags)),
);

extern "C" {
    fn stasis_site_any();
    fn stasis_site_any_stored();
    fn stasis_site_pass();
    fn stasis_site_pass_call();
    fn stasis_site_pass_after();
    fn stasis_site_serve();
    fn stasis_site_serve_lowered();
    fn stasis_site_serve_flags();
    fn stasis_site_serve_entered();
    fn stasis_site_exit();
    fn stasis_site_exit_jump();
    fn stasis_site_slow();
    fn stasis_site_decline();
    fn stasis_site_declined();
    fn stasis_site_end();
}

fn address(symbol: unsafe extern "C" fn()) -> usize {
    symbol as *const () as usize
}

/// Entry for calls with any number.
pub fn any() -> usize {
    address(stasis_site_any)
}

/// Entry for calls of this kind.
pub fn of_kind(kind: u8) -> usize {
    match kind == SiteKind::Pass as u8 {
        true => address(stasis_site_pass),
        false => address(stasis_site_serve),
    }
}

/// Turns the frame of a thread that is on its way to the call of this slot into the state at its `syscall` instruction.
fn before(frame: &mut Context, slot: usize) {
    // SAFETY: the entry got the address of a slot, which is never unmapped.
    let slot = unsafe { &*(slot as *const Slot) };
    frame.regs.rip = slot.back.load(Ordering::Relaxed) - SYSCALL_LEN;
}

/// Turns a frame that was interrupted in a trampoline or in an entry, but not in a handler, into the application's own
/// state before or after the call. `eintr`: an application handler is going to run. Returns whether it was there.
pub fn leave(thread: &Thread, frame: &mut Context, eintr: bool) -> bool {
    let rip = frame.regs.rip;
    if rip == slots::END {
        end(thread, frame, frame.regs.rbx);
        return true;
    }
    if trap_entry::is_upper(rip) {
        return slots::leave(frame);
    }
    if !(address(stasis_site_any)..address(stasis_site_end)).contains(&rip) {
        return false;
    }
    let is_in = |from: unsafe extern "C" fn(), to: unsafe extern "C" fn()| {
        (address(from)..address(to)).contains(&rip)
    };
    let from_register = frame.regs.rcx;
    if is_in(stasis_site_any_stored, stasis_site_pass) {
        before(frame, thread.site.load(Ordering::Relaxed));
    } else if is_in(stasis_site_any, stasis_site_pass_call) {
        before(frame, from_register);
    } else if is_in(stasis_site_pass_call, stasis_site_serve) {
        leave_pass(thread, frame, eintr);
    } else if is_in(stasis_site_serve, stasis_site_serve_entered)
        || is_in(stasis_site_decline, stasis_site_end)
    {
        let lowered = is_in(stasis_site_serve_lowered, stasis_site_serve_entered)
            || is_in(stasis_site_decline, stasis_site_declined);
        let flags = is_in(stasis_site_serve_flags, stasis_site_serve_entered)
            || is_in(stasis_site_decline, stasis_site_declined);
        if flags {
            // SAFETY: the entry has stored the flags there.
            frame.regs.eflags = unsafe { ((frame.regs.r11 - TO_FLAGS) as *const usize).read() };
        }
        if lowered {
            frame.regs.rsp = frame.regs.r11;
        }
        before(frame, from_register);
    } else if is_in(stasis_site_exit_jump, stasis_site_slow) {
        frame.regs.rip = frame.regs.rcx;
        thread_is_done(thread, frame);
    } else if is_in(stasis_site_exit, stasis_site_decline) {
        let stored = match is_in(stasis_site_exit, stasis_site_exit_jump) {
            true => frame.regs.r11,
            false => frame.regs.rbx,
        };
        end(thread, frame, stored);
    } else {
        return false;
    }
    true
}

/// Turns the frame of a thread whose handler has ended into the state behind the call. `stored`: address of the
/// application's registers.
fn end(thread: &Thread, frame: &mut Context, stored: usize) {
    // SAFETY: the stored registers lie above the stack pointer, so the frame has not overwritten them.
    frame.set_registers(unsafe { &(*(stored as *const Context)).regs });
    thread_is_done(thread, frame);
}

/// Ends a patched call whose thread has raised SIGSYS for that. Returns whether this SIGSYS is one.
pub fn end_by_trap(thread: &Thread, frame: &mut Context) -> bool {
    let ends = frame.regs.rip == slots::END + SYSCALL_LEN;
    if ends {
        end(thread, frame, frame.regs.rbx);
    }
    ends
}

/// Ends the handler of a patched call: signals that waited for it may be delivered.
fn thread_is_done(thread: &Thread, frame: &mut Context) {
    if thread.holds.swap(0, Ordering::Relaxed) != 0 {
        frame.mask = thread.held_mask.load(Ordering::Relaxed);
    }
    thread.attention.store(0, Ordering::Relaxed);
}

/// As [`leave`], in or behind the call that the kernel serves.
fn leave_pass(thread: &Thread, frame: &mut Context, eintr: bool) {
    let (rip, after) = (frame.regs.rip, address(stasis_site_pass_after));
    let back = thread.site_return.load(Ordering::Relaxed);
    let number = syscall_restart::not_made(thread);
    let interrupted = syscall::err(libc::EINTR) as usize;
    let made = rip >= after;
    let result = frame.regs.rax;
    frame.regs.rip = back;
    if made && (result != interrupted || eintr) {
        return;
    }
    frame.regs.rip -= SYSCALL_LEN;
    frame.regs.rax = match made || frame.regs.rcx == after {
        // Interrupted and not made: the kernel itself was going to repeat it.
        true => syscall_restart::waited(thread, number, !made),
        false => number,
    };
}
