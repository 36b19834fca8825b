//! Stack traces of the threads of this process, for messages to the user.
//!
//! Memory is read through `process_vm_readv` of this process, which fails at addresses that are not mapped. So a
//! damaged stack gives a short trace, and harms nothing. The traced thread may run meanwhile.
//!
//! The unwinder is `framehop`, on the unwind tables that are mapped with each ELF object. Names of functions come from
//! the object's file, or from its mapped dynamic symbols where there is no file: after a restart, the memory of a
//! program is no longer mapped from its files.
//!
//! A [`Bridge`] tells the tracer how to pass the frames that no table describes, such as a crossing or a signal frame.
//!
//! To read a file that is on a dead file system may take forever: call [`Tracer::trace`] on a thread that may be left
//! behind.

mod elf;
pub mod kernel;
mod lines;
mod memory;
mod names;

use std::cell::OnceCell;
use std::fmt;

use elf::Object;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, MayAllocateDuringUnwind, Unwinder};
use lines::Lines;
pub use memory::{read, read_word};

/// Upper bound of the frames of a trace.
const MOST_FRAMES: usize = 64;

/// Upper bound of the bytes of stack that are searched for a bridge.
const SEARCHED: u64 = 1 << 20;

/// The registers that the unwinder needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Instruction pointer.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer; 0 if it is unknown.
    pub bp: u64,
}

/// Knowledge of frames without an unwind table.
pub trait Bridge {
    /// The registers of the caller, if the frame with these registers is one that this bridge knows.
    fn caller(&mut self, frame: &Registers) -> Option<Registers>;

    /// Whether an address is the return address of such a frame. Used on a stack that cannot be unwound.
    fn knows(&self, ip: u64) -> bool;

    /// A word of the stack; of a thread that runs on meanwhile, as it was when its registers were taken.
    fn word(&self, address: u64) -> Option<u64> {
        read_word(address)
    }
}

/// Place in the code of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Place(FrameAddress);

impl Place {
    /// Address of the instruction that the thread is at or returns to.
    pub fn address(self) -> u64 {
        self.0.address()
    }
}

/// One frame of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Address of the instruction that the thread is at or returns to.
    pub address: u64,
    /// Name of the function, and the distance of the address from its begin, if a symbol covers it.
    pub function: Option<(String, u64)>,
    /// Name of the object's file; none if no object is at the address.
    pub file: Option<String>,
}

impl Frame {
    /// Name of the function.
    pub fn name(&self) -> Option<&str> {
        self.function.as_ref().map(|(name, _)| name.as_str())
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_deref().unwrap_or("?");
        match &self.function {
            Some((name, offset)) => write!(f, "{name}+{offset:#x} ({file})"),
            None => write!(f, "{:#x} ({file})", self.address),
        }
    }
}

/// The objects of this process and their unwind tables, as they were mapped when it was made.
///
/// # Examples
/// ```
/// use stasis_stack_trace::{kernel::KernelWait, Bridge, Registers, Tracer};
/// use std::sync::mpsc::channel;
///
/// /// Every frame has an unwind table.
/// struct NoOther;
/// impl Bridge for NoOther {
///     fn caller(&mut self, _: &Registers) -> Option<Registers> {
///         None
///     }
///     fn knows(&self, _: u64) -> bool {
///         false
///     }
/// }
///
/// let (tell, told) = channel();
/// let (end, wait) = channel::<()>();
/// let sleeper = std::thread::spawn(move || {
///     tell.send(nix::unistd::gettid().as_raw() as u32).unwrap();
///     wait.recv()
/// });
/// let tid = told.recv()?;
/// let [ip, sp] = loop {
///     if let Some(registers) = KernelWait::of(tid).and_then(|asleep| asleep.registers()) {
///         break registers;
///     }
///     std::thread::yield_now();
/// };
/// let frames = Tracer::new()?.trace(Registers { ip, sp, bp: 0 }, &mut NoOther);
/// let in_recv = |frame: &stasis_stack_trace::Frame| frame.to_string().contains("Receiver");
/// assert!(frames.iter().any(in_recv), "{frames:?}");
/// drop(end);
/// assert!(sleeper.join().unwrap().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tracer {
    objects: Vec<Object>,
    /// The lines of each object, once they were looked for.
    lines: Vec<OnceCell<Lines>>,
    unwinder: UnwinderX86_64<Vec<u8>, MayAllocateDuringUnwind>,
}

impl Tracer {
    /// Reads the mappings of this process.
    ///
    /// # Errors
    /// If `/proc/self/maps` cannot be read.
    pub fn new() -> std::io::Result<Tracer> {
        let objects = elf::objects(&std::fs::read("/proc/self/maps")?);
        let mut unwinder = UnwinderX86_64::new();
        for module in objects.iter().filter_map(Object::module) {
            unwinder.add_module(module);
        }
        let lines = objects.iter().map(|_| OnceCell::new()).collect();
        Ok(Tracer {
            objects,
            lines,
            unwinder,
        })
    }

    /// The frames of a thread with these registers, innermost first.
    pub fn trace(&self, registers: Registers, bridge: &mut dyn Bridge) -> Vec<Frame> {
        let places = self.places(registers, bridge).into_iter();
        places.map(|place| self.frame(place)).collect()
    }

