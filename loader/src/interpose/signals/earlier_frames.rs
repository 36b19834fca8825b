//! Signal frames of an earlier machine, which keep the registers at other places than this one.
//!
//! After a restart the application still has the frames of its signal handlers that were running at the checkpoint, and
//! returns through them. The kernel would read the registers from the places that this machine has. So they are moved
//! before. An image knows the layouts of all machines on which its frames may have been made.

use crate::sys::context::Context;
use crate::sys::fp_state::{Layout, Words};
use crate::sys::user_copy::{self, Fault};
use core::mem::offset_of;
use std::sync::OnceLock;

/// The layouts that frames of this process may have.
struct Layouts {
    here: Layout,
    /// Those of the machines before, without this one's.
    earlier: Vec<Layout>,
}

static LAYOUTS: OnceLock<Layouts> = OnceLock::new();

/// Notes the layouts of the machines on which the restarted process has been.
pub fn note(layouts: impl IntoIterator<Item = Layout>) {
    let here = Layout::here();
    let mut earlier = Vec::new();
    for layout in layouts {
        if layout != here && !earlier.contains(&layout) {
            earlier.push(layout);
        }
    }
    LAYOUTS.get_or_init(|| Layouts { here, earlier });
}

/// The layouts of machines before this one, if they differ.
pub fn noted() -> Vec<Layout> {
    LAYOUTS
        .get()
        .map_or_else(Vec::new, |layouts| layouts.earlier.clone())
}

/// Moves the registers of a frame into the memory that `room` gives, if an earlier machine has made the frame.
///
/// # Errors
/// [`Fault`] if the frame is not mapped. The kernel will find the same.
pub fn adapt(frame: usize, room: impl FnOnce(&Layout) -> Room) -> Result<(), Fault> {
    let Some(Layouts { here, earlier }) = LAYOUTS.get() else {
        return Ok(());
    };
    let place = frame + offset_of!(Context, fpstate);
    let area: usize = user_copy::read(place)?;
    if earlier.is_empty() || area == 0 {
        return Ok(());
    }
    let Some(words) = Words::of(area)?.filter(|words| !here.is_of(words)) else {
        return Ok(());
    };
    if let Some(from) = earlier.iter().find(|layout| layout.is_of(&words)) {
        let room = room(here);
        from.convert(area, here, room.area, room.components)?;
        user_copy::write(place, room.area)?;
    }
    Ok(())
}

/// Memory for registers in this machine's layout.
pub struct Room {
    /// Its address.
    pub area: usize,
    /// Components for which it has a place.
    pub components: u64,
}
