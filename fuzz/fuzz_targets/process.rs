//! The state of a process: what is decoded is encoded to the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loader::ProcessState;
use stasis_fuzz::frugally;

fuzz_target!(|bytes: &[u8]| {
    let decoded = frugally(bytes.len(), || postcard::from_bytes::<ProcessState>(bytes));
    if let Ok(state) = decoded {
        let again = postcard::to_stdvec(&state).expect("encoded");
        assert_eq!(
            postcard::from_bytes::<ProcessState>(&again).as_ref(),
            Ok(&state)
        );
    }
});
