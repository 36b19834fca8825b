//! The handlers of patched system calls, in the machine code of the lower halves: those that are entered without a save
//! of all vector registers use none but the lower halves of `xmm0` to `xmm15`, and call no library that might
//! (`loader/src/interpose/syscalls/site_kinds.rs`).
//!
//! The walk follows calls and jumps to known addresses, and every function whose address is loaded. It ends at
//! functions that save the registers themselves, and at those that end the process.

use crate::harness::paths;
use anyhow::{ensure, Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// `SiteKind::Light`.
const LIGHT: u8 = 2;
const NUMBERS: u64 = 512;
/// Functions that keep the registers, or enter the window with those of the application; and the one that calls the
/// kernel's vDSO, which is compiled without them.
const KEEP: &[&str] = &[
    "stasis_keeping_vectors",
    "stasis_app_syscall",
    "stasis_site_syscall",
    "stasis_kernel_clock",
];
/// Parts of the names of functions that do not return to the application, or not by the way that they came.
const END: &[&str] = &[
    "core::panicking",
    "core::slice::index",
    "unwrap_failed",
    "expect_failed",
    "_Unwind_Resume",
    "exit_group",
    "stop::park",
    // Entered by the kernel, with a frame.
    "stasis_signal",
    // Called by `stasis_keeping_vectors`.
    "vectors::kept::run",
];
/// Calls through a pointer that are known: the table of handlers.
const TABLE_CALL: &str = "interpose::syscalls::serve";

/// Checks the lower halves that are installed.
pub fn check() -> Result<()> {
    let mut failures = Vec::new();
    for library in ["mpich", "openmpi"] {
        let file = paths::product().join(format!("lib/stasis/lower-{library}"));
        let code = Code::read(&file).with_context(|| file.display().to_string())?;
        failures.extend(
            code.check()?
                .into_iter()
                .map(|text| format!("lower-{library}: {text}")),
        );
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// What the linker has put at an address that code reads.
enum Target {
    Here(u64),
    Library(String),
}

struct Code {
    /// Names by address, one a line.
    names: BTreeMap<u64, String>,
    /// Starts of functions.
    starts: BTreeSet<u64>,
    /// Instructions by address.
    instructions: BTreeMap<u64, String>,
    relocations: BTreeMap<u64, Target>,
    /// `SITE_KINDS`.
    kinds: Vec<u8>,
}

fn output(program: &str, arguments: &[&str], file: &Path) -> Result<String> {
    let mut command = Command::new(program);
    let output = command.args(arguments).arg(file).output();
    let output = output.with_context(|| format!("{program} (binutils)"))?;
    ensure!(output.status.success(), "{program} failed");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

impl Code {
    fn read(file: &Path) -> Result<Code> {
        let (mut names, mut starts) = (BTreeMap::new(), BTreeSet::new());
        for line in output("nm", &["-C", "--defined-only"], file)?.lines() {
            let mut fields = line.splitn(3, ' ');
            let (Some(at), Some(kind), Some(name)) =
                (fields.next().and_then(hex), fields.next(), fields.next())
            else {
                continue;
            };
            // Functions of equal code have one address.
            let all: &mut String = names.entry(at).or_default();
            *all = [all.as_str(), name].join("\n").trim_start().to_owned();
            if kind.eq_ignore_ascii_case("t") {
                starts.insert(at);
            }
        }
        let mut relocations = BTreeMap::new();
        for line in output("readelf", &["-rW"], file)?.lines() {
            let fields: Vec<_> = line.split_whitespace().collect();
            let [at, _, kind, rest @ ..] = &fields[..] else {
                continue;
            };
            let target = match (*kind, rest) {
                ("R_X86_64_RELATIVE", [address, ..]) => hex(address).map(Target::Here),
                ("R_X86_64_GLOB_DAT" | "R_X86_64_JUMP_SLOT", [_, name, ..]) => {
                    Some(Target::Library((*name).to_owned()))
                }
                _ => None,
            };
            if let (Some(at), Some(target)) = (hex(at), target) {
                relocations.insert(at, target);
            }
        }
        let disassembled = output("objdump", &["-d", "--no-show-raw-insn"], file)?;
        let instructions = disassembled.lines().filter_map(|line| {
            let (at, text) = line.trim_start().split_once(":\t")?;
            Some((hex(at)?, text.to_owned()))
        });
        let instructions = instructions.collect();
        let is = |names: &String| names.lines().any(|name| name == "SITE_KINDS");
        let place = names.iter().find(|(_, names)| is(names));
        let place = *place.context("no symbol SITE_KINDS")?.0;
        let from = format!("--start-address={place:#x}");
        let to = format!("--stop-address={:#x}", place + NUMBERS);
        let dumped = output("objdump", &["-s", "-j", ".rodata", &from, &to], file)?;
        let kinds = dumped.lines().filter_map(|line| {
            let mut fields = line.strip_prefix(' ')?.split(' ');
            hex(fields.next()?)?;
            // Sixteen bytes, whose grouping depends on the alignment of the address; the text of them follows.
            let mut bytes = String::new();
            for word in fields.take_while(|word| word.len() >= 2) {
                if bytes.len() == 32 {
                    break;
                }
                bytes += word;
            }
            Some(bytes)
        });
        let kinds: String = kinds.collect();
        let digits = kinds.as_bytes().chunks(2);
        let kinds =
            digits.filter_map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        Ok(Code {
            names,
            starts,
            instructions,
            relocations,
            kinds: kinds.collect(),
        })
    }

    fn address_of(&self, end: &str) -> Result<u64> {
        let ends = |names: &String| names.lines().any(|name| name.ends_with(end));
        let found = self.names.iter().find(|(_, names)| ends(names));
        Ok(*found.with_context(|| format!("no symbol {end}"))?.0)
    }

    fn check(&self) -> Result<Vec<String>> {
        ensure!(
            self.kinds.len() as u64 == NUMBERS,
            "SITE_KINDS has {} bytes",
            self.kinds.len()
        );
        let table = self.address_of("interpose::syscalls::TABLE")?;
        let mut roots = vec![(
            "the entry".to_owned(),
            self.address_of("stasis_site_dispatch")?,
        )];
        for (number, kind) in self.kinds.iter().enumerate() {
            if *kind != LIGHT {
                continue;
            }
            match self.relocations.get(&(table + number as u64 * 8)) {
                Some(Target::Here(handler)) => {
                    roots.push((format!("system call {number}"), *handler))
                }
                _ => anyhow::bail!("no handler of system call {number}"),
            }
        }
        ensure!(roots.len() > 50, "only {} handlers were found", roots.len());
        let walks = roots.iter().flat_map(|(what, root)| {
            self.walk(*root)
                .into_iter()
                .map(move |found| format!("{what}: {found}"))
        });
        Ok(walks.collect())
    }

    /// Instructions that are not allowed, in all functions that one reaches.
    fn walk(&self, root: u64) -> Vec<String> {
        let (mut seen, mut todo, mut found) = (BTreeSet::new(), vec![root], Vec::new());
        while let Some(function) = todo.pop() {
            let start = *self
                .starts
                .range(..=function)
                .next_back()
                .unwrap_or(&function);
            if !seen.insert(start) {
                continue;
            }
            let name = self.names.get(&start).map_or("?", String::as_str);
            let keeps = name.lines().any(|name| KEEP.contains(&name));
            if seen.len() > 1 && (keeps || END.iter().any(|end| name.contains(end))) {
                continue;
            }
            let end = self
                .starts
                .range(start + 1..)
                .next()
                .copied()
                .unwrap_or(u64::MAX);
            let mut pointers = name.contains(TABLE_CALL);
            for text in self.instructions.range(start..end).map(|(_, text)| text) {
                match self.reached(text) {
                    Some(Target::Here(to)) if (start..end).contains(&to) => {}
                    Some(Target::Here(to)) => {
                        pointers = true;
                        todo.push(to);
                    }
                    Some(Target::Library(library))
                        if !END.iter().any(|end| library.contains(end)) =>
                    {
                        found.push(format!("{name} calls {library}"));
                    }
                    Some(Target::Library(_)) => {}
                    None if text.starts_with("call") && !pointers => {
                        found.push(format!("{name}: {text}"));
                    }
                    None => {}
                }
                if uses_more(text) {
                    found.push(format!("{name}: {text}"));
                }
            }
        }
        found
    }

    /// The function that an instruction calls, jumps to, or loads the address of.
    fn reached(&self, text: &str) -> Option<Target> {
        let (operation, rest) = text.split_once(' ')?;
        let rest = rest.trim_start();
        let jumps = operation.starts_with("call") || operation.starts_with('j');
        if jumps && !rest.starts_with('*') {
            return hex(rest.split(' ').next()?).map(Target::Here);
        }
        // "# 181b68 <...>": the address that is read or computed.
        let at = hex(rest.split_once("# ")?.1.split(' ').next()?)?;
        if operation == "lea" {
            return self.starts.contains(&at).then_some(Target::Here(at));
        }
        if !jumps && operation != "mov" {
            return None;
        }
        match self.relocations.get(&at)? {
            Target::Here(to) => self.starts.contains(to).then_some(Target::Here(*to)),
            Target::Library(name) => Some(Target::Library(name.clone())),
        }
    }
}

/// Whether an instruction uses a vector register beyond the lower halves of `xmm0` to `xmm15`.
fn uses_more(text: &str) -> bool {
    let high = |register: &str| {
        let digits = register.trim_start_matches("xmm");
        let end = digits
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(digits.len());
        register.starts_with("xmm") && digits[..end].parse::<u32>().is_ok_and(|number| number > 15)
    };
    text.starts_with('v')
        || text.split('%').skip(1).any(|register| {
            let wide = [
                "ymm", "zmm", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "mm", "st",
            ];
            wide.iter().any(|name| register.starts_with(name)) || high(register)
        })
}

#[cfg(test)]
mod tests {
    use super::uses_more;

    #[test]
    fn wide_registers_are_found() {
        for text in [
            "vzeroupper",
            "vmovups (%rax),%xmm1",
            "movaps %xmm16,%xmm0",
            "kmovq %k1,%rax",
            "fld %st(1)",
        ] {
            assert!(uses_more(text), "{text}");
        }
        for text in [
            "movaps %xmm15,(%rsp)",
            "movups 0x10(%rax),%xmm2",
            "mov %rax,%rbx",
        ] {
            assert!(!uses_more(text), "{text}");
        }
    }
}
