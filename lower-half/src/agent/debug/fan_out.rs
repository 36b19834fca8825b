//! `STASIS_FAN_OUT`: the width of the control plane's tree. It is for tests, which have few ranks, and for machines on
//! which a process can have few connections.

use anyhow::{bail, Result};
use coordinator::net::tree::FAN_OUT;

/// The largest number of connections of the coordinator and of each relay. Read in rank 0.
pub const VARIABLE: &str = "STASIS_FAN_OUT";

/// Reads [`VARIABLE`] from the environment.
pub fn from_environment() -> Result<u32> {
    match std::env::var_os(VARIABLE) {
        Some(word) => parse(&word.to_string_lossy()),
        None => Ok(FAN_OUT),
    }
}

fn parse(word: &str) -> Result<u32> {
    match word.trim().parse() {
        // With a fan-out of 1 the tree would be a chain.
        Ok(fan_out) if fan_out >= 2 => Ok(fan_out),
        _ => bail!(
            "{VARIABLE}='{word}' is not a number from 2 on; unset it for the default, {FAN_OUT}"
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
