//! The application's ABI, as far as the core needs it. Fronts convert arguments before they call the core. This table
//! is for the places where the core itself gives values to the application: handles of new objects, and callbacks.

use contract::abi::Status;
use contract::HandleKind;
use core::sync::atomic::{AtomicPtr, Ordering};

/// The application's ABI, as a table of conversions that a front hands to [`crate::start`].
pub struct Abi {
    /// Name of the ABI, for messages: "Open MPI", "MPICH".
    pub name: &'static str,
    /// Hash of the function table from which the front was generated.
    pub table_hash: u64,
    /// The application's value for an object: `(kind, index, address of the object)`.
    /// Below index 0x400 the object is the predefined one with that standard value.
    pub handle_of: fn(HandleKind, u32, *const ()) -> usize,
    /// The index of the object that a value of the application names. Only the low
    /// `handle_size` bytes of the value count.
    pub index_of: fn(HandleKind, usize) -> u32,
    /// The integer by which Fortran knows an object: `(kind, index)`.
    pub fortran_of: fn(HandleKind, u32) -> i32,
    /// Bytes of a handle in C: 4 (an int) or 8 (a pointer).
    pub handle_size: usize,
    /// A standard error class as the application knows it; classes above
    /// `contract::abi::ERR_LASTCODE` are user-defined.
    pub error_out: fn(i32) -> i32,
    /// The reverse of `error_out`.
    pub error_in: fn(i32) -> i32,
    /// Bytes of the application's MPI_Status.
    pub status_size: usize,
    /// Writes a status in the application's layout.
    pub status_out: unsafe fn(&Status, *mut u8),
    /// Reads a status of the application's layout.
    pub status_in: unsafe fn(*const u8) -> Status,
    /// A keyval as the application knows it (dynamic ones are the same everywhere).
    pub keyval_out: fn(i32) -> i32,
    /// Runs an error handler that the front itself has made or named: `(error handler, kind of the object, object,
    /// error code, function that failed)`, with handles and code as the application knows them. The result is whether
    /// MPI's function returns the error all the same.
    pub run_error_handler: fn(usize, HandleKind, usize, i32, &str) -> bool,
    /// Values of the tools interface.
    pub tool: Tool,
}

/// For an ABI in which all error handlers are the core's own: there is none to run.
pub const NO_ERROR_HANDLERS: fn(usize, HandleKind, usize, i32, &str) -> bool = |_, _, _, _, _| true;

/// Values of the tools interface as the application knows them.
pub struct Tool {
    /// A standard value of that group.
    pub out: fn(ToolValue, i32) -> i32,
    /// The standard class of a performance variable.
    pub class_in: fn(i32) -> i32,
    /// MPI_T_PVAR_ALL_HANDLES.
    pub all_handles: fn() -> usize,
}

/// A group of values that the tools interface gives out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolValue {
    /// MPI_T_VERBOSITY_USER_BASIC ...
    Verbosity,
    /// MPI_T_BIND_NO_OBJECT ...
    Bind,
    /// MPI_T_SCOPE_CONSTANT ...
    Scope,
    /// MPI_T_PVAR_CLASS_STATE ...
    PvarClass,
}

/// An array of handles as the application has them.
pub(crate) fn laid_out(handles: impl Iterator<Item = usize>) -> Vec<u64> {
    let size = abi().handle_size;
    let bytes: Vec<u8> = handles
        .flat_map(|handle| handle.to_le_bytes().into_iter().take(size))
        .collect();
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.collect()
}

static ABI: AtomicPtr<Abi> = AtomicPtr::new(core::ptr::null_mut());

/// The ABI of the application; a neutral one (standard values) until [`set`] was called.
pub fn abi() -> &'static Abi {
    let abi = ABI.load(Ordering::Acquire);
    if abi.is_null() {
        &NEUTRAL
    } else {
        as_static(abi)
    }
}

#[allow(unsafe_code)]
fn as_static(abi: *const Abi) -> &'static Abi {
    // SAFETY: only `set` stores here, and it stores a `&'static Abi`.
    unsafe { &*abi }
}

/// Chooses the application's ABI.
pub fn set(abi: &'static Abi) {
    ABI.store(core::ptr::from_ref(abi).cast_mut(), Ordering::Release);
}

/// Standard values throughout: what unit tests run with.
static NEUTRAL: Abi = Abi {
    name: "standard",
    table_hash: 0,
    handle_of: |_, index, _| index as usize,
    index_of: |_, handle| handle as u32,
    fortran_of: |_, index| index as i32,
    handle_size: 8,
    error_out: |code| code,
    error_in: |code| code,
    status_size: size_of::<Status>(),
    status_out: copy_status_out,
    status_in: copy_status_in,
    keyval_out: |keyval| keyval,
    run_error_handler: NO_ERROR_HANDLERS,
    tool: Tool {
        out: |_, value| value,
        class_in: |class| class,
        all_handles: || 1,
    },
};

#[allow(unsafe_code)]
unsafe fn copy_status_out(status: &Status, to: *mut u8) {
    // SAFETY: the caller promises room for `status_size` bytes.
    unsafe { to.cast::<Status>().write_unaligned(*status) }
}

#[allow(unsafe_code)]
unsafe fn copy_status_in(from: *const u8) -> Status {
    // SAFETY: the caller promises `status_size` readable bytes of a status.
    unsafe { from.cast::<Status>().read_unaligned() }
}
