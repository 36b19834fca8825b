//! The table of patched instructions, and of the mappings that they are in.
//!
//! The bytes in memory decide whether an instruction is patched: an application that replaces its code behind the
//! loader's back has unpatched it. The lock is held over every change of code, and over every call of the application
//! that changes a mapping with patched code.

use super::shape::{self, Shape, BEFORE, BEHIND, JUMP, SYSCALL};
use super::write::Writable;
use super::{entry, slots, text};
use crate::interpose::threads::{self, Thread};
use crate::load::va_allocator::PAGE;
use crate::sys::context::SYSCALL_LEN;
use crate::sys::spin_lock::{Guard, Spin};
use crate::sys::{syscall, user_copy};
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

/// An instruction with a trampoline, which has the same index.
#[derive(Clone, Copy)]
struct Site {
    /// Address behind the instruction; 0: none.
    back: usize,
    shape: Shape,
    number: u32,
    /// The bytes in the place of the pad before.
    nops: [u8; JUMP],
    patched: bool,
    /// Whether there is a jump at the pad.
    pad: bool,
    /// Whether all that is changed are the file's own pages, which the kernel gives back.
    of_file: bool,
}

const NO_SITE: Site = Site {
    back: 0,
    shape: Shape::Number,
    number: 0,
    nops: [0; JUMP],
    patched: false,
    pad: false,
    of_file: false,
};

/// A mapping of code.
#[derive(Clone, Copy)]
struct Mapping {
    range: [usize; 2],
    /// Whether all its pages were the file's own before anything was patched. The application cannot change that
    /// unnoticed, because it has to make the mapping writable first.
    of_file: bool,
}

const NO_MAPPING: Mapping = Mapping {
    range: [0; 2],
    of_file: false,
};

/// Mappings with patched code: the C library's, the dynamic linker's, and some more.
const MAPPINGS: usize = 16;

struct Table {
    mappings: [Mapping; MAPPINGS],
    count: usize,
    /// Number of patches ever made.
    patches: usize,
    sites: [Site; slots::COUNT],
}

static TABLE: Spin<Table> = Spin::new(Table {
    mappings: [NO_MAPPING; MAPPINGS],
    count: 0,
    patches: 0,
    sites: [NO_SITE; slots::COUNT],
});

/// Start of the first mapping and end of the last one.
static LOW: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGH: AtomicUsize = AtomicUsize::new(0);

impl Site {
    /// Addresses of the bytes that a patch changes.
    fn span(&self) -> Range<usize> {
        match self.shape {
            Shape::Number => self.back - BEFORE..self.back - SYSCALL_LEN,
            Shape::Pad(_) => self.back - SYSCALL_LEN..self.pad_at() + JUMP,
        }
    }

    fn pad_at(&self) -> usize {
        match self.shape {
            Shape::Number => 0,
            Shape::Pad(distance) => self.back + usize::from(distance),
        }
    }

    fn pages(&self) -> impl Iterator<Item = usize> {
        let span = self.span();
        (span.start & !(PAGE - 1)..span.end).step_by(PAGE)
    }

    /// The instruction that loads the number.
    fn load(&self) -> [u8; JUMP] {
        let [a, b, c, d] = self.number.to_le_bytes();
        [0xb8, a, b, c, d]
    }

    /// Patches the code.
    fn write(&mut self, index: usize, code: &Writable) -> bool {
        let slot = slots::get(index);
        let call = self.back - SYSCALL_LEN;
        self.patched = match self.shape {
            Shape::Number => {
                let at = self.back - BEFORE;
                code.replace_load(at, jump(at, slots::code_of(index)))
            }
            Shape::Pad(distance) => {
                let pad = self.pad_at();
                slot.pad.store(pad, Ordering::Release);
                let to = slots::code_of(index) + slots::WITH_NUMBER;
                code.store_unused(pad, &jump(pad, to));
                self.pad = code.replace_call(call, [0xeb, distance]);
                if !self.pad {
                    code.store_unused(pad, &self.nops);
                }
                self.pad
            }
        };
        self.patched
    }

    /// Whether the code has the patch.
    fn is_written(&self, index: usize) -> bool {
        self.patched
            && match self.shape {
                Shape::Number => {
                    let at = self.back - BEFORE;
                    user_copy::read(at) == Ok(jump(at, slots::code_of(index)))
                }
                Shape::Pad(distance) => {
                    user_copy::read(self.back - SYSCALL_LEN) == Ok([0xeb, distance])
                }
            }
    }

