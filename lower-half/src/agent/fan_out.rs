//! `STASIS_FAN_OUT`: how wide the control plane's tree is. For tests, which have few ranks, and for
//! machines on which a process can have few connections.

use anyhow::{bail, Result};
use coordinator::tree::FAN_OUT;

/// To how many others the coordinator and each relay are connected at most, in rank 0's environment.
pub const VARIABLE: &str = "STASIS_FAN_OUT";

/// What the environment says.
pub fn from_environment() -> Result<u32> {
    match std::env::var_os(VARIABLE) {
        Some(word) => parse(&word.to_string_lossy()),
        None => Ok(FAN_OUT),
    }
}

fn parse(word: &str) -> Result<u32> {
    match word.trim().parse() {
        // With one the tree would be a chain.
        Ok(fan_out) if fan_out >= 2 => Ok(fan_out),
        _ => bail!(
            "{VARIABLE} says '{word}', which is no number from 2 on; unset it for the usual {FAN_OUT}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_number_from_two_on_or_it_is_refused() {
        assert_eq!(parse("2").unwrap(), 2);
        assert_eq!(parse(" 1000 ").unwrap(), 1000);
        for wrong in ["", "0", "1", "-2", "two"] {
            let refusal = parse(wrong).unwrap_err().to_string();
            assert!(refusal.contains("from 2 on"), "{wrong}: {refusal}");
        }
    }
}
