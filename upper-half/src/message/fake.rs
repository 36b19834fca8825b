//! A lower half for tests: one rank of a world of two, whose peer is the test. It matches messages
//! as MPI does, completes what the test says, and runs the test's next event whenever the upper
//! half gives the processor away.
//!
//! # Safety
//! The gate and the clock table are mapped where the contract says, the thread gets a block at GS
//! base whose lower FS is its own, and the slots lead to the functions below, which have the types
//! of the stubs. Tests hold a lock, so one of them runs at a time.
#![allow(unsafe_code)]
#![allow(non_snake_case)]

use crate::comm::CommBody;
use crate::lower::{self, service};
use crate::object::{self, Body, Comm, Datatype, Message, Request};
use crate::{sync, system};
use contract::abi::*;
use contract::{gate, MpiState, Phase, ThreadBlock, INTERRUPTED};
use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

pub(super) const NULL_WORD: usize = 7;
pub(super) const WORLD_WORD: usize = 100;
pub(super) const SELF_WORD: usize = 101;
pub(super) const BYTE_WORD: usize = 200;

/// What a request of the lower half is.
#[derive(Clone)]
enum Operation {
    Send,
    Receive {
        buffer: usize,
        room: usize,
        comm: usize,
        source: i32,
        tag: i32,
    },
}

#[derive(Clone)]
struct Below {
    operation: Operation,
    persistent: bool,
    active: bool,
    done: Option<(Status, i32)>,
}

impl Below {
    /// Whether it is a persistent request that is not started.
    fn is_idle(&self) -> bool {
        self.persistent && !self.active
    }
}

struct Packet {
    comm: usize,
    source: i32,
    tag: i32,
    bytes: Vec<u8>,
}

type Event = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(super) struct Fake {
    next: usize,
    requests: HashMap<usize, Below>,
    messages: HashMap<usize, Packet>,
    early: Vec<Packet>,
    /// Sends stay pending until the test completes them.
    pub(super) rendezvous: bool,
    /// The peer has not begun its drain: operations of ours stay pending until it completes them.
    pub(super) absent: bool,
    /// What the peers say they have sent to us.
    pub(super) counts: Vec<u64>,
    events: VecDeque<Event>,
    inside: Option<Event>,
    /// Names of the functions called.
    pub(super) calls: Vec<&'static str>,
    /// Tags of receives in the order in which they were posted.
    pub(super) posted: Vec<i32>,
    /// The next stop is a restart.
    pub(super) restart: bool,
    after_restart: Option<Event>,
}

static FAKE: Mutex<Option<Fake>> = Mutex::new(None);
static ALONE: Mutex<()> = Mutex::new(());

/// The lower half's state.
pub(super) fn fake<R>(f: impl FnOnce(&mut Fake) -> R) -> R {
    let mut fake = FAKE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    f(fake.get_or_insert_with(Fake::default))
}

fn envelope_fits(want: (usize, i32, i32), packet: &Packet) -> bool {
    let (comm, source, tag) = want;
    comm == packet.comm
        && (source == ANY_SOURCE || source == packet.source)
        && (tag == ANY_TAG || tag == packet.tag)
}

fn status_of(packet: &Packet) -> Status {
    Status {
        source: packet.source,
        tag: packet.tag,
        error: SUCCESS,
        cancelled: 0,
        count: packet.bytes.len() as u64,
        reserved: 0,
    }
}

fn fill(buffer: usize, room: usize, packet: &Packet) -> (Status, i32) {
    let length = packet.bytes.len().min(room);
    // SAFETY: tests receive into buffers that live.
    unsafe {
        core::ptr::copy_nonoverlapping(packet.bytes.as_ptr(), buffer as *mut u8, length);
    }
    let mut status = status_of(packet);
    status.count = length as u64;
    let error = if length < packet.bytes.len() {
        ERR_TRUNCATE
    } else {
        SUCCESS
    };
    (status, error)
}

impl Fake {
    fn word(&mut self) -> usize {
        self.next += 1;
        1000 + self.next
    }

