//! The table of objects of one kind. It lies in upper-half memory and is indexed so that a handle is decoded with one
//! load. Objects never move. An entry below [`FIRST_DYNAMIC`] is the predefined object with that standard-ABI value
//! (the nulls too), so that a decoded handle is always a `&'static`.
//!
//! # Safety
//! An entry is written once when it is made, before anything refers to it, and its body is dropped when the last
//! reference is given back; between the two it is only read through `&`, with interior mutability where a body needs
//! it. MPI forbids an application to use a handle after freeing it. `Table::at` on an entry that was never made would
//! read zeros as a body: callers use it for indices that came out of a handle this library gave, and [`Table::get`] for
//! any others.
#![allow(unsafe_code)]

use crate::crossing::app_abi::abi;
use crate::crossing::report::fatal;
use crate::runtime::lock::{multiple, Lock};
use crate::runtime::syscall;
use contract::HandleKind;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Indices below are the standard ABI's values of predefined objects.
pub const FIRST_DYNAMIC: u32 = 0x400;

/// What a kind of object adds to [`Object`].
pub trait Body: Sized + 'static {
    /// The kind.
    const KIND: HandleKind;
    /// How many objects of the kind there can be at a time.
    const CAPACITY: u32;
    /// Standard value of the null handle.
    const NULL: usize;
    /// Names and standard values of all predefined objects, the null handle among them.
    const PREDEFINED: &'static [(&'static str, usize)];

    /// The kind's table.
    fn table() -> &'static Table<Self>;

    /// The body of a predefined object as it is before MPI_Init.
    fn predefined(index: u32) -> Self;

    /// The last reference to a dynamic object was given back: free what lies below.
    fn retire(_object: &'static Object<Self>) {}
}

/// Bytes of an [`Object`] before its body.
const HEAD: usize = 32;

/// Room at the start of a body for what the libraries of an ABI themselves read or write at fixed offsets of a handle.
/// The core leaves it alone; the fronts use it by a handle's address.
#[repr(transparent)]
pub struct FrontRoom<const WORDS: usize>([AtomicUsize; WORDS]);

impl<const WORDS: usize> FrontRoom<WORDS> {
    /// Room of zeros.
    pub(crate) const fn new() -> Self {
        FrontRoom([const { AtomicUsize::new(0) }; WORDS])
    }
}

/// Words of the room in which an object has a value that ends before byte `end` of the object.
pub(crate) const fn room_up_to(end: usize) -> usize {
    (end - HEAD).div_ceil(8)
}

/// One MPI object. The application's handle leads here.
#[repr(C)]
pub struct Object<B: 'static> {
    /// The object itself: the first lower handle of what a pointer-like handle points to. Null while the
    /// entry is free.
    this: AtomicPtr<Object<B>>,
    lower: AtomicUsize,
    handle: AtomicUsize,
    index: u32,
    /// References while the object lives (the application's handle is one); next free entry after.
    refs: AtomicU32,
    /// What the kind adds.
    pub body: B,
}

const _: () = assert!(core::mem::offset_of!(Object<FrontRoom<1>>, body) == HEAD);

// SAFETY: bodies are made for shared use: fields that change are atomics or under a `Lock`.
unsafe impl<B> Sync for Object<B> {}

