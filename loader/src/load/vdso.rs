//! The upper half's own vDSO.
//!
//! C libraries keep the addresses of vDSO functions in read-only tables. So the functions must keep their addresses
//! across a restart, but the kernel's vDSO moves. Therefore the upper half gets a small ELF image at a fixed address,
//! whose functions call through slots; a restart rewrites the slots only. `__vdso_getrandom` is omitted: its state
//! cannot be saved.
//!
//! While clocks are recorded or replayed (`interpose/clock_log.rs`), the slots of these functions lead to system calls
//! in the image, which trap.
//!
//! A call that is in progress when a signal arrives is restarted (`interpose/vdso_call.rs`). For that each function of
//! the image saves the registers that the callee may change, and stores their address in the thread's block.
//!
//! # Safety
//! The image and the slots lie at addresses that belong to them alone (`contract::layout`). The slots hold functions of
//! the kernel's vDSO, or of the loader, with the same signatures.
#![allow(unsafe_code)]

use crate::error::LoadError;
use crate::interpose::clock_log;
use crate::sys::{clock, proc_maps, syscall, user_copy};
use contract::{ThreadBlock, OWN_CLOCK, VDSO_ADDRESS, VDSO_BYTES, VDSO_SLOTS_ADDRESS};
use core::mem::offset_of;
use goblin::elf::dynamic as dt;

/// Bytes of the page with the slots.
const SLOT_BYTES: usize = 4096;
pub const STUB_BYTES: usize = 64;
/// Offset of the functions in the image: after its headers, aligned.
pub const CODE: usize = 192;
/// Offset in a function of the call of the slot, and of its return address.
pub const CALL: usize = 22;
pub const RETURN: usize = CALL + 6;
/// Registers that a function saves, in their order on the stack: rdx rsi rdi r15 r14 r13 r12 rbp rbx.
pub const SAVED_WORDS: usize = 9;

/// Name (without `__vdso_`) and the fallback that makes the system call.
pub const FUNCTIONS: [(&str, i64, usize); 5] = [
    ("clock_gettime", libc::SYS_clock_gettime, 2),
    ("gettimeofday", libc::SYS_gettimeofday, 2),
    ("time", libc::SYS_time, 1),
    ("getcpu", libc::SYS_getcpu, 3),
    ("clock_getres", libc::SYS_clock_getres, 2),
];

/// Number of functions that call through a slot: those with a name, and [`OWN_CLOCK`].
pub const CALLING: usize = FUNCTIONS.len() + 1;
/// Number of functions that read a clock: the first ones. For each there is a system call behind the calling functions.
const CLOCKS: usize = 3;
const OWN: usize = FUNCTIONS.len();

const _: () = assert!(OWN_CLOCK == VDSO_ADDRESS + CODE + OWN * STUB_BYTES);

/// Address of the system call for a function.
fn trap(function: usize) -> usize {
    VDSO_ADDRESS + CODE + (CALLING + function) * STUB_BYTES
}

/// Whether this is the address behind such a system call.
pub fn traps(address: usize) -> bool {
    (trap(0)..trap(CLOCKS)).contains(&address)
}

extern "C" fn fallback<const F: usize>(a: usize, b: usize, c: usize) -> isize {
    let (_, nr, args) = FUNCTIONS[F];
    let keep = |n: usize, value: usize| if n < args { value } else { 0 };
    // SAFETY: the application passes the same pointers to the kernel natively.
    unsafe { syscall::raw(nr as usize, [keep(0, a), keep(1, b), keep(2, c), 0, 0, 0]) }
}

type Function = extern "C" fn(usize, usize, usize) -> isize;
const FALLBACKS: [Function; 5] = [
    fallback::<0>,
    fallback::<1>,
    fallback::<2>,
    fallback::<3>,
    fallback::<4>,
];

fn sysv_hash(name: &str) -> u32 {
    name.bytes().fold(0u32, |h, b| {
        let h = (h << 4).wrapping_add(u32::from(b));
        let g = h & 0xf000_0000;
        (h ^ (g >> 24)) & !g
    })
}

fn gnu_hash(name: &str) -> u32 {
    name.bytes().fold(5381u32, |h, b| {
        h.wrapping_mul(33).wrapping_add(u32::from(b))
    })
}

/// A growing image with little-endian fields.
#[derive(Default)]
struct Image(Vec<u8>);

impl Image {
    fn align(&mut self, to: usize) -> usize {
        while self.0.len() & (to - 1) != 0 {
            self.0.push(0);
        }
        self.0.len()
    }
    fn u16(&mut self, v: u16) {
        self.0.extend(v.to_le_bytes());
    }
    fn u32(&mut self, v: u32) {
        self.0.extend(v.to_le_bytes());
    }
    fn u64(&mut self, v: usize) {
        self.0.extend((v as u64).to_le_bytes());
    }
}

