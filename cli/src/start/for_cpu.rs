//! The lesser processor that a program is to see (`launch --for-cpu`).

use std::path::Path;

use anyhow::{Context, Result};
use ckpt_image::Machine;
use job_spec::ForCpu;

/// The highest level of the psABI that this processor has.
///
/// # Errors
/// `/proc` cannot be read, or the processor lacks a feature of the lowest level.
pub fn level_here() -> Result<&'static str> {
    let here = Machine::here().context("this machine's processor cannot be told")?;
    let has = |level: &&str| {
        let needed = processor::features_of(level);
        needed.is_ok_and(|needed| {
            let mut needed = needed.iter();
            needed.all(|feature| here.cpu_features.iter().any(|known| known == feature))
        })
    };
    let found = LEVELS.into_iter().rev().find(has);
    found.context("it lacks features of x86-64 that every program expects, by /proc/cpuinfo")
}

/// The levels of the psABI, the lowest first.
const LEVELS: [&str; 4] = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"];

/// The features of a level of the psABI, or those that all machines of a file have.
pub fn read(given: &Path) -> Result<ForCpu> {
    let name = given.display().to_string();
    let features = match processor::is_level(&name) {
        true => processor::features_of(&name),
        false => {
            let list = std::fs::read_to_string(given);
            processor::features_of(&list.with_context(|| {
                format!(
                    "--for-cpu {name} is neither x86-64, x86-64-v2, x86-64-v3 nor x86-64-v4, and cannot be read as a \
                     file with the features of machines"
                )
            })?)
        }
    };
    let features = features.with_context(|| format!("--for-cpu {name} cannot be used"))?;
    Ok(ForCpu {
        name,
        features: features.into_iter().map(str::to_owned).collect(),
    })
}
