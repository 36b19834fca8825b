//! The dump of an upper half: every mapping below `contract::ARENA_END` goes into this rank's image.
//!
//! The dump runs while every thread of the upper half is parked. The address alone decides what is saved: the
//! kernel's list of mappings is the only record of the memory.
//!
//! 1. [`PreScan`] (`prescan.rs`) lists the mappings while the threads still run.
//! 2. [`Plan::make`] (`plan.rs`) classifies each mapping (`classify.rs`), and collects shared objects
//!    (`shared_objects.rs`).
//! 3. [`Plan::save`] (`save.rs`) decides which pages are stored (`contents.rs`; for an increment only pages that
//!    have changed, by `changes`), takes a copy of the memory (`snapshot`), and writes the image from that copy, or
//!    from the process itself (`source.rs`).
//!
//! Or the copy stays, without an image, until another process has it write one ([`Plan::hold`], `held.rs`).
//!
//! The threads stand still until the memory is copied, or until the image is written if no copy can be made.
//!
//! # Examples
//! The memory of the application is planned while its threads stand. This process has none below `contract::ARENA_END`.
//!
//! ```
//! use stasis_dump::{Application, Plan, PreScan};
//!
//! let program = Application { shm_id: |id| id, is_ours: |_| false };
//! let prescan = PreScan::run(&program, None, None)?;
//! let plan = Plan::make(&program, Some(prescan))?;
//! assert!(plan.parts().is_empty(), "it shares no memory");
//! # Ok::<(), ckpt_image::ImageError>(())
//! ```

mod advice;
mod anonymous;
mod changes;
mod classify;
mod contents;
mod held;
mod page_memory;
mod pagemap;
mod plan;
mod prescan;
mod ranges;
mod request;
mod save;
mod shared_objects;
mod smaps;
mod snapshot;
mod source;

pub use anonymous::AnonymousMapping;
pub use changes::DirtyTracker;
pub use classify::Application;
pub use held::{Handover, HeldImage, RecipePlace, WrittenImage};
pub use plan::Plan;
pub use prescan::PreScan;
pub use request::{DumpRequest, HeaderInfo, Increments, PauseMode, SavedImage, StoreAssignment};
pub use snapshot::cow_child::{ChildParts, KeptChild};
pub use snapshot::memory_budget::MemoryBudget;
