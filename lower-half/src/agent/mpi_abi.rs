//! The MPI ABI of the application, for images and manifests.

use std::sync::{Mutex, OnceLock, PoisonError};

/// The ABI in the image from which the process was restarted. After a restart the mapping of the front has no name.
static RESTORED_ABI: OnceLock<String> = OnceLock::new();

/// Notes the MPI ABI of the image from which this process is restarted.
pub fn set_restored(abi: String) {
    RESTORED_ABI.get_or_init(|| abi);
}

/// The MPI ABI of the program at the last cut. The program runs on while its image is written, and may load its MPI
/// library meanwhile.
static ABI_AT_CUT: Mutex<Option<String>> = Mutex::new(None);

/// Notes the MPI ABI for [`at_cut`], and returns it.
pub fn note_at_cut() -> String {
    let abi = current();
    let mut noted = ABI_AT_CUT.lock().unwrap_or_else(PoisonError::into_inner);
    *noted = Some(abi.clone());
    abi
}

/// The MPI ABI of the program in this rank's last image.
pub fn at_cut() -> String {
    let noted = ABI_AT_CUT.lock().unwrap_or_else(PoisonError::into_inner);
    noted.clone().unwrap_or_else(current)
}

/// The MPI ABI that the application was compiled against: that of the front which it has loaded.
fn current() -> String {
    let front = |name: &str| {
        let file = name.rsplit('/').next()?;
        Some(file.strip_prefix("front-")?.strip_suffix(".so")?.to_owned())
    };
    let upper = loader::read_maps().unwrap_or_default().into_iter();
    let mut fronts = upper
        .filter(|m| m.end <= contract::ARENA_END)
        .filter_map(|m| front(&m.name));
    let restored = || RESTORED_ABI.get().cloned();
    let found = fronts.next().or_else(restored);
    found.unwrap_or_else(|| "none".to_owned())
}
