//! The two shapes in which a system call is patched. Both keep the boundaries of the instructions, so a thread may be
//! at any of them meanwhile.
//!
//! - *Number*: `mov $number, %eax` directly before `syscall` becomes a jump of the same length. The `syscall` remains:
//!   a thread that is at it already, or comes to it by another way, raises SIGSYS.
//! - *Pad*: `syscall` becomes a short jump to a pad, five bytes behind the end of a function where a compiler has put
//!   instructions that never run, to align the next function. The pad becomes a jump to the trampoline.

use super::length::decode;
use crate::sys::context::SYSCALL_LEN;

/// Bytes of `mov $number, %eax`, and of a jump to any address within 2 GiB.
pub const JUMP: usize = 5;
/// Bytes that a short jump reaches.
const REACH: usize = 127;
/// Bytes from the start of `mov` to the address behind `syscall`.
pub const BEFORE: usize = JUMP + SYSCALL_LEN;
/// Bytes that are read behind it.
pub const BEHIND: usize = REACH + JUMP;

/// The system call instruction.
pub const SYSCALL: [u8; SYSCALL_LEN] = [0x0f, 0x05];

/// A shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The number is loaded directly before the instruction.
    Number,
    /// The distance from the address behind the instruction to its pad.
    Pad(u8),
}

/// The shape in which the instruction that ends at `back` is patched, from the bytes around it, if any.
pub fn find(back: usize, before: &[u8; BEFORE + 1], behind: &[u8], number: usize) -> Option<Shape> {
    let [first, load, immediate @ .., a, b] = before;
    if [*a, *b] != SYSCALL {
        return None;
    }
    // With a prefix it would be another instruction, `mov $number, %r8d` for example.
    let prefix = matches!(first, 0x40..=0x4f | 0x66);
    if *load == 0xb8 && *immediate == (number as u32).to_le_bytes() && !prefix {
        return Some(Shape::Number);
    }
    pad(back, behind).map(Shape::Pad)
}

/// Distance to the first pad behind an instruction. The code up to it is executed one instruction after the other, so
/// it is certain where each begins and that the function ends before the pad.
fn pad(back: usize, behind: &[u8]) -> Option<u8> {
    let mut at = 0;
    loop {
        let found = decode(behind.get(at..)?)?;
        at += found.len;
        if !found.ends {
            continue;
        }
        let start = at;
        while let Some(found) = decode(&behind[at..]).filter(|found| found.nop) {
            at += found.len;
        }
        // A compiler aligns the place behind the pad, and not the pad.
        let aligned = |offset: usize| (back + offset).is_multiple_of(8);
        if at - start >= JUMP && aligned(at) && !(back + start).is_multiple_of(16) {
            return u8::try_from(start)
                .ok()
                .filter(|start| usize::from(*start) <= REACH);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `read` of glibc 2.36, from its first system call on.
    const READ: &[u8] = &[
        0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff, 0x77, 0x5b, 0xc3, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0,
        0, 0, 0, 0x48, 0x83, 0xec, 0x28,
    ];

    #[test]
    fn pad_lies_behind_the_return() {
        let xor = [0, 0, 0, 0, 0x31, 0xc0, 0x0f, 0x05];
        assert_eq!(find(0xf82ad, &xor, READ, 0), Some(Shape::Pad(9)));
        // The return is part of another instruction: `mov %rax, %rbx`.
        let mut loops = READ.to_vec();
        loops.splice(8..9, [0x48, 0x89, 0xc3]);
        assert_eq!(find(0xf82ab, &xor, &loops, 0), None);
        assert_eq!(find(0xf82ae, &xor, READ, 0), None, "not aligned");
        let number = [0xc3, 0xb8, 39, 0, 0, 0, 0x0f, 0x05];
        assert_eq!(find(0, &number, &[], 39), Some(Shape::Number));
        assert_eq!(find(0, &number, &[], 40), None);
        let other = [0x41, 0xb8, 39, 0, 0, 0, 0x0f, 0x05];
        assert_eq!(find(0, &other, &[], 39), None);
    }
}
