//! The ways in which a patched system call is served (`syscalls/site_kinds.rs` has the way of each number).

/// The way in which a patched system call is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SiteKind {
    /// It raises SIGSYS all the same, because its handler needs the kernel's frame.
    Trap = 0,
    /// The kernel serves it unchanged.
    Pass = 1,
    /// A handler serves it, whose code outside of `Thread::on_lower` and `vectors::kept` uses no vector registers but
    /// the lower halves of `xmm0` to `xmm15`.
    Light = 2,
    /// A handler serves it. All vector registers are kept.
    Full = 3,
}
