//! The allocation that this process's job runs in, and the end of one of Slurm's.
//!
//! To add a scheduler, add the variable with the id of a job to [`IDS`], and its source for the end of the allocation
//! to [`time_left`].

use std::env;
use std::fmt;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Variable with the end in seconds since 1970. Newer versions of Slurm set it (22.05 does not).
const END: &str = "SLURM_JOB_END_TIME";
const JOB: &str = "SLURM_JOB_ID";

/// Variables with the id of an allocation: of Slurm, PBS, LSF, Flux, Cobalt, Fujitsu's TCS, HTCondor, Grid Engine.
const IDS: [&str; 8] = [
    JOB,
    "PBS_JOBID",
    "LSB_JOBID",
    "FLUX_JOB_ID",
    "COBALT_JOBID",
    "PJM_JOBID",
    "_CONDOR_JOB_ID",
    "JOB_ID",
];

/// Id of the allocation that the scheduler of this machine has given to the job; none outside of one.
pub fn id() -> Option<String> {
    let mut ids = IDS.iter().filter_map(|name| env::var(name).ok());
    ids.find(|id| !id.is_empty())
}

/// Reason why the end is unknown.
#[derive(Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The process is not part of a Slurm job.
    Outside,
    /// Slurm gave no answer about this job.
    Untold(String, String),
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unknown::Outside => {
                write!(
                    f,
                    "this process is not in a Slurm allocation ({JOB} is not set)"
                )
            }
            Unknown::Untold(job, why) => write!(
                f,
                "{END} is not set, and `squeue -h -j {job} -o %L` gave no answer: {why}"
            ),
        }
    }
}

impl std::error::Error for Unknown {}

/// Remaining time of the allocation; none if it has no end.
///
/// # Errors
/// [`Unknown`] outside of an allocation of Slurm, or if Slurm does not tell when it ends.
pub fn time_left() -> Result<Option<Duration>, Unknown> {
    let end = env::var(END).ok().and_then(|text| text.parse().ok());
    if let Some(end) = end {
        let end = UNIX_EPOCH + Duration::from_secs(end);
        let left = end.duration_since(SystemTime::now());
        return Ok(Some(left.unwrap_or_default()));
    }
    let job = env::var(JOB).map_err(|_| Unknown::Outside)?;
    let untold = |why: String| Unknown::Untold(job.clone(), why);
    let answer = Command::new("squeue")
        .args(["-h", "-j", &job, "-o", "%L"])
        .output()
        .map_err(|error| untold(error.to_string()))?;
    let text = String::from_utf8_lossy(&answer.stdout);
    let text = text.trim();
    if text == "UNLIMITED" {
        return Ok(None);
    }
    let said = || match text {
        "" => String::from_utf8_lossy(&answer.stderr).trim().to_owned(),
        text => format!("it said '{text}'"),
    };
    let left = seconds(text).ok_or_else(|| untold(said()))?;
    Ok(Some(Duration::from_secs(left)))
}

/// Parses a remaining time in Slurm's format: `SS`, `MM:SS`, `HH:MM:SS` or `D-HH:MM:SS`.
fn seconds(text: &str) -> Option<u64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (days.parse::<u64>().ok()?, clock),
        None => (0, text),
    };
    let parts: Vec<&str> = clock.split(':').collect();
    if parts.len() > 3 {
        return None;
    }
    let clock = parts.iter().try_fold(0_u64, |sum, part| {
        sum.checked_mul(60)?.checked_add(part.parse().ok()?)
    })?;
    days.checked_mul(86_400)?.checked_add(clock)
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn times_are_read_in_the_format_of_slurm() {
        assert_eq!(seconds("59"), Some(59));
        assert_eq!(seconds("9:59"), Some(599));
        assert_eq!(seconds("23:59:59"), Some(86_399));
        assert_eq!(seconds("2-01:00:00"), Some(176_400));
        for other in ["", "INVALID", "NOT_SET", "1:2:3:4", "-1", "1-"] {
            assert_eq!(seconds(other), None, "{other}");
        }
    }
}
