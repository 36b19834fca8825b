//! The driver of the machine's GPUs.

use anyhow::{bail, Context, Result};

/// Where the kernel module tells its version.
const VERSION: &str = "/proc/driver/nvidia/version";
/// The first driver that can copy what a process has on its GPUs to its memory.
const FIRST: u32 = 570;

/// Whether the driver can save what a program has on its GPUs; none where there is no such driver.
pub fn check() -> Option<Result<String>> {
    let text = std::fs::read_to_string(VERSION).ok()?;
    Some(judge(&text))
}

fn judge(text: &str) -> Result<String> {
    let first_line = text.lines().next().unwrap_or_default();
    let is_version = |word: &&str| {
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        word.contains('.') && word.split('.').all(digits)
    };
    let version = first_line.split_whitespace().find(is_version);
    let version = version.with_context(|| format!("{VERSION} names no version: {first_line}"))?;
    let major = version.split('.').next().unwrap_or_default();
    if major.parse::<u32>()? < FIRST {
        bail!(
            "CUDA's driver {version} cannot save what a program has on its GPUs: no checkpoint of such a program can be \
             taken. Drivers from {FIRST} on can"
        );
    }
    Ok(format!(
        "CUDA's driver {version} saves what a program has on its GPUs"
    ))
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn the_version_decides() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\nGCC version:  gcc 12.2.0\n";
        assert!(judge(closed).unwrap_err().to_string().contains("535"));
        let open =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n";
        assert!(judge(open).unwrap().contains("580.159.04"));
        assert!(judge("NVRM version: unknown\nGCC version: 12.2.0\n").is_err());
    }
}