    /// Takes the patch back, where the code still has it. `stopped`: no thread is at the pad.
    fn restore(&mut self, index: usize, code: &Writable, stopped: bool) {
        self.patched = self.is_written(index)
            && !match self.shape {
                Shape::Number => code.replace_load(self.back - BEFORE, self.load()),
                Shape::Pad(_) => code.replace_call(self.back - SYSCALL_LEN, SYSCALL),
            };
        if stopped && self.pad && !self.patched {
            let pad = self.pad_at();
            let to = slots::code_of(index) + slots::WITH_NUMBER;
            if user_copy::read(pad) == Ok(jump(pad, to)) {
                code.store_unused(pad, &self.nops);
            }
            self.pad = false;
        }
    }
}

/// A jump at an address.
fn jump(at: usize, to: usize) -> [u8; JUMP] {
    let [a, b, c, d] = (to.wrapping_sub(at + JUMP) as i32).to_le_bytes();
    [0xe9, a, b, c, d]
}

fn overlap([start, end]: [usize; 2], range: &Range<usize>) -> bool {
    start < range.end && range.start < end
}

impl Table {
    /// The mapping of code at an address.
    fn mapping_of(&mut self, address: usize) -> Option<Mapping> {
        let mut known = self.mappings.iter().take(self.count);
        if let Some(found) = known.find(|m| (m.range[0]..m.range[1]).contains(&address)) {
            return Some(*found);
        }
        let range = text::mapping(address).filter(|_| self.count < MAPPINGS)?;
        let found = Mapping {
            range,
            of_file: text::is_of_file(range),
        };
        self.mappings[self.count] = found;
        self.count += 1;
        LOW.fetch_min(range[0], Ordering::Relaxed);
        HIGH.fetch_max(range[1], Ordering::Relaxed);
        Some(found)
    }

    /// See [`patch`].
    fn patch(&mut self, back: usize, number: usize, served: u8) -> Option<bool> {
        const REACH: usize = 1 << 30;
        const LOOK: usize = 16;
        let known = slots::used().find(|(index, _)| self.sites[*index].back == back);
        if known.is_some_and(|(index, _)| self.sites[index].is_written(index)) {
            // Another thread has patched it meanwhile, or this one was at the instruction already.
            return Some(true);
        }
        let Some(Mapping { range, of_file }) = self.mapping_of(back - 1) else {
            return Some(false);
        };
        let near = slots::code_of(0).abs_diff(back) < REACH;
        // At the start of the mapping there is no byte before the instruction.
        let before = match back - BEFORE > range[0] {
            true => user_copy::read(back - BEFORE - 1),
            false if back - BEFORE == range[0] => {
                user_copy::read(range[0]).map(|bytes: [u8; BEFORE]| {
                    let mut all = [0; BEFORE + 1];
                    all[1..].copy_from_slice(&bytes);
                    all
                })
            }
            false => return Some(false),
        };
        let Ok(before) = before else {
            return Some(false);
        };
        let behind = match back + BEHIND <= range[1] {
            true => user_copy::read::<[u8; BEHIND]>(back).ok(),
            false => None,
        };
        let behind = behind.as_ref().map_or(&[][..], |bytes| &bytes[..]);
        let Some(shape) = shape::find(back, &before, behind, number).filter(|_| near) else {
            return Some(false);
        };
        if self.patches.is_multiple_of(LOOK) && text::is_traced() {
            super::stop();
            return None;
        }
        self.patches += 1;
        let Some(index) = known.map(|(index, _)| index).or_else(slots::allocate) else {
            return Some(false);
        };
        let mut nops = [0; JUMP];
        if let Shape::Pad(at) = shape {
            nops.copy_from_slice(&behind[usize::from(at)..][..JUMP]);
        }
        let mut site = Site {
            back,
            shape,
            number: number as u32,
            nops,
            of_file,
            ..NO_SITE
        };
        let slot = slots::get(index);
        slot.number.store(site.number, Ordering::Relaxed);
        let entry = match shape {
            Shape::Number => entry::of_kind(served),
            Shape::Pad(_) => entry::any(),
        };
        slot.entry.store(entry, Ordering::Relaxed);
        slot.pad.store(0, Ordering::Relaxed);
        slot.back.store(back, Ordering::Release);
        let Some(code) = Writable::make(range, false) else {
            super::stop();
            return None;
        };
        let patched = site.write(index, &code);
        self.sites[index] = site;
        Some(patched)
    }

