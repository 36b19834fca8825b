//! Answers of `cpuid` with only some features.

use super::{
    Register, Word, A, B, BASIC, C, D, EXTENDED, EXTENDED_D, FEATURES, OLDEST, SEVEN_B, SEVEN_C,
    SEVEN_D, SEVEN_ONE_A, SEVEN_ONE_D, SIZES, XSAVE,
};

/// Words that name features, each with the bits that always pass beside the named ones. They tell of hints, of fast
/// variants of old instructions, of the kernel's own features and of defects. Where a word has room for features to
/// come, the other bits do not pass: nobody can tell what they will mean.
const WORDS: [(Word, u32); 11] = [
    // Without OSXSAVE, which follows XSAVE.
    (BASIC, !(1 << 27)),
    (OLDEST, !0),
    (SEVEN_B, !0),
    // prefetchwt1, umip, tme, la57, bus_lock_detect, cldemote, sgx_lc.
    (
        SEVEN_C,
        1 | 1 << 2 | 1 << 13 | 1 << 16 | 1 << 24 | 1 << 25 | 1 << 30,
    ),
    // fsrm, md_clear, hybrid, and controls of speculation.
    (SEVEN_D, 1 << 4 | 1 << 10 | 1 << 15 | 0x3f << 26),
    // Fast short REP MOVSB, STOSB and CMPSB.
    (SEVEN_ONE_A, 0b111 << 10),
    // prefetchi.
    (SEVEN_ONE_D, 1 << 14),
    (EXTENDED, !0),
    (EXTENDED_D, !0),
    (SIZES, !0),
    (XSAVE, 0),
];

/// The bit by which the kernel tells that it uses XSAVE.
const OSXSAVE: u32 = 1 << 27;
const SEVEN: u32 = 7;
const XSAVE_LEAF: u32 = 0xd;
const KEY_LOCKER: u32 = 0x19;
/// Tiles of AMX, and their multiplication.
const TILES: [u32; 2] = [0x1d, 0x1e];
const AVX10: u32 = 0x24;

/// Registers after `cpuid`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// EAX.
    pub eax: u32,
    /// EBX.
    pub ebx: u32,
    /// ECX.
    pub ecx: u32,
    /// EDX.
    pub edx: u32,
}

impl Answer {
    fn register(&mut self, register: Register) -> &mut u32 {
        match register {
            A => &mut self.eax,
            B => &mut self.ebx,
            C => &mut self.ecx,
            D => &mut self.edx,
        }
    }
}

/// The features that a program sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// Bits that pass, for each of [`WORDS`].
    pass: [u32; WORDS.len()],
    xsave: bool,
    tiles: bool,
}

impl Mask {
    /// The mask that leaves these features. Names that are not known have no effect.
    pub fn of<S: AsRef<str>>(names: &[S]) -> Mask {
        let has = |name: &str| names.iter().any(|one| one.as_ref() == name);
        let pass = WORDS.map(|(word, always)| {
            let here = || FEATURES.iter().filter(|feature| feature.word == word);
            let named = here().fold(0, |bits, feature| bits | 1 << feature.bit);
            let left = here().filter(|feature| has(feature.name));
            left.fold(always & !named, |bits, feature| bits | 1 << feature.bit)
        });
        let mut mask = Mask {
            pass,
            xsave: has("xsave"),
            tiles: has("amx_tile"),
        };
        if mask.xsave {
            *mask.pass_of(BASIC) |= OSXSAVE;
        }
        if has("xsavec") {
            // Its other instructions have come with it or before.
            *mask.pass_of(XSAVE) = !0;
        }
        mask
    }

    fn pass_of(&mut self, word: Word) -> &mut u32 {
        let at = WORDS.iter().position(|(one, _)| *one == word);
        &mut self.pass[at.unwrap_or_default()]
    }

    /// The answer that the program gets instead of the processor's. Sizes of the room for registers (leaf 0xD) stay
    /// those of the processor: XSAVE writes all that it has in use, whatever a program knows of it.
    pub fn apply(&self, leaf: u32, subleaf: u32, mut answer: Answer) -> Answer {
        let gone = match leaf {
            SEVEN => subleaf > 2,
            XSAVE_LEAF => !self.xsave,
            KEY_LOCKER | AVX10 => true,
            _ => TILES.contains(&leaf) && !self.tiles,
        };
        if gone {
            return Answer::default();
        }
        for ((word, _), pass) in WORDS.iter().zip(self.pass) {
            let (in_leaf, in_subleaf, register) = *word;
            let any_subleaf = !matches!(leaf, SEVEN | XSAVE_LEAF);
            if in_leaf == leaf && (any_subleaf || in_subleaf == subleaf) {
                *answer.register(register) &= pass;
            }
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level;

    const ALL: Answer = Answer {
        eax: !0,
        ebx: !0,
        ecx: !0,
        edx: !0,
    };

    fn of_level(name: &str) -> Mask {
        Mask::of(&level(name).unwrap().collect::<Vec<_>>())
    }

    #[test]
    fn a_level_has_its_features_and_no_others() {
        for (name, avx2, avx512f) in [
            ("x86-64-v2", 0, 0),
            ("x86-64-v3", 1, 0),
            ("x86-64-v4", 1, 1),
        ] {
            let mask = of_level(name);
            let seven = mask.apply(7, 0, ALL);
            assert_eq!(
                (seven.ebx >> 5 & 1, seven.ebx >> 16 & 1),
                (avx2, avx512f),
                "{name}"
            );
            assert_eq!(seven.ecx >> 9 & 1, 0, "vaes");
            // The subleaf says nothing for leaf 1.
            assert_eq!(
                mask.apply(1, 77, ALL).ecx >> 27 & 1,
                avx2,
                "OSXSAVE of {name}"
            );
        }
        assert_eq!(of_level("x86-64").apply(1, 0, ALL).ecx & 1, 0, "SSE3");
    }

    #[test]
    fn what_names_no_feature_stays() {
        let mask = of_level("x86-64-v3");
        for leaf in [0, 2, 4, 0xb, 0x8000_0002, 0x4000_0000] {
            assert_eq!(mask.apply(leaf, 0, ALL), ALL, "{leaf:x}");
        }
        assert_eq!(mask.apply(0xd, 0, ALL), ALL);
        assert_eq!(mask.apply(0xd, 1, ALL).eax, 0, "XSAVEC");
        assert_eq!(mask.apply(1, 0, ALL).edx, !0);
    }

    #[test]
    fn leaves_of_unknown_features_are_empty() {
        let mask = of_level("x86-64-v4");
        for (leaf, subleaf) in [(7, 3), (0x19, 0), (0x1d, 1), (0x1e, 0), (0x24, 0)] {
            assert_eq!(mask.apply(leaf, subleaf, ALL), Answer::default());
        }
        assert_eq!(of_level("x86-64-v2").apply(0xd, 0, ALL), Answer::default());
    }
}
