//! Loading of a program into the upper half: its ELF files, its stack, its vDSO, the gate, and the allocation of
//! addresses.

pub mod elf;
pub mod gate;
pub mod map;
pub mod privileges;
pub mod program_info;
pub mod stack;
pub mod va_allocator;
pub mod vdso;
