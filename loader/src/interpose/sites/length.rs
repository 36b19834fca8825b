//! Lengths of x86-64 instructions: as many of them as follow a system call in compiled code. It says nothing about
//! others.

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

/// The instruction at the start of `code`; None if it is none of those known here.
pub fn decode(code: &[u8]) -> Option<Instruction> {
    let (mut at, mut short, mut wide) = (0, false, false);
    loop {
        match code.get(at)? {
            0x66 => short = true,
            0x2e | 0x3e | 0x64 | 0x65 | 0xf2 | 0xf3 => {}
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
    let immediate = if short { 2 } else { 4 };
    let selector = rest.first().map(|modrm| (modrm >> 3) & 7);
    let with_operand = |more: usize| Some(operand(rest)? + more);
    let mut ends = false;
    let mut nop = false;
    let len = match opcode {
        0x0f => {
            let second = *rest.first()?;
            let rest = &rest[1..];
            let with_operand = |more: usize| Some(operand(rest)? + more);
            nop = second == 0x1f;
            ends = second == 0x0b;
            1 + match second {
                0x05 | 0x0b | 0xa2 | 0xc8..=0xcf => 0,
                0x80..=0x8f => 4,
                0x10..=0x17
                | 0x1e
                | 0x1f
                | 0x28..=0x2f
                | 0x40..=0x4f
                | 0x54..=0x6f
                | 0x7e
                | 0x7f
                | 0x90..=0x9f
                | 0xa3
                | 0xab
                | 0xaf
                | 0xb0
                | 0xb1
                | 0xb3
                | 0xb6
                | 0xb7
                | 0xbb..=0xbf
                | 0xc0
                | 0xc1
                | 0xd6
                | 0xef => with_operand(0)?,
                0x70 | 0xa4 | 0xac | 0xba | 0xc6 => with_operand(1)?,
                _ => return None,
            }
        }
        0x00..=0x3f => match opcode & 7 {
            0..=3 => with_operand(0)?,
            4 => 1,
            5 => immediate,
            _ => return None,
        },
        0x50..=0x5f | 0x91..=0x99 | 0xc9 => 0,
        0x90 => {
            nop = true;
            0
        }
        0x63 | 0x84..=0x8b | 0x8d | 0xd1 | 0xd3 | 0xfe => with_operand(0)?,
        0x68 | 0xa9 => immediate,
        0x69 | 0x81 | 0xc7 => with_operand(immediate)?,
        0x6a | 0xa8 | 0x70..=0x7f | 0xb0..=0xb7 => 1,
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => with_operand(1)?,
        0xb8..=0xbf => match wide {
            true => 8,
            false => immediate,
        },
        0xc3 => {
            ends = true;
            0
        }
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
            ends = selector? == 4;
            with_operand(0)?
        }
        _ => return None,
    };
    let len = at + len;
    (len <= code.len()).then_some(Instruction { len, ends, nop })
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
        assert!(decode(&[0xc5, 0xf8, 0x77, 0, 0]).is_none(), "vzeroupper");
    }
}
