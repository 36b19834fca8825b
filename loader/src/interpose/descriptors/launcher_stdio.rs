//! Identities of the launcher's standard input, output and error.

use crate::sys::descriptor::stat;
use crate::sys::mutex::lock_of;
use std::sync::Mutex;

/// Device and inode of each, if it was open.
static GIVEN: Mutex<[Option<(u64, u64)>; 3]> = Mutex::new([None; 3]);

/// Records the launcher's standard files. Call it before the application can replace them.
pub fn note() {
    let identity = |fd| stat(fd).ok().map(|s| (s.st_dev, s.st_ino));
    *lock_of(&GIVEN) = [identity(0), identity(1), identity(2)];
}

/// Whether the launcher gave this file at this number.
pub fn is_given(fd: i32, identity: (u64, u64)) -> bool {
    let given = given();
    let at = usize::try_from(fd).ok().and_then(|n| given.get(n));
    at == Some(&Some(identity))
}

/// Device and inode of each standard file that was open at the start.
pub fn given() -> [Option<(u64, u64)>; 3] {
    *lock_of(&GIVEN)
}
