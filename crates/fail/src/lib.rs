//! Fail points: named places at which a test stops or kills the process.
//!
//! A crate calls [`point`] where a crash would be worst: around what it writes, syncs and sends. Without the feature
//! `failpoints` the call is nothing. With it the process does what its environment says:
//!
//! | variable | value | meaning |
//! |---|---|---|
//! | `PENTAD_FAIL` | `<point>:<n>` | the process ends its work when that point is passed for the nth time, from 1 |
//! | | `count` | nothing happens, and [`report`] writes how often each point was passed |
//! | `PENTAD_FAIL_MODE` | `stop` (default) | it stops for ever (SIGSTOP), all its threads in the middle of what they do |
//! | | `kill` | it gets SIGKILL |
//! | `PENTAD_FAIL_REPORT` | a path | the file to which a line `<point> <n>` is appended for whatever happened |

#[cfg(feature = "failpoints")]
mod armed;

macro_rules! points {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal,)*) => {
        /// A place at which a process can be stopped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Point {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Point {
            /// All of them, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name by which `PENTAD_FAIL` knows it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

points! {
    /// The journal's writer has requests and has not begun their transaction.
    JournalBegin = "journal.begin",
    /// All requests of a transaction are done, and it is not committed.
    JournalCommitBefore = "journal.commit.before",
    /// A transaction is committed (and synced, where one of its requests is of class power), and nobody has been told.
    JournalCommitAfter = "journal.commit.after",
    /// A new or older database is about to get its tables.
    JournalMigrateBegin = "journal.migrate.begin",
    /// The tables are made in a transaction that is not committed.
    JournalMigrateCommitBefore = "journal.migrate.commit.before",
    /// The tables are there, and the write-ahead log is not yet moved into the file.
    JournalMigrateCommitAfter = "journal.migrate.commit.after",
    /// The database is whole, and its folder's entry is not synced.
    JournalMigrateSyncBefore = "journal.migrate.sync.before",
    /// The words of events are about to be collected for the search.
    JournalWordsBegin = "journal.words.begin",
    /// They are collected, and the transaction is not committed.
    JournalWordsCommitBefore = "journal.words.commit.before",
    /// They are committed.
    JournalWordsCommitAfter = "journal.words.commit.after",
    /// Everything is written, and the executor is about to leave the list.
    JournalLeaveBefore = "journal.leave.before",
    /// It has left, and the write-ahead log is about to be emptied.
    JournalLeaveAfter = "journal.leave.after",
    /// The write-ahead log is emptied.
    JournalCheckpointAfter = "journal.checkpoint.after",
    /// A blob's bytes are written to a temporary file and not synced.
    BlobFileSyncBefore = "blob.file.sync.before",
    /// They are synced, and the file has no name.
    BlobFileSyncAfter = "blob.file.sync.after",
    /// The file, or a new folder, has its name, and the folder above is not synced.
    BlobFolderSyncBefore = "blob.folder.sync.before",
    /// The folder is synced.
    BlobFolderSyncAfter = "blob.folder.sync.after",
    /// A run's commands are written, and the first of their acts has not begun.
    RunActsBefore = "run.acts.before",
    /// An act has ended, and nothing of that is written.
    RunActDone = "run.act.done",
    /// A run's program has ended, and nothing of that is written.
    RunSettleBefore = "run.settle.before",
    /// A run's end is written, and nobody in this process has been told.
    RunSettleAfter = "run.settle.after",
    /// An order is about to be sent to the spawner.
    ProcessOrderBefore = "process.order.before",
    /// The spawner has been sent an order.
    ProcessOrderAfter = "process.order.after",
    /// A frame is about to be sent to a warden: what to launch, or to end its tree.
    ProcessFrameBefore = "process.frame.before",
    /// The warden has been sent the whole frame.
    ProcessFrameAfter = "process.frame.after",
}

/// Passes a point. Returns unless the environment says that the process ends its work here.
#[cfg(feature = "failpoints")]
pub fn point(point: Point) {
    armed::pass(point);
}

/// Passes a point, at which nothing happens in a build without the feature `failpoints`.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub const fn point(_: Point) {}

/// Writes how often each point was passed, where `PENTAD_FAIL` is `count`; called at the end of the process.
///
/// # Errors
/// Fails when the file cannot be written.
#[cfg(feature = "failpoints")]
pub fn report() -> std::io::Result<()> {
    armed::report()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_can_stand_in_the_environment() {
        let mut names: Vec<&str> = Point::ALL.iter().map(|point| point.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Point::ALL.len());
        let sound = |name: &&str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'.');
        assert!(names.iter().all(sound), "{names:?}");
    }
}