    /// Matches a receive that became active with a message that is there.
    fn post(&mut self, word: usize) {
        let below = self.requests.get_mut(&word).expect("a request");
        below.active = true;
        below.done = None;
        if let Operation::Receive {
            buffer,
            room,
            comm,
            source,
            tag,
        } = below.operation
        {
            self.posted.push(tag);
            let found = self
                .early
                .iter()
                .position(|packet| envelope_fits((comm, source, tag), packet));
            if let Some(found) = found {
                let packet = self.early.remove(found);
                below.done = Some(fill(buffer, room, &packet));
            }
        }
    }

    /// A message arrives.
    fn arrive(&mut self, packet: Packet) {
        let mut words: Vec<usize> = self.requests.keys().copied().collect();
        words.sort_unstable();
        for word in words {
            let below = self.requests.get_mut(&word).expect("a request");
            if let Operation::Receive {
                buffer,
                room,
                comm,
                source,
                tag,
            } = below.operation
            {
                let open = below.active && below.done.is_none();
                if open && envelope_fits((comm, source, tag), &packet) {
                    below.done = Some(fill(buffer, room, &packet));
                    return;
                }
            }
        }
        self.early.push(packet);
    }

    /// Completes all pending sends.
    fn complete_sends(&mut self) {
        for below in self.requests.values_mut() {
            if matches!(below.operation, Operation::Send) && below.active {
                below.done = Some((Status::EMPTY, SUCCESS));
            }
        }
    }

    fn is_done(&self, word: usize) -> bool {
        word == NULL_WORD || {
            let below = self.requests.get(&word).expect("a word of this lower half");
            below.done.is_some() || below.is_idle()
        }
    }

    fn take(&mut self, word: &mut usize) -> (Status, i32) {
        if *word == NULL_WORD {
            return (Status::EMPTY, SUCCESS);
        }
        let below = self.requests.get_mut(word).expect("a request");
        if below.is_idle() {
            return (Status::EMPTY, SUCCESS);
        }
        let done = below.done.take().expect("a finished request");
        if below.persistent {
            below.active = false;
        } else {
            self.requests.remove(word);
            *word = NULL_WORD;
        }
        done
    }

    fn add(&mut self, operation: Operation, persistent: bool) -> usize {
        let word = self.word();
        self.requests.insert(
            word,
            Below {
                operation,
                persistent,
                active: false,
                done: None,
            },
        );
        word
    }

    /// How many requests there are.
    pub(super) fn live(&self) -> usize {
        self.requests.len()
    }
}

/// A message of `source` arrives on WORLD.
pub(super) fn arrive(source: i32, tag: i32, bytes: &[u8]) {
    fake(|fake| {
        fake.arrive(Packet {
            comm: WORLD_WORD,
            source,
            tag,
            bytes: bytes.to_vec(),
        });
    });
}

/// The receivers took all that was sent.
pub(super) fn complete_sends() {
    fake(Fake::complete_sends);
}

/// Something that happens when the upper half gives the processor away next, in turn.
pub(super) fn later(event: impl FnOnce() + Send + 'static) {
    fake(|fake| fake.events.push_back(Box::new(event)));
}

/// Something that happens before the next call that starts an operation returns.
pub(super) fn inside(event: impl FnOnce() + Send + 'static) {
    fake(|fake| fake.inside = Some(Box::new(event)));
}

/// A call that starts an operation has written its word.
fn starting() {
    if let Some(event) = fake(|fake| fake.inside.take()) {
        event();
    }
}

/// What the agent does.
pub(super) fn set_phase(phase: Phase) {
    gate().phase.store(phase as u32, Ordering::SeqCst);
}

/// The stop: drain, perhaps a restart into an empty lower half, and on.
pub(super) fn stopped() {
    assert_eq!(super::drain(), SUCCESS);
    if fake(|fake| core::mem::take(&mut fake.restart)) {
        fake(|fake| {
            fake.requests.clear();
            assert!(fake.early.is_empty() && fake.messages.is_empty());
            fake.posted.clear();
        });
        assert_eq!(super::rebuild(), SUCCESS);
        if let Some(event) = fake(|fake| fake.after_restart.take()) {
            event();
        }
    }
    set_phase(Phase::Run);
}

