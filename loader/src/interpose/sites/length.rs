//! Lengths of x86-64 instructions, as compilers make them. It says nothing about others (XOP, APX, 3DNow!).

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Bytes.
    pub len: usize,
    /// Whether the next instruction is not executed after it: a return, a jump.
    pub ends: bool,
    /// Whether it does nothing.
    pub nop: bool,
}

/// Bytes behind a ModRM byte, with itself.
fn operand(code: &[u8]) -> Option<usize> {
    let modrm = *code.first()?;
    let (mode, register) = (modrm >> 6, modrm & 7);
    if mode == 3 {
        return Some(1);
    }
    let (sib, base) = match register {
        4 => (1, code.get(1)? & 7),
        other => (0, other),
    };
    let displacement = match (mode, base) {
        (0, 5) | (2, _) => 4,
        (1, _) => 1,
        _ => 0,
    };
    Some(1 + sib + displacement)
}

/// Bytes of an operand and of `more` behind it.
fn with_operand(code: &[u8], more: usize) -> Option<usize> {
    Some(operand(code)? + more)
}

/// The instruction at the start of `code`; None if it is none of those known here.
pub fn decode(code: &[u8]) -> Option<Instruction> {
    let (mut at, mut short, mut repeats, mut wide) = (0, false, false, false);
    let mut addresses = 8;
    loop {
        match code.get(at)? {
            0x66 => short = true,
            0x67 => addresses = 4,
            0xf2 => repeats = true,
            0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf0 | 0xf3 => {}
            _ => break,
        }
        at += 1;
    }
    if code[at] & 0xf0 == 0x40 {
        wide = code[at] & 8 != 0;
        at += 1;
    }
    let opcode = *code.get(at)?;
    at += 1;
    let rest = code.get(at..)?;
    let immediate = if short && !wide { 2 } else { 4 };
    let selector = rest.first().map(|modrm| (modrm >> 3) & 7);
    let with_operand = |more: usize| with_operand(rest, more);
    let mut ends = false;
    let mut nop = false;
    let len = match opcode {
        0x0f => {
            let second = *rest.first()?;
            nop = second == 0x1f;
            ends = second == 0x0b;
            1 + two_byte(second, &rest[1..], short || repeats)?
        }
        0x00..=0x3f => match opcode & 7 {
            0..=3 => with_operand(0)?,
            4 => 1,
            5 => immediate,
            _ => return None,
        },
        0x50..=0x5f | 0x91..=0x99 | 0x9b..=0x9f | 0xc9 => 0,
        0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf | 0xcc | 0xd7 => 0,
        0xec..=0xef | 0xf1 | 0xf4 | 0xf5 | 0xf8..=0xfd => 0,
        0x90 => {
            nop = true;
            0
        }
        0x62 => evex(rest)?,
        0x63 | 0x84..=0x8e | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe => with_operand(0)?,
        0x68 | 0xa9 => immediate,
        0x69 | 0x81 | 0xc7 => with_operand(immediate)?,
        0x6a | 0x70..=0x7f | 0xa8 | 0xb0..=0xb7 | 0xcd | 0xe0..=0xe7 => 1,
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => with_operand(1)?,
        // XOP has the same first byte, and a map from 8 on.
        0x8f if rest.first()? & 0x1f < 8 => with_operand(0)?,
        0xa0..=0xa3 => addresses,
        0xb8..=0xbf => match wide {
            true => 8,
            false => immediate,
        },
        0xc2 | 0xca => {
            ends = true;
            2
        }
        0xc3 | 0xcb | 0xcf => {
            ends = true;
            0
        }
        0xc4 => 2 + vector(rest.first()? & 0x1f, *rest.get(2)?, rest.get(3..)?)?,
        0xc5 => 1 + vector(1, *rest.get(1)?, rest.get(2..)?)?,
        0xc8 => 3,
        0xe8 => 4,
        0xe9 => {
            ends = true;
            4
        }
        0xeb => {
            ends = true;
            1
        }
        0xf6 => with_operand(usize::from(selector? < 2))?,
        0xf7 => with_operand(if selector? < 2 { immediate } else { 0 })?,
        0xff => {
            ends = matches!(selector?, 4 | 5);
            with_operand(0)?
        }
        _ => return None,
    };
    let len = at + len;
    (len <= code.len()).then_some(Instruction { len, ends, nop })
}

