//! The registers in signal frames, without those that only hidden features have.
//!
//! The kernel writes all registers that are in use into a frame, those of the lower half's code, too. A lesser
//! processor's kernel restores only SSE from a frame that is larger than its own.

use crate::sys::context::Context;
use crate::sys::fp_state::{self, Words, LEGACY_AND_HEADER, LEGACY_COMPONENTS};
use crate::sys::user_copy;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};

/// The state component of AVX.
const AVX: u64 = 0b100;
/// Bytes of the registers up to those of AVX, which all processors have behind the header.
const WITH_AVX: usize = LEGACY_AND_HEADER + 256;

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
        _ => WITH_AVX,
    };
    let area: usize = user_copy::read(frame + offset_of!(Context, fpstate))?;
    if area == 0 {
        return Ok(());
    }
    let larger = Words::of(area)?.filter(|words| words.bytes() > bytes);
    let Some(words) = larger else {
        return Ok(());
    };
    let in_use = fp_state::in_use(area)? & components;
    Words::write(area, words.components() & components, bytes, in_use)
}
