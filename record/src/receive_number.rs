//! Numbers of posted receives. Those of the initial thread are 1 and up. Those of each other thread begin at a place of
//! their own, so that one number says both the thread and the receive.

/// Number of the initial thread (`contract::ThreadBlock::number`).
pub const INITIAL: u32 = 0;

/// Bits of the number of a receive among those of its thread.
const OWN_BITS: u32 = 40;
const OWN: u64 = (1 << OWN_BITS) - 1;

/// The number of a thread's receive, which is its `own`th one. Of the thread's number 24 bits count: threads have small
/// ones, except those that other threads than the initial one have made, which have hashes.
pub fn number_of(thread: u32, own: u64) -> u64 {
    u64::from(thread) << OWN_BITS | own & OWN
}

/// A few words about a receive.
pub fn describe(number: u64) -> String {
    match number >> OWN_BITS {
        0 => format!("receive {number}"),
        thread => format!("receive {} of thread {thread}", number & OWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_numbers_of_its_own() {
        assert_eq!(number_of(INITIAL, 5), 5);
        assert_eq!(describe(number_of(INITIAL, 5)), "receive 5");
        assert_eq!(describe(number_of(2, 5)), "receive 5 of thread 2");
        assert_ne!(number_of(u32::MAX, 5), number_of(1, 5));
    }
}
