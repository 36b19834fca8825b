//! The registers in the threads' frames, as far as they depend on the machine.
//!
//! The frames are in the image's memory. The section *registers* says where the machine keeps the registers in a frame,
//! so that a restart on a processor of another maker can move them.

use super::{xsave_area, ProcessState};
use crate::error::RestoreError;
use crate::interpose::signals::earlier_frames::{self, Room};
use crate::interpose::threads::stop::Stopped;
use crate::sys::context::Context;
use crate::sys::cpu;
use crate::sys::fp_state::{self, Layout, Words};
use crate::sys::user_copy;
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use serde::{Deserialize, Serialize};

/// State components that programs do not miss where the processor has none: the bounds of MPX, which no kernel serves
/// any more, and the rights of protection keys.
const OPTIONAL: u64 = 1 << 3 | 1 << 4 | 1 << 9;

/// A cache line, the alignment of the registers in a frame.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    _bytes: [u8; 64],
}

/// The registers of a saved process. The version of the section *registers* (`ckpt-image/src/format/section.rs`)
/// changes with any change here or in the types of its fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedRegisters {
    /// The layout of the machine, then those of earlier ones.
    layouts: Vec<Layout>,
    /// State components of the threads that were not in their initial state.
    in_use: u64,
    /// Components that the kernel lets the process use.
    permitted: u64,
}

impl SavedRegisters {
    /// Reads what the frames of stopped threads have in use.
    pub fn capture(stopped: &Stopped) -> SavedRegisters {
        let areas = stopped.threads().filter_map(|thread| {
            let frame = thread.frame.load(Ordering::Relaxed);
            user_copy::read::<usize>(frame + offset_of!(Context, fpstate)).ok()
        });
        let in_use = areas.filter(|area| *area != 0);
        let in_use = in_use.filter_map(|area| fp_state::in_use(area).ok());
        let mut layouts = vec![Layout::here()];
        layouts.extend(earlier_frames::noted());
        SavedRegisters {
            layouts,
            in_use: in_use.fold(0, |all, bits| all | bits),
            permitted: cpu::permitted_components(),
        }
    }

    /// The reason why the process cannot continue on this machine, if there is one.
    pub fn incompatibility(&self) -> Option<String> {
        let missing = self.in_use & !Layout::here().components() & !OPTIONAL;
        let names = (0..64).filter(|component| missing & 1 << component != 0);
        let names: Vec<_> = names.map(|component: u32| component.to_string()).collect();
        (missing != 0).then(|| {
            let names = names.join(", ");
            format!(
                "the processor or the kernel lacks registers that the program had in use: XSAVE state components {names}"
            )
        })
    }

    /// Room for the registers of the least processor that the process has been on.
    pub(super) fn smallest_room(&self) -> Option<usize> {
        self.layouts.iter().map(xsave_area::needed).min()
    }

    /// Makes the threads' frames those of this machine. Their memory is mapped, and no thread runs.
    pub(super) fn restore(&self, state: &ProcessState) -> Result<(), RestoreError> {
        cpu::permit_components(self.permitted).map_err(RestoreError::system(
            "asking the kernel for the registers that the program had asked for (ARCH_REQ_XCOMP_PERM)",
        ))?;
        earlier_frames::note(self.layouts.iter().cloned());
        for thread in &state.threads {
            let adapted = earlier_frames::adapt(thread.frame, room);
            adapted.map_err(|_| RestoreError::NotMapped {
                what: "the registers of a thread's frame",
                address: thread.frame,
            })?;
        }
        Ok(())
    }
}

/// Prepares the calling thread for the registers of a frame from which it is going to resume.
pub(super) fn expect(frame: usize) {
    let area = user_copy::read::<usize>(frame + offset_of!(Context, fpstate));
    let area = area.ok().filter(|area| *area != 0);
    let words = area.and_then(|area| Words::of(area).ok().flatten());
    if words.is_some_and(|words| words.components() & 1 << cpu::TILES != 0) {
        cpu::use_tiles();
    }
}

/// Memory of the lower half, from which `rt_sigreturn` reads the registers once. It cannot be told when it has.
fn room(here: &Layout) -> Room {
    let lines = here.room().div_ceil(size_of::<Line>());
    let lines = vec![Line { _bytes: [0; 64] }; lines].leak();
    Room {
        area: lines.as_ptr() as usize,
        components: here.components(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_that_are_missing_here_are_named() {
        let mut registers = SavedRegisters {
            layouts: vec![Layout::here()],
            in_use: Layout::here().components() | OPTIONAL,
            permitted: 0,
        };
        assert_eq!(registers.incompatibility(), None);
        registers.in_use |= 1 << 62;
        let why = registers.incompatibility().unwrap();
        assert!(why.ends_with("components 62"), "{why}");
    }
}