/// The code of one function, at `address`.
fn function(out: &mut Image, address: usize, slot: usize) {
    let start = out.0.len();
    let note = offset_of!(ThreadBlock, vdso_sp) as u32;
    out.0.extend([0x53, 0x55]); // push rbx, rbp
    out.0
        .extend([0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57]); // push r12 .. r15
    out.0.extend([0x57, 0x56, 0x52]); // push rdi, rsi, rdx
    out.0.extend([0x65, 0x48, 0x89, 0x24, 0x25]); // mov gs:[vdso_sp], rsp
    out.u32(note);
    assert_eq!(out.0.len() - start, CALL);
    out.0.extend([0xff, 0x15]); // call [slot]
    out.u32((slot as isize - (address + RETURN) as isize) as i32 as u32);
    out.0.extend([0x65, 0x48, 0xc7, 0x04, 0x25]); // mov qword ptr gs:[vdso_sp], 0
    out.u32(note);
    out.u32(0);
    out.0.extend([0x48, 0x83, 0xc4, 24]); // add rsp, 24
    out.0
        .extend([0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c]); // pop r15 .. r12
    out.0.extend([0x5d, 0x5b, 0xc3]); // pop rbp, rbx; ret
}

/// The code of the system call for a function. The thread has left the calls of the kernel's vDSO then.
fn system_call(out: &mut Image, nr: i64) {
    let note = offset_of!(ThreadBlock, vdso_sp) as u32;
    out.0.extend([0x65, 0x48, 0xc7, 0x04, 0x25]); // mov qword ptr gs:[vdso_sp], 0
    out.u32(note);
    out.u32(0);
    out.0.push(0xb8); // mov eax, nr
    out.u32(nr as u32);
    out.0.extend([0x0f, 0x05, 0xc3]); // syscall; ret
}

/// Whether the image has the system calls. That of an older Stasis has none.
fn has_traps() -> bool {
    (0..CLOCKS).all(|function| {
        let mut code = Image::default();
        system_call(&mut code, FUNCTIONS[function].1);
        user_copy::read::<[u8; STUB_BYTES]>(trap(function))
            .is_ok_and(|all| all.starts_with(&code.0))
    })
}

