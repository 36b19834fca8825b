//! The registers in a signal frame: the area of XSAVE in the standard format, with the kernel's words about it
//! (arch/x86/kernel/fpu/signal.c; Intel SDM volume 1, chapter 13.4).
//!
//! The area begins with the registers of FXSAVE and a header. The other state components follow, each at a place that
//! belongs to the processor (CPUID leaf 0xD): makers of processors place AVX-512 differently. `rt_sigreturn` reads them
//! where the present processor has them.
//!
//! # Safety
//! `xgetbv` is executed only if the processor and the kernel have it.
#![allow(unsafe_code)]

use super::context::{LEGACY, MAGIC1, WORDS};
use super::user_copy::{self, Fault};
use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use serde::{Deserialize, Serialize};

/// Bytes of these and the header.
pub const LEGACY_AND_HEADER: usize = LEGACY + 64;
/// Components of FXSAVE: x87 and SSE.
pub const LEGACY_COMPONENTS: u64 = 0b11;
/// The kernel's mark behind the components.
const MAGIC2: u32 = 0x4650_5845;
/// Leaf of CPUID about XSAVE.
const LEAF: u32 = 0xd;

/// The kernel's words about an area (`struct _fpx_sw_bytes`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    magic: u32,
    /// Bytes with the mark at the end.
    all: u32,
    components: [u32; 2],
    /// Bytes of the components.
    bytes: u32,
}

const _: () = assert!(size_of::<Words>() == 20 && WORDS + size_of::<Words>() <= LEGACY);

impl Words {
    /// The words of an area; `None` if it has only the registers of FXSAVE.
    ///
    /// # Errors
    /// [`Fault`] if the area is not mapped.
    pub fn of(area: usize) -> Result<Option<Words>, Fault> {
        let words: Words = user_copy::read(area + WORDS)?;
        Ok((words.magic == MAGIC1).then_some(words))
    }

    /// Bytes of the components.
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Components for which the area has a place.
    pub fn components(&self) -> u64 {
        u64::from(self.components[1]) << 32 | u64::from(self.components[0])
    }

    /// Makes the words, the header and the mark of an area those of these components, which take this number of bytes.
    ///
    /// # Errors
    /// [`Fault`] if the area is not mapped, or is read-only.
    pub fn write(area: usize, components: u64, bytes: usize, in_use: u64) -> Result<(), Fault> {
        user_copy::write(area + bytes, MAGIC2)?;
        user_copy::write(area + LEGACY, in_use)?;
        let words = Words {
            magic: MAGIC1,
            all: (bytes + size_of_val(&MAGIC2)) as u32,
            components: [components as u32, (components >> 32) as u32],
            bytes: bytes as u32,
        };
        user_copy::write(area + WORDS, words)
    }
}

/// Components of an area that are not in their initial state.
///
/// # Errors
/// [`Fault`] if the area is not mapped.
pub fn in_use(area: usize) -> Result<u64, Fault> {
    user_copy::read(area + LEGACY)
}

/// Place of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    component: u32,
    offset: u32,
    bytes: u32,
}

/// The places of the components behind the header on one processor, under one kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// By the number of the component.
    places: Vec<Place>,
}

impl Layout {
    /// The layout of this machine. It has no component on a processor without XSAVE.
    pub fn here() -> Layout {
        let enabled = enabled();
        let components = (2..64).filter(|component| enabled & 1 << component != 0);
        let place = |component| {
            let told = __cpuid_count(LEAF, component);
            Place {
                component,
                offset: told.ebx,
                bytes: told.eax,
            }
        };
        // Components that only the kernel uses have no place.
        let places = components.map(place).filter(|place| place.offset != 0);
        Layout {
            places: places.collect(),
        }
    }

    /// All components, with those of FXSAVE.
    pub fn components(&self) -> u64 {
        let bits = self.places.iter().map(|place| 1 << place.component);
        bits.fold(LEGACY_COMPONENTS, |all, bit: u64| all | bit)
    }

