//! Unit tests that hold for the conversions of each ABI whose values differ from the standard's.

/// Defines the module `tests` in a front's module `abi`. `$lastusedcode` is the least value that MPI_LASTUSEDCODE may
/// have in the ABI.
#[macro_export]
macro_rules! conversion_tests {
    (lastusedcode: $lastusedcode:literal) => {
        #[cfg(test)]
        mod tests {
            use super::*;
            use ::contract::abi as standard;

            #[test]
            fn special_values_go_in_and_out() {
                for rank in [ANY_SOURCE, PROC_NULL, ROOT, standard::UNDEFINED, 0, 5] {
                    assert_eq!(rank_out(rank_in(rank)), rank);
                }
                assert_eq!(rank_in(-77), $crate::INVALID);
                assert_eq!(tag_out(tag_in(ANY_TAG)), ANY_TAG);
                assert_eq!(tag_in(-2), $crate::INVALID);
                assert_eq!(keyval_out(keyval_in(KEYVAL_INVALID)), KEYVAL_INVALID);
                assert_eq!(keyval_in(0x1000), 0x1000);
                assert_eq!(keyval_in(standard::TAG_UB), $crate::INVALID);
            }

            #[test]
            fn every_error_class_goes_in_and_out() {
                let known = |(_, &class): &(usize, &i32)| class != $crate::INVALID;
                for (class, &standard) in ERRORS.iter().enumerate().filter(known) {
                    assert_eq!(error_in(class as i32), standard);
                    assert_eq!(error_out(standard), class as i32);
                }
                let user_defined = standard::ERR_LASTCODE + 3;
                assert_eq!(error_in(error_out(user_defined)), user_defined);
                assert!(error_out(standard::ERR_LASTCODE) >= $lastusedcode);
                let newer = error_out(standard::ERR_ABI);
                assert_eq!(error_in(newer), standard::ERR_OTHER);
            }

            #[test]
            fn statuses_go_out_and_in() {
                let status = standard::Status {
                    source: standard::ANY_SOURCE,
                    tag: standard::ANY_TAG,
                    error: standard::ERR_TRUNCATE,
                    cancelled: 1,
                    count: 0x1_2345_6789_abcd,
                    reserved: 0,
                };
                let mut out = core::mem::MaybeUninit::uninit();
                // SAFETY: `out` is a local of the right size, and `status_out` writes all of it.
                let out: Status = unsafe {
                    status_out(&status, out.as_mut_ptr());
                    out.assume_init()
                };
                assert_eq!(
                    (out.source, out.tag, out.error),
                    (ANY_SOURCE, ANY_TAG, error_out(status.error))
                );
                assert_eq!(status_in(&out), status);
            }
        }
    };
}