/// Something that happens right after the next restart.
pub(super) fn after_restart(event: impl FnOnce() + Send + 'static) {
    fake(|fake| fake.after_restart = Some(Box::new(event)));
}

fn called(name: &'static str) {
    fake(|fake| fake.calls.push(name));
}

unsafe extern "C" fn yield_now() {
    let event = fake(|fake| fake.events.pop_front());
    match event {
        Some(event) => event(),
        None => {
            static IDLE: AtomicUsize = AtomicUsize::new(0);
            assert!(
                IDLE.fetch_add(1, Ordering::Relaxed) < 100_000,
                "the upper half waits for ever"
            );
        }
    }
}

unsafe extern "C" fn notify() {
    called("notify");
}

unsafe extern "C" fn clock_target(_id: u64) -> u64 {
    0
}

unsafe extern "C" fn recv(
    buf: *mut u8,
    count: i32,
    datatype: usize,
    source: i32,
    tag: i32,
    comm: usize,
    status: *mut Status,
    request: *mut usize,
) -> i32 {
    called("recv");
    // SAFETY: as the stub's caller promises.
    unsafe {
        MPI_Irecv(buf.cast(), count, datatype, source, tag, comm, request);
        wait_one(request, status)
    }
}

unsafe extern "C" fn probe(source: i32, tag: i32, comm: usize, status: *mut Status) -> i32 {
    let mut flag = 0;
    // SAFETY: as the stub's caller promises.
    unsafe { MPI_Iprobe(source, tag, comm, &raw mut flag, status) };
    if flag == 0 {
        return INTERRUPTED;
    }
    SUCCESS
}

unsafe extern "C" fn mprobe(
    source: i32,
    tag: i32,
    comm: usize,
    message: *mut usize,
    status: *mut Status,
) -> i32 {
    let mut flag = 0;
    // SAFETY: as the stub's caller promises.
    unsafe { MPI_Improbe(source, tag, comm, &raw mut flag, message, status) };
    if flag == 0 {
        return INTERRUPTED;
    }
    SUCCESS
}

unsafe extern "C" fn wait_one(request: *mut usize, status: *mut Status) -> i32 {
    called("wait_one");
    // SAFETY: as the stub's caller promises.
    fake(|fake| unsafe {
        if !fake.is_done(*request) {
            assert!(super::sweep::phase() != Phase::Run, "waits for ever");
            return INTERRUPTED;
        }
        let (found, error) = fake.take(&mut *request);
        *status = found;
        error
    })
}

unsafe extern "C" fn wait_all(count: i32, requests: *mut usize, statuses: *mut Status) -> i32 {
    called("wait_all");
    // SAFETY: as the stub's caller promises.
    fake(|fake| unsafe {
        let words = core::slice::from_raw_parts_mut(requests, count as usize);
        if !words.iter().all(|word| fake.is_done(*word)) {
            assert!(super::sweep::phase() != Phase::Run, "waits for ever");
            return INTERRUPTED;
        }
        let mut result = SUCCESS;
        for (i, word) in words.iter_mut().enumerate() {
            let (mut status, error) = fake.take(word);
            status.error = error;
            *statuses.add(i) = status;
            if error != SUCCESS {
                result = ERR_IN_STATUS;
            }
        }
        result
    })
}

unsafe extern "C" fn wait_any(
    count: i32,
    requests: *mut usize,
    index: *mut i32,
    status: *mut Status,
) -> i32 {
    called("wait_any");
    // SAFETY: as the stub's caller promises.
    fake(|fake| unsafe {
        let words = core::slice::from_raw_parts_mut(requests, count as usize);
        let found = words
            .iter()
            .position(|word| *word != NULL_WORD && fake.is_done(*word));
        let Some(found) = found else {
            assert!(super::sweep::phase() != Phase::Run, "waits for ever");
            return INTERRUPTED;
        };
        let (seen, error) = fake.take(&mut words[found]);
        (*index, *status) = (found as i32, seen);
        error
    })
}