    /// Bytes of an area that has places for these components.
    pub fn bytes_of(&self, components: u64) -> usize {
        let has = |place: &&Place| components & 1 << place.component != 0;
        let ends = self.places.iter().filter(has);
        let ends = ends.map(|place| (place.offset + place.bytes) as usize);
        ends.max().unwrap_or(0).max(LEGACY_AND_HEADER)
    }

    /// Bytes of the largest area, with the mark at its end.
    pub fn room(&self) -> usize {
        self.bytes_of(self.components()) + size_of_val(&MAGIC2)
    }

    /// Whether an area with these words has this layout.
    pub fn is_of(&self, words: &Words) -> bool {
        words.components() & !self.components() == 0
            && words.bytes() == self.bytes_of(words.components())
    }

    /// Copies an area of this layout into memory of [`Layout::room`] bytes in another layout, as far as the components
    /// are among `allowed`, and the other layout has them.
    ///
    /// # Errors
    /// [`Fault`] if one of both is not mapped.
    pub fn convert(
        &self,
        area: usize,
        to: &Layout,
        into: usize,
        allowed: u64,
    ) -> Result<(), Fault> {
        let has = Words::of(area)?.map_or(LEGACY_COMPONENTS, |words| words.components());
        let components = has & to.components() & allowed;
        let in_use = in_use(area)? & components;
        user_copy::write(into, user_copy::read::<[u8; LEGACY]>(area)?)?;
        // The rest of the header is reserved, and zero.
        user_copy::write(into + LEGACY, [0u64; 8])?;
        for from in &self.places {
            let place = to.places.iter().find(|to| to.component == from.component);
            if let Some(to) = place.filter(|_| in_use & 1 << from.component != 0) {
                let words = from.bytes.min(to.bytes) as usize / size_of::<u64>();
                let (from, to) = (area + from.offset as usize, into + to.offset as usize);
                for at in (0..words).map(|word| word * size_of::<u64>()) {
                    user_copy::write(to + at, user_copy::read::<u64>(from + at)?)?;
                }
            }
        }
        Words::write(into, components, to.bytes_of(components), in_use)
    }
}

