//! Mutexes whose data stays valid when a thread panics while it holds them.

/// Locks the mutex, poisoned or not.
pub fn lock_of<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
