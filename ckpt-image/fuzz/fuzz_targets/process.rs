//! The state of a process, and the files that it had closed: what is decoded is encoded to the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loader::{ClosedFileList, ProcessState};
use stasis_fuzz::frugally;

macro_rules! same_again {
    ($kind:ty, $bytes:ident) => {
        let decoded = frugally($bytes.len(), || postcard::from_bytes::<$kind>($bytes));
        if let Ok(state) = decoded {
            let again = postcard::to_stdvec(&state).expect("encoded");
            assert_eq!(postcard::from_bytes::<$kind>(&again).as_ref(), Ok(&state));
        }
    };
}

fuzz_target!(|bytes: &[u8]| {
    same_again!(ProcessState, bytes);
    same_again!(ClosedFileList, bytes);
});
