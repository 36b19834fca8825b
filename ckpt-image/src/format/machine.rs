//! The machine of an image, as far as the saved program depends on it. The section *environment* holds it.

use std::io::{BufRead, BufReader};

use serde::{Deserialize, Serialize};

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
                cpu_features = processor::names()
                    .filter(|feature| flags.contains(feature))
                    .map(str::to_owned)
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

    /// This machine, as a program sees it that knows these features of the processor alone.
    pub fn with_features(mut self, features: &[String]) -> Machine {
        self.cpu_features
            .retain(|feature| features.contains(feature));
        self
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
        let others = here.cpu_features.iter().filter(|one| *one != "sse2");
        let lesser = here
            .clone()
            .with_features(&others.cloned().collect::<Vec<_>>());
        assert!(here.incompatibilities(&lesser)[0].ends_with(": sse2"));
        assert!(lesser.incompatibilities(&here).is_empty());
    }
}