unsafe extern "C" fn wait_some(
    count: i32,
    requests: *mut usize,
    outcount: *mut i32,
    indices: *mut i32,
    statuses: *mut Status,
) -> i32 {
    called("wait_some");
    // SAFETY: as the stub's caller promises.
    fake(|fake| unsafe {
        let words = core::slice::from_raw_parts_mut(requests, count as usize);
        let mut n = 0;
        for (i, word) in words.iter_mut().enumerate() {
            if *word != NULL_WORD && fake.is_done(*word) {
                *statuses.add(n) = fake.take(word).0;
                *indices.add(n) = i as i32;
                n += 1;
            }
        }
        *outcount = n as i32;
        if n == 0 {
            INTERRUPTED
        } else {
            SUCCESS
        }
    })
}

unsafe extern "C" fn MPI_Irecv(
    buf: *mut c_void,
    count: i32,
    _datatype: usize,
    source: i32,
    tag: i32,
    comm: usize,
    request: *mut usize,
) -> i32 {
    called("irecv");
    fake(|fake| {
        let operation = Operation::Receive {
            buffer: buf as usize,
            room: count as usize,
            comm,
            source,
            tag,
        };
        let word = fake.add(operation, false);
        fake.post(word);
        // SAFETY: as the stub's caller promises.
        unsafe { *request = word };
    });
    starting();
    SUCCESS
}

unsafe extern "C" fn MPI_Recv_init(
    buf: *mut c_void,
    count: i32,
    _datatype: usize,
    source: i32,
    tag: i32,
    comm: usize,
    request: *mut usize,
) -> i32 {
    fake(|fake| {
        let operation = Operation::Receive {
            buffer: buf as usize,
            room: count as usize,
            comm,
            source,
            tag,
        };
        // SAFETY: as the stub's caller promises.
        unsafe { *request = fake.add(operation, true) };
    });
    starting();
    SUCCESS
}

unsafe extern "C" fn MPI_Start(request: *mut usize) -> i32 {
    // SAFETY: as the stub's caller promises.
    fake(|fake| unsafe { fake.post(*request) });
    SUCCESS
}

unsafe extern "C" fn MPI_Send(
    _buf: *const c_void,
    _count: i32,
    _datatype: usize,
    dest: i32,
    _tag: i32,
    _comm: usize,
) -> i32 {
    if dest > 1 {
        ERR_RANK
    } else {
        SUCCESS
    }
}

unsafe extern "C" fn MPI_Isend(
    _buf: *const c_void,
    _count: i32,
    _datatype: usize,
    _dest: i32,
    _tag: i32,
    _comm: usize,
    request: *mut usize,
) -> i32 {
    fake(|fake| {
        let word = fake.add(Operation::Send, false);
        fake.post(word);
        if !fake.rendezvous {
            fake.complete_sends();
        }
        // SAFETY: as the stub's caller promises.
        unsafe { *request = word };
    });
    SUCCESS
}

unsafe extern "C" fn MPI_Test(request: *mut usize, flag: *mut i32, status: *mut Status) -> i32 {
    called("test");
    // SAFETY: as the stub's caller promises.
    fake(|fake| unsafe {
        *flag = i32::from(fake.is_done(*request));
        if *flag == 0 {
            return SUCCESS;
        }
        let (found, error) = fake.take(&mut *request);
        *status = found;
        error
    })
}

unsafe extern "C" fn MPI_Cancel(request: *mut usize) -> i32 {
    // SAFETY: as the stub's caller promises.
    fake(|fake| unsafe {
        let below = fake.requests.get_mut(&*request).expect("a request");
        if below.done.is_none() {
            let mut status = Status::EMPTY;
            status.cancelled = 1;
            below.done = Some((status, SUCCESS));
        }
    });
    SUCCESS
}

unsafe extern "C" fn MPI_Request_free(request: *mut usize) -> i32 {
    // SAFETY: as the stub's caller promises.
    fake(|fake| unsafe {
        fake.requests.remove(&*request);
        *request = NULL_WORD;
    });
    SUCCESS
}

