//! Where things lie. The address is the ledger: below [`ARENA_END`] is upper half, above is lower.

/// First address at which the loader places upper-half mappings (a non-PIE program keeps its own
/// low addresses).
pub const ARENA_START: usize = 1 << 40;

/// End of the upper half. The kernel never picks an address below it by itself.
pub const ARENA_END: usize = 16 << 40;

/// The gate's page run, at the very start of the arena.
pub const GATE_ADDRESS: usize = ARENA_START;
/// Bytes mapped for the gate.
pub const GATE_BYTES: usize = 0x1_0000;

/// The clock table (one [`crate::Clock`] per live communicator), lazily touched.
pub const CLOCKS_ADDRESS: usize = ARENA_START + 0x10_0000;
/// Bytes mapped for the clock table.
pub const CLOCKS_BYTES: usize = crate::CLOCKS * core::mem::size_of::<crate::Clock>();

/// The upper half's own vDSO image (code, never rewritten).
pub const VDSO_ADDRESS: usize = ARENA_START + 0x80_0000;
/// Bytes mapped for the vDSO image.
pub const VDSO_BYTES: usize = 0x2000;
/// The slots through which that image jumps; rewritten on restart.
pub const VDSO_SLOTS_ADDRESS: usize = VDSO_ADDRESS + VDSO_BYTES;

const _: () = assert!(CLOCKS_ADDRESS + CLOCKS_BYTES <= VDSO_ADDRESS);
const _: () = assert!(GATE_ADDRESS + GATE_BYTES <= CLOCKS_ADDRESS);