/// Components that the kernel lets programs use (XCR0).
fn enabled() -> u64 {
    const OSXSAVE: u32 = 1 << 27;
    if __cpuid(0).eax < LEAF || __cpuid(1).ecx & OSXSAVE == 0 {
        return 0;
    }
    let (low, high): (u32, u32);
    // SAFETY: OSXSAVE says that the instruction can be executed.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack))
    };
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::context::Context;
    use std::cell::Cell;

    /// The components of AVX, AVX-512 and protection keys where processors of AMD have them (Zen 4).
    fn of_amd() -> Layout {
        let places = [
            (2, 576, 256),
            (5, 832, 64),
            (6, 896, 512),
            (7, 1408, 1024),
            (9, 2432, 8),
        ];
        let places = places.map(|(component, offset, bytes)| Place {
            component,
            offset,
            bytes,
        });
        Layout {
            places: places.to_vec(),
        }
    }

    #[repr(C, align(64))]
    struct Area([u64; 2048]);

    impl Area {
        fn new() -> Box<Area> {
            Box::new(Area([0; 2048]))
        }

        fn address(&self) -> usize {
            self.0.as_ptr() as usize
        }
    }

    #[test]
    fn an_area_comes_back_through_another_layout() {
        let (here, there) = (Layout::here(), of_amd());
        let common = here.components() & there.components();
        let (mut first, moved, back) = (Area::new(), Area::new(), Area::new());
        for (n, word) in first.0.iter_mut().enumerate() {
            *word = n as u64 * 0x0101_0101;
        }
        let bytes = here.bytes_of(here.components());
        Words::write(first.address(), here.components(), bytes, common).unwrap();
        let words = Words::of(first.address()).unwrap().unwrap();
        assert!(here.is_of(&words));
        here.convert(first.address(), &there, moved.address(), u64::MAX)
            .unwrap();
        for place in there
            .places
            .iter()
            .filter(|p| common & 1 << p.component != 0)
        {
            let from = here.places.iter().find(|p| p.component == place.component);
            let from = from.unwrap().offset as usize / 8;
            let (to, words) = (place.offset as usize / 8, place.bytes as usize / 8);
            assert_eq!(moved.0[to..to + words], first.0[from..from + words]);
        }
        let words = Words::of(moved.address()).unwrap().unwrap();
        assert!(there.is_of(&words));
        assert_eq!(words.components(), common);
        there
            .convert(moved.address(), &here, back.address(), u64::MAX)
            .unwrap();
        let words = Words::of(back.address()).unwrap().unwrap();
        assert!(here.is_of(&words));
        assert_eq!(in_use(back.address()), Ok(common));
        assert_eq!(back.0[..58], first.0[..58]);
    }

    thread_local! {
        /// Memory to which the handler moves the registers of its frame: in the other layout, and in this one again.
        static MOVED: Cell<[usize; 2]> = const { Cell::new([0; 2]) };
    }

    unsafe extern "C" fn move_registers(_: i32, _: *mut libc::siginfo_t, frame: *mut libc::c_void) {
        // SAFETY: the kernel's frame.
        let frame = unsafe { &mut *frame.cast::<Context>() };
        let [moved, back] = MOVED.get();
        let (here, there) = (Layout::here(), of_amd());
        let words = Words::of(frame.fpstate).unwrap().unwrap();
        assert!(here.is_of(&words), "{words:?} {here:?}");
        here.convert(frame.fpstate, &there, moved, u64::MAX)
            .unwrap();
        there.convert(moved, &here, back, u64::MAX).unwrap();
        frame.fpstate = back;
    }

    /// The kernel itself reads the registers from the frame that was moved twice.
    #[test]
    fn the_kernel_reads_the_registers_that_were_moved() {
        if !std::arch::is_x86_feature_detected!("avx512bw") {
            skip::skip!("the processor has no AVX-512");
        }
        let (moved, back) = (Area::new(), Area::new());
        MOVED.set([moved.address(), back.address()]);
        let (mut low, mut high, mut mask) = ([0u64; 8], [0u64; 8], 0u64);
        // SAFETY: the handler has the right type, and changes nothing but the frame; the instructions change the
        // registers that are named, and the signal keeps those in which the operands are.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = move_registers as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(
                libc::sigaction(libc::SIGUSR2, &action, core::ptr::null_mut()),
                0
            );
            let [process, thread] = [libc::getpid(), libc::gettid()];
            asm!(
                "vpternlogd zmm3, zmm3, zmm3, 255",
                "vpabsb zmm3, zmm3",
                "vpaddb zmm29, zmm3, zmm3",
                "kmovq k5, {pattern}",
                "mov eax, {tgkill}",
                "syscall",
                "vmovdqu64 [{low}], zmm3",
                "vmovdqu64 [{high}], zmm29",
                "kmovq {mask}, k5",
                pattern = in(reg) 0x1234_5678_9abc_def0u64,
                tgkill = const libc::SYS_tgkill as i32,
                low = in(reg) low.as_mut_ptr(),
                high = in(reg) high.as_mut_ptr(),
                mask = lateout(reg) mask,
                in("rdi") process, in("rsi") thread, in("rdx") libc::SIGUSR2,
                out("rax") _, out("rcx") _, out("r11") _, out("zmm3") _, out("zmm29") _, out("k5") _,
            );
        }
        assert_eq!(low, [0x0101_0101_0101_0101; 8]);
        assert_eq!(high, [0x0202_0202_0202_0202; 8]);
        assert_eq!(mask, 0x1234_5678_9abc_def0);
        let at = |offset: usize| moved.0[offset / 8];
        assert_eq!(at(832 + 5 * 8), 0x1234_5678_9abc_def0, "k5");
        assert_eq!(
            at(896 + 3 * 32),
            0x0101_0101_0101_0101,
            "the high half of zmm3"
        );
        assert_eq!(at(1408 + 13 * 64), 0x0202_0202_0202_0202, "zmm29");
    }
}
