//! From errors of the store and the file system to refusals.

use std::io;

use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_program::StoreError;

/// Returns the refusal for a store's error about `subject`.
#[must_use]
pub fn from_store(subject: &str, error: &StoreError) -> Refusal {
    let kind = match error {
        StoreError::NotFound(_) => RefusalKind::NotFound,
        StoreError::Ambiguous { .. } | StoreError::Conflict(_) => RefusalKind::Conflict,
        StoreError::Unusable(_) | StoreError::NotWritten(_) | StoreError::Closed => RefusalKind::Unavailable,
        StoreError::Corrupt(_) => RefusalKind::Internal,
    };
    Refusal::new(kind, subject, sentence(&error.to_string()))
}

/// Returns the refusal for a file system's error about `subject`; paths of the machine are not repeated.
pub(crate) fn from_io(subject: &str, error: &io::Error) -> Refusal {
    let errno = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    let (kind, message) = match (error.kind(), errno) {
        (io::ErrorKind::NotFound, _) => (RefusalKind::NotFound, format!("There is nothing at {subject}.")),
        (_, Some(rustix::io::Errno::LOOP)) => (
            RefusalKind::Forbidden,
            format!("{subject} leads through a symbolic link that is not followed here."),
        ),
        (_, Some(rustix::io::Errno::NOTDIR)) => (
            RefusalKind::NotFound,
            format!("A part of {subject} is no directory, or a symbolic link that is not followed here."),
        ),
        (_, Some(rustix::io::Errno::NAMETOOLONG)) => (
            RefusalKind::BadRequest,
            format!("A name in {subject} is longer than the file system takes (255 bytes)."),
        ),
        (_, Some(rustix::io::Errno::ISDIR)) => (RefusalKind::Conflict, format!("{subject} is a directory.")),
        (io::ErrorKind::PermissionDenied, _) => (
            RefusalKind::Forbidden,
            format!("The operating system denies access to {subject}."),
        ),
        (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, _) => (
            RefusalKind::Unavailable,
            format!("The disk is full; {subject} is unchanged."),
        ),
        _ => (
            RefusalKind::Internal,
            format!("{subject} could not be used: {}.", error.kind()),
        ),
    };
    Refusal::new(kind, subject, message)
}

/// Ends a message with one full stop and begins it with a capital letter.
pub(crate) fn sentence(message: &str) -> String {
    let trimmed = message.trim_end_matches('.');
    let mut chars = trimmed.chars();
    chars.next().map_or_else(String::new, |first| {
        format!("{}{}.", first.to_uppercase(), chars.as_str())
    })
}
