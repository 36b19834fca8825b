//! Initial thread's stack, with the layout that the kernel gives it.
//!
//! # Safety
//! Everything is written into the stack's own fresh mapping; the size of the contents is computed beforehand.
#![allow(unsafe_code)]

use super::map::{self, Mapped};
use super::va_allocator::{PAGE, STACK_BOTTOM, STACK_TOP};
use crate::error::LoadError;
use crate::sys::cpu;
use contract::VDSO_ADDRESS;
use std::ffi::CString;

/// Bytes mapped at once; the stack grows by page faults.
const INITIAL: usize = 256 * 1024;

const AT_SYSINFO_EHDR: u64 = 33;
const AT_RSEQ_FEATURE_SIZE: u64 = 27;
const AT_RSEQ_ALIGN: u64 = 28;

/// Strings that auxiliary vector entries point to.
struct Strings {
    next: usize,
    bytes: Vec<u8>,
}

impl Strings {
    fn add(&mut self, bytes: &[u8]) -> usize {
        let at = self.next;
        self.bytes.extend(bytes);
        self.next += bytes.len();
        at
    }
}

/// Contents of the initial stack.
pub struct Contents<'a> {
    /// Arguments.
    pub args: &'a [CString],
    /// Environment.
    pub env: &'a [CString],
    /// AT_EXECFN.
    pub exec_name: &'a CString,
    /// Mapping of the program.
    pub program: Mapped,
    /// Number of the program's headers.
    pub headers: usize,
    /// Address of its dynamic linker.
    pub interpreter: usize,
    /// Whether the stack is executable.
    pub executable: bool,
}

/// This process's own auxiliary vector.
fn own_auxv() -> Result<Vec<(u64, u64)>, LoadError> {
    let bytes = std::fs::read("/proc/self/auxv").map_err(|source| LoadError::System {
        what: "reading /proc/self/auxv",
        source,
    })?;
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b));
    Ok(bytes
        .chunks_exact(16)
        .map(|pair| (word(&pair[..8]), word(&pair[8..])))
        .collect())
}

fn string_at(address: u64) -> Vec<u8> {
    // SAFETY: the kernel's auxiliary vector points to strings that live as long as the process.
    unsafe { std::ffi::CStr::from_ptr(address as *const _) }
        .to_bytes_with_nul()
        .to_vec()
}

/// Creates the stack and returns the initial stack pointer.
pub fn make(contents: &Contents) -> Result<usize, LoadError> {
    let auxv = own_auxv()?;
    let names = contents
        .args
        .iter()
        .chain(contents.env)
        .chain([contents.exec_name]);
    let text: usize = names.map(|s| s.as_bytes_with_nul().len()).sum::<usize>() + 256;
    let words = 1 + contents.args.len() + 1 + contents.env.len() + 1 + 2 * (auxv.len() + 4);
    let base = (STACK_TOP - PAGE - text) & !63;
    let sp = (base - words * 8) & !63;

    let executable = if contents.executable {
        libc::PROT_EXEC
    } else {
        0
    };
    let prot = libc::PROT_READ | libc::PROT_WRITE | executable;
    let low = ((sp - INITIAL) & !(PAGE - 1)).max(STACK_BOTTOM);
    let flags = libc::MAP_GROWSDOWN | libc::MAP_STACK;
    map::anonymous("the stack", low, STACK_TOP - low, prot, flags)?;

    let mut strings = Strings {
        next: base,
        bytes: Vec::new(),
    };
    let mut stack = vec![contents.args.len()];
    stack.extend(
        contents
            .args
            .iter()
            .map(|s| strings.add(s.as_bytes_with_nul())),
    );
    stack.push(0);
    stack.extend(
        contents
            .env
            .iter()
            .map(|s| strings.add(s.as_bytes_with_nul())),
    );
    stack.push(0);
    for (tag, value) in auxv {
        let value = match tag {
            libc::AT_NULL | AT_RSEQ_ALIGN | AT_RSEQ_FEATURE_SIZE => continue,
            libc::AT_PHDR => contents.program.headers,
            libc::AT_PHNUM => contents.headers,
            libc::AT_ENTRY => contents.program.entry,
            libc::AT_BASE => contents.interpreter,
            AT_SYSINFO_EHDR => VDSO_ADDRESS,
            libc::AT_EXECFN => strings.add(contents.exec_name.as_bytes_with_nul()),
            libc::AT_PLATFORM | libc::AT_BASE_PLATFORM => strings.add(&string_at(value)),
            // SAFETY: the kernel put 16 random bytes there.
            libc::AT_RANDOM => strings.add(unsafe { &*(value as *const [u8; 16]) }),
            // The loader would not notice a program that sets FS itself, without a system call.
            libc::AT_HWCAP2 => (value & !cpu::HWCAP2_FSGSBASE) as usize,
            _ => value as usize,
        };
        stack.extend([tag as usize, value]);
    }
    stack.extend([0, 0]);
    assert!(
        stack.len() <= words && strings.next <= STACK_TOP,
        "initial stack miscalculated"
    );
    // SAFETY: both fit into the mapping, by the assertion.
    unsafe {
        core::ptr::copy_nonoverlapping(stack.as_ptr(), sp as *mut usize, stack.len());
        core::ptr::copy_nonoverlapping(
            strings.bytes.as_ptr(),
            base as *mut u8,
            strings.bytes.len(),
        );
    }
    Ok(sp)
}
