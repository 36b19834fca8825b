//! Cases about the start of a job: a second launch, the choice of a lower half, privileges.

pub mod lower_halves;
pub mod privileges;
pub mod second_launch;
