//! Features of x86-64 processors by which programs select code: their names, the levels of the psABI, and the answers
//! of the instruction `cpuid` if a program is to see only some of them.

mod mask;
mod pool;

pub use mask::{Answer, Mask};
pub use pool::{features_of, BadList};

/// Registers of an answer of `cpuid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Register {
    A,
    B,
    C,
    D,
}

use Register::{A, B, C, D};

/// Word of the answers of `cpuid`: leaf, subleaf, register.
type Word = (u32, u32, Register);

/// Feature by which programs select code.
struct Feature {
    /// Name in /proc/cpuinfo.
    name: &'static str,
    word: Word,
    bit: u32,
}

const fn feature(name: &'static str, word: Word, bit: u32) -> Feature {
    Feature { name, word, bit }
}

const BASIC: Word = (1, 0, C);
const OLDEST: Word = (1, 0, D);
const SEVEN_B: Word = (7, 0, B);
const SEVEN_C: Word = (7, 0, C);
const SEVEN_D: Word = (7, 0, D);
const SEVEN_ONE_A: Word = (7, 1, A);
const SEVEN_ONE_D: Word = (7, 1, D);
const XSAVE: Word = (0xd, 1, A);
const EXTENDED: Word = (0x8000_0001, 0, C);
const EXTENDED_D: Word = (0x8000_0001, 0, D);
const SIZES: Word = (0x8000_0008, 0, B);

/// Instruction sets, by name. Sets that only the kernel uses are left out, so that they do not prevent a restart
/// elsewhere. So are those whose instructions do nothing on a processor without them (prefetches, hints, hardware lock
/// elision).
const FEATURES: &[Feature] = &[
    feature("abm", EXTENDED, 5),
    feature("adx", SEVEN_B, 19),
    feature("aes", BASIC, 25),
    feature("amx_bf16", SEVEN_D, 22),
    feature("amx_complex", SEVEN_ONE_D, 8),
    feature("amx_fp16", SEVEN_ONE_A, 21),
    feature("amx_int8", SEVEN_D, 25),
    feature("amx_tile", SEVEN_D, 24),
    feature("avx", BASIC, 28),
    feature("avx2", SEVEN_B, 5),
    feature("avx512_4fmaps", SEVEN_D, 3),
    feature("avx512_4vnniw", SEVEN_D, 2),
    feature("avx512_bf16", SEVEN_ONE_A, 5),
    feature("avx512_bitalg", SEVEN_C, 12),
    feature("avx512_fp16", SEVEN_D, 23),
    feature("avx512_vbmi2", SEVEN_C, 6),
    feature("avx512_vnni", SEVEN_C, 11),
    feature("avx512_vp2intersect", SEVEN_D, 8),
    feature("avx512_vpopcntdq", SEVEN_C, 14),
    feature("avx512bw", SEVEN_B, 30),
    feature("avx512cd", SEVEN_B, 28),
    feature("avx512dq", SEVEN_B, 17),
    feature("avx512er", SEVEN_B, 27),
    feature("avx512f", SEVEN_B, 16),
    feature("avx512ifma", SEVEN_B, 21),
    feature("avx512pf", SEVEN_B, 26),
    feature("avx512vbmi", SEVEN_C, 1),
    feature("avx512vl", SEVEN_B, 31),
    feature("avx_ifma", SEVEN_ONE_A, 23),
    feature("avx_ne_convert", SEVEN_ONE_D, 5),
    feature("avx_vnni", SEVEN_ONE_A, 4),
    feature("avx_vnni_int16", SEVEN_ONE_D, 10),
    feature("avx_vnni_int8", SEVEN_ONE_D, 4),
    feature("bmi1", SEVEN_B, 3),
    feature("bmi2", SEVEN_B, 8),
    feature("clflushopt", SEVEN_B, 23),
    feature("clwb", SEVEN_B, 24),
    feature("clzero", SIZES, 0),
    feature("cmpccxadd", SEVEN_ONE_A, 7),
    feature("cx16", BASIC, 13),
    feature("f16c", BASIC, 29),
    feature("fma", BASIC, 12),
    feature("fma4", EXTENDED, 16),
    feature("fsgsbase", SEVEN_B, 0),
    feature("gfni", SEVEN_C, 8),
    feature("lahf_lm", EXTENDED, 0),
    feature("mmx", OLDEST, 23),
    feature("movbe", BASIC, 22),
    feature("movdir64b", SEVEN_C, 28),
    feature("movdiri", SEVEN_C, 27),
    feature("pclmulqdq", BASIC, 1),
    feature("pni", BASIC, 0),
    feature("popcnt", BASIC, 23),
    feature("rdpid", SEVEN_C, 22),
    feature("rdrand", BASIC, 30),
    feature("rdseed", SEVEN_B, 18),
    feature("rdtscp", EXTENDED_D, 27),
    feature("rtm", SEVEN_B, 11),
    feature("serialize", SEVEN_D, 14),
    feature("sha_ni", SEVEN_B, 29),
    feature("sse", OLDEST, 25),
    feature("sse2", OLDEST, 26),
    feature("sse4_1", BASIC, 19),
    feature("sse4_2", BASIC, 20),
    feature("sse4a", EXTENDED, 6),
    feature("ssse3", BASIC, 9),
    feature("tbm", EXTENDED, 21),
    feature("vaes", SEVEN_C, 9),
    feature("vpclmulqdq", SEVEN_C, 10),
    feature("waitpkg", SEVEN_C, 5),
    feature("xop", EXTENDED, 11),
    feature("xsave", BASIC, 26),
    feature("xsavec", XSAVE, 1),
];

/// Features of all x86-64 processors.
const BASELINE: &[&str] = &["mmx", "sse", "sse2"];

/// Levels of the x86-64 psABI, each with the features that it adds to the one before.
const LEVELS: &[(&str, &[&str])] = &[
    ("x86-64", BASELINE),
    (
        "x86-64-v2",
        &[
            "cx16", "lahf_lm", "pni", "popcnt", "sse4_1", "sse4_2", "ssse3",
        ],
    ),
    (
        "x86-64-v3",
        &[
            "abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave",
        ],
    ),
    (
        "x86-64-v4",
        &["avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"],
    ),
];

/// Names of all known features, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    FEATURES.iter().map(|feature| feature.name)
}

/// Whether this is the name of a level of the psABI.
pub fn is_level(name: &str) -> bool {
    level(name).is_some()
}

/// Features of a level of the psABI.
fn level(name: &str) -> Option<impl Iterator<Item = &'static str>> {
    let at = LEVELS.iter().position(|(level, _)| *level == name)?;
    Some(
        LEVELS[..=at]
            .iter()
            .flat_map(|(_, adds)| adds.iter().copied()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_places_differ() {
        let all: Vec<_> = names().collect();
        assert!(all.is_sorted());
        let known = |name: &&str| all.contains(name);
        assert!(LEVELS.iter().flat_map(|(_, adds)| adds.iter()).all(known));
        for (n, one) in FEATURES.iter().enumerate() {
            let same = |other: &&Feature| (other.word, other.bit) == (one.word, one.bit);
            assert_eq!(FEATURES[n..].iter().filter(same).count(), 1, "{}", one.name);
        }
    }

    #[test]
    fn a_level_includes_those_below() {
        let count = |name| level(name).map(Iterator::count);
        assert_eq!(count("x86-64"), Some(3));
        assert_eq!(count("x86-64-v4"), Some(3 + 7 + 9 + 5));
        assert_eq!(count("x86-64-v5"), None);
    }
}
