//! The debugging tools that are on. Rank 0's options hold for all ranks, because the ranks of a collective operation
//! must treat it alike. A restart has options of its own.

use std::sync::atomic::Ordering;
use std::sync::OnceLock;

use anyhow::{bail, Context, Result};
use contract::{gate, TOOL_BREAK, TOOL_PERTURB, TOOL_PROFILE, TOOL_REDUCE, TOOL_REDUCE_VISIBLE};
use job_spec::Tools;

use crate::breakpoint;
use crate::mpi::world;

static TOOLS: OnceLock<Tools> = OnceLock::new();

/// Takes over the options of rank 0, which has `own`. Collective over all ranks, before the upper half makes a
/// communicator.
pub fn agree(own: &Tools, rank: u32, size: u32) -> Result<()> {
    let mut text = match rank {
        0 => serde_json::to_vec(own)?,
        _ => Vec::new(),
    };
    let mut length = (text.len() as u64).to_le_bytes();
    world::broadcast(&mut length, 0)?;
    text.resize(usize::try_from(u64::from_le_bytes(length))?, 0);
    world::broadcast(&mut text, 0)?;
    let tools: Tools = serde_json::from_slice(&text).context("rank 0's options of tools")?;
    let reduce = tools.reduce.as_ref().map_or(0, |_| TOOL_REDUCE);
    let visible = match tools.reduce_visible {
        true => TOOL_REDUCE_VISIBLE,
        false => 0,
    };
    let profile = if tools.profile { TOOL_PROFILE } else { 0 };
    let bits = reduce | visible | profile | tools.perturb.map_or(0, |_| TOOL_PERTURB);
    gate().lower.features.fetch_or(bits, Ordering::Relaxed);
    let stop_at = TOOLS.get_or_init(|| tools).stop_at;
    match stop_at {
        Some(at) if at.rank == rank => breakpoint::set(at),
        Some(at) if at.rank >= size && rank == 0 => {
            bail!(
                "--break stops nothing: there is no rank {}, and the last one is {}",
                at.rank,
                size - 1
            )
        }
        _ => Ok(()),
    }
}

/// The tools that all ranks have agreed on.
pub fn agreed() -> Tools {
    TOOLS.get().cloned().unwrap_or_default()
}

/// See `contract::service::ToolOptions`.
pub fn options(tool: u32) -> String {
    let tools = agreed();
    match tool {
        TOOL_REDUCE => tools.reduce.unwrap_or_default(),
        TOOL_PERTURB => tools.perturb.unwrap_or_default().to_string(),
        TOOL_BREAK => breakpoint::calls_left().to_string(),
        _ => String::new(),
    }
}
