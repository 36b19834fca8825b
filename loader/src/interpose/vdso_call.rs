//! Calls of the kernel's vDSO that are in progress when a signal arrives.
//!
//! A thread must not be saved, and no handler of the application may run, while addresses of the kernel's vDSO are on
//! the stack. The functions only read the clock or the CPU number, so the call is restarted. The functions of the upper
//! half's vDSO (`load/vdso.rs`) save the registers that the callee may change, and store their address in the thread's
//! block.
//!
//! # Safety
//! While a thread's `vdso_sp` is not 0 it is in a function of the kernel's vDSO, or at the instruction that calls it,
//! and the data that the upper half's vDSO has pushed is intact above that address.
#![allow(unsafe_code)]

use super::threads::Thread;
use super::trap_entry::is_upper;
use crate::load::vdso::{CALL, CALLING, CODE, RETURN, SAVED_WORDS, STUB_BYTES};
use crate::sys::context::Context;
use contract::VDSO_ADDRESS;

/// Turns the frame of a thread in a function of the kernel's vDSO into the state at the call of that function. Returns
/// whether it was in one.
pub fn begin_anew(thread: &Thread, frame: &mut Context) -> bool {
    let sp = thread.vdso_sp();
    if sp == 0 {
        return false;
    }
    // The function is found from the call instruction, or from its return address.
    let at = |offset: usize, address: usize| {
        let offset = address.wrapping_sub(VDSO_ADDRESS + CODE + offset);
        (offset.is_multiple_of(STUB_BYTES) && offset / STUB_BYTES < CALLING).then_some(offset)
    };
    let function = if is_upper(frame.regs.rip) {
        at(CALL, frame.regs.rip)
    } else {
        // SAFETY: `vdso_sp` is set, and the callee does not change its return address below it.
        at(RETURN, unsafe { ((sp - 8) as *const usize).read() })
    };
    let Some(function) = function else {
        return false;
    };
    // SAFETY: `vdso_sp` is set, so the saved registers are intact above it.
    let saved = unsafe { (sp as *const [usize; SAVED_WORDS]).read() };
    let regs = &mut frame.regs;
    [
        regs.rdx, regs.rsi, regs.rdi, regs.r15, regs.r14, regs.r13, regs.r12, regs.rbp, regs.rbx,
    ] = saved;
    regs.rsp = sp + SAVED_WORDS * 8;
    regs.rip = VDSO_ADDRESS + CODE + function;
    thread.forget_vdso_call();
    true
}