unsafe extern "C" fn MPI_Improbe(
    source: i32,
    tag: i32,
    comm: usize,
    flag: *mut i32,
    message: *mut usize,
    status: *mut Status,
) -> i32 {
    called("improbe");
    fake(|fake| {
        let found = fake
            .early
            .iter()
            .position(|packet| envelope_fits((comm, source, tag), packet));
        // SAFETY: as the stub's caller promises.
        unsafe {
            *flag = i32::from(found.is_some());
            if let Some(found) = found {
                let packet = fake.early.remove(found);
                *status = status_of(&packet);
                *message = fake.word();
                fake.messages.insert(*message, packet);
            }
        }
    });
    SUCCESS
}

unsafe extern "C" fn MPI_Imrecv(
    buf: *mut c_void,
    count: i32,
    _datatype: usize,
    message: *mut usize,
    request: *mut usize,
) -> i32 {
    fake(|fake| {
        // SAFETY: as the stub's caller promises.
        unsafe {
            let packet = fake.messages.remove(&*message).expect("a message");
            let word = fake.add(Operation::Send, false);
            let below = fake.requests.get_mut(&word).expect("just added");
            below.active = true;
            below.done = Some(fill(buf as usize, count as usize, &packet));
            (*request, *message) = (word, 0);
        }
    });
    SUCCESS
}

unsafe extern "C" fn MPI_Iprobe(
    source: i32,
    tag: i32,
    comm: usize,
    flag: *mut i32,
    status: *mut Status,
) -> i32 {
    fake(|fake| {
        let found = fake
            .early
            .iter()
            .find(|packet| envelope_fits((comm, source, tag), packet));
        // SAFETY: as the stub's caller promises.
        unsafe {
            *flag = i32::from(found.is_some());
            if let Some(found) = found {
                *status = status_of(found);
            }
        }
    });
    SUCCESS
}

unsafe extern "C" fn MPI_Sendrecv(
    sendbuf: *const c_void,
    sendcount: i32,
    _sendtype: usize,
    _dest: i32,
    _sendtag: i32,
    recvbuf: *mut c_void,
    _recvcount: i32,
    _recvtype: usize,
    _source: i32,
    _recvtag: i32,
    comm: usize,
    _status: *mut Status,
) -> i32 {
    assert_eq!(comm, super::words::internal_self());
    // SAFETY: as the stub's caller promises.
    unsafe {
        core::ptr::copy_nonoverlapping(
            sendbuf.cast::<u8>(),
            recvbuf.cast::<u8>(),
            sendcount as usize,
        );
    }
    SUCCESS
}

unsafe extern "C" fn MPI_Type_size_x(_datatype: usize, size: *mut i64) -> i32 {
    // SAFETY: as the stub's caller promises. There is but one datatype here.
    unsafe { *size = 1 };
    SUCCESS
}

unsafe extern "C" fn MPI_Ialltoall(
    _sendbuf: *const c_void,
    _sendcount: i32,
    _sendtype: usize,
    recvbuf: *mut c_void,
    _recvcount: i32,
    _recvtype: usize,
    _comm: usize,
    request: *mut usize,
) -> i32 {
    fake(|fake| {
        fake.calls.push("exchange");
        for (i, count) in fake.counts.iter().enumerate() {
            // SAFETY: one number for each rank.
            unsafe { recvbuf.cast::<u64>().add(i).write(*count) };
        }
    });
    // SAFETY: as the stub's caller promises.
    unsafe { ours(request) };
    SUCCESS
}

unsafe extern "C" fn MPI_Ibarrier(_comm: usize, request: *mut usize) -> i32 {
    fake(|fake| fake.calls.push("barrier"));
    // SAFETY: as the stub's caller promises.
    unsafe { ours(request) };
    SUCCESS
}

/// An operation of a drain.
unsafe fn ours(request: *mut usize) {
    fake(|fake| {
        let word = fake.add(Operation::Send, false);
        let below = fake.requests.get_mut(&word).expect("just added");
        below.active = true;
        below.done = (!fake.absent).then_some((Status::EMPTY, SUCCESS));
        // SAFETY: as the stub's caller promises.
        unsafe { *request = word };
    });
}

/// The slot from which a stub takes its function: the stub begins with `movabs rax, [slot]`.
fn slot(stub: usize) -> &'static AtomicUsize {
    // SAFETY: the stub's own code, and the address of a slot of the gate.
    unsafe {
        let code = core::slice::from_raw_parts(stub as *const u8, 10);
        assert_eq!(code[..2], [0x48, 0xa1]);
        let address = u64::from_le_bytes(code[2..].try_into().expect("8 bytes"));
        &*(address as *const AtomicUsize)
    }
}

