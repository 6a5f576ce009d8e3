//! Who inherits orphans, and who dies with its parent.
//!
//! Linux only. Elsewhere these are no-ops: a warden then learns of the spawner's death from the pipe whose
//! other end only the spawner holds, and orphans that left their process group go to init.

use std::io;

use rustix::process::Signal;

/// Makes orphaned descendants children of this process instead of init's.
pub(crate) fn become_subreaper() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Asks for this signal when the thread that forked us ends.
///
/// The caller must check afterwards that the parent still is the one it means: a parent that died before
/// this call sends nothing.
pub(crate) fn signal_on_parent_death(signal: Signal) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(signal))?;
    #[cfg(not(target_os = "linux"))]
    let _ = signal;
    Ok(())
}
