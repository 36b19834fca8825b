//! The sections of an image, in which nothing else is wrong.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stasis_fuzz::{assemble, open_image};

fuzz_target!(|parts: &[u8]| open_image(&assemble(parts)));
