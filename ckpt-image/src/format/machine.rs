//! The machine of an image, as far as the saved program depends on it. The section *environment* holds it.

use std::io::{BufRead, BufReader};

use serde::{Deserialize, Serialize};

/// Instruction sets by which programs select code, with the names of /proc/cpuinfo. Sets that only the
/// kernel uses are left out, so that they do not prevent a restart elsewhere. So are those whose instructions do
/// nothing on a processor without them (prefetches, hints, hardware lock elision).
const FEATURES: &[&str] = &[
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
    "lahf_lm",
    "mmx",
    "movbe",
    "movdir64b",
    "movdiri",
    "pclmulqdq",
    "popcnt",
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

/// Properties of a machine by which a program may have selected its code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Instruction sets of the processor, sorted.
    pub cpu_features: Vec<String>,
    /// Release of the kernel; displayed, not compared.
    pub kernel: String,
    /// Name of the machine; displayed, not compared.
    pub host: String,
}

impl Machine {
    /// The properties of this machine.
    ///
    /// # Errors
    /// `/proc` or the system's name cannot be read.
    pub fn here() -> std::io::Result<Machine> {
        let mut cpu_features = Vec::new();
        // The first processor's lines suffice, and the file is slow to generate on large machines.
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
        Ok(Machine {
            cpu_features,
            kernel: told("/proc/sys/kernel/osrelease"),
            host: host(),
        })
    }

    /// Reasons why a program of this machine cannot continue on the machine `here`.
    pub fn incompatibilities(&self, here: &Machine) -> Vec<String> {
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

/// Name of this machine.
pub(crate) fn host() -> String {
    told("/proc/sys/kernel/hostname")
}

/// Content of a kernel file; empty if it cannot be read.
fn told(file: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_compatible_with_itself_but_not_with_a_lesser_one() {
        let here = Machine::here().unwrap();
        assert!(here.cpu_features.contains(&"sse2".to_owned()));
        assert_eq!(here.incompatibilities(&here), Vec::<String>::new());
        let mut lesser = here.clone();
        lesser.cpu_features.retain(|feature| feature != "sse2");
        assert!(here.incompatibilities(&lesser)[0].ends_with(": sse2"));
        assert!(lesser.incompatibilities(&here).is_empty());
    }
}
