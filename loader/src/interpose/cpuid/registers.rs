//! The registers in signal frames, without those that only hidden features have.
//!
//! The kernel writes all registers that are in use into a frame, those of the lower half's code, too. A lesser
//! processor's kernel restores only SSE from a frame that is larger than its own.

use crate::sys::context::Context;
use crate::sys::user_copy;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};

/// State components of XSAVE: x87 and SSE, and AVX.
const LEGACY_COMPONENTS: u64 = 0b11;
const AVX: u64 = 0b100;
/// Bytes of the registers of FXSAVE, of these with the header of XSAVE, and of AVX behind both, on all processors.
const LEGACY: usize = 512;
const LEGACY_AND_HEADER: usize = LEGACY + 64;
const AVX_BYTES: usize = 256;
/// Place of the kernel's words about the registers: a magic number, all bytes, components (two words), their bytes.
const WORDS: usize = 464;
const MAGIC1: u32 = 0x4650_5853;
/// The kernel's mark behind the components.
const MAGIC2: u32 = 0x4650_5845;

/// Components that the application may use; 0 for all.
static COMPONENTS: AtomicU64 = AtomicU64::new(0);

/// Notes which registers the application knows.
pub fn know(features: &[String]) {
    let has = |name: &str| features.iter().any(|feature| feature == name);
    let components = match (has("avx512f") || has("amx_tile"), has("avx")) {
        (true, _) => 0,
        (false, true) => LEGACY_COMPONENTS | AVX,
        (false, false) => LEGACY_COMPONENTS,
    };
    COMPONENTS.store(components, Ordering::Release);
}

/// Removes the others from the frame at an address.
pub fn fit(frame: usize) {
    let components = COMPONENTS.load(Ordering::Acquire);
    if components != 0 {
        // A frame is readable and writable: the kernel has made it.
        let _ = limit(frame, components);
    }
}

fn limit(frame: usize, components: u64) -> Result<(), user_copy::Fault> {
    let bytes = match components & AVX {
        0 => LEGACY_AND_HEADER,
        _ => LEGACY_AND_HEADER + AVX_BYTES,
    };
    let registers: usize = user_copy::read(frame + offset_of!(Context, fpstate))?;
    if registers == 0 {
        return Ok(());
    }
    let [magic, _, low, high, now] = user_copy::read::<[u32; 5]>(registers + WORDS)?;
    if magic != MAGIC1 || now as usize <= bytes {
        return Ok(());
    }
    let in_use: u64 = user_copy::read(registers + LEGACY)?;
    let all = bytes + size_of_val(&MAGIC2);
    let (low, high) = (low & components as u32, high & (components >> 32) as u32);
    user_copy::write(registers + bytes, MAGIC2)?;
    user_copy::write(registers + LEGACY, in_use & components)?;
    user_copy::write(
        registers + WORDS,
        [magic, all as u32, low, high, bytes as u32],
    )
}
