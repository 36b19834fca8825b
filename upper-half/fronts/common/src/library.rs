//! Parts of each front that depend only on the crate that they stand in: the module of generated functions, and the
//! library's constructor and destructor.

/// Defines the module `functions`: the C functions, which the build script generates from the table.
#[macro_export]
macro_rules! functions {
    () => {
        /// The C functions, generated from the table by build.rs.
        ///
        /// # Safety
        /// The application calls each function with the arguments that the MPI standard prescribes. A function reads
        /// and writes through a pointer only what the standard lets MPI read and write, and of an array only the
        /// entries that the table gives it. Pointers into scratch memory live as long as the call. Handles are
        /// decoded to objects that live as long as the process.
        // Functions that are refused do not use their variables.
        #[allow(unsafe_code, non_snake_case, unused_variables)]
        #[allow(clippy::missing_safety_doc, clippy::not_unsafe_ptr_arg_deref)]
        #[allow(
            clippy::too_many_arguments,
            clippy::unnecessary_cast,
            clippy::ptr_as_ptr
        )]
        #[allow(clippy::useless_transmute, clippy::missing_transmute_annotations)]
        mod functions {
            include!(concat!(env!("OUT_DIR"), "/functions.rs"));
        }
    };
}

/// Defines the entry point of `stasis_mpix.h`, which programs look up by its name.
#[macro_export]
macro_rules! stages {
    () => {
        /// What `stasis_mpix.h` asks (MPI Stages).
        ///
        /// # Safety
        /// The header passes for each operation the argument that `upper_half::stages` expects.
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn stasis_mpix(
            operation: i32,
            argument: *mut core::ffi::c_void,
        ) -> i32 {
            let _guard = upper_half::CallGuard::enter();
            // SAFETY: see above.
            abi::error_out(unsafe { upper_half::stages::ask(operation, argument) })
        }
    };
}

/// Makes `$constructor` the library's constructor, and the core's exit function its destructor. The constructor runs
/// once: after ld.so has relocated the library and all that refers to it, before the constructors of those.
#[macro_export]
macro_rules! on_load {
    ($constructor:ident) => {
        #[used]
        #[link_section = ".init_array"]
        static START: extern "C" fn() = $constructor;

        #[used]
        #[link_section = ".fini_array"]
        static END: extern "C" fn() = $crate::on_unload;
    };
}

/// Destructor of a front: runs the core's exit function.
pub extern "C" fn on_unload() {
    upper_half::at_exit();
}
