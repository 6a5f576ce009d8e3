//! Errors inside the journal, and how they reach the caller.

use std::path::Path;

use pentad_model::canonical::CanonicalError;
use pentad_program::StoreError;
use rusqlite::ErrorCode;

/// Why a unit of work failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// SQLite said no.
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    /// The journal's own rules said no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record has no canonical form, or bytes are none.
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
}

impl Fault {
    /// Returns what the caller sees; `database` is named in texts about the file.
    pub(crate) fn into_store(self, database: &Path) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Canonical(error) => StoreError::Corrupt(error.to_string()),
            Self::Sql(error) => sql_error(&error, database),
        }
    }

    /// Returns the same for one of several callers who share the failure.
    pub(crate) fn shared(&self, database: &Path) -> StoreError {
        match self {
            Self::Sql(error) => sql_error(error, database),
            Self::Store(StoreError::NotWritten(text)) => StoreError::NotWritten(text.clone()),
            Self::Store(other) => StoreError::Unusable(other.to_string()),
            Self::Canonical(error) => StoreError::Corrupt(error.to_string()),
        }
    }

    /// Tells whether another process holds the lock; waiting once more would take as long again.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy))
    }

    /// Tells whether the storage itself failed, so that the whole transaction may be gone.
    pub(crate) fn is_storage_failure(&self) -> bool {
        matches!(self, Self::Sql(error) if matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::DiskFull
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::OutOfMemory
                    | ErrorCode::DatabaseBusy
                    | ErrorCode::OperationInterrupted
            )
        ))
    }
}

fn sql_error(error: &rusqlite::Error, database: &Path) -> StoreError {
    let path = database.display();
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DiskFull
            | ErrorCode::ReadOnly
            | ErrorCode::SystemIoFailure
            | ErrorCode::PermissionDenied
            | ErrorCode::CannotOpen,
        ) => StoreError::NotWritten(format!("{path}: {error}")),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Unusable(format!(
            "{path} is kept locked by another process; repeat, or end the process that holds it open"
        )),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Unusable(format!(
            "{path} is damaged ({error}); stop Pentad, move it away together with its -wal and -shm files, and \
             put a copy in its place"
        )),
        _ => StoreError::Unusable(format!("{path}: {error}")),
    }
}

/// Returns the error for a failed file operation on `path`.
pub(crate) fn file_error(path: &Path, error: &std::io::Error) -> StoreError {
    match error.kind() {
        std::io::ErrorKind::NotFound => StoreError::NotFound(format!("there is no file {}", path.display())),
        _ => StoreError::NotWritten(format!("{}: {error}", path.display())),
    }
}