    /// Takes back all patches while no thread runs; false if that is impossible.
    fn withdraw(&mut self) -> bool {
        for (index, _) in slots::used() {
            let site = &mut self.sites[index];
            if site.of_file && (site.patched || site.pad) {
                let given_back = site.pages().all(|page| {
                    let args = [page, PAGE, libc::MADV_DONTNEED as usize, 0, 0, 0];
                    !syscall::is_err(syscall::plain(libc::SYS_madvise, args))
                });
                if given_back {
                    (site.patched, site.pad) = (false, false);
                }
            }
        }
        for mapping in self.mappings.iter().take(self.count) {
            let range = mapping.range[0]..mapping.range[1];
            let changed = |site: &Site| {
                (site.patched || site.pad) && range.contains(&(site.back.wrapping_sub(1)))
            };
            if !slots::used().any(|(index, _)| changed(&self.sites[index])) {
                continue;
            }
            let Some(code) = Writable::make(mapping.range, true) else {
                return false;
            };
            for (index, _) in slots::used() {
                if changed(&self.sites[index]) {
                    self.sites[index].restore(index, &code, true);
                }
            }
        }
        true
    }

    /// Takes back the patches in a mapping whose code may change. `gone`: it is unmapped.
    fn release(&mut self, mapping: [usize; 2], gone: bool) {
        let range = mapping[0]..mapping[1];
        let Some(code) = Writable::make(mapping, false) else {
            return;
        };
        for (index, slot) in slots::used() {
            let site = &mut self.sites[index];
            if site.back == 0 || !range.contains(&(site.back - 1)) {
                continue;
            }
            site.restore(index, &code, false);
            site.of_file = false;
            if gone && !site.patched {
                *site = NO_SITE;
                slot.pad.store(0, Ordering::Relaxed);
                slot.back.store(0, Ordering::Release);
            }
        }
    }
}

/// Patches the instruction before `back`, which has raised SIGSYS for this call. None: not now; false: it cannot be.
pub fn patch(back: usize, number: usize, served: u8) -> Option<bool> {
    let vforked = |thread: &Thread| thread.vforked.load(Ordering::Relaxed);
    if Thread::current().is_none_or(vforked) {
        return None;
    }
    let mut table = TABLE.lock();
    if threads::stop_is_wanted() {
        return None;
    }
    table.patch(back, number, served)
}

/// Takes back all patches while all threads are stopped; false if that is impossible.
pub fn withdraw() -> bool {
    TABLE.lock().withdraw()
}

/// Proof that the code which a call of the application changes is as the application knows it.
pub struct Unpatched(#[allow(dead_code)] Guard<'static, Table>);

/// Takes back the patches that a call of the application might change with its mapping. Nothing is patched until the
/// result is dropped.
pub fn before_remap(nr: usize, args: [usize; 6]) -> Option<Unpatched> {
    let [first, len, third, flags, fifth, _] = args;
    let to = |start: usize, len: usize| start..start.saturating_add(len);
    let (ranges, gone) = match nr as i64 {
        libc::SYS_mremap => ([to(first, len), to(fifth, third)], true),
        libc::SYS_mmap if flags as i32 & libc::MAP_FIXED != 0 => ([to(first, len), 0..0], true),
        libc::SYS_munmap => ([to(first, len), 0..0], true),
        libc::SYS_mprotect | libc::SYS_pkey_mprotect | libc::SYS_madvise => {
            ([to(first, len), 0..0], false)
        }
        libc::SYS_shmat if third as i32 & libc::SHM_REMAP != 0 => ([first..usize::MAX, 0..0], true),
        _ => return None,
    };
    let all = [LOW.load(Ordering::Relaxed), HIGH.load(Ordering::Relaxed)];
    if !ranges.iter().any(|range| overlap(all, range)) {
        return None;
    }
    let mut table = TABLE.lock();
    let mut at = 0;
    while at < table.count {
        let mapping = table.mappings[at].range;
        if ranges.iter().any(|range| overlap(mapping, range)) {
            table.release(mapping, gone);
            table.count -= 1;
            let last = table.count;
            table.mappings.swap(at, last);
        } else {
            at += 1;
        }
    }
    Some(Unpatched(table))
}

/// Number of instructions that are patched now.
pub fn patched() -> usize {
    let table = TABLE.lock();
    let is = |(index, _): &(usize, _)| table.sites[*index].patched;
    slots::used().filter(is).count()
}

/// Holds the lock of the table during `f` (a fork).
pub fn with_lock<R>(f: impl FnOnce() -> R) -> R {
    let _guard = TABLE.lock();
    f()
}