impl<B: Body> Object<B> {
    /// The object with this index. It must exist.
    #[inline(always)]
    pub fn at(index: u32) -> &'static Self {
        B::table().at(index)
    }

    /// The kind's null object.
    #[inline(always)]
    pub fn null() -> &'static Self {
        Self::at(B::NULL as u32)
    }

    /// Makes an object with one reference, the application's handle.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` if there are too many of this kind.
    pub fn make(lower: usize, body: B) -> Result<&'static Self, i32> {
        B::table().make(lower, body)
    }

    /// Makes an object with this index, which must be free, with one reference.
    pub(crate) fn make_at(index: u32, lower: usize, body: B) -> Result<&'static Self, i32> {
        B::table().make_at(index, lower, body)
    }

    /// The application's value for it.
    #[inline(always)]
    pub fn handle(&self) -> usize {
        self.handle.load(Ordering::Relaxed)
    }

    /// The lower half's lower handle for it. A thread that finds one sees all that was written before.
    ///
    /// # Safety
    /// It is void, and may be another object's, when the job was restarted meanwhile: it is used before the thread
    /// can park, in the expression of a crossing at best. The functions of [`crate::object::lower_handle::named`] need
    /// none.
    #[inline(always)]
    pub unsafe fn lower(&self) -> usize {
        self.present()
    }

    #[inline(always)]
    fn present(&self) -> usize {
        self.lower.load(Ordering::Acquire)
    }

    /// The lower handle of the kind's null handle, for a place that a call below is to write.
    #[inline(always)]
    pub fn null_lower() -> usize {
        Self::null().present()
    }

    /// Whether it has an object below.
    #[inline(always)]
    pub fn is_below(&self) -> bool {
        self.present() != Self::null_lower()
    }

    /// Whether this is its lower handle, which the library below has just given.
    #[inline(always)]
    pub fn has_lower(&self, lower_handle: usize) -> bool {
        self.present() == lower_handle
    }

    /// Nothing is below it any more.
    #[inline(always)]
    pub fn clear_lower(&self) {
        self.set_lower(Self::null_lower());
    }

    /// Sets the lower half's lower handle. Another thread may act on it at once.
    #[inline(always)]
    pub fn set_lower(&self, lower_handle: usize) {
        self.lower.store(lower_handle, Ordering::Release);
    }

    /// Where the lower handle is, for calls that write it.
    #[inline(always)]
    pub fn lower_ptr(&self) -> *mut usize {
        self.lower.as_ptr()
    }

    /// Its index in the kind's table.
    #[inline(always)]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Whether it is the kind's null object.
    #[inline(always)]
    pub fn is_null(&self) -> bool {
        self.index == B::NULL as u32
    }

    /// Whether it is predefined (nulls are).
    #[inline(always)]
    pub fn is_predefined(&self) -> bool {
        self.index < FIRST_DYNAMIC
    }

    /// Keeps the object alive until the matching [`Object::release`].
    #[inline(always)]
    pub fn retain(&'static self) {
        if self.is_predefined() {
            return;
        }
        if multiple() {
            self.refs.fetch_add(1, Ordering::Relaxed);
        } else {
            let refs = self.refs.load(Ordering::Relaxed);
            self.refs.store(refs + 1, Ordering::Relaxed);
        }
    }

    /// Gives a reference back; the last one ends the object.
    #[inline(always)]
    pub fn release(&'static self) {
        if self.is_predefined() {
            return;
        }
        let before = if multiple() {
            self.refs.fetch_sub(1, Ordering::AcqRel)
        } else {
            let refs = self.refs.load(Ordering::Relaxed);
            self.refs.store(refs.wrapping_sub(1), Ordering::Relaxed);
            refs
        };
        if before == 1 {
            B::retire(self);
            B::table().free(self);
        }
    }

    /// References there are.
    pub fn references(&self) -> u32 {
        self.refs.load(Ordering::Relaxed)
    }
}

/// A reference to an object, given back when it is dropped.
pub struct ObjectRef<B: Body>(&'static Object<B>);

impl<B: Body> ObjectRef<B> {
    /// Keeps the object alive.
    pub fn new(object: &'static Object<B>) -> Self {
        object.retain();
        ObjectRef(object)
    }

    /// The object.
    pub fn object(&self) -> &'static Object<B> {
        self.0
    }
}

impl<B: Body> core::ops::Deref for ObjectRef<B> {
    type Target = Object<B>;

    fn deref(&self) -> &Object<B> {
        self.0
    }
}

impl<B: Body> Drop for ObjectRef<B> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// All objects of a kind.
pub struct Table<B: 'static> {
    base: AtomicPtr<Object<B>>,
    /// One past the highest index ever used.
    high: AtomicU32,
    /// First free entry below `high`; 0 when there is none.
    free: Lock<u32>,
}

