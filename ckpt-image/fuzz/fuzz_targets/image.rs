//! An image of any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stasis_fuzz::{open_image, put_right};

fuzz_target!(|bytes: &[u8]| {
    open_image(bytes);
    if let Some(bytes) = put_right(bytes) {
        open_image(&bytes);
    }
});
