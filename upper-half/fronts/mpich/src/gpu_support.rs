//! Functions by which a program asks whether it may give memory of GPUs to MPI. It may not
//! (`upper_half::device_buffer`). They are exported under the library's own names.
//!
//! # Safety
//! The application's pointer leads to an int, as MPICH's manual says.
#![allow(unsafe_code)]
#![allow(non_snake_case)]

macro_rules! unsupported {
    ($($name:ident)*) => {
        $(
            /// Extension of MPICH.
            #[no_mangle]
            pub extern "C" fn $name() -> i32 {
                0
            }
        )*
    };
}

unsupported! {
    MPIX_Query_cuda_support MPIX_Query_ze_support MPIX_Query_hip_support
    PMPIX_Query_cuda_support PMPIX_Query_ze_support PMPIX_Query_hip_support
}

/// Extension of MPICH: whether GPUs of a maker are supported.
#[no_mangle]
pub unsafe extern "C" fn MPIX_GPU_query_support(_gpu_type: i32, is_supported: *mut i32) -> i32 {
    *is_supported = 0;
    contract::abi::SUCCESS
}

/// The same under its profiling name.
#[no_mangle]
pub unsafe extern "C" fn PMPIX_GPU_query_support(gpu_type: i32, is_supported: *mut i32) -> i32 {
    MPIX_GPU_query_support(gpu_type, is_supported)
}
