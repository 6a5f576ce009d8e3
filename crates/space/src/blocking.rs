//! File work off the async threads: one blocking task an operation, awaited by its owner.

use pentad_model::refusal::{Refusal, RefusalKind};

/// Runs `work` on a blocking thread and returns its result.
///
/// # Errors
/// Returns the work's own refusal, or an internal one when the thread died.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Refusal::new(
            RefusalKind::Internal,
            "space",
            format!("A file operation stopped unexpectedly: {error}."),
        )),
    }
}
