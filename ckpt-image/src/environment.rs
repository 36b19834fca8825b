//! The machine that an image was taken on, as far as the saved program depends on it.

use std::io::{BufRead, BufReader};

use serde::{Deserialize, Serialize};

/// Instruction sets that programs choose code by, with the names of /proc/cpuinfo. What only the
/// kernel uses is left out, so that it does not forbid a restart elsewhere.
const FEATURES: &[&str] = &[
    "3dnowprefetch",
    "abm",
    "adx",
    "aes",
    "amx_bf16",
    "amx_complex",
    "amx_fp16",
    "amx_int8",
    "amx_tile",
    "avx",
    "avx2",
    "avx512_4fmaps",
    "avx512_4vnniw",
    "avx512_bf16",
    "avx512_bitalg",
    "avx512_fp16",
    "avx512_vbmi2",
    "avx512_vnni",
    "avx512_vp2intersect",
    "avx512_vpopcntdq",
    "avx512bw",
    "avx512cd",
    "avx512dq",
    "avx512er",
    "avx512f",
    "avx512ifma",
    "avx512pf",
    "avx512vbmi",
    "avx512vl",
    "avx_ifma",
    "avx_ne_convert",
    "avx_vnni",
    "avx_vnni_int16",
    "avx_vnni_int8",
    "bmi1",
    "bmi2",
    "cldemote",
    "clflushopt",
    "clwb",
    "clzero",
    "cmpccxadd",
    "cx16",
    "f16c",
    "fma",
    "fma4",
    "fsgsbase",
    "gfni",
    "hle",
    "lahf_lm",
    "mmx",
    "movbe",
    "movdir64b",
    "movdiri",
    "pclmulqdq",
    "popcnt",
    "prefetchi",
    "rdpid",
    "rdrand",
    "rdseed",
    "rdtscp",
    "rtm",
    "serialize",
    "sha_ni",
    "sse",
    "sse2",
    "sse4_1",
    "sse4_2",
    "sse4a",
    "ssse3",
    "tbm",
    "vaes",
    "vpclmulqdq",
    "waitpkg",
    "xop",
    "xsave",
    "xsavec",
];

/// What the saved program may have chosen its code by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Instruction sets of the processor, sorted.
    pub cpu_features: Vec<String>,
    /// Release of the kernel; told, not compared.
    pub kernel: String,
    /// Name of the machine; told, not compared.
    pub host: String,
}

impl Environment {
    /// This machine's.
    pub fn here() -> std::io::Result<Environment> {
        let mut cpu_features = Vec::new();
        // The first processor's lines are enough, and the file is slow to make on large machines.
        for line in BufReader::with_capacity(4096, std::fs::File::open("/proc/cpuinfo")?).lines() {
            let line = line?;
            if let Some((_, flags)) = line
                .split_once(':')
                .filter(|(key, _)| key.trim() == "flags")
            {
                let flags: Vec<&str> = flags.split_ascii_whitespace().collect();
                cpu_features = FEATURES
                    .iter()
                    .filter(|feature| flags.contains(feature))
                    .map(|feature| feature.to_string())
                    .collect();
                break;
            }
        }
        Ok(Environment {
            cpu_features,
            kernel: told("/proc/sys/kernel/osrelease"),
            host: host(),
        })
    }

    /// Why a program of this environment cannot go on in `here`.
    pub fn refusals(&self, here: &Environment) -> Vec<String> {
        let missing: Vec<&str> = self
            .cpu_features
            .iter()
            .filter(|feature| !here.cpu_features.contains(feature))
            .map(String::as_str)
            .collect();
        if missing.is_empty() {
            return Vec::new();
        }
        vec![format!(
            "the processor of {} lacks instruction sets that the program found on {}: {}",
            here.host,
            self.host,
            missing.join(", ")
        )]
    }
}

/// This machine's name.
pub(crate) fn host() -> String {
    told("/proc/sys/kernel/hostname")
}

/// What the kernel says in a file; nothing if it cannot be read.
fn told(file: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_suits_itself_but_not_a_lesser_one() {
        let here = Environment::here().unwrap();
        assert!(here.cpu_features.contains(&"sse2".to_owned()));
        assert_eq!(here.refusals(&here), Vec::<String>::new());
        let mut lesser = here.clone();
        lesser.cpu_features.retain(|feature| feature != "sse2");
        assert!(here.refusals(&lesser)[0].ends_with(": sse2"));
        assert!(lesser.refusals(&here).is_empty());
    }
}