fn fill_slots() {
    macro_rules! fill {
        ($($module:ident::$name:ident),* $(,)?) => {
            $(slot($module::$name as *const () as usize)
                .store($name as *const () as usize, Ordering::Relaxed);)*
        };
    }
    fill!(
        service::recv,
        service::probe,
        service::mprobe,
        service::wait_one,
        service::wait_all,
        service::wait_any,
        service::wait_some,
        service::notify,
        service::yield_now,
        service::clock_target,
        lower::MPI_Irecv,
        lower::MPI_Recv_init,
        lower::MPI_Start,
        lower::MPI_Send,
        lower::MPI_Isend,
        lower::MPI_Test,
        lower::MPI_Cancel,
        lower::MPI_Request_free,
        lower::MPI_Improbe,
        lower::MPI_Imrecv,
        lower::MPI_Iprobe,
        lower::MPI_Sendrecv,
        lower::MPI_Type_size_x,
        lower::MPI_Ialltoall,
        lower::MPI_Ibarrier,
    );
}

/// Gives the thread a block at GS base. It is leaked: threads of tests are few.
pub(super) fn thread_block() {
    let fs: usize;
    // SAFETY: reads FS base, which is its own address's content with glibc.
    unsafe { core::arch::asm!("mov {}, fs:[0]", out(reg) fs, options(nostack, readonly)) };
    let block = Box::leak(Box::new(ThreadBlock {
        this: 0,
        lower_fs: fs,
        upper_fs: fs,
        side_top: 0,
        in_wrapper: 1,
        on_leaving: 0,
        fsgsbase: 1,
        tid: 1,
        vdso_sp: 0,
        side: [0; contract::SIDE_STACK_DEPTH],
    }));
    block.this = core::ptr::from_ref(block) as usize;
    block.side_top = block.side.as_ptr() as usize;
    // SAFETY: the block lives for ever.
    assert!(unsafe { system::set_gs(core::ptr::from_ref(block) as usize) });
}

/// A fresh lower half and an initialised upper half, for one test at a time.
pub(super) fn start() -> MutexGuard<'static, ()> {
    let alone = ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    static ONCE: std::sync::Once = std::sync::Once::new();
    thread_block();
    ONCE.call_once(|| {
        system::map_at(contract::GATE_ADDRESS, contract::GATE_BYTES);
        system::map_at(contract::CLOCKS_ADDRESS, contract::CLOCKS_BYTES);
        sync::set_multiple(false);
        gate().lower.size.store(2, Ordering::Relaxed);
        fill_slots();
        object::init();
        let world = CommBody::initial(1, Arc::from([0, 1]), c"MPI_COMM_WORLD");
        let alone = CommBody::initial(2, Arc::from([0]), c"MPI_COMM_SELF");
        // SAFETY: nobody uses the communicators yet.
        unsafe {
            let table = CommBody::table();
            table.replace(comm::COMM_WORLD as u32, world.expect("a clock"));
            table.replace(comm::COMM_SELF as u32, alone.expect("a clock"));
        }
        Comm::at(comm::COMM_WORLD as u32).set_lower(WORLD_WORD);
        Comm::at(comm::COMM_SELF as u32).set_lower(SELF_WORD);
        let byte = Datatype::at(datatype::BYTE as u32);
        byte.set_lower(BYTE_WORD);
        // SAFETY: the slots lead here.
        unsafe { crate::datatype::learn_size(byte) };
        Request::null().set_lower(NULL_WORD);
        Message::null().set_lower(NULL_WORD);
        super::init(2).expect("a clock");
    });
    gate().set_mpi(MpiState::Initialised);
    set_phase(Phase::Run);
    let (sent, received) = super::counts::totals();
    for count in sent.iter().chain(received) {
        count.store(0, Ordering::Relaxed);
    }
    fake(|fake| {
        *fake = Fake {
            counts: vec![0, 0],
            ..Fake::default()
        };
    });
    alone
}
