//! Addresses. Memory below [`ARENA_END`] belongs to the upper half, memory above it to the lower half.

/// First address at which the loader places mappings of the upper half: 1 TiB. A non-PIE program keeps its own
/// addresses, which are lower.
pub const ARENA_START: usize = 1 << 40;

/// End of the upper half: 16 TiB. The kernel never chooses an address below it by itself.
pub const ARENA_END: usize = 16 << 40;

/// Address of the gate: the start of the arena.
pub const GATE_ADDRESS: usize = ARENA_START;
/// Bytes mapped for the gate.
pub const GATE_BYTES: usize = 0x1_0000;

/// Address of the clock table, which has a [`crate::Clock`] for each communicator. Its pages are allocated on first
/// use.
pub const CLOCKS_ADDRESS: usize = ARENA_START + 0x10_0000;
/// Bytes mapped for the clock table.
pub const CLOCKS_BYTES: usize = crate::CLOCKS * core::mem::size_of::<crate::Clock>();

/// Address of the upper half's own vDSO image. It is code, and a restart does not change it.
pub const VDSO_ADDRESS: usize = ARENA_START + 0x80_0000;
/// Bytes mapped for the vDSO image.
pub const VDSO_BYTES: usize = 0x2000;
/// Address of a function of the vDSO image, not named there: `clock_gettime` for Stasis itself. Its values are neither
/// recorded nor replayed.
pub const OWN_CLOCK: usize = VDSO_ADDRESS + 0x200;
/// Address of the slots through which the vDSO image jumps. A restart writes them again.
pub const VDSO_SLOTS_ADDRESS: usize = VDSO_ADDRESS + VDSO_BYTES;

/// Address of the trampolines, to which patched system calls of the application jump (the loader's
/// `interpose/sites/`). They are the lower half's: no image holds them, and each process makes its own.
pub const SITES_ADDRESS: usize = ARENA_START + 0x90_0000;
/// Bytes of code of the trampolines, and of the data behind it.
pub const SITES_CODE_BYTES: usize = 0x1_0000;
/// Bytes mapped for the trampolines.
pub const SITES_BYTES: usize = 2 * SITES_CODE_BYTES;

/// Whether an address below [`ARENA_END`] belongs to the lower half all the same.
pub const fn is_of_sites(address: usize) -> bool {
    address >= SITES_ADDRESS && address < SITES_ADDRESS + SITES_BYTES
}

const _: () = assert!(VDSO_SLOTS_ADDRESS + VDSO_BYTES <= SITES_ADDRESS);
const _: () = assert!(CLOCKS_ADDRESS + CLOCKS_BYTES <= VDSO_ADDRESS);
const _: () = assert!(GATE_ADDRESS + GATE_BYTES <= CLOCKS_ADDRESS);