impl<B: Body> Table<B> {
    /// A table without memory; [`crate::object::init`] gives it some.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Table {
            base: AtomicPtr::new(core::ptr::null_mut()),
            high: AtomicU32::new(FIRST_DYNAMIC),
            free: Lock::new(0),
        }
    }

    #[inline(always)]
    fn entry(&self, index: u32) -> *mut Object<B> {
        self.base
            .load(Ordering::Relaxed)
            .wrapping_add(index as usize)
    }

    /// The object with this index, which must exist.
    #[inline(always)]
    pub fn at(&self, index: u32) -> &'static Object<B> {
        // SAFETY: see the module's head.
        unsafe { &*self.entry(index) }
    }

    /// The object with this index, if there is one.
    pub fn get(&self, index: u32) -> Option<&'static Object<B>> {
        if index >= self.high.load(Ordering::Acquire) {
            return None;
        }
        let entry = self.entry(index);
        // SAFETY: within the table's memory. `this` is valid for any bytes, zero before first use. If it is not null,
        // the entry is live.
        unsafe {
            let this = (*entry).this.load(Ordering::Acquire);
            (!this.is_null()).then(|| &*entry)
        }
    }

    /// All live dynamic objects, by index.
    pub fn dynamic(&self) -> impl Iterator<Item = &'static Object<B>> + '_ {
        (FIRST_DYNAMIC..self.high.load(Ordering::Acquire)).filter_map(|index| self.get(index))
    }

    /// How many dynamic objects live.
    pub fn live(&self) -> usize {
        self.dynamic().count()
    }

    fn make(&self, lower: usize, body: B) -> Result<&'static Object<B>, i32> {
        let index = {
            let mut free = self.free.lock();
            match *free {
                0 => {
                    let index = self.high.load(Ordering::Relaxed);
                    if index >= B::CAPACITY {
                        return Err(contract::abi::ERR_NO_MEM);
                    }
                    self.high.store(index + 1, Ordering::Release);
                    index
                }
                index => {
                    // SAFETY: a free entry that was live before; `refs` links to the next one.
                    *free = unsafe { (*self.entry(index)).refs.load(Ordering::Relaxed) };
                    index
                }
            }
        };
        Ok(self.write(index, lower, body))
    }

    fn make_at(&self, index: u32, lower: usize, body: B) -> Result<&'static Object<B>, i32> {
        if !(FIRST_DYNAMIC..B::CAPACITY).contains(&index) || self.get(index).is_some() {
            return Err(contract::abi::ERR_ARG);
        }
        // SAFETY: an entry of the table's memory, which is zero before its first use; `refs` is valid for any bytes.
        let next = |index: u32| unsafe { &(*self.entry(index)).refs };
        {
            let mut free = self.free.lock();
            let high = self.high.load(Ordering::Relaxed);
            for unused in high..=index {
                next(unused).store(*free, Ordering::Relaxed);
                *free = unused;
            }
            self.high.store(high.max(index + 1), Ordering::Release);
            if *free == index {
                *free = next(index).load(Ordering::Relaxed);
            } else {
                let mut before = *free;
                while before != 0 && next(before).load(Ordering::Relaxed) != index {
                    before = next(before).load(Ordering::Relaxed);
                }
                if before == 0 {
                    return Err(contract::abi::ERR_INTERN);
                }
                let after = next(index).load(Ordering::Relaxed);
                next(before).store(after, Ordering::Relaxed);
            }
        }
        Ok(self.write(index, lower, body))
    }

    fn write(&self, index: u32, lower: usize, body: B) -> &'static Object<B> {
        let entry = self.entry(index);
        let handle = (abi().handle_of)(B::KIND, index, entry.cast_const().cast());
        // SAFETY: the entry is free and inside the table's memory. Who still looks at it, since it
        // went through all objects, goes by the lower handle, which comes when all else is there.
        unsafe {
            entry.write(Object {
                this: AtomicPtr::new(core::ptr::null_mut()),
                lower: AtomicUsize::new(Object::<B>::null_lower()),
                handle: AtomicUsize::new(handle),
                index,
                refs: AtomicU32::new(1),
                body,
            });
            (*entry).set_lower(lower);
            (*entry).this.store(entry, Ordering::Release);
            &*entry
        }
    }

    fn free(&self, object: &'static Object<B>) {
        let entry = core::ptr::from_ref(object).cast_mut();
        // SAFETY: the last reference is gone; the entry came from `write`.
        unsafe {
            (*entry)
                .this
                .store(core::ptr::null_mut(), Ordering::Release);
            core::ptr::drop_in_place(&raw mut (*entry).body);
        }
        let mut free = self.free.lock();
        object.refs.store(*free, Ordering::Relaxed);
        *free = object.index;
    }

    /// Gives the predefined object `index` another body.
    ///
    /// # Safety
    /// No reference to the body may be in use: only for MPI_Init, before it returns.
    pub unsafe fn replace(&self, index: u32, body: B) {
        let entry = self.entry(index);
        // SAFETY: the entry is a predefined object, live since `init`; the caller answers for the
        // rest.
        unsafe {
            drop(core::ptr::replace(&raw mut (*entry).body, body));
        }
    }

    pub(crate) fn init(&self) {
        if !self.base.load(Ordering::Acquire).is_null() {
            return;
        }
        let bytes = size_of::<Object<B>>() * B::CAPACITY as usize;
        let Some(memory) = syscall::map(bytes) else {
            fatal(
                "no address space for the tables of MPI objects (ulimit -v?): raise the limit",
                2,
            );
        };
        self.base.store(memory.cast(), Ordering::Release);
        for &(_, index) in B::PREDEFINED {
            self.write(index as u32, usize::MAX, B::predefined(index as u32));
        }
    }
}

/// Declares the table of a kind inside its `impl Body`.
#[macro_export]
macro_rules! object_table {
    ($body:ty) => {
        fn table() -> &'static $crate::object::Table<$body> {
            static TABLE: $crate::object::Table<$body> = $crate::object::Table::new();
            &TABLE
        }
    };
}
