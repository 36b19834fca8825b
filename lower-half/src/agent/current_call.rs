//! The MPI function in which this rank is, for `stasis status`. Calls record nothing: the agent reads the return
//! address of the thread's crossing, and decodes the call instruction before it. It reads code through
//! `process_vm_readv` of this process, which fails at addresses that are not mapped.

use std::io::IoSliceMut;
use std::mem::offset_of;

use contract::{Gate, GATE_ADDRESS};
use loader::CurrentCall;
use nix::sys::uio::{process_vm_readv, RemoteIoVec};
use nix::unistd::Pid;

use crate::mpi;

/// The description of a rank that is in no MPI function.
const COMPUTES: &str = "computing";
/// The description of a rank in an MPI function that cannot be determined.
const SOME_CALL: &str = "in an MPI call";

/// The state of this rank, as text.
pub fn describe() -> String {
    match loader::current_call() {
        CurrentCall::Computing => COMPUTES.into(),
        CurrentCall::InMpi => SOME_CALL.into(),
        CurrentCall::InLibrary(back) => called_from(back),
    }
}

/// The state of a thread to which the MPI library will return at `back`, as text.
pub fn called_from(back: usize) -> String {
    match slot_called(back).and_then(mpi::function_of) {
        Some(name) => format!("in {name}"),
        None => SOME_CALL.into(),
    }
}

/// Whether a thread is in a call that ends as soon as the thread gets a processor, since the phase has changed.
pub fn is_about_to_end() -> bool {
    match loader::current_call() {
        CurrentCall::InLibrary(back) => slot_called(back).is_some_and(mpi::returns_at_once),
        CurrentCall::Computing | CurrentCall::InMpi => false,
    }
}

/// Whether the call that will return to `back` is a function of the library for files. Other ranks help all other calls
/// to their end when they drain, and services end when a checkpoint is pending.
pub fn is_of_files(back: usize) -> bool {
    slot_called(back).is_some_and(mpi::is_of_files)
}

/// The slot of the gate whose function was called by the instruction before `back`: a call of a stub,
/// which begins by loading the slot (`mpi_table::generate::stubs`).
fn slot_called(back: usize) -> Option<usize> {
    let stub = target_of_call(back)?;
    // movabs rax, [address]
    let [0x48, 0xa1, address @ ..] = read::<10>(stub)? else {
        return None;
    };
    let slots = GATE_ADDRESS + offset_of!(Gate, slots);
    let offset = usize::from_le_bytes(address).checked_sub(slots)?;
    let slot = offset / size_of::<usize>();
    (slot < contract::SLOTS).then_some(slot)
}

/// The target of the call instruction before `back`: a direct call, or an indirect one through an entry of the
/// global offset table.
fn target_of_call(back: usize) -> Option<usize> {
    let [first, second, distance @ ..] = read::<6>(back.checked_sub(6)?)?;
    let there = back.wrapping_add_signed(i32::from_le_bytes(distance) as isize);
    match (first, second) {
        (_, 0xe8) => Some(there),
        (0xff, 0x15) => Some(usize::from_le_bytes(read(there)?)),
        _ => None,
    }
}

fn read<const N: usize>(address: usize) -> Option<[u8; N]> {
    let mut bytes = [0_u8; N];
    let from = RemoteIoVec {
        base: address,
        len: N,
    };
    let mut into = [IoSliceMut::new(&mut bytes)];
    // The kernel checks whether the address is mapped.
    let read = process_vm_readv(Pid::this(), &mut into, &[from]);
    (read == Ok(N)).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One buffer with both forms of a call, the table entry that the second one uses, and the stub of slot 40.
    #[test]
    fn the_code_tells_what_was_called() {
        let mut code = [0_u8; 32];
        let begin = code.as_ptr() as usize;
        let (word, stub) = (12, 20);
        code[1] = 0xe8;
        code[2..6].copy_from_slice(&(stub - 6_i32).to_le_bytes());
        code[6..8].copy_from_slice(&[0xff, 0x15]);
        code[8..12].copy_from_slice(&(word - 12_i32).to_le_bytes());
        code[12..20].copy_from_slice(&(begin + 20).to_le_bytes());
        code[20..22].copy_from_slice(&[0x48, 0xa1]);
        let slot = GATE_ADDRESS + offset_of!(Gate, slots) + 40 * size_of::<usize>();
        code[22..30].copy_from_slice(&slot.to_le_bytes());
        let code = std::hint::black_box(code.as_ptr() as usize);
        assert_eq!(code, begin);
        assert_eq!(slot_called(begin + 6), Some(40));
        assert_eq!(slot_called(begin + 12), Some(40));
        assert_eq!(slot_called(begin + 20), None, "no call instruction");
        assert_eq!(slot_called(8), None, "not mapped");
    }
}
