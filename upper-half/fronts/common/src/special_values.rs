//! Translation of the integers that are plain numbers but for a few special values: ranks, tags, and arguments of
//! distributions.

/// Defines the special values of an ABI as constants, and the translations `rank_in`, `rank_out`, `tag_in`, `tag_out`,
/// `distribution_arg_in` and `distribution_arg_out`. MPI_UNDEFINED is the standard's ([`crate::shared_values`]).
#[macro_export]
macro_rules! special_values {
    ($($name:ident = $value:literal;)*) => {
        $(const $name: i32 = $value;)*

        /// A rank from the application.
        #[inline(always)]
        pub fn rank_in(rank: i32) -> i32 {
            if rank >= 0 {
                return rank;
            }
            match rank {
                ANY_SOURCE => ::contract::abi::ANY_SOURCE,
                PROC_NULL => ::contract::abi::PROC_NULL,
                ROOT => ::contract::abi::ROOT,
                ::contract::abi::UNDEFINED => rank,
                _ => $crate::INVALID,
            }
        }

        /// A rank for the application.
        #[inline(always)]
        pub fn rank_out(rank: i32) -> i32 {
            if rank >= 0 {
                return rank;
            }
            match rank {
                ::contract::abi::ANY_SOURCE => ANY_SOURCE,
                ::contract::abi::PROC_NULL => PROC_NULL,
                ::contract::abi::ROOT => ROOT,
                other => other,
            }
        }

        /// A tag from the application.
        #[inline(always)]
        pub fn tag_in(tag: i32) -> i32 {
            if tag >= 0 {
                return tag;
            }
            match tag {
                ANY_TAG => ::contract::abi::ANY_TAG,
                _ => $crate::INVALID,
            }
        }

        /// A tag for the application.
        #[inline(always)]
        pub fn tag_out(tag: i32) -> i32 {
            if tag == ::contract::abi::ANY_TAG {
                ANY_TAG
            } else {
                tag
            }
        }

        /// An argument of a distribution from the application, or MPI_DISTRIBUTE_DFLT_DARG.
        #[inline(always)]
        pub fn distribution_arg_in(arg: i32) -> i32 {
            if arg == DFLT_DARG {
                ::contract::abi::DISTRIBUTE_DFLT_DARG
            } else {
                arg
            }
        }

        /// An argument of a distribution for the application, or MPI_DISTRIBUTE_DFLT_DARG.
        pub fn distribution_arg_out(arg: i32) -> i32 {
            if arg == ::contract::abi::DISTRIBUTE_DFLT_DARG {
                DFLT_DARG
            } else {
                arg
            }
        }
    };
}

/// Defines `write_status` and `read_status`, by which the core writes and reads a status of the application, from the
/// ABI's `Status`, `status_out` and `status_in`.
#[macro_export]
macro_rules! status_by_address {
    () => {
        /// [`status_out`] for the core.
        ///
        /// # Safety
        /// `to` must be valid for writing a `Status`, and aligned for it.
        pub unsafe fn write_status(status: &::contract::abi::Status, to: *mut u8) {
            // SAFETY: the caller promises that `to` is valid for a `Status`.
            unsafe { status_out(status, to.cast()) }
        }

        /// [`status_in`] for the core.
        ///
        /// # Safety
        /// `from` must be valid for reading a `Status`, and aligned for it.
        pub unsafe fn read_status(from: *const u8) -> ::contract::abi::Status {
            // SAFETY: the caller promises that `from` is valid for a `Status`; the reference ends with the call.
            status_in(unsafe { &*from.cast::<Status>() })
        }
    };
}
