//! On whose behalf something is asked of a server.

use std::path::Path;

use pentad_program::Attendance;

use super::log::Origin;

/// Who waits for an answer, and where they work.
#[derive(Debug, Clone, Copy)]
pub struct Party<'a> {
    /// Cancellation and progress.
    pub attendance: &'a Attendance,
    /// The working folder, which a server may ask for as a root.
    pub folder: &'a Path,
    /// The run, if the act is a call of one.
    pub origin: Option<&'a Origin>,
}
