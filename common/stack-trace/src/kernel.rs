//! The call in the kernel in which a thread of this process waits.

use std::fs;

/// Names of the calls in which a thread can wait for long, by their number on x86-64.
const NAMES: &[(u64, &str)] = &[
    (0, "read"),
    (1, "write"),
    (2, "open"),
    (3, "close"),
    (4, "stat"),
    (5, "fstat"),
    (6, "lstat"),
    (7, "poll"),
    (16, "ioctl"),
    (17, "pread64"),
    (18, "pwrite64"),
    (19, "readv"),
    (20, "writev"),
    (21, "access"),
    (23, "select"),
    (24, "sched_yield"),
    (26, "msync"),
    (34, "pause"),
    (35, "nanosleep"),
    (42, "connect"),
    (43, "accept"),
    (44, "sendto"),
    (45, "recvfrom"),
    (46, "sendmsg"),
    (47, "recvmsg"),
    (56, "clone"),
    (57, "fork"),
    (58, "vfork"),
    (61, "wait4"),
    (65, "semop"),
    (72, "fcntl"),
    (73, "flock"),
    (74, "fsync"),
    (75, "fdatasync"),
    (76, "truncate"),
    (77, "ftruncate"),
    (78, "getdents"),
    (82, "rename"),
    (83, "mkdir"),
    (87, "unlink"),
    (137, "statfs"),
    (138, "fstatfs"),
    (162, "sync"),
    (165, "mount"),
    (202, "futex"),
    (217, "getdents64"),
    (220, "semtimedop"),
    (230, "clock_nanosleep"),
    (232, "epoll_wait"),
    (257, "openat"),
    (262, "newfstatat"),
    (270, "pselect6"),
    (271, "ppoll"),
    (277, "sync_file_range"),
    (281, "epoll_pwait"),
    (285, "fallocate"),
    (288, "accept4"),
    (295, "preadv"),
    (296, "pwritev"),
    (306, "syncfs"),
    (327, "preadv2"),
    (328, "pwritev2"),
    (332, "statx"),
    (435, "clone3"),
    (441, "epoll_pwait2"),
];

/// Calls in which a thread waits for other threads and processes, or for a time.
const WAITS: &[&str] = &[
    "poll",
    "select",
    "sched_yield",
    "pause",
    "nanosleep",
    "accept",
    "recvfrom",
    "recvmsg",
    "futex",
    "clock_nanosleep",
    "epoll_wait",
    "pselect6",
    "ppoll",
    "epoll_pwait",
    "accept4",
    "epoll_pwait2",
];

/// The state of a thread that the kernel does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelWait {
    /// Whether no signal reaches it (state D).
    pub uninterruptible: bool,
    /// The call, its arguments, and the registers, in the form of `/proc/PID/syscall`.
    call: String,
    /// How often the thread has given up the processor by itself.
    switches: String,
}

impl KernelWait {
    /// The wait of a thread; none if it runs, or waits for the processor.
    pub fn of(tid: u32) -> Option<KernelWait> {
        let read = |file: &str| fs::read_to_string(format!("/proc/self/task/{tid}/{file}")).ok();
        let status = read("status")?;
        let field = |name: &str| {
            let mut lines = status.lines();
            lines
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
        };
        let state = field("State:")?.chars().next()?;
        if !matches!(state, 'S' | 'D') {
            return None;
        }
        Some(KernelWait {
            uninterruptible: state == 'D',
            call: read("syscall").unwrap_or_default().trim().to_owned(),
            switches: field("voluntary_ctxt_switches:")?.to_owned(),
        })
    }

    fn number(&self) -> Option<u64> {
        self.call.split_whitespace().next()?.parse().ok()
    }

    /// Whether the thread has slept all the time since an earlier look.
    pub fn since(&self, before: &KernelWait) -> bool {
        self.switches == before.switches
    }

    /// Whether the call waits for a file, and not for other threads or processes, or for a time. `None` if the kernel
    /// does not tell the call now, as just before a thread sleeps.
    pub fn waits_for_file(&self) -> Option<bool> {
        let number = self.number()?;
        Some(name(number).is_some_and(|name| !WAITS.contains(&name)))
    }

    /// Instruction and stack pointer at the call.
    pub fn registers(&self) -> Option<[u64; 2]> {
        let mut words = self.call.split_whitespace().rev();
        let mut hex = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let ip = hex()?;
        Some([ip, hex()?])
    }
}

fn name(number: u64) -> Option<&'static str> {
    let mut all = NAMES.iter();
    all.find(|(known, _)| *known == number)
        .map(|(_, name)| *name)
}

/// Text for the user: the system call that a thread is in, and the kernel's function in which it waits.
pub fn describe(tid: u32) -> String {
    let Some(wait) = KernelWait::of(tid) else {
        return "it runs".to_owned();
    };
    let call = match (wait.number(), wait.number().and_then(name)) {
        (_, Some(name)) => format!("in the system call {name}"),
        (Some(number), None) => format!("in system call {number}"),
        (None, _) => "in the kernel".to_owned(),
    };
    let place = fs::read_to_string(format!("/proc/self/task/{tid}/wchan")).unwrap_or_default();
    let place = match place.trim() {
        "" | "0" => String::new(),
        place => format!(", waiting in the kernel's {place}"),
    };
    let signals = match wait.uninterruptible {
        true => "; no signal reaches it",
        false => "",
    };
    format!("{call}{place}{signals}")
}