/// Bytes behind the second opcode byte of an instruction that begins with 0F. `other`: it has a prefix that makes
/// another instruction of some.
fn two_byte(second: u8, rest: &[u8], other: bool) -> Option<usize> {
    match second {
        0x05..=0x09
        | 0x0b
        | 0x30..=0x35
        | 0x37
        | 0x77
        | 0xa0..=0xa2
        | 0xa8..=0xaa
        | 0xc8..=0xcf => Some(0),
        0x80..=0x8f => Some(4),
        0x38 => with_operand(rest.get(1..)?, 1),
        0x3a => with_operand(rest.get(1..)?, 2),
        0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => with_operand(rest, 1),
        0x78 if other => with_operand(rest, 2),
        0x04 | 0x0a | 0x0c | 0x0e | 0x0f | 0x24..=0x27 | 0x36 | 0x39 | 0x3b..=0x3f => None,
        _ => with_operand(rest, 0),
    }
}

/// Bytes from the opcode of an instruction with a VEX prefix on.
fn vector(map: u8, opcode: u8, rest: &[u8]) -> Option<usize> {
    let more = match (map, opcode) {
        (1, 0x77) => return Some(1),
        (1, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6) | (3, _) => 1,
        (1 | 2, _) => 0,
        _ => return None,
    };
    with_operand(rest, 1 + more)
}

/// Bytes behind the first byte of an instruction with an EVEX prefix. Maps 5 and 6 have the instructions for FP16.
fn evex(rest: &[u8]) -> Option<usize> {
    const PREFIX: usize = 3;
    let map = match rest.first()? & 7 {
        5 | 6 => 2,
        map => map,
    };
    Some(PREFIX + vector(map, *rest.get(PREFIX)?, rest.get(PREFIX + 1..)?)?)
}

#[cfg(test)]
mod tests {
    use super::decode;

    /// Instructions that a compiler has made, each with its bytes.
    const KNOWN: &[&[u8]] = &[
        &[0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff], // cmp rax, -4096
        &[0x77, 0x5b],                         // ja
        &[0x0f, 0x87, 0x24, 0x01, 0x00, 0x00], // ja
        &[0xc3],                               // ret
        &[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0], // nop
        &[0x0f, 0x1f, 0x44, 0x00, 0x00],       // nop
        &[0x44, 0x89, 0xc7],                   // mov edi, r8d
        &[0x48, 0x89, 0x44, 0x24, 0x08],       // mov [rsp + 8], rax
        &[0xe8, 0x9f, 0xd5, 0xf8, 0xff],       // call
        &[0x48, 0x8b, 0x15, 0xc9, 0xaa, 0x0d, 0x00], // mov rdx, [rip + ...]
        &[0x64, 0x89, 0x02],                   // mov fs:[rdx], eax
        &[0x48, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff], // mov rax, -1
        &[0x64, 0x48, 0x2b, 0x04, 0x25, 0x28, 0, 0, 0], // sub rax, fs:0x28
        &[0x48, 0x83, 0xc4, 0x28],             // add rsp, 0x28
        &[0x41, 0xf7, 0xc0, 0x00, 0x10, 0x00, 0x00], // test r8d, 0x1000
        &[0x04, 0x04],                         // add al, 4
        &[0x49, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8], // movabs r8
        &[0x66, 0x41, 0xc7, 0x44, 0x24, 0x02, 0x34, 0x12], // mov word ptr [r12 + 2], 0x1234
        &[0xc5, 0xf8, 0x77],                   // vzeroupper
        &[0xc5, 0xfd, 0x6f, 0x04, 0x25, 1, 2, 3, 4], // vmovdqa ymm0, [0x4030201]
        &[0xc4, 0xe3, 0x7d, 0x39, 0xc1, 0x01], // vextracti128
        &[0x62, 0xf1, 0x7c, 0x48, 0x10, 0x47, 0x01], // vmovups zmm0, [rdi + 64]
        &[0x66, 0x0f, 0x3a, 0x0f, 0xc1, 0x04], // palignr
        &[0xf3, 0x0f, 0xb8, 0xc7],             // popcnt
        &[0xa0, 1, 2, 3, 4, 5, 6, 7, 8],       // movabs al
        &[0xf0, 0x48, 0x0f, 0xc1, 0x07],       // lock xadd
        &[0x66, 0x48, 0x05, 1, 2, 3, 4],       // add rax, with a prefix that has no effect
        &[0x0f, 0xa2],                         // cpuid
    ];

    #[test]
    fn lengths_of_compiled_instructions() {
        for code in KNOWN {
            let mut more = code.to_vec();
            more.extend([0xcc; 8]);
            assert_eq!(
                decode(&more).map(|found| found.len),
                Some(code.len()),
                "{code:x?}"
            );
            assert_eq!(decode(&code[..code.len() - 1]), None, "{code:x?}");
        }
        assert!(decode(&[0xc3]).is_some_and(|found| found.ends));
        assert!(decode(&[0x8f, 0xe9, 0x78, 0xe1, 0xc0, 0]).is_none(), "XOP");
    }
}