/// Builds the image for `address`, with its slots at `slots`.
fn build(address: usize, slots: usize) -> Vec<u8> {
    const HEADERS: usize = 64 + 2 * 56;
    const VERSION: &str = "LINUX_2.6";
    const SONAME: &str = "linux-vdso.so.1";
    let mut strings = vec![0u8];
    let mut intern = |name: &str| {
        let at = strings.len() as u32;
        strings.extend(name.bytes());
        strings.push(0);
        at
    };
    let version_name = intern(VERSION);
    let soname = intern(SONAME);
    let symbols: Vec<(String, u32, usize)> = (0..FUNCTIONS.len())
        .flat_map(|i| {
            [
                (format!("__vdso_{}", FUNCTIONS[i].0), i),
                (FUNCTIONS[i].0.to_owned(), i),
            ]
        })
        .map(|(name, i)| {
            let at = intern(&name);
            (name, at, i)
        })
        .collect();
    let count = symbols.len() + 1;

    let mut out = Image(vec![0; HEADERS]);
    out.0.resize(CODE, 0);
    for i in 0..CALLING + CLOCKS {
        let start = CODE + i * STUB_BYTES;
        match i.checked_sub(CALLING) {
            None => function(&mut out, address + start, slots + i * 8),
            Some(clock) => system_call(&mut out, FUNCTIONS[clock].1),
        }
        out.0.resize(start + STUB_BYTES, 0xcc);
    }
    let hash = out.align(8);
    out.u32(1);
    out.u32(count as u32);
    out.u32(1);
    out.u32(0);
    for i in 1..count {
        out.u32(if i + 1 < count { i as u32 + 1 } else { 0 });
    }
    let gnu = out.align(8);
    for word in [1, 1, 1, 6] {
        out.u32(word);
    }
    out.u64(usize::MAX);
    out.u32(1);
    for (i, (name, ..)) in symbols.iter().enumerate() {
        let last = u32::from(i + 1 == symbols.len());
        out.u32((gnu_hash(name) & !1) | last);
    }
    let symtab = out.align(8);
    out.0.extend([0; 24]);
    for (_, name, function) in &symbols {
        out.u32(*name);
        out.0.extend([0x12, 0]); // GLOBAL FUNC, default visibility
        out.u16(1);
        out.u64(CODE + function * STUB_BYTES);
        out.u64(STUB_BYTES);
    }
    let versym = out.align(8);
    out.u16(0);
    for _ in &symbols {
        out.u16(2);
    }
    let verdef = out.align(8);
    for (flags, index, name, text, next) in
        [(1, 1, soname, SONAME, 28), (0, 2, version_name, VERSION, 0)]
    {
        for half in [1, flags, index, 1] {
            out.u16(half);
        }
        for word in [sysv_hash(text), 20, next, name, 0] {
            out.u32(word);
        }
    }
    let strtab = out.align(8);
    out.0.extend(&strings);
    let dynamic = out.align(8);
    for (tag, value) in [
        (dt::DT_SONAME, soname as usize),
        (dt::DT_HASH, hash),
        (dt::DT_GNU_HASH, gnu),
        (dt::DT_STRTAB, strtab),
        (dt::DT_SYMTAB, symtab),
        (dt::DT_STRSZ, strings.len()),
        (dt::DT_SYMENT, 24),
        (dt::DT_VERSYM, versym),
        (dt::DT_VERDEF, verdef),
        (dt::DT_VERDEFNUM, 2),
        (dt::DT_NULL, 0),
    ] {
        out.u64(tag as usize);
        out.u64(value);
    }
    let end = out.0.len();

    let mut head = Image(vec![
        0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);
    head.u16(goblin::elf::header::ET_DYN);
    head.u16(goblin::elf::header::EM_X86_64);
    head.u32(1);
    for word in [0, 64, 0] {
        head.u64(word); // entry, program headers, section headers
    }
    head.u32(0);
    for half in [64, 56, 2, 64, 0, 0] {
        head.u16(half);
    }
    for (kind, flags, start, len, align) in
        [(1, 5, 0, end, 4096), (2, 4, dynamic, end - dynamic, 8)]
    {
        head.u32(kind);
        head.u32(flags);
        for word in [start, start, start, len, len, align] {
            head.u64(word);
        }
    }
    out.0[..HEADERS].copy_from_slice(&head.0);
    out.0
}

/// Maps image and slots.
pub fn map() -> Result<(), LoadError> {
    let image = build(VDSO_ADDRESS, VDSO_SLOTS_ADDRESS);
    assert!(
        image.len() <= VDSO_BYTES,
        "the vDSO image has outgrown its place"
    );
    super::map::anonymous(
        "the vDSO",
        VDSO_ADDRESS,
        VDSO_BYTES + SLOT_BYTES,
        libc::PROT_READ | libc::PROT_WRITE,
        0,
    )?;
    // SAFETY: the memory was mapped just now for the image.
    unsafe {
        core::ptr::copy_nonoverlapping(image.as_ptr(), VDSO_ADDRESS as *mut u8, image.len());
    }
    let prot = (libc::PROT_READ | libc::PROT_EXEC) as usize;
    syscall::plain(
        libc::SYS_mprotect,
        [VDSO_ADDRESS, VDSO_BYTES, prot, 0, 0, 0],
    );
    Ok(())
}

/// Writes the slots: functions of the current kernel's vDSO, or the fallbacks that make system calls.
pub fn fill_slots() -> Result<(), LoadError> {
    let maps = proc_maps::read().map_err(|source| LoadError::System {
        what: "reading /proc/self/maps",
        source,
    })?;
    let real = maps.iter().find(|m| m.name == "[vdso]");
    let mut targets = [0; CALLING];
    for (i, (name, ..)) in FUNCTIONS.iter().enumerate() {
        let found = real.and_then(|m| {
            // SAFETY: the kernel's vDSO is mapped readable for the life of the process.
            let bytes =
                unsafe { core::slice::from_raw_parts(m.start as *const u8, m.end - m.start) };
            find(bytes, &format!("__vdso_{name}")).map(|offset| m.start + offset)
        });
        targets[i] = found.unwrap_or(FALLBACKS[i] as *const () as usize);
    }
    clock_log::set_clocks();
    targets[0] = clock::reader(targets[0]);
    targets[OWN] = clock::shifted_reader();
    if clock_log::is_on() {
        if !has_traps() {
            return Err(LoadError::NoClocks);
        }
        for (function, target) in targets.iter_mut().take(CLOCKS).enumerate() {
            *target = trap(function);
        }
    }
    for (i, target) in targets.into_iter().enumerate() {
        // SAFETY: the slots' page is mapped writable, and no upper-half code runs now.
        unsafe { ((VDSO_SLOTS_ADDRESS + i * 8) as *mut usize).write_volatile(target) };
    }
    Ok(())
}

fn find(image: &[u8], name: &str) -> Option<usize> {
    let elf = goblin::elf::Elf::parse(image).ok()?;
    let base = elf.program_headers.iter().find(|p| p.p_type == 1)?.p_vaddr;
    let symbol = elf
        .dynsyms
        .iter()
        .find(|s| s.st_shndx != 0 && elf.dynstrtab.get_at(s.st_name) == Some(name))?;
    Some((symbol.st_value - base) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_an_elf_with_the_functions() {
        let image = build(VDSO_ADDRESS, VDSO_SLOTS_ADDRESS);
        assert!(image.len() <= VDSO_BYTES);
        for (name, ..) in FUNCTIONS {
            assert!(find(&image, &format!("__vdso_{name}")).is_some(), "{name}");
        }
        let elf = goblin::elf::Elf::parse(&image).expect("an ELF image");
        assert_eq!(elf.soname, Some("linux-vdso.so.1"));
    }
}