    /// The places of the frames, without their names, innermost first.
    pub fn places(&self, registers: Registers, bridge: &mut dyn Bridge) -> Vec<Place> {
        let mut places = vec![];
        let mut next = Some(FrameRegisters {
            at: FrameAddress::from_instruction_pointer(registers.ip),
            registers,
        });
        let mut cache = CacheX86_64::new();
        let mut bridged = false;
        while let Some(frame) = next.take().filter(|_| places.len() < MOST_FRAMES) {
            let registers = frame.registers;
            places.push(Place(frame.at));
            next = match bridge.caller(&registers) {
                Some(caller) => {
                    bridged = true;
                    Some(FrameRegisters::returning(caller))
                }
                None => self
                    .unwind(frame.at, &registers, bridge, &mut cache)
                    .or_else(|| {
                        // Only the innermost part may lack what the unwinder needs.
                        let found = self.find(&registers, bridge).filter(|_| !bridged);
                        bridged = true;
                        found.map(FrameRegisters::returning)
                    }),
            };
        }
        places
    }

    /// The caller of a frame by its unwind table.
    fn unwind(
        &self,
        at: FrameAddress,
        registers: &Registers,
        bridge: &dyn Bridge,
        cache: &mut CacheX86_64,
    ) -> Option<FrameRegisters> {
        let with = |bp: u64, cache: &mut CacheX86_64| {
            let Registers { ip, sp, .. } = *registers;
            let mut regs = UnwindRegsX86_64::new(ip, sp, bp);
            let mut stack = |address| bridge.word(address).ok_or(());
            let caller = self.unwinder.unwind_frame(at, &mut regs, cache, &mut stack);
            let ip = caller.ok().flatten().filter(|ip| *ip != 0)?;
            let caller = Registers {
                ip,
                sp: regs.sp(),
                bp: regs.bp(),
            };
            // Each frame is further up, so the walk ends.
            (caller.sp > sp).then(|| FrameRegisters::returning(caller))
        };
        with(registers.bp, cache).or_else(|| match registers.bp {
            0 => with(self.frame_pointer(registers.sp, bridge)?, cache),
            _ => None,
        })
    }

    /// The frame pointer of a thread in the kernel, which does not tell it: the first address above `sp` that holds an
    /// address further up, and then a return address.
    fn frame_pointer(&self, sp: u64, bridge: &dyn Bridge) -> Option<u64> {
        let slots = (sp..sp.checked_add(SEARCHED)?).step_by(size_of::<u64>());
        let mut readable = slots.map_while(|slot| Some((slot, bridge.word(slot)?)));
        let found = readable.find(|(slot, saved)| {
            let further_up = (slot + 1..slot + SEARCHED).contains(saved);
            further_up
                && bridge
                    .word(slot + 8)
                    .is_some_and(|ip| self.follows_call(ip))
        });
        found.map(|(slot, _)| slot)
    }

    /// The nearest frame above that the bridge knows. Its return address is found on the stack.
    fn find(&self, from: &Registers, bridge: &dyn Bridge) -> Option<Registers> {
        let slots = (from.sp..from.sp.checked_add(SEARCHED)?).step_by(size_of::<u64>());
        let mut words = slots.map_while(|slot| Some((slot, bridge.word(slot)?)));
        // Most words are in no object, and need no further look.
        let (slot, ip) = words.find(|(_, word)| self.covers(*word) && bridge.knows(*word))?;
        Some(Registers {
            ip,
            sp: slot + size_of::<u64>() as u64,
            bp: from.bp,
        })
    }

    /// Whether two addresses are in one object.
    pub fn in_one_object(&self, address: u64, other: u64) -> bool {
        let mut objects = self.objects.iter();
        objects.any(|object| object.covers(address) && object.covers(other))
    }

    fn covers(&self, address: u64) -> bool {
        self.objects.iter().any(|object| object.covers(address))
    }

    /// Whether an address is in an object, behind a call instruction.
    fn follows_call(&self, ip: u64) -> bool {
        /// The longest indirect call.
        const LONGEST: usize = 7;
        let mut code = [0; LONGEST];
        if !self.covers(ip) || !read(ip.wrapping_sub(LONGEST as u64), &mut code) {
            return false;
        }
        let indirect = |length: usize| {
            let [first, second, ..] = code[LONGEST - length..] else {
                return false;
            };
            // The second byte has the operation in its middle bits.
            first == 0xff && second >> 3 & 7 == 2
        };
        code[LONGEST - 5] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(indirect)
    }

    /// The line of a place in the source, as `solve.c:42`, if the object's file has debug information, of at most
    /// 64 MiB.
    pub fn line(&self, Place(at): Place) -> Option<String> {
        let address = at.address_for_lookup();
        let mut objects = self.objects.iter().zip(&self.lines);
        let (object, lines) = objects.find(|(object, _)| object.covers(address))?;
        let lines = lines.get_or_init(|| Lines::of(object));
        lines.find(address.wrapping_sub(object.bias))
    }

    /// The frame of a place, with the names that are known.
    pub fn frame(&self, Place(at): Place) -> Frame {
        let object = self
            .objects
            .iter()
            .find(|object| object.covers(at.address_for_lookup()));
        Frame {
            address: at.address(),
            function: object
                .and_then(|object| names::function(object, at.address_for_lookup()))
                .map(|(name, begin)| (name, at.address() - begin)),
            file: object.map(names::file_name),
        }
    }
}

struct FrameRegisters {
    at: FrameAddress,
    registers: Registers,
}

impl FrameRegisters {
    /// A frame to which a call returns.
    fn returning(registers: Registers) -> FrameRegisters {
        // A null address is refused; as an instruction pointer it ends the trace.
        let at = FrameAddress::from_return_address(registers.ip)
            .unwrap_or(FrameAddress::from_instruction_pointer(registers.ip));
        FrameRegisters { at, registers }
    }
}

#[cfg(test)]
mod tests;
