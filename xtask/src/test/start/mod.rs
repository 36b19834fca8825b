//! Cases about the start of a job: what `stasis doctor` says before it, a second launch, the choice of a lower half,
//! privileges, and the recovery of a job by starting it again.

pub mod apptainer;
pub mod containers;
pub mod copies;
pub mod doctor;
pub mod early_deaths;
pub mod for_cpu;
pub mod ipv6;
pub mod killed_while_mapping;
pub mod lost_nodes;
pub mod lower_halves;
pub mod memory_checkpoints;
pub mod memory_hooks;
pub mod node_keepers;
pub mod privileges;
pub mod recovery;
pub mod reduced_proc;
pub mod registration_caches;
pub mod second_launch;
pub mod stages;
pub mod standby;
pub mod syscall_filter;
pub mod user_namespaces;
