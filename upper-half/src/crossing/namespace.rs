//! Functions of MPI as the dynamic linker finds them for the application. A library that is preloaded, or linked before
//! the front, may have them too, as profilers have: its functions are found then, and call the front's.
//!
//! # Safety
//! The functions are called as MPI declares them. A handle is passed as a word of 64 bits. A function whose handles
//! have 32 bits reads the low half. Arrays of handles and of statuses are in the application's layout, with an entry
//! for each request.
#![allow(unsafe_code)]

use crate::argument::Buffer;
use crate::crossing::app_abi::{abi, laid_out};
use crate::crossing::call_guard::by_namespace;
use crate::tools;
use contract::abi::{ERR_IN_STATUS, SUCCESS};
use contract::{HandleKind, TOOL_REDUCE_VISIBLE};
use core::ffi::{c_char, c_int, c_void, CStr};
use core::mem::transmute;
use core::ptr::null_mut;
use std::sync::OnceLock;

extern "C" {
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_DEFAULT: *mut c_void = null_mut();

type StartMessage =
    unsafe extern "C" fn(*mut c_void, c_int, usize, c_int, c_int, usize, *mut u64) -> c_int;
type WaitAll = unsafe extern "C" fn(c_int, *mut u64, *mut u64) -> c_int;
type CommDup = unsafe extern "C" fn(usize, *mut u64) -> c_int;
type TestAll = unsafe extern "C" fn(c_int, *mut u64, *mut c_int, *mut u64) -> c_int;

/// The functions by which messages are made and completed.
pub(crate) struct Namespace {
    isend: StartMessage,
    irecv: StartMessage,
    waitall: WaitAll,
    testall: TestAll,
    comm_dup: CommDup,
}

/// A message, with handles of the application.
pub(crate) struct ForApplication {
    pub(crate) buffer: Buffer<'static>,
    pub(crate) count: i32,
    pub(crate) datatype: usize,
    pub(crate) peer: i32,
    pub(crate) tag: i32,
    pub(crate) comm: usize,
}

fn function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a name with its NUL.
    let found = unsafe { dlsym(RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

impl Namespace {
    /// The application's. `None` if it has no functions of MPI.
    fn of_application() -> Option<&'static Namespace> {
        static FOUND: OnceLock<Option<Namespace>> = OnceLock::new();
        FOUND.get_or_init(Namespace::find).as_ref()
    }

    /// The same, if profilers are to see the messages of reduced operations.
    pub(crate) fn for_profilers() -> Option<&'static Namespace> {
        match tools::wanted() & TOOL_REDUCE_VISIBLE {
            0 => None,
            _ => Namespace::of_application(),
        }
    }

    fn find() -> Option<Namespace> {
        let (isend, irecv) = (function(c"MPI_Isend")?, function(c"MPI_Irecv")?);
        let (waitall, testall) = (function(c"MPI_Waitall")?, function(c"MPI_Testall")?);
        let comm_dup = function(c"MPI_Comm_dup")?;
        // SAFETY: the types of these functions.
        let found = unsafe {
            Namespace {
                isend: transmute::<*mut c_void, StartMessage>(isend),
                irecv: transmute::<*mut c_void, StartMessage>(irecv),
                waitall: transmute::<*mut c_void, WaitAll>(waitall),
                testall: transmute::<*mut c_void, TestAll>(testall),
                comm_dup: transmute::<*mut c_void, CommDup>(comm_dup),
            }
        };
        Some(found)
    }

    /// MPI_Comm_dup of a communicator of the application.
    pub(crate) fn duplicate(&self, comm: usize) {
        let mut made = 0;
        // SAFETY: see the module's head. A failure concerns nobody but the profiler.
        by_namespace(|| unsafe { (self.comm_dup)(comm, &raw mut made) });
    }

    /// MPI_Isend, or MPI_Irecv; the index of the request, or an error class.
    pub(crate) fn start(&self, sends: bool, message: &ForApplication) -> Result<u32, i32> {
        let function = if sends { self.isend } else { self.irecv };
        let mut request = 0;
        // SAFETY: see the module's head. The buffer is valid until the message ends, see `Buffer`.
        let code = by_namespace(|| unsafe {
            function(
                message.buffer.as_ptr(),
                message.count,
                message.datatype,
                message.peer,
                message.tag,
                message.comm,
                &raw mut request,
            )
        });
        match code {
            SUCCESS => Ok((abi().index_of)(HandleKind::Request, request as usize)),
            code => Err((abi().error_in)(code)),
        }
    }

    /// MPI_Waitall of requests of the application.
    pub(crate) fn wait(&self, requests: impl ExactSizeIterator<Item = usize>) -> Result<(), i32> {
        let mut arrays = Arrays::of(requests);
        // SAFETY: see the module's head.
        let code = by_namespace(|| unsafe {
            (self.waitall)(
                arrays.count,
                arrays.requests.as_mut_ptr(),
                arrays.statuses.as_mut_ptr(),
            )
        });
        arrays.result(code)
    }

    /// MPI_Testall of requests of the application. `None` if they are not all complete.
    pub(crate) fn test(
        &self,
        requests: impl ExactSizeIterator<Item = usize>,
    ) -> Option<Result<(), i32>> {
        let mut arrays = Arrays::of(requests);
        let mut flag = 0;
        // SAFETY: see the module's head.
        let code = by_namespace(|| unsafe {
            (self.testall)(
                arrays.count,
                arrays.requests.as_mut_ptr(),
                &raw mut flag,
                arrays.statuses.as_mut_ptr(),
            )
        });
        (flag != 0 || code != SUCCESS).then(|| arrays.result(code))
    }
}

/// Requests and statuses, as the application has them.
struct Arrays {
    count: c_int,
    requests: Vec<u64>,
    statuses: Vec<u64>,
}

impl Arrays {
    fn of(requests: impl ExactSizeIterator<Item = usize>) -> Arrays {
        let count = requests.len();
        let bytes = count * abi().status_size;
        Arrays {
            count: count as c_int,
            requests: laid_out(requests),
            statuses: vec![0; bytes.div_ceil(size_of::<u64>())],
        }
    }

    /// The error class of a call with this code, which may be that of one of the requests.
    fn result(&self, code: c_int) -> Result<(), i32> {
        if code == SUCCESS {
            return Ok(());
        }
        let code = (abi().error_in)(code);
        if code != ERR_IN_STATUS {
            return Err(code);
        }
        let statuses = self.statuses.as_ptr().cast::<u8>();
        let errors = (0..self.count as usize).map(|at| {
            // SAFETY: there is a status for each request.
            unsafe { (abi().status_in)(statuses.add(at * abi().status_size)).error }
        });
        let failed = errors.into_iter().find(|error| *error != SUCCESS);
        failed.map_or(Ok(()), Err)
    }
}
