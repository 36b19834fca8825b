//! The report on what has happened to a job, from its history: the runs, what its checkpoints have cost, and what
//! failures have lost or would have lost.
//!
//! | module | content |
//! |---|---|
//! | [`story`] | the runs of the job, with figures |
//! | [`chart`] | pictures (SVG) |
//! | [`mod@page`] | the page (HTML) |
//! | [`mod@profile`] | the page about the profile of MPI calls |

mod chart;
mod page;
mod profile;
mod story;

pub use page::page;
pub use profile::profile_page;
pub use story::Story;
