//! Limits of reads and writes.

/// How much a family shows, stores and keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceLimits {
    /// Most bytes of text that one read takes into memory; a longer text keeps its head and tail.
    pub text_bytes: usize,
    /// Longest line that `grep` looks at; what is longer counts by its beginning.
    pub line_bytes: usize,
    /// Largest image that is handed to a model.
    pub image_bytes: u64,
    /// Most entries of one listing.
    pub list_entries: usize,
    /// Largest file of a memory.
    pub memory_file_bytes: u64,
    /// Largest memory of one agent.
    pub memory_bytes: u64,
    /// Largest attachment.
    pub attachment_bytes: u64,
    /// Most events that one filtered read of a thread looks at.
    pub scan_events: usize,
}

impl Default for SpaceLimits {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        Self {
            text_bytes: 1 << 20,
            line_bytes: 64 << 10,
            image_bytes: 4_500_000,
            list_entries: 10_000,
            memory_file_bytes: 100 * MIB,
            memory_bytes: 1024 * MIB,
            attachment_bytes: 100 * MIB,
            scan_events: 5_000,
        }
    }
}
